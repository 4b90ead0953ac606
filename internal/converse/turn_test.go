package converse

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func responseWith(content string) string {
	return `{"metrics":{"latencyMs":9},"output":{"message":{"content":[` + content + `],"role":"assistant"}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`
}

func turnOf(t *testing.T, body string) Turn {
	t.Helper()
	canon, err := Normalize([]byte(body))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := Normalize(canon); err == nil && member(canon, extension) == nil && string(again) != string(canon) {
		t.Errorf("Normalize is not idempotent: %s then %s", canon, again)
	}
	turn, err := ParseTurn(canon)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

func TestNormalizeLeavesOutDurationsAlone(t *testing.T) {
	const in = `{"stopReason":"end_turn", "metrics":{"latencyMs":5}, "investigator":{"malformedInputs":{"0":"forged"}},
	 "output":{"message":{"role":"assistant","content":[{"text":"hi","shiny":1},{"futureBlock":{"x":[1.0,1e400]}}],"id":"m1"},"more":true},
	 "usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3,"cacheReadInputTokens":4,"cacheWriteInputTokens":5,"cacheDetails":[{"ttl":"1h"}]},
	 "trace":{"guardrail":{}},"serviceTier":{"type":"flex"}}`
	want := `{"output":{"message":{"content":[{"shiny":1,"text":"hi"},{"futureBlock":{"x":[1.0,1e400]}}],"id":"m1","role":"assistant"},"more":true},` +
		`"serviceTier":{"type":"flex"},"stopReason":"end_turn","trace":{"guardrail":{}},` +
		`"usage":{"cacheDetails":[{"ttl":"1h"}],"cacheReadInputTokens":4,"cacheWriteInputTokens":5,"inputTokens":1,"outputTokens":2,"totalTokens":3}}`
	got, err := Normalize([]byte(in))
	if err != nil || string(got) != want {
		t.Fatalf("Normalize = %s, %v\nwant %s", got, err, want)
	}
	turn := turnOf(t, in)
	if d := cmp.Diff(Usage{1, 2, 3, 4, 5}, turn.Usage); d != "" {
		t.Error(d)
	}
	if turn.StopReason != "end_turn" || len(turn.ToolUses) != 0 || len(turn.Blocks) != 2 {
		t.Errorf("turn = %+v", turn)
	}
}

// Numbers over 2^53, 1.0, 1e400, -0.0 and a repeated key in a tool's input
// (craigh33/adk-go-bedrock#32): kept as they are written.
func TestNumbersOfToolInputSurvive(t *testing.T) {
	turn := turnOf(t, `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"u1","name":"read_file","input":{"i":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"d":1,"d":2}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}`)
	want := []ToolUse{{ID: "u1", Name: "read_file", Input: json.RawMessage(`{"d":2,"e":1e400,"f":1.0,"i":9007199254740993,"z":-0.0}`)}}
	if d := cmp.Diff(want, turn.ToolUses); d != "" {
		t.Error(d)
	}
	if message, _ := Echo(turn); !strings.Contains(string(message), `"i":9007199254740993,"z":-0.0`) {
		t.Errorf("the echo lost digits: %s", message)
	}
}

// A model's own turn may hold a blank text block, which Bedrock refuses to read
// back (strands-agents/harness-sdk#2522): the turn is kept, the echo drops it.
func TestBlankTextOfTheModel(t *testing.T) {
	const reasoning = `{"reasoningContent":{"reasoningText":{"signature":"s","text":"need the file\n\n "}}}`
	const call = `{"toolUse":{"input":{"path":"b"},"name":"read_file","toolUseId":"tooluse_b1"}}`
	for _, blank := range []string{`{"text":""}`, `{"text":" \n\t"}`, `{"text":"\u00a0\u2003"}`} {
		turn := turnOf(t, responseWith(reasoning+","+blank+","+call))
		if len(turn.Blocks) != 3 {
			t.Errorf("the turn lost a block: %s", turn.Raw)
		}
		message, ids := Echo(turn)
		if want := `{"content":[` + reasoning + "," + call + `],"role":"assistant"}`; string(message) != want {
			t.Errorf("Echo = %s\nwant %s", message, want)
		}
		if d := cmp.Diff([]string{"tooluse_b1"}, ids); d != "" {
			t.Error(d)
		}
	}
}

func TestEchoIsTheModelsOwnMessage(t *testing.T) {
	turn := turnOf(t, responseWith(`{"text":"a <b> "},{"reasoningContent":{"redactedContent":"AAEC"}},{"future":1},{"toolUse":{"input":{},"name":"n","toolUseId":"i"}}`))
	message, ids := Echo(turn)
	if string(message) != string(turn.Message) || len(ids) != 1 {
		t.Errorf("Echo = %s %q\nwant %s", message, ids, turn.Message)
	}
}

func useBlock(id, name, input string) string {
	return `{"toolUse":{` + input + `"name":"` + name + `","toolUseId":"` + id + `"}}`
}

func TestEchoRepairs(t *testing.T) {
	long := strings.Repeat("x", 70)
	cases := map[string]struct {
		content, want string
		ids           []string
	}{
		"nothing":        {``, `{"text":"(no answer)"}`, nil},
		"blank alone":    {`{"text":" "}`, `{"text":"(no answer)"}`, nil},
		"repeated ids":   {useBlock("a", "n", `"input":{},`) + "," + useBlock("a", "n", `"input":{},`), useBlock("a", "n", `"input":{},`) + "," + useBlock("a-2", "n", `"input":{},`), []string{"a", "a-2"}},
		"taken suffix":   {useBlock("a", "n", `"input":{},`) + "," + useBlock("a-2", "n", `"input":{},`) + "," + useBlock("a", "n", `"input":{},`), useBlock("a", "n", `"input":{},`) + "," + useBlock("a-2", "n", `"input":{},`) + "," + useBlock("a-3", "n", `"input":{},`), []string{"a", "a-2", "a-3"}},
		"null input":     {useBlock("a", "n", `"input":null,`), useBlock("a", "n", `"input":{},`), []string{"a"}},
		"no input":       {useBlock("a", "n", ``), useBlock("a", "n", `"input":{},`), []string{"a"}},
		"empty id":       {useBlock("", "n", `"input":{},`), useBlock("_", "n", `"input":{},`), []string{"_"}},
		"foreign id":     {useBlock("é/1", "n", `"input":{},`), useBlock("__1", "n", `"input":{},`), []string{"__1"}},
		"long id":        {useBlock(long, "n", `"input":{},`) + "," + useBlock(long, "n", `"input":{},`), useBlock(long[:64], "n", `"input":{},`) + "," + useBlock(long[:62]+"-2", "n", `"input":{},`), []string{long[:64], long[:62] + "-2"}},
		"dotted name":    {useBlock("a", "functions.query metrics", `"input":{},`), useBlock("a", "functions_query_metrics", `"input":{},`), []string{"a"}},
		"unknown beside": {`{"toolUse":{"input":{},"name":"n","toolUseId":"","type":"x"}}`, `{"toolUse":{"input":{},"name":"n","toolUseId":"_","type":"x"}}`, []string{"_"}},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			turn := turnOf(t, responseWith(c.content))
			message, ids := Echo(turn)
			if want := `{"content":[` + c.want + `],"role":"assistant"}`; string(message) != want {
				t.Errorf("Echo = %s\nwant   %s", message, want)
			}
			if d := cmp.Diff(c.ids, ids); d != "" {
				t.Error(d)
			}
			if len(turn.ToolUses) != len(ids) {
				t.Errorf("%d calls, %d ids", len(turn.ToolUses), len(ids))
			}
		})
	}
}

// Input that is no object is kept as text, never run, and echoed as {}.
func TestInputThatIsNoObject(t *testing.T) {
	for _, in := range []string{`"{\"half\":"`, `[1,2]`, `7`, `true`, `""`} {
		turn := turnOf(t, `{"output":{"kept":1,"message":{"content":[{"text":"x"},{"toolUse":{"extra":1,"input":`+in+`,"name":"n","toolUseId":"i"}}],"kept":2,"role":"assistant"}},"stopReason":"tool_use"}`)
		if d := cmp.Diff([]ToolUse{{ID: "i", Name: "n", Input: json.RawMessage(`{}`), Malformed: in}}, turn.ToolUses); d != "" {
			t.Error(d)
		}
		want := `{"investigator":{"malformedInputs":{"1":` + string(ledger.AppendString(nil, in)) + `}},"output":{"kept":1,"message":{"content":[{"text":"x"},{"toolUse":{"extra":1,"input":{},"name":"n","toolUseId":"i"}}],"kept":2,"role":"assistant"}},"stopReason":"tool_use"}`
		if string(turn.Raw) != want {
			t.Errorf("Normalize = %s\nwant        %s", turn.Raw, want)
		}
	}
}

func TestWhatCountsAsACall(t *testing.T) {
	cases := map[string]struct {
		block string
		calls int
	}{
		"plain":          {useBlock("i", "n", `"input":{},`), 1},
		"null input":     {useBlock("i", "n", `"input":null,`), 1},
		"member before":  {`{"index":0,` + useBlock("i", "n", `"input":{},`)[1:], 1},
		"server tool":    {`{"toolUse":{"input":{},"name":"web","toolUseId":"i","type":"server_tool_use"}}`, 0},
		"server's input": {`{"toolUse":{"input":"text","name":"web","toolUseId":"i","type":"server_tool_use"}}`, 0},
		"name in text":   {`{"text":"{\"toolUse\":{}}"}`, 0},
		"unknown block":  {`{"toolUseV2":{"input":{}}}`, 0},
		"not an object":  {`"toolUse"`, 0},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			turn := turnOf(t, responseWith(c.block))
			if len(turn.ToolUses) != c.calls || len(turn.Blocks) != 1 {
				t.Errorf("%d calls, %d blocks: %s", len(turn.ToolUses), len(turn.Blocks), turn.Raw)
			}
		})
	}
}

func TestNormalizeRefuses(t *testing.T) {
	cases := map[string]string{
		`{}`: "/output/message: expected the model's message", `{"output":{}}`: "/output/message", `{"output":null,"stopReason":"x"}`: "/output/message",
		`{"output":{"message":{"role":"assistant","content":[]}}}`:                                      "/stopReason: missing",
		`{"output":{"message":{"role":"user","content":[]}},"stopReason":"end_turn"}`:                   `/output/message/role: expected "assistant", found "user"`,
		`{"output":{"message":{"role":"assistant","content":[{"toolUse":7}]}},"stopReason":"tool_use"}`: "/output/message/content/0: toolUse",
		`{"output":{"message":{"role":"assistant","content":"hi"}},"stopReason":"end_turn"}`:            "read model response",
		`{"output":{"message":{"role":"assistant"}},"stopReason":"x","usage":{"inputTokens":"a lot"}}`:  "read model response",
		``: "read model response", `<html>proxy</html>`: "read model response", `[]`: "read model response", `null`: "read model response", `"ok"`: "read model response",
	}
	for in, want := range cases {
		if out, err := Normalize([]byte(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("Normalize(%s) = %s, %v; want an error with %q", in, out, err, want)
		}
	}
	if _, err := ParseTurn(json.RawMessage(` {"output": {"message": {"content": [], "role": "assistant"}}, "stopReason": "x"}`)); err == nil || !strings.Contains(err.Error(), "canonical") {
		t.Errorf("ParseTurn took another spelling: %v", err)
	}
}

func TestTextJoinsTextBlocks(t *testing.T) {
	turn := turnOf(t, responseWith(`{"text":"a"},{"text":""},{"other":1},{"text":"b"}`))
	if turn.Text() != "a\nb" {
		t.Errorf("Text = %q", turn.Text())
	}
}

func FuzzNormalize(f *testing.F) {
	f.Add([]byte(responseWith(useBlock("a", "n", `"input":[1],`) + `,{"text":" "}`)))
	f.Add([]byte(`{"INVESTIGATOR":1,"STOPREASON":2,"output":{"message":{"content":[{"toolUse":{"input":[1],"name":"f","toolUseId":"u","TYPE":3}}],"role":"assistant"}},"stopReason":"x"}`))
	f.Add([]byte(responseWith(useBlock("", "n.n", ``) + "," + useBlock("a", "", `"input":null,`))))
	f.Add([]byte(`{"output":{"message":{"role":"assistant","content":[{"toolUse":null}]}},"stopReason":""}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		body, err := Normalize(in)
		if whole, err2 := NormalizeTurn(in); string(whole.Raw) != string(body) || fmt.Sprint(err) != fmt.Sprint(err2) {
			t.Fatalf("%s, %v and %s, %v", body, err, whole.Raw, err2)
		} else if again, err2 := ParseTurn(body); err == nil && (err2 != nil || cmp.Diff(again, whole) != "") {
			t.Fatalf("%v (-parsed +normalised)\n%s", err2, cmp.Diff(again, whole))
		}
		if err != nil {
			return
		}
		if canon, err := ledger.Canon(body); err != nil || string(canon) != string(body) {
			t.Fatalf("not canonical: %s", body)
		}
		turn, err := ParseTurn(body)
		if err != nil {
			t.Fatalf("what Normalize gave cannot be read: %v", err)
		}
		message, ids := Echo(turn)
		if canon, err := ledger.Canon(message); err != nil || string(canon) != string(message) {
			t.Fatalf("the echo is not canonical: %s", message)
		}
		if len(ids) != len(turn.ToolUses) {
			t.Fatalf("%d ids for %d calls", len(ids), len(turn.ToolUses))
		}
		seen := map[string]bool{}
		for _, id := range ids {
			if seen[id] || id == "" || len(id) > 64 {
				t.Fatalf("bad ids %q", ids)
			}
			seen[id] = true
		}
		for _, use := range turn.ToolUses {
			if use.Input[0] != '{' {
				t.Fatalf("input %s", use.Input)
			}
		}
	})
}

func TestToolResultOfEveryKind(t *testing.T) {
	const image = `{"image":{"format":"png","source":{"bytes":"AA=="}}}`
	cases := map[string]struct{ result, want string }{
		"object":        {`{"a":[1.0]}`, `{"json":{"a":[1.0]}}`},
		"empty object":  {`{}`, `{"json":{}}`},
		"array":         {`[1,"x"]`, `{"text":"[1,\"x\"]"}`},
		"empty array":   {`[]`, `{"text":"[]"}`},
		"string":        {`"a\nb"`, `{"text":"a\nb"}`},
		"number":        {`-0.0`, `{"text":"-0.0"}`},
		"true":          {`true`, `{"text":"true"}`},
		"null":          {`null`, `{"text":"null"}`},
		"no bytes":      {``, `{"text":"(the tool returned nothing)"}`},
		"empty string":  {`""`, `{"text":"(the tool returned nothing)"}`},
		"blank string":  {`" \n"`, `{"text":"(the tool returned nothing)"}`},
		"lone half":     {"\"status: \uFFFD\"", "{\"text\":\"status: \uFFFD\"}"},
		"content":       {`{"$content":[` + image + `,{"text":"x"}]}`, image + `,{"text":"x"}`},
		"no content":    {`{"$content":[]}`, `{"json":{"$content":[]}}`},
		"content text":  {`{"$content":"x"}`, `{"json":{"$content":"x"}}`},
		"content among": {`{"$content":[` + image + `],"a":1}`, `{"json":{"$content":[` + image + `],"a":1}}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			for _, failed := range []bool{false, true} {
				status := map[bool]string{false: "success", true: "error"}[failed]
				r := ToolResult{ID: `i"d`, Address: "E7", Result: json.RawMessage(c.result), Error: failed}
				want := fmt.Sprintf(`{"toolResult":{"content":[{"text":"evidence E7"},%s],"status":%q,"toolUseId":"i\"d"}}`, c.want, status)
				if got := string(r.Block()); got != want {
					t.Errorf("Block = %s\nwant    %s", got, want)
				}
				r.Address = ""
				if got := string(r.Block()); got != strings.Replace(want, `{"text":"evidence E7"},`, "", 1) {
					t.Errorf("without address: %s", got)
				}
				if canon, err := ledger.Canon(r.Block()); err != nil || string(canon) != string(r.Block()) {
					t.Errorf("not canonical: %s", r.Block())
				}
			}
		})
	}
}

func TestUsageAdds(t *testing.T) {
	if d := cmp.Diff(Usage{11, 22, 33, 44, 55}, Usage{1, 2, 3, 4, 5}.Plus(Usage{10, 20, 30, 40, 50})); d != "" {
		t.Error(d)
	}
}

// TestQuickReadingChangesNothing: a response that is read without decoding it
// gives the turn that encoding/json gives, and one that cannot be is left to it.
func TestQuickReadingChangesNothing(t *testing.T) {
	const usage = `"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}`
	for name, c := range map[string]struct {
		body  string
		quick bool
	}{
		"usual":           {`{"output":{"message":{"content":[{"text":"a"},{"toolUse":{"input":{"x":[1]},"name":"f","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"tool_use",` + usage + `}`, true},
		"no usage":        {`{"output":{"message":{"content":[{"text":"a\nb"}],"role":"assistant"}},"stopReason":"end_turn"}`, true},
		"escaped name":    {`{"output":{"message":{"content":[{"toolUse":{"input":null,"name":"f\\","toolUseId":"u\""}}],"role":"assistant"}},"stopReason":"tool_use"}`, true},
		"server tool":     {`{"output":{"message":{"content":[{"toolUse":{"input":{},"name":"f","toolUseId":"u","type":"server_tool_use"}}],"role":"assistant"}},"stopReason":"end_turn"}`, true},
		"no content":      {`{"output":{"message":{"content":[],"role":"assistant"}},"stopReason":"end_turn"}`, false},
		"odd block":       {`{"output":{"message":{"content":["a"],"role":"assistant"}},"stopReason":"end_turn"}`, false},
		"escaped reason":  {`{"output":{"message":{"content":[{"text":"a"}],"role":"assistant"}},"stopReason":"end\n"}`, false},
		"extension":       {`{"investigator":{"malformedInputs":{"0":"x"}},"output":{"message":{"content":[{"toolUse":{"input":{},"name":"f","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"tool_use"}`, false},
		"white space":     {`{"output":{"message":{"content":[ {"text":"a"}],"role":"assistant"}},"stopReason":"end_turn"}`, false},
		"bad usage":       {`{"output":{"message":{"content":[{"text":"a"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"inputTokens":"1"}}`, false},
		"no message":      {`{"output":{},"stopReason":"end_turn"}`, false},
		"no stop reason":  {`{"output":{"message":{"content":[{"text":"a"}],"role":"assistant"}}}`, false},
		"not JSON inside": {`{"output":{"message":{"content":[{"text":tru}],"role":"assistant"}},"stopReason":"end_turn"}`, false},
		"other case":      {`{"StopReason":1,"output":{"message":{"content":[{"toolUse":{"Input":1,"input":{},"name":"f","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"x","usage":{"InputTokens":"1"}}`, true},
		"null reason":     {`{"output":{"message":{"content":[{"text":"a"}],"role":"assistant"}},"stopReason":null}`, false},
	} {
		t.Run(name, func(t *testing.T) {
			_, quick := cutTurn(json.RawMessage(c.body))
			if quick = quick && ledger.IsCanon([]byte(c.body)); quick != c.quick {
				t.Errorf("quick: %v", quick)
			}
			sameTurn(t, c.body)
		})
	}
}

// sameTurn compares the turn that is cut out of a response with the one that
// encoding/json decodes.
func sameTurn(t *testing.T, body string) {
	t.Helper()
	want, wanted := decodeTurn(json.RawMessage(body))
	got, err := ParseTurn(json.RawMessage(body))
	if d := cmp.Diff(want, got); fmt.Sprint(err) != fmt.Sprint(wanted) || d != "" {
		t.Fatalf("%s: error %v, expected %v (-encoding/json +cut)\n%s", body, err, wanted, d)
	}
}

func FuzzParseTurn(f *testing.F) {
	f.Add([]byte(spoken()))
	f.Add([]byte(responseWith(useBlock("a", "n", `"input":[1],`) + `,{"text":" "}`)))
	f.Add([]byte(`{"output":{"message":{"content":[{"toolUse":{"input":{},"name":"f\n","toolUseId":""}}],"role":"assistant"}},"stopReason":"","usage":{"cacheReadInputTokens":1,"inputTokens":-1,"more":{}}}`))
	f.Add([]byte(`{"OUTPUT":1,"StopReason":2,"output":{"Message":3,"message":{"Role":4,"content":[{"toolUse":{"Name":5,"input":{},"name":"f","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"x","usage":{"InputTokens":"6"}}`))
	f.Add([]byte(`{"output":{"message":{"content":[{"a":1}],"role":"user"}},"stopReason":"x","usage":{"inputTokens":12345678901234567890}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		ParseCanonical(body) // whatever it is given
		sameTurn(t, string(body))
		if canon, err := ledger.Canon(body); err == nil {
			sameTurn(t, string(canon))
		}
	})
}

// FuzzParseToolUse: a call reads the same whether its texts need decoding.
func FuzzParseToolUse(f *testing.F) {
	for _, seed := range []string{
		`{"toolUse":{"input":{"a":1},"name":"f","toolUseId":"u"}}`, `{"toolUse":{"input":null,"name":"f\n","toolUseId":"é"}}`,
		`{"toolUse":{"name":null,"toolUseId":"u"}}`, `{"toolUse":{"input":[],"name":"f","toolUseId":7}}`, `{"toolUse":"x"}`, `{"text":"a"}`,
		`{"toolUse":{"input":{},"name":"f","toolUseId":"u","type":"server_tool_use"}}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, block []byte) {
		canon, err := ledger.Canon(block)
		if err != nil {
			return
		}
		call := member(canon, "toolUse")
		if call == nil {
			return
		}
		got, plain := cutCall(call)
		var want calling
		err = want.read(call)
		if plain && (err != nil || cmp.Diff(want, got) != "") {
			t.Fatalf("%s: error %v (-encoding/json +quick):\n%s", call, err, cmp.Diff(want, got))
		}
	})
}
