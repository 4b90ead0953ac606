package foreign

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/faults"
)

const (
	insertedCall = `{"toolUse":{"input":{"service":"cart"},"name":"b","toolUseId":"inserted-2"}}`
	ownCall      = `{"toolUse":{"input":{},"name":"a","toolUseId":"u1"}}`
)

func deploysAt1402() Added {
	return Added{Use: converse.ToolUse{ID: "inserted-2", Name: "b", Input: json.RawMessage(`{"service":"cart"}`)}, Body: json.RawMessage(`{"deploys":["14:02"]}`)}
}

// TestInsert: the call stands in the turn and its result beside the agent's
// own, in the form that the dialect and the agent have for them.
func TestInsert(t *testing.T) {
	const (
		q  = `{"content":[{"text":"why?"}],"role":"user"}`
		aq = `{"content":"why?","role":"user"}`
	)
	extended := turnOf("tool_use", ownCall, insertedCall)
	thinking := turnOf("tool_use", `{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"hm"}}}`, insertedCall)
	for name, c := range map[string]struct {
		path, members, turn string
		messages, want      []string
	}{
		"Converse": {"/model/m/converse", ``, extended, []string{q, `{"content":[{"text":"let me see"},` + ownCall + `],"role":"assistant"}`,
			`{"content":[{"toolResult":{"content":[{"json":{"n":1}}],"toolUseId":"u1"}},{"text":"go on"}],"role":"user"}`, `{"content":[{"text":"done"}],"role":"assistant"}`},
			[]string{q, `{"content":[{"text":"let me see"},` + ownCall + `,` + insertedCall + `],"role":"assistant"}`,
				`{"content":[{"toolResult":{"content":[{"json":{"n":1}}],"toolUseId":"u1"}},{"toolResult":{"content":[{"json":{"deploys":["14:02"]}}],"status":"success","toolUseId":"inserted-2"}},{"text":"go on"}],"role":"user"}`, `{"content":[{"text":"done"}],"role":"assistant"}`}},
		"Converse with texts": {"/model/m/converse", ``, extended, []string{q, `{"content":[` + ownCall + `],"role":"assistant"}`, `{"content":[{"toolResult":{"content":[{"text":"one"}],"toolUseId":"u1"}}],"role":"user"}`},
			[]string{q, `{"content":[` + ownCall + `,` + insertedCall + `],"role":"assistant"}`,
				`{"content":[{"toolResult":{"content":[{"text":"one"}],"toolUseId":"u1"}},{"toolResult":{"content":[{"text":"{\"deploys\":[\"14:02\"]}"}],"status":"success","toolUseId":"inserted-2"}}],"role":"user"}`}},
		"Anthropic": {"/model/m/invoke", `"anthropic_version":"x",`, extended, []string{aq, `{"content":[{"id":"u1","input":{},"name":"a","type":"tool_use"}],"role":"assistant"}`,
			`{"content":[{"content":[{"text":"one","type":"text"}],"tool_use_id":"u1","type":"tool_result"}],"role":"user"}`},
			[]string{aq, `{"content":[{"id":"u1","input":{},"name":"a","type":"tool_use"},{"id":"inserted-2","input":{"service":"cart"},"name":"b","type":"tool_use"}],"role":"assistant"}`,
				`{"content":[{"content":[{"text":"one","type":"text"}],"tool_use_id":"u1","type":"tool_result"},{"content":[{"text":"{\"deploys\":[\"14:02\"]}","type":"text"}],"tool_use_id":"inserted-2","type":"tool_result"}],"role":"user"}`}},
		"OpenAI": {"/openai/v1/chat/completions", `"model":"m",`, extended, []string{aq, `{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"a"},"id":"u1","type":"function"}]}`,
			`{"content":"one","role":"tool","tool_call_id":"u1"}`, `{"content":"more","role":"user"}`},
			[]string{aq, `{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{}","name":"a"},"id":"u1","type":"function"},{"function":{"arguments":"{\"service\":\"cart\"}","name":"b"},"id":"inserted-2","type":"function"}]}`,
				`{"content":"one","role":"tool","tool_call_id":"u1"}`, `{"content":"{\"deploys\":[\"14:02\"]}","role":"tool","tool_call_id":"inserted-2"}`, `{"content":"more","role":"user"}`}},
		"a turn of its own": {"/model/m/converse", ``, thinking, []string{q, `{"content":[{"text":"done"}],"role":"assistant"}`},
			[]string{q, `{"content":[{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"hm"}}},` + insertedCall + `],"role":"assistant"}`,
				`{"content":[{"toolResult":{"content":[{"json":{"deploys":["14:02"]}}],"status":"success","toolUseId":"inserted-2"}}],"role":"user"}`, `{"content":[{"text":"done"}],"role":"assistant"}`}},
		"a turn of its own, Anthropic": {"/anthropic/v1/messages", `"model":"m",`, thinking, []string{aq},
			[]string{aq, `{"content":[{"signature":"c2ln","thinking":"hm","type":"thinking"},{"id":"inserted-2","input":{"service":"cart"},"name":"b","type":"tool_use"}],"role":"assistant"}`,
				`{"content":[{"content":"{\"deploys\":[\"14:02\"]}","tool_use_id":"inserted-2","type":"tool_result"}],"role":"user"}`}},
		"a turn of its own, OpenAI": {"/openai/v1/chat/completions", `"model":"m",`, turnOf("tool_use", insertedCall), []string{aq, `{"content":"done","role":"assistant"}`},
			[]string{aq, `{"content":null,"role":"assistant","tool_calls":[{"function":{"arguments":"{\"service\":\"cart\"}","name":"b"},"id":"inserted-2","type":"function"}]}`,
				`{"content":"{\"deploys\":[\"14:02\"]}","role":"tool","tool_call_id":"inserted-2"}`, `{"content":"done","role":"assistant"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := read(t, c.path, `{`+c.members+`"messages":[`+strings.Join(c.messages, ",")+`]}`)
			before := a.Request.Digest()
			got, err := a.Insert(Insertion{Message: 1, Turn: json.RawMessage(c.turn), Added: []Added{deploysAt1402()}})
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(c.want, texts(got.Request.Messages.Messages())); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			if a.Request.Digest() != before {
				t.Error("the request it was made of changed")
			}
			if a.Dialect != Converse {
				return
			}
			if v := faults.CheckConversation(got.Request.Messages); len(v) > 0 {
				t.Errorf("Bedrock would refuse it: %v", v)
			}
		})
	}
}

func texts(list []json.RawMessage) (out []string) {
	for _, m := range list {
		out = append(out, string(m))
	}
	return out
}

// TestInsertAFailure marks the result as failed where the dialect can.
func TestInsertAFailure(t *testing.T) {
	added := deploysAt1402()
	added.Failed = true
	in := Insertion{Turn: json.RawMessage(turnOf("tool_use", insertedCall)), Added: []Added{added}}
	for name, want := range map[string]string{"converse": `"status":"error"`, "anthropic": `"is_error":true`, "openai": `"content":"{\"deploys\":[\"14:02\"]}"`} {
		got, err := askers(t)[name].Insert(in)
		if err != nil || !strings.Contains(string(got.Request.Messages.Last()), want) {
			t.Errorf("%s: %v, %s lacks %s", name, err, got.Request.Messages.Last(), want)
		}
	}
}

// TestInsertNowhere: a history that does not hold the turn is named, and the
// request stays as it was.
func TestInsertNowhere(t *testing.T) {
	in := Insertion{Message: 1, Turn: json.RawMessage(turnOf("tool_use", ownCall, insertedCall)), Added: []Added{deploysAt1402()}}
	for name, c := range map[string]struct{ path, messages, want string }{
		"no such message":    {"/model/m/converse", ``, "expected a conversation of 1 messages or more, found 0"},
		"nothing behind":     {"/model/m/converse", question, "expected the model's turn"},
		"another's message":  {"/model/m/converse", question + `,` + question, "expected the model's turn"},
		"no results":         {"/model/m/converse", question + `,{"role":"assistant","content":[` + ownCall + `]}`, "expected the results"},
		"results of another": {"/model/m/converse", question + `,{"role":"assistant","content":[` + ownCall + `]},` + question + `,{"role":"assistant","content":[` + ownCall + `]},{"role":"user","content":[{"toolResult":{"toolUseId":"u1","content":[]}}]}`, "expected the results"},
		"a summary":          {"/model/m/invoke", question + `,{"role":"assistant","content":"I asked a."}`, "expected a turn with calls"},
		"a text":             {"/openai/v1/chat/completions", question + `,{"role":"assistant","content":"done"}`, "expected a turn with calls"},
	} {
		t.Run(name, func(t *testing.T) {
			a := read(t, c.path, `{"anthropic_version":"x","messages":[`+c.messages+`]}`)
			got, err := a.Insert(in)
			if err == nil || !strings.Contains(err.Error(), c.want) || !strings.Contains(err.Error(), "/messages/1") {
				t.Errorf("error %v, expected %q", err, c.want)
			}
			if got.Request.Digest() != a.Request.Digest() {
				t.Errorf("changed to %s", got.Request.Body())
			}
		})
	}
}

// TestInsertionAsTheAgentSeesIt: without what was added, or not at all.
func TestInsertionAsTheAgentSeesIt(t *testing.T) {
	in := Insertion{Turn: json.RawMessage(turnOf("tool_use", `{"text":"x"}`, ownCall, insertedCall)), Added: []Added{deploysAt1402()}}
	if d := cmp.Diff(turnOf("tool_use", `{"text":"x"}`, ownCall), string(in.Without())); d != "" || in.Whole() {
		t.Errorf("whole %v, without (-want +got)\n%s", in.Whole(), d)
	}
	in.Turn = json.RawMessage(turnOf("tool_use", insertedCall))
	if !in.Whole() {
		t.Error("a turn of inserted calls alone is not whole")
	}
	in.Turn = json.RawMessage(`{}`)
	if in.Whole() || string(in.Without()) != `{}` {
		t.Errorf("what is no turn became %s", in.Without())
	}
}

// FuzzInsert: a request of any shape either takes the call, which then stands
// in it twice, made and answered, or stays as it is.
func FuzzInsert(f *testing.F) {
	for _, c := range sameTalk() {
		f.Add(c.body, uint8(1), false)
		f.Add(c.body, uint8(2), true)
	}
	f.Add(`{"messages":[1,{"role":"assistant","content":[],"tool_calls":[null]},{"role":"tool"},{"role":"user","content":[{"toolResult":1},{"type":"tool_result"}]}],"anthropic_version":"x"}`, uint8(1), false)
	turns := map[bool]string{false: turnOf("tool_use", ownCall, insertedCall), true: turnOf("tool_use", insertedCall)}
	f.Fuzz(func(t *testing.T, body string, at uint8, whole bool) {
		if strings.Contains(body, "inserted-2") {
			return
		}
		in := Insertion{Message: int(at), Turn: json.RawMessage(turns[whole]), Added: []Added{deploysAt1402()}}
		for _, path := range []string{"/model/m/converse", "/model/m/invoke", "/openai/v1/chat/completions"} {
			r, _ := ParseRoute(path)
			a, err := ReadRequest(r, []byte(body))
			if err != nil || a.Dialect == Opaque {
				continue
			}
			got, err := a.Insert(in)
			if now := string(got.Request.Body()); err != nil && now != string(a.Request.Body()) {
				t.Errorf("%s: refused with %v, and changed to %s", path, err, now)
			} else if n := strings.Count(now, `"inserted-2"`); err == nil && (n != 2 || string(canon(t, now)) != now) {
				t.Errorf("%s: %d times, or not canonical: %s", path, n, now)
			}
		}
	})
}
