package faults

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
)

func says(text string) string { return `{"content":[{"text":"` + text + `"}],"role":"user"}` }

func answers(role string, blocks ...string) string {
	var list []json.RawMessage
	for _, b := range blocks {
		list = append(list, json.RawMessage(b))
	}
	return string(converse.Message(role, list))
}

func asks(ids ...string) string {
	var blocks []string
	for _, id := range ids {
		blocks = append(blocks, callJSON(id, "now", "{}"))
	}
	return answers("assistant", blocks...)
}

func results(ids ...string) string {
	var blocks []string
	for _, id := range ids {
		blocks = append(blocks, `{"toolResult":{"content":[{"text":"ok"}],"toolUseId":"`+id+`"}}`)
	}
	return answers("user", blocks...)
}

// The named cases are faults that people reported of agents on Bedrock.
func TestCheckConversation(t *testing.T) {
	const (
		alternate = "A conversation must alternate between user and assistant roles."
		first     = "A conversation must start with a user message."
		expected  = "Expected toolResult blocks for the following Ids: "
	)
	surplus := func(id string) string {
		return "The number of toolResult blocks exceeds the number of toolUse blocks of previous turn: " + id + " answers no call."
	}
	serverCall := `{"toolUse":{"input":{},"name":"web","toolUseId":"s1","type":"server_tool_use"}}`
	serverResult := `{"toolResult":{"content":[],"toolUseId":"s1","type":"web_result"}}`
	tests := []struct {
		name     string
		messages []string
		want     []Violation
	}{
		{"empty", nil, nil},
		{"a good one", []string{says("go"), asks("a", "b"), results("b", "a"), answers("assistant", textHi)}, nil},
		{"an id again in a later turn", []string{says("go"), asks("a"), results("a"), asks("a"), results("a")}, nil},
		{"a result beside text", []string{says("go"), asks("a"), answers("user", `{"toolResult":{"content":[],"toolUseId":"a"}}`, textHi)}, nil},
		{"system in between", []string{`{"content":[{"text":"s"}],"role":"system"}`, says("go"), asks("a"), `{"content":[],"role":"system"}`, results("a")}, nil},
		{"server tools answer themselves", []string{says("go"), answers("assistant", serverCall, serverResult, textHi), says("on")}, nil},

		{"duplicate result ids", []string{says("go"), asks("e1"), results("e1", "e1")},
			[]Violation{{"duplicate-result", 2, "The toolResult blocks contain duplicate Ids: e1"}}},
		{"identical calls, one answered", []string{says("list"), asks("f1", "f2"), results("f1")},
			[]Violation{{"unanswered", 2, expected + "f2"}}},
		{"one of three answered", []string{says("go"), asks("t1", "t2", "t3"), results("t2")},
			[]Violation{{"unanswered", 2, expected + "t1, t3"}}},
		{"results split over two messages", []string{says("go"), asks("h1", "h2"), results("h1"), results("h2")},
			[]Violation{{"unanswered", 2, expected + "h2"}, {"role-order", 3, alternate}, {"surplus", 3, surplus("h2")}}},
		{"consecutive users", []string{says("one"), says("two")},
			[]Violation{{"role-order", 1, alternate}}},
		{"a cancelled call", []string{says("long job"), asks("x1"), says("never mind, hi")},
			[]Violation{{"unanswered", 2, expected + "x1"}}},

		{"assistant first", []string{answers("assistant", textHi), says("go")}, []Violation{{"role-first", 0, first}}},
		{"two assistants", []string{says("go"), answers("assistant", textHi), answers("assistant", textHi)}, []Violation{{"role-order", 2, alternate}}},
		{"a call at the end", []string{says("go"), asks("a")}, []Violation{{"unanswered", 1, expected + "a"}}},
		{"one id for two calls", []string{says("go"), asks("a", "a", "a"), results("a")}, []Violation{{"duplicate-call", 1, "The toolUse blocks contain duplicate Ids: a"}}},
		{"a result for nothing", []string{results("a")}, []Violation{{"surplus", 0, surplus("a")}}},
		{"a result too late", []string{says("go"), asks("a"), says("x"), answers("assistant", textHi), results("a")},
			[]Violation{{"unanswered", 2, expected + "a"}, {"surplus", 4, surplus("a")}}},
		{"another role", []string{`{"content":[],"role":"tool"}`}, []Violation{{"shape", 0, `expected the role user, assistant or system, found "tool"`}}},
		{"no message", []string{`[]`}, []Violation{{"shape", 0, "expected a message of a role and content blocks, found []"}}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var thread *converse.Thread
			for _, m := range test.messages {
				thread = thread.Append(json.RawMessage(m))
			}
			if diff := cmp.Diff(test.want, CheckConversation(thread)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	if got := (Violation{"role-order", 3, alternate}).String(); got != "messages.3: "+alternate {
		t.Errorf("String: %q", got)
	}
}

// What the loop makes of patched turns passes, whatever ids a model repeats.
func TestLoopsConversationsPass(t *testing.T) {
	s, _ := feed(t, edge.Return{Body: json.RawMessage(turnJSON("tool_use", callJSON("a", "now", "{}"), callJSON("a", "now", "{}"), callJSON("x y", "bad name", "{}")))})
	if v := CheckConversation(s.Thread()); len(v) != 1 || v[0].Rule != "unanswered" {
		t.Errorf("calls that wait for their results: %v", v)
	}
	for calls := s.Next(); calls[0].Kind == edge.Tool; calls = s.Next() {
		var err error
		if s, _, err = s.Apply(edge.Return{Body: json.RawMessage(`[]`)}); err != nil {
			t.Fatal(err)
		}
	}
	if v := CheckConversation(s.Thread()); len(v) > 0 {
		t.Errorf("%v", v)
	}
}
