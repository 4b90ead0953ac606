package faults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

func TestInsert(t *testing.T) {
	patch := InsertCall("list_deploys", json.RawMessage(` {"service" : "cart"}`), json.RawMessage(`{"deploys": [1.0]}`))
	added := func(id string) string { return callJSON(id, "list_deploys", `{"service":"cart"}`) }
	ending := callJSON("t9", "report_findings", finding)
	asks := callJSON("t1", "query_metrics", "{}")
	inPlace := func(n string) string { return "the inserted call stands in place of " + n + " of the turn" }
	tests := []struct {
		name  string
		event ledger.Event
		want  string
		pos   int
		id    string
		notes []string
	}{
		{"mid turn", responded("tool_use", signedA, textHi, asks), turnJSON("tool_use", signedA, textHi, asks, added("inserted-7")), 1, "inserted-7", nil},
		{"after two calls", responded("end_turn", asks, callJSON("t2", "query_metrics", "{}")), turnJSON("tool_use", asks, callJSON("t2", "query_metrics", "{}"), added("inserted-7")), 2, "inserted-7", nil},
		{"an id that is taken", responded("tool_use", callJSON("inserted-7", "query_metrics", "{}")), turnJSON("tool_use", callJSON("inserted-7", "query_metrics", "{}"), added("inserted-7-2")), 1, "inserted-7-2", nil},
		{"a verdict the loop refuses", responded("tool_use", callJSON("t9", "report_findings", "{}")), turnJSON("tool_use", callJSON("t9", "report_findings", "{}"), added("inserted-7")), 1, "inserted-7", nil},
		{"final verdict", responded("tool_use", textHi, ending), turnJSON("tool_use", added("inserted-7")), 0, "inserted-7", []string{inPlace("2 blocks")}},
		{"final verdict after reasoning", responded("tool_use", signedA, signedB, textHi, ending), turnJSON("tool_use", signedA, signedB, added("inserted-7")), 0, "inserted-7",
			[]string{"the signed reasoning stays as it is: 2 blocks", inPlace("2 blocks")}},
		{"final text", responded("end_turn", textHi), turnJSON("tool_use", added("inserted-7")), 0, "inserted-7", []string{inPlace("1 block")}},
		{"cut off within a call", responded("max_tokens", textHi, asks), turnJSON("tool_use", added("inserted-7")), 0, "inserted-7", []string{inPlace("2 blocks")}},
		{"unsigned reasoning", responded("end_turn", unsigned, textHi), turnJSON("tool_use", added("inserted-7")), 0, "inserted-7",
			[]string{inPlace("2 blocks"), "the reasoning block " + content + "/0 is gone; with thinking on, Bedrock wants a turn that calls tools to begin with one"}},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := apply(t, patch, test.event)
			if diff := cmp.Diff(test.want, string(out.Event.Data)); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
			want := &Inserted{
				Pos: test.pos, Use: converse.ToolUse{ID: test.id, Name: "list_deploys", Input: json.RawMessage(`{"service":"cart"}`)},
				Return: edge.Return{Body: json.RawMessage(`{"deploys":[1.0]}`), Origin: edge.Patched},
			}
			if diff := cmp.Diff(want, out.Inserted); diff != "" {
				t.Errorf("inserted (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, out.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			reaches(t, out)
		})
	}
}

// reaches holds that the loop makes the inserted call where it is said to, and
// that the conversation after all returns is one that may be sent.
func reaches(t *testing.T, out Edited) {
	t.Helper()
	s, _ := feed(t, out.Return)
	found := false
	for calls := s.Next(); len(calls) > 0 && calls[0].Kind == edge.Tool; calls = s.Next() {
		ret := edge.Return{Body: json.RawMessage(`{"other":1}`)}
		if calls[0].Pos == out.Inserted.Pos {
			found = true
			if diff := cmp.Diff(out.Inserted.Use, calls[0].Use); diff != "" {
				t.Errorf("the loop makes another call (-inserted +made):\n%s", diff)
			}
			ret = out.Inserted.Return
		}
		var err error
		if s, _, err = s.Apply(ret); err != nil {
			t.Fatal(err)
		}
	}
	if !found {
		t.Errorf("the loop never makes the call at position %d", out.Inserted.Pos)
	}
	if v := CheckConversation(s.Thread()); len(v) > 0 {
		t.Errorf("Bedrock would refuse the conversation: %v", v)
	}
}

func TestInsertedFailure(t *testing.T) {
	said := InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`"boom"`))
	said.Insert.Failed = true
	for name, test := range map[string]struct {
		patch Patch
		want  bool
	}{
		"said":             {said, true},
		"by its status":    {InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`{"status":"error"}`)), true},
		"an answer":        {InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`{"status":"empty"}`)), false},
		"the word in text": {InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`"error"`)), false},
	} {
		if got := apply(t, test.patch, responded("end_turn", textHi)).Inserted.Return.Failed; got != test.want {
			t.Errorf("%s: failed %v, want %v", name, got, test.want)
		}
	}
}

// A text that was no input goes with its call.
func TestInsertDropsMalformedInputs(t *testing.T) {
	e := malformed(t, textHi, callJSON("t2", "now", `"{"`))
	e.Data = json.RawMessage(strings.Replace(string(e.Data), `"stopReason":"tool_use"`, `"stopReason":"max_tokens"`, 1))
	out := apply(t, InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`1`)), e)
	if strings.Contains(string(out.Event.Data), "malformedInputs") {
		t.Errorf("a text is left without its call: %s", out.Event.Data)
	}
	reaches(t, out)
	cut := apply(t, Named("cut"), malformed(t, textHi, callJSON("t2", "now", `"{"`)))
	if strings.Contains(string(cut.Event.Data), "malformedInputs") {
		t.Errorf("a text is left without its call: %s", cut.Event.Data)
	}
}

// TestInsertIntoAForeignRun: agents that are not ours name their tools in the
// shapes of other APIs.
func TestInsertIntoAForeignRun(t *testing.T) {
	for name, request := range map[string]string{
		"Converse":  `{"toolConfig":{"tools":[{"cachePoint":{"type":"default"}},{"toolSpec":{"name":"list_deploys"}}]}}`,
		"Anthropic": `{"tools":[{"name":"get_time"},{"name":"list_deploys","input_schema":{}}]}`,
		"OpenAI":    `{"tools":[{"type":"function","function":{"name":"list_deploys"}}]}`,
	} {
		events := []ledger.Event{{Seq: 1, Type: ledger.RunStarted, Data: json.RawMessage(`{"request":` + request + `}`)}, responded("end_turn", textHi)}
		events[1].Seq = 2
		patch := InsertCall("list_deploys", json.RawMessage(`{}`), json.RawMessage(`{}`)).For(2)
		if err := patch.CheckIn(events); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		patch.Insert.Tool = "restart"
		if err := patch.CheckIn(events); err == nil || !strings.Contains(err.Error(), `no tool "restart"`) {
			t.Errorf("%s: a tool that is not offered: %v", name, err)
		}
	}
}

func TestIsInserted(t *testing.T) {
	for id, want := range map[string]bool{"inserted-7": true, "inserted-7-2": true, "inserted-71": false, "inserted-": false, "tooluse_1": false} {
		if got := IsInserted(id, 7); got != want {
			t.Errorf("%q: %v", id, got)
		}
	}
}
