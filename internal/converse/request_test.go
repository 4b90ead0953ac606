package converse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func userSays(text string) json.RawMessage {
	return Message("user", []json.RawMessage{TextBlock(text)})
}

func modelSays(text string) json.RawMessage {
	return Message("assistant", []json.RawMessage{TextBlock(text)})
}

func rest(t testing.TB, object string) Rest {
	t.Helper()
	r, err := NewRest(json.RawMessage(object))
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func texts(messages []json.RawMessage) (out []string) {
	for _, m := range messages {
		out = append(out, string(m))
	}
	return out
}

func TestThreadsShareTheirPast(t *testing.T) {
	past := NewThread(userSays("q"), modelSays("a"))
	left, right := past.Append(userSays("left")), past.Append(userSays("right"))
	if left.Parent() != past || right.Parent() != past {
		t.Error("a grown thread does not share its past")
	}
	if d := cmp.Diff([]string{string(userSays("q")), string(modelSays("a")), string(userSays("left"))}, texts(left.Messages())); d != "" {
		t.Errorf("growing the right thread changed the left one:\n%s", d)
	}
	if d := cmp.Diff([]string{string(userSays("right"))}, texts(right.Since(past))); d != "" {
		t.Error(d)
	}
	if left.Sum() == right.Sum() || left.Sum() != NewThread(left.Messages()...).Sum() {
		t.Error("Sum does not identify the messages")
	}
	if NewThread(userSays("x"), modelSays("a")).Sum() == past.Sum() || NewThread(modelSays("a"), userSays("q")).Sum() == past.Sum() {
		t.Error("Sum does not depend on every message and its place")
	}
	left.Messages()[0] = userSays("scribbled")
	if string(past.Messages()[0]) != string(userSays("q")) {
		t.Error("Messages handed out the thread's own slice")
	}
}

func TestEmptyThread(t *testing.T) {
	var none *Thread
	if none.Len() != 0 || none.Last() != nil || none.Parent() != nil || len(none.Messages()) != 0 || none.Sum() != (ledger.Sum{}) {
		t.Error("a nil thread is not the empty conversation")
	}
	one := none.Append(userSays("q"))
	if one.Len() != 1 || one.Parent() != nil || string(one.Last()) != string(userSays("q")) {
		t.Errorf("%d messages, last %s", one.Len(), one.Last())
	}
}

// fullBody holds every member of a Converse request that the service's
// description names.
const fullBody = `{
 "messages":[{"role":"user","content":[{"text":"why?"}]}],
 "system":[{"text":"You investigate."}],
 "inferenceConfig":{"maxTokens":1000,"temperature":0.5,"topP":0.9,"stopSequences":["END"]},
 "toolConfig":{"tools":[{"toolSpec":{"name":"t","description":"d","inputSchema":{"json":{"type":"object"}},"strict":true}}],"toolChoice":{"auto":{}}},
 "guardrailConfig":{"guardrailIdentifier":"g","guardrailVersion":"1","trace":"enabled"},
 "additionalModelRequestFields":{"thinking":{"type":"enabled","budget_tokens":9007199254740993}},
 "additionalModelResponseFieldPaths":["/x"],
 "promptVariables":{"v":{"text":"t"}},
 "requestMetadata":{"team":"db"},
 "performanceConfig":{"latency":"standard"},
 "serviceTier":{"type":"default"},
 "outputConfig":{"effort":"low"}}`

// Every leaf of the request, its model id and its cache rule must change the
// digest, or replay would miss that change.
func TestDigestCoversEveryMember(t *testing.T) {
	var doc map[string]any
	d := json.NewDecoder(strings.NewReader(fullBody))
	d.UseNumber()
	if err := d.Decode(&doc); err != nil {
		t.Fatal(err)
	}
	base := request(t, doc)
	seen := map[string]string{base.Digest(): "the request itself"}
	note := func(what, digest string) {
		if other, found := seen[digest]; found {
			t.Errorf("changing %s gives the digest of %s", what, other)
		}
		seen[digest] = what
	}
	leaves := 0
	walk(doc, "", func(pointer string, set func(any)) {
		leaves++
		set("changed")
		note(pointer, request(t, doc).Digest())
	})
	if leaves < 20 {
		t.Errorf("only %d leaves were tried", leaves)
	}
	for name, value := range doc {
		if name != "messages" {
			delete(doc, name)
			note("no "+name, request(t, doc).Digest())
			doc[name] = value
		}
	}
	more := base
	more.Model = "other"
	note("model", more.Digest())
	for _, rule := range []CacheRule{CacheTail, CacheTail1h} {
		more = base
		more.Cache = rule
		note("cache "+string(rule), more.Digest())
	}
	more = base
	more.Messages = more.Messages.Append(modelSays("x"))
	note("one more message", more.Digest())
	if request(t, doc).Digest() != base.Digest() {
		t.Error("the same request has another digest")
	}
	if (Request{}).Digest() != (Request{Rest: rest(t, `{}`)}).Digest() {
		t.Error("no members and an empty object differ")
	}
}

func request(t *testing.T, doc any) Request {
	t.Helper()
	body, err := ledger.CanonValue(doc)
	if err != nil {
		t.Fatal(err)
	}
	thread, other, err := SplitBody(body)
	if err != nil {
		t.Fatal(err)
	}
	return Request{Model: "m", Messages: thread, Rest: other}
}

// walk visits every leaf, lets visit change it, and puts the old value back.
func walk(v any, pointer string, visit func(string, func(any))) {
	visitOne := func(key string, child any, set func(any)) {
		switch child.(type) {
		case map[string]any, []any:
			walk(child, pointer+"/"+key, visit)
		default:
			visit(pointer+"/"+key, set)
			set(child)
		}
	}
	switch v := v.(type) {
	case map[string]any:
		for k, child := range v {
			visitOne(k, child, func(x any) { v[k] = x })
		}
	case []any:
		for i, child := range v {
			visitOne(fmt.Sprint(i), child, func(x any) { v[i] = x })
		}
	}
}

func TestBodyIsCanonicalAndComesApart(t *testing.T) {
	for _, other := range []string{`{}`, `{"a":1}`, `{"z":1}`, `{"a":1,"n":2,"z":[1e400,-0.0]}`, `{"messagesx":1,"message":2,"m\n":3}`} {
		r := Request{Messages: NewThread(userSays("q"), modelSays(`"messages":[`)), Rest: rest(t, other)}
		body := r.Body()
		canon, err := ledger.Canon(body)
		if err != nil || !bytes.Equal(canon, body) {
			t.Fatalf("Body with %s is not canonical: %s (%v)", other, body, err)
		}
		thread, back, err := SplitBody(body)
		if err != nil || thread.Sum() != r.Messages.Sum() || !bytes.Equal(back.JSON(), r.Rest.JSON()) {
			t.Errorf("SplitBody(%s) = %s + %s, %v", body, texts(thread.Messages()), back.JSON(), err)
		}
	}
}

func FuzzSplitBodyIsInverse(f *testing.F) {
	f.Add([]byte(fullBody))
	for _, s := range []string{`{}`, `{"messages":[]}`, `{"messages":null}`, `{"messages":{}}`, `{"a":1,"messages":[1,"x",{"b":[]}],"z":{"messages":[0]}}`, `[]`, `{"messages":[{}],"\u006d\"":1}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		thread, other, err := SplitBody(in)
		if err != nil {
			return
		}
		r := Request{Messages: thread, Rest: other}
		body := r.Body()
		if canon, err := ledger.Canon(body); err != nil || !bytes.Equal(canon, body) {
			t.Fatalf("Body is not canonical: %s (%v)", body, err)
		}
		if want, _ := ledger.Canon(in); member(want, "messages") != nil && string(member(want, "messages")) != "null" && !bytes.Equal(want, body) {
			t.Fatalf("Body(SplitBody(x)) = %s, want %s", body, want)
		}
		again, otherAgain, err := SplitBody(body)
		if err != nil || (Request{Messages: again, Rest: otherAgain}).Digest() != r.Digest() {
			t.Fatalf("the digest does not come back (%v)", err)
		}
		r.Cache = CacheTail
		if b := r.Body(); !json.Valid(b) {
			t.Fatalf("with cache points the body is no JSON: %s", b)
		}
	})
}

func TestNewRestRefuses(t *testing.T) {
	for in, want := range map[string]string{`[]`: "object", `null`: "object", `{"messages":[]}`: `"messages" belongs to the thread`, `{`: "canonical JSON", `"x"`: "object"} {
		if r, err := NewRest(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("NewRest(%s) = %s, %v; want an error with %q", in, r.JSON(), err, want)
		}
	}
	if _, _, err := SplitBody(json.RawMessage(`{"messages":7}`)); err == nil || !strings.Contains(err.Error(), "/messages: expected an array") {
		t.Errorf("SplitBody: %v", err)
	}
}

func withPoint(m json.RawMessage, point string) string {
	end := bytes.LastIndex(m, []byte(`],"role"`))
	return string(m[:end]) + "," + point + string(m[end:])
}

func TestCachePointsEndTheLastTwoUserMessages(t *testing.T) {
	// The tool's input holds the very text that ends a user message.
	trap := Message("assistant", []json.RawMessage{json.RawMessage(`{"toolUse":{"input":{"a":[1],"role":"user"},"name":"grant","toolUseId":"u"}}`)})
	messages := []json.RawMessage{userSays("1"), modelSays("2"), userSays("3"), trap, userSays("5")}
	plain := Request{Messages: NewThread(messages...)}
	for rule, point := range map[CacheRule]string{
		CacheTail: `{"cachePoint":{"type":"default"}}`, CacheTail1h: `{"cachePoint":{"ttl":"1h","type":"default"}}`,
	} {
		r := plain
		r.Cache = rule
		want := []string{string(messages[0]), string(messages[1]), withPoint(messages[2], point), string(trap), withPoint(messages[4], point)}
		if d := cmp.Diff(want, texts(r.Wire())); d != "" {
			t.Errorf("%s:\n%s", rule, d)
		}
	}
	if d := cmp.Diff(texts(messages), texts(plain.Wire())); d != "" {
		t.Errorf("no rule, but:\n%s", d)
	}
	if d := cmp.Diff(texts(messages), texts(plain.Messages.Messages())); d != "" {
		t.Errorf("placing cache points changed the thread:\n%s", d)
	}
}

// Bedrock takes four cache points in a request, wherever they stand.
func TestCachePointsStayWithinTheLimit(t *testing.T) {
	const point, text, tool = `{"cachePoint":{"type":"default"}}`, `{"text":"s"}`, `{"toolSpec":{"name":"cachePoint"}}`
	lists := func(block string, points int) string {
		return "[" + block + strings.Repeat(","+point, points) + "]"
	}
	for system := range 4 {
		for tools := range 3 {
			other := rest(t, `{"system":`+lists(text, system)+`,"toolConfig":{"tools":`+lists(tool, tools)+`}}`)
			r := Request{Messages: NewThread(userSays("1"), modelSays("2"), userSays("3")), Rest: other, Cache: CacheTail}
			got := strings.Count(string(r.Body()), `"cachePoint":`)
			if want := max(system+tools, min(4, system+tools+2)); got != want {
				t.Errorf("%d in system, %d in tools: %d cache points in all, want %d", system, tools, got, want)
			}
		}
	}
}

func TestAnEmptyMessageTakesNoCachePoint(t *testing.T) {
	r := Request{Messages: NewThread(Message("user", nil)), Cache: CacheTail}
	if b := r.Body(); !json.Valid(b) || bytes.Contains(b, []byte("cachePoint")) {
		t.Errorf("Body = %s", b)
	}
}

// The prefix a turn wrote to the cache must be a prefix of the next turn's
// body up to the point, or nothing would ever be read back.
func TestNextTurnReadsWhatThisOneWrote(t *testing.T) {
	r := Request{Messages: NewThread(userSays("1"), modelSays("2"), userSays("3")), Rest: rest(t, `{}`), Cache: CacheTail}
	next := r
	next.Messages = r.Messages.Append(modelSays("4")).Append(userSays("5"))
	now, later := r.Wire(), next.Wire()
	if string(now[2]) != string(later[2]) || !bytes.Contains(later[2], []byte("cachePoint")) {
		t.Errorf("the point written at %s is not read at %s", now[2], later[2])
	}
}
