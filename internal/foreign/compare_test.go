package foreign

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/diff"
	"investigator/internal/ledger"
)

// conversation is a request with everything in it that a client may touch.
const conversation = `{
 "system":[{"text":"You find causes."}],
 "inferenceConfig":{"maxTokens":100,"temperature":0.5},
 "toolConfig":{"tools":[{"toolSpec":{"name":"read_file","description":"Read a file","inputSchema":{"json":{"type":"object","properties":{"status":{"const":"success"},"n":{"default":null}}}}}}]},
 "additionalModelRequestFields":{"thinking":{"budget_tokens":1024}},
 "messages":[
  {"role":"user","content":[{"text":"why is it slow?"}]},
  {"role":"assistant","content":[
   {"reasoningContent":{"reasoningText":{"text":"step one\n\n","signature":"c2lnbmF0dXJl"}}},
   {"text":"Let me look."},
   {"toolUse":{"toolUseId":"u1","name":"read_file","input":{"path":"a","at":9007199254740993,"f":1.0}}},
   {"toolUse":{"toolUseId":"u2","name":"read_file","input":{"path":"b","list":[1,2]}}}]},
  {"role":"user","content":[
   {"toolResult":{"toolUseId":"u1","content":[{"json":{"rows":[1,2],"status":"success","none":null,"big":9007199254740993}}]}},
   {"toolResult":{"toolUseId":"u2","content":[{"text":"disk full"}]}}]}]}`

// edits replaces texts of the conversation, each of which must be there.
func edits(t testing.TB, pairs ...string) string {
	t.Helper()
	out := conversation
	for i := 0; i < len(pairs); i += 2 {
		if !strings.Contains(out, pairs[i]) {
			t.Fatalf("the conversation does not hold %q", pairs[i])
		}
		out = strings.Replace(out, pairs[i], pairs[i+1], 1)
	}
	return out
}

// honest are the changes that clients make when they send a turn back.
func honest() map[Change][]string {
	return map[Change][]string{
		RoundedNumbers: {`"at":9007199254740993,"f":1.0`, `"at":9007199254740992,"f":1`},
		SuccessStatus:  {`"content":[{"text":"disk full"}]`, `"content":[{"text":"disk full"}],"status":"success"`},
		AutoToolChoice: {`"toolConfig":{`, `"toolConfig":{"toolChoice":{"auto":{}},`},
		ResponsePaths:  {`{`, `{"additionalModelResponseFieldPaths":["/delta/stop_sequence"],`},
		BlankText:      {`{"text":"Let me look."}`, `{"text":""},{"text":"Let me look."}`},
		CachePoints:    {`{"text":"You find causes."}`, `{"text":"You find causes."},{"cachePoint":{"type":"default","ttl":"1h"}}`},
		EmptyMembers:   {`"name":"read_file","input":{"path":"b"`, `"name":"read_file","type":null,"input":{"path":"b"`},
		Metadata:       {`{`, `{"requestMetadata":{"team":"sre"},`},
	}
}

// TestHonestChanges: each is tolerated by its own name, whichever of the two
// requests has it, and all together by all their names.
func TestHonestChanges(t *testing.T) {
	recorded := read(t, "/model/m/converse", conversation)
	var all []string
	for _, change := range Changes() {
		pair := honest()[change]
		if pair == nil {
			t.Fatalf("no example of %s", change)
		}
		all = append(all, pair...)
		now := read(t, "/model/m/converse", edits(t, pair...))
		for _, two := range [][2]Asked{{recorded, now}, {now, recorded}} {
			got, same := CompareRequests(two[0], two[1])
			if d := cmp.Diff([]Change{change}, got); !same || d != "" {
				t.Errorf("%s: same %v (-want +got)\n%s", change, same, d)
			}
		}
		sameKey(t, string(change), recorded, now, true)
	}
	now := read(t, "/model/m/converse", edits(t, all...))
	got, same := CompareRequests(recorded, now)
	slices.Sort(got)
	if d := cmp.Diff(slices.Sorted(slices.Values(Changes())), slices.Compact(got)); !same || d != "" {
		t.Errorf("all together: same %v (-want +got)\n%s", same, d)
	}
	sameKey(t, "all together", recorded, now, true)
}

// sameKey holds the digest by which replay looks a request up to what Compare
// says.
func sameKey(t *testing.T, name string, a, b Asked, want bool) {
	t.Helper()
	x, y := Sums(a.Request.Messages.Messages()), Sums(b.Request.Messages.Messages())
	if got := len(x) == len(y) && Key(a, x[len(x)-1]) == Key(b, y[len(y)-1]); got != want {
		t.Errorf("%s: one key %v, expected %v", name, got, want)
	}
}

// TestHonestChangesOnOneBlock: two changes in one place must not hide each
// other.
func TestHonestChangesOnOneBlock(t *testing.T) {
	message := func(blocks string) string { return `{"role":"assistant","content":[` + blocks + `]}` }
	for name, c := range map[string]struct {
		recorded, now string
		want          []Change
	}{
		"blank with null citations": {message(`{"type":"text","text":"a"}`), message(`{"citations":null,"text":"","type":"text"},{"type":"text","text":"a"}`), []Change{BlankText, EmptyMembers}},
		"blank with cache control":  {message(`{"type":"text","text":"a"}`), message(`{"type":"text","text":"a"},{"text":" ","type":"text","cache_control":{"type":"ephemeral"}}`), []Change{BlankText, CachePoints}},
		"config of nulls":           {`{}`, `{"inferenceConfig":{"temperature":null}}`, []Change{EmptyMembers}},
		"empty config":              {`{}`, `{"inferenceConfig":{}}`, []Change{EmptyMembers}},
		"auto with null":            {`{"tools":[]}`, `{"tools":[],"tool_choice":{"type":"auto","disable_parallel_tool_use":null}}`, []Change{AutoToolChoice, EmptyMembers}},
		"status and rounded":        {message(`{"toolResult":{"content":[{"json":{"a":1.0}}]}}`), message(`{"toolResult":{"content":[{"json":{"a":1}}],"status":"success"}}`), []Change{RoundedNumbers, SuccessStatus}},
	} {
		t.Run(name, func(t *testing.T) {
			got, same := Compare(canon(t, c.recorded), canon(t, c.now))
			if d := cmp.Diff(c.want, got); !same || d != "" {
				t.Errorf("same %v (-want +got)\n%s", same, d)
			}
			if back, same := Compare(canon(t, c.now), canon(t, c.recorded)); !same || !cmp.Equal(back, got) {
				t.Errorf("the other way: %v, %v", back, same)
			}
		})
	}
}

// TestDishonestChanges: none of these is tolerated, alone or among all the
// honest ones, and what is left of the two by their meaning differs at the
// pointer.
func TestDishonestChanges(t *testing.T) {
	recorded := read(t, "/model/m/converse", conversation)
	var all []string
	for _, change := range Changes() {
		if change != BlankText { // which moves the blocks that pointers count
			all = append(all, honest()[change]...)
		}
	}
	for name, c := range map[string]struct {
		edit    []string
		pointer string
	}{
		"result by one character":    {[]string{"disk full", "disk fulI"}, "/messages/2/content/1/toolResult/content/0/text"},
		"result by a space":          {[]string{"disk full", "disk full "}, "/messages/2/content/1/toolResult/content/0/text"},
		"number beyond rounding":     {[]string{`"big":9007199254740993`, `"big":9007199254740994`}, "/messages/2/content/0/toolResult/content/0/json/big"},
		"number in a result":         {[]string{`"rows":[1,2]`, `"rows":[1,3]`}, "/messages/2/content/0/toolResult/content/0/json/rows/1"},
		"order of rows":              {[]string{`"rows":[1,2]`, `"rows":[2,1]`}, "/messages/2/content/0/toolResult/content/0/json/rows/0"},
		"status a tool returned":     {[]string{`"status":"success",`, ``}, "/messages/2/content/0/toolResult/content/0/json/status"},
		"null a tool returned":       {[]string{`"none":null,`, ``}, "/messages/2/content/0/toolResult/content/0/json/none"},
		"failed result":              {[]string{`"big":9007199254740993}}]`, `"big":9007199254740993}}],"status":"error"`}, "/messages/2/content/0/toolResult/status"},
		"result of another call":     {[]string{`{"toolResult":{"toolUseId":"u2"`, `{"toolResult":{"toolUseId":"u3"`}, "/messages/2/content/1/toolResult/toolUseId"},
		"prompt":                     {[]string{"why is it slow?", "why is it slow!"}, "/messages/0/content/0/text"},
		"system prompt":              {[]string{"You find causes.", "You find cause."}, "/system/0/text"},
		"tool name":                  {[]string{`"name":"read_file","description"`, `"name":"read_files","description"`}, "/toolConfig/tools/0/toolSpec/name"},
		"tool description":           {[]string{"Read a file", "Read a File"}, "/toolConfig/tools/0/toolSpec/description"},
		"a null in a schema":         {[]string{`"n":{"default":null}`, `"n":{}`}, "/toolConfig/tools/0/toolSpec/inputSchema/json/properties/n/default"},
		"a choice of tool":           {[]string{`"tools":[{"toolSpec"`, `"tools":[{"systemTool":{"name":"x"}},{"toolSpec"`}, "/toolConfig/tools/0"},
		"temperature":                {[]string{`"temperature":0.5`, `"temperature":0.6`}, "/inferenceConfig/temperature"},
		"no temperature":             {[]string{`,"temperature":0.5`, ``}, "/inferenceConfig/temperature"},
		"max tokens":                 {[]string{`"maxTokens":100`, `"maxTokens":101`}, "/inferenceConfig/maxTokens"},
		"thinking budget":            {[]string{`1024`, `2048`}, "/additionalModelRequestFields/thinking/budget_tokens"},
		"reasoning trimmed, case 19": {[]string{`step one\n\n`, `step one`}, "/messages/1/content/0/reasoningContent/reasoningText/text"},
		"signature":                  {[]string{`c2lnbmF0dXJl`, `c2lnbmF0dXJm`}, "/messages/1/content/0/reasoningContent/reasoningText/signature"},
		"text of the model":          {[]string{`Let me look.`, `Let me look`}, "/messages/1/content/1/text"},
		"input of a call":            {[]string{`"path":"b"`, `"path":"c"`}, "/messages/1/content/3/toolUse/input/path"},
		"order of an input's list":   {[]string{`"list":[1,2]`, `"list":[2,1]`}, "/messages/1/content/3/toolUse/input/list/0"},
		"a message more":             {[]string{`{"role":"user","content":[{"text":"why`, `{"role":"user","content":[{"text":"hi"}]},{"role":"user","content":[{"text":"why`}, "/messages/0"},
	} {
		t.Run(name, func(t *testing.T) {
			for _, body := range []string{edits(t, c.edit...), edits(t, slices.Concat(all, c.edit)...)} {
				now := read(t, "/model/m/converse", body)
				if changes, same := CompareRequests(recorded, now); same || changes != nil {
					t.Errorf("tolerated as %v", changes)
				}
				sameKey(t, name, recorded, now, false)
				if got := pointers(t, recorded, now); !slices.ContainsFunc(got, func(p string) bool { return strings.HasPrefix(p, c.pointer) }) {
					t.Errorf("differs at %v, expected %s", got, c.pointer)
				}
			}
		})
	}
}

// pointers are the places where the meanings of two requests differ.
func pointers(t *testing.T, a, b Asked) []string {
	t.Helper()
	whole := func(a Asked) json.RawMessage {
		messages := a.Request.Messages.Messages()
		for i, m := range messages {
			messages[i] = Meaning(m)
		}
		return with(Meaning(a.Request.Rest.JSON()), "messages", encode(messages))
	}
	changes, err := diff.Values(whole(a), whole(b))
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range changes {
		out = append(out, c.Path)
	}
	return out
}

// TestDishonestShapes are the differences that no edit of a text makes.
func TestDishonestShapes(t *testing.T) {
	recorded := read(t, "/model/m/converse", conversation)
	messages := recorded.Request.Messages.Messages()
	of := func(list ...json.RawMessage) string {
		return string(with(recorded.Request.Rest.JSON(), "messages", encode(list)))
	}
	for name, now := range map[string]Asked{
		"another model":      read(t, "/model/other/converse", conversation),
		"another operation":  read(t, "/model/m/converse-stream", conversation),
		"dropped message":    read(t, "/model/m/converse", of(messages[:2]...)),
		"first message gone": read(t, "/model/m/converse", of(messages[1:]...)),
		"reordered":          read(t, "/model/m/converse", of(messages[1], messages[0], messages[2])),
		"doubled message":    read(t, "/model/m/converse", of(messages[0], messages[1], messages[2], messages[2])),
	} {
		if changes, same := CompareRequests(recorded, now); same || changes != nil {
			t.Errorf("%s: tolerated as %v", name, changes)
		}
		sameKey(t, name, recorded, now, false)
	}
	if changes, same := CompareRequests(recorded, read(t, "/model/m/converse", conversation)); !same || changes != nil {
		t.Errorf("itself: %v, %v", changes, same)
	}
}

// TestToolOutputIsNotTouched: what a tool said is compared as it is, also where
// the same would be a client's habit elsewhere.
func TestToolOutputIsNotTouched(t *testing.T) {
	result := func(content string) string {
		return `{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[` + content + `]}}]}`
	}
	anthropic := func(content string) string {
		return `{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":[` + content + `]}]}`
	}
	tool := func(content string) string {
		return `{"role":"tool","tool_call_id":"u","content":[` + content + `]}`
	}
	schema := func(s string) string { return `{"response_format":{"json_schema":{"schema":` + s + `}}}` }
	for name, c := range map[string][2]string{
		"blank text of a result":     {result(`{"text":" "}`), result(`{"text":"\n"}`)},
		"blank text dropped":         {result(`{"text":" "}`), result(``)},
		"blank among others":         {result(`{"text":"a"},{"text":""}`), result(`{"text":"a"}`)},
		"Anthropic blank":            {anthropic(`{"type":"text","text":" "}`), anthropic(``)},
		"OpenAI blank":               {tool(`{"type":"text","text":" "}`), tool(``)},
		"null in an output's schema": {schema(`{"default":null}`), schema(`{}`)},
		"blank beside another kind":  {`{"content":[{"text":"","toolUse":{"name":"a"}}]}`, `{"content":[]}`},
		"cache point beside another": {`{"content":[{"cachePoint":{},"text":"a"}]}`, `{"content":[]}`},
		"status of something else":   {`{"metadata":{"status":"success"}}`, `{"metadata":{}}`},
		"no such number":             {`{"temperature":1e400}`, `{}`},
	} {
		if changes, same := Compare(canon(t, c[0]), canon(t, c[1])); same {
			t.Errorf("%s: tolerated as %v", name, changes)
		}
	}
}

// FuzzCompareResult: whatever a tool printed, one other character in it is
// another request, and the same is the same.
func FuzzCompareResult(f *testing.F) {
	for _, s := range []string{"disk full", " ", "", `{"a":1.0}`, `{"rows":[9007199254740993]}`, "null", "\n\n", "é🙂", `"`, `\`, "status: \ufffd"} {
		f.Add(s, uint64(1))
	}
	f.Fuzz(func(t *testing.T, text string, seed uint64) {
		other := []rune(text)
		r := rand.New(rand.NewPCG(seed, 0))
		if len(other) == 0 {
			other = []rune{'x'}
		} else if at := r.IntN(len(other)); other[at] == 'x' {
			other[at] = 'y'
		} else {
			other[at] = 'x'
		}
		for _, shape := range []string{
			`{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"text":%s}]}}]}`,
			`{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"json":{"stdout":%s}}]}}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":%s}]}`,
			`{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":[{"type":"text","text":%s}]}]}`,
			`{"role":"tool","tool_call_id":"u","content":%s}`,
		} {
			a, b := canon(t, fmt.Sprintf(shape, encode(text))), canon(t, fmt.Sprintf(shape, encode(string(other))))
			if changes, same := Compare(a, a); !same || changes != nil {
				t.Fatalf("%s: not equal to itself, %v, %v", a, changes, same)
			}
			if changes, same := Compare(a, b); same {
				t.Fatalf("%s and %s: tolerated as %v", a, b, changes)
			}
		}
	})
}

// FuzzCompare: any value is the same as its meaning, in both directions, with a
// change named wherever they are spelled otherwise.
func FuzzCompare(f *testing.F) {
	f.Add(conversation, `{}`)
	f.Add(`{"content":[{"citations":null,"text":""}],"inferenceConfig":{"t":null}}`, `{"content":[]}`)
	f.Add(`[1e400,-0.0,{"input":null},{"cachePoint":{}}]`, `[null]`)
	for _, pair := range [][2]string{
		{`{"input":{"e":1e400,"i":9007199254740993}}`, `{"input":{"e":null,"i":9007199254740992}}`},
		{`{"content":[{"toolResult":{"content":[{"text":""}],"status":"success"}},{"text":" "}]}`, `{"content":[{"toolResult":{"content":[{"text":""}]}}],"name":null}`},
		{`{"content":[{"cache_control":{},"type":"tool_result"},{"cachePoint":{"type":"default"}}]}`, `{"content":[{"status":"success","type":"tool_result"}]}`},
		{`{"inferenceConfig":{},"requestMetadata":{"a":"b"},"toolConfig":{"toolChoice":{"auto":{}}}}`, `{"additionalModelResponseFieldPaths":[],"toolConfig":{}}`},
	} {
		f.Add(pair[0], pair[1])
	}
	f.Fuzz(func(t *testing.T, x, y string) {
		a, b := canonOrNil(x), canonOrNil(y)
		if a == nil || b == nil {
			return
		}
		if changes, same := Compare(a, a); !same || changes != nil {
			t.Fatalf("%s: not equal to itself", a)
		}
		there, same := Compare(a, b)
		back, again := Compare(b, a)
		if same != again || !cmp.Equal(there, back) {
			t.Fatalf("%s and %s: %v, and the other way %v", a, b, there, back)
		}
		if same && len(there) == 0 && string(a) != string(b) {
			t.Fatalf("%s and %s: the same by no named change", a, b)
		}
		if m := canonOrNil(string(Meaning(a))); m != nil {
			if _, same := Compare(a, m); !same {
				t.Fatalf("%s is not its meaning %s", a, m)
			}
		}
	})
}

func canonOrNil(text string) json.RawMessage {
	c, err := ledger.Canon([]byte(text))
	if err != nil {
		return nil
	}
	return c
}
