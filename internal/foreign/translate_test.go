package foreign

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/rule"
)

// sameTalk is one conversation in the dialects, with what Converse has no place
// for in some of them.
func sameTalk() map[string]struct{ path, body string } {
	return map[string]struct{ path, body string }{
		"Anthropic": {"/model/m/invoke", `{"anthropic_version":"x","max_tokens":9,"system":"Be brief.",
			"tools":[{"name":"get_time","description":"Tells the time.","input_schema":{"type":"object"}},{"type":"web_search_20250305","name":"web_search"}],
			"messages":[{"role":"user","content":"why?"},
			{"role":"assistant","content":[{"type":"thinking","thinking":"hm","signature":"s"},{"type":"text","text":"Let me see."},{"type":"tool_use","id":"u1","name":"get_time","input":{"city":"Oslo"}},{"type":"tool_use","id":"u2","name":"get_time","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"u1","content":"{\"time\":\"10:00\"}"}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"u2","is_error":true,"content":[{"type":"text","text":"no such city"}]},{"type":"image","source":{}},{"type":"text","text":"go on"}]}]}`},
		"Messages": {"/anthropic/v1/messages", `{"model":"m","system":[{"type":"text","text":"Be brief."}],
			"tools":[{"name":"get_time","description":"Tells the time.","input_schema":{"type":"object"}}],
			"messages":[{"role":"user","content":[{"type":"text","text":"why?"}]},
			{"role":"assistant","content":[{"type":"text","text":"Let me see."},{"type":"tool_use","id":"u1","name":"get_time","input":{"city":"Oslo"}},{"type":"tool_use","id":"u2","name":"get_time","input":{}}]},
			{"role":"user","content":[{"type":"tool_result","tool_use_id":"u1","content":"{\"time\":\"10:00\"}"},{"type":"tool_result","tool_use_id":"u2","is_error":true,"content":"no such city"},{"type":"text","text":"go on"}]}]}`},
		"OpenAI": {"/openai/v1/chat/completions", `{"model":"m",
			"tools":[{"type":"function","function":{"name":"get_time","description":"Tells the time.","parameters":{"type":"object"}}},{"type":"custom"}],
			"messages":[{"role":"developer","content":"Be brief."},{"role":"user","content":[{"type":"text","text":"why?"}]},
			{"role":"assistant","content":"Let me see.","tool_calls":[{"id":"u1","type":"function","function":{"name":"get_time","arguments":"{\"city\":\"Oslo\"}"}},{"id":"u2","type":"function","function":{"name":"get_time","arguments":""}}]},
			{"role":"tool","tool_call_id":"u1","content":"{\"time\":\"10:00\"}"},{"role":"tool","tool_call_id":"u2","content":"no such city"},{"role":"user","content":"go on"}]}`},
	}
}

// TestToConverse: every dialect becomes the same Converse request, but for what
// OpenAI has no place for: that a call failed.
func TestToConverse(t *testing.T) {
	want := func(status string) string {
		return `{"messages":[{"content":[{"text":"why?"}],"role":"user"},` +
			`{"content":[{"text":"Let me see."},{"toolUse":{"input":{"city":"Oslo"},"name":"get_time","toolUseId":"u1"}},{"toolUse":{"input":{},"name":"get_time","toolUseId":"u2"}}],"role":"assistant"},` +
			`{"content":[{"toolResult":{"content":[{"json":{"time":"10:00"}}],"status":"success","toolUseId":"u1"}},{"toolResult":{"content":[{"text":"no such city"}],"status":"` + status + `","toolUseId":"u2"}},{"text":"go on"}],"role":"user"}],` +
			`"system":[{"text":"Be brief."}],"toolConfig":{"tools":[{"toolSpec":{"description":"Tells the time.","inputSchema":{"json":{"type":"object"}},"name":"get_time"}}]}}`
	}
	for name, c := range sameTalk() {
		got, err := read(t, c.path, c.body).ToConverse()
		status := "error"
		if name == "OpenAI" {
			status = "success"
		}
		if d := cmp.Diff(want(status), string(got.Body())); err != nil || d != "" || got.Model != "m" {
			t.Errorf("%s, %s: %v (-want +got)\n%s", name, got.Model, err, d)
		}
	}
	plain := read(t, "/model/m/converse", conversation)
	if got, err := plain.ToConverse(); err != nil || got.Digest() != plain.Request.Digest() {
		t.Errorf("Converse became %s, %v", got.Body(), err)
	}
	if _, err := read(t, "/model/m/invoke", `{"inputText":"q"}`).ToConverse(); err == nil {
		t.Error("a body of another kind was read")
	}
}

// FuzzToConverse: whatever a request holds, what becomes of it is canonical and
// the rule model answers it with a turn that can be sent back.
func FuzzToConverse(f *testing.F) {
	for _, c := range sameTalk() {
		f.Add(c.body)
	}
	f.Add(`{"messages":[1,null,{"role":"tool"},{"role":"assistant","content":[1],"tool_calls":[2,{"function":{"arguments":"[1]"}}]}],"tools":[3,{"function":4}],"system":5,"anthropic_version":"x"}`)
	f.Fuzz(func(t *testing.T, body string) {
		for _, path := range []string{"/model/m/invoke", "/anthropic/v1/messages", "/openai/v1/chat/completions"} {
			r, _ := ParseRoute(path)
			a, err := ReadRequest(r, []byte(body))
			if err != nil || a.Dialect == Opaque {
				continue
			}
			req, err := a.ToConverse()
			if err != nil {
				t.Fatalf("%s: %v", path, err)
			}
			if got := req.Body(); string(canon(t, string(got))) != string(got) {
				t.Errorf("%s: not canonical: %s", path, got)
			}
			turn := rule.Respond(req)
			if _, err := converse.ParseTurn(turn); err != nil {
				t.Fatalf("%s: the rule model said %s: %v", path, turn, err)
			}
			if _, err := Encode(a, json.RawMessage(turn)); err != nil {
				t.Errorf("%s: %v", path, err)
			}
		}
	})
}
