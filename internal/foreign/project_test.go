package foreign

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

const question = `{"role":"user","content":[{"text":"why?"}]}`

// TestProjector: results come in call order whatever order they were sent in,
// repeated ids stay apart, and the run ends when no tool is awaited.
func TestProjector(t *testing.T) {
	call := func(id, name string) string {
		return fmt.Sprintf(`{"toolUse":{"input":{},"name":%q,"toolUseId":%q}}`, name, id)
	}
	result := func(id, text string) string {
		return fmt.Sprintf(`{"toolResult":{"toolUseId":%q,"content":[{"text":%q}]}}`, id, text)
	}
	turn := turnOf("tool_use", call("x", "a"), call("y", "b"), call("x", "c"))
	first := read(t, "/model/m/converse", `{"messages":[`+question+`]}`)
	var p Projector
	p, answered := p.Results(first)
	if len(answered) > 0 {
		t.Fatal(answered)
	}
	p, taken := p.Answer(first.Request, edge.Return{Body: json.RawMessage(turn)})
	if f, _ := p.Finished(); !strings.Contains(string(f.Data), "no results for 3 tool calls") || !p.Waits() || len(taken.Events) != 4 {
		t.Errorf("finished %s, waits %v, %d events", f.Data, p.Waits(), len(taken.Events))
	}
	second := read(t, "/model/m/converse", `{"messages":[`+question+`,{"role":"assistant","content":[`+call("x", "a")+`]},{"role":"user","content":[`+result("y", "{\"n\":1}")+`,`+result("x", "one")+`,`+result("x", "")+`]}]}`)
	if !p.WaitsFor(second.Results()) || p.WaitsFor([]Result{{ID: "z"}}) {
		t.Error("does not know whose results these are")
	}
	p, answered = p.Results(second)
	var got []string
	for _, a := range answered {
		got = append(got, fmt.Sprintf("%d %s %d/%d %s", a.Call.Seq, a.Call.Use.Name, a.Result.Message, a.Result.Block, a.Events[0].Data))
	}
	want := []string{
		`6 a 2/1 {"pos":0,"result":"one","status":"success","tool":"a","turn":1}`,
		`7 b 2/0 {"pos":1,"result":{"n":1},"status":"success","tool":"b","turn":1}`,
		`8 c 2/2 {"pos":2,"result":"","status":"success","tool":"c","turn":1}`,
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("results (-want +got)\n%s", d)
	}
	p, _ = p.Answer(second.Request, edge.Return{Body: json.RawMessage(turnOf("end_turn", `{"text":"because"}`))})
	finished, ends := p.Finished()
	o, err := loop.ParseOutcome(finished.Data)
	if !ends || err != nil || o.Text != "because" || o.Turns != 2 || o.Usage.Input != 6 || finished.Seq != 10 {
		t.Errorf("finished %v %+v at %d, %v", ends, o, finished.Seq, err)
	}
	p, taken = p.Answer(second.Request, edge.Return{Failed: true, Body: edge.FailureBody(edge.Failure{Name: "ThrottlingException", Message: "slow"})})
	if finished, _ := p.Finished(); taken.Events[0].Type != ledger.ModelFailed || string(member(finished.Data, "outcome")) != `"failed"` {
		t.Errorf("%s, %s", taken.Events[0].Type, finished.Data)
	}
}

// TestResults reads and edits results in every form that clients send.
func TestResults(t *testing.T) {
	converseWith := func(content string) string {
		return `{"messages":[{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":` + content + `}}]}]}`
	}
	anthropic := func(content string) string {
		return `{"anthropic_version":"x","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":` + content + `}]}]}`
	}
	for name, c := range map[string]struct{ path, body, want, edit, after string }{
		"json":            {"/model/m/converse", converseWith(`[{"json":{"a":1}}]`), `{"a":1}`, `{"a":2}`, `{"a":2}`},
		"text":            {"/model/m/converse", converseWith(`[{"text":"one"}]`), `"one"`, `"two"`, `"two"`},
		"JSON in text":    {"/model/m/converse", converseWith(`[{"text":"{\"a\": 1}"}]`), `{"a":1}`, `{"a":2}`, `{"a":2}`},
		"several blocks":  {"/model/m/converse", converseWith(`[{"text":"a"},{"text":"b"}]`), `{"$content":[{"text":"a"},{"text":"b"}]}`, `{"$content":[{"text":"b"}]}`, `"b"`},
		"nothing":         {"/model/m/converse", converseWith(`[]`), `{"$content":[]}`, `"x"`, `"x"`},
		"empty text":      {"/model/m/converse", converseWith(`[{"text":"x"}]`), `"x"`, `""`, `"` + converse.EmptyMark + `"`},
		"array of JSON":   {"/model/m/converse", converseWith(`[{"json":{"a":1}}]`), `{"a":1}`, `[1]`, `[1]`},
		"Anthropic text":  {"/model/m/invoke", anthropic(`"{\"a\":1}"`), `{"a":1}`, `{"a":2}`, `{"a":2}`},
		"Anthropic block": {"/model/m/invoke", anthropic(`[{"type":"text","text":"x"}]`), `"x"`, `"y"`, `"y"`},
		"OpenAI":          {"/openai/v1/chat/completions", `{"messages":[{"role":"tool","tool_call_id":"u","content":"x"}]}`, `"x"`, `{"a":1}`, `{"a":1}`},
	} {
		t.Run(name, func(t *testing.T) {
			a := read(t, c.path, c.body)
			r := a.Results()
			if len(r) != 1 || r[0].ID != "u" || string(r[0].Body) != c.want {
				t.Fatalf("%+v, expected %s", r, c.want)
			}
			edited := a.SetResult(r[0], json.RawMessage(c.edit), false).Results()
			if len(edited) != 1 || string(edited[0].Body) != c.after || edited[0].Failed {
				t.Errorf("after the edit %+v, expected %s", edited, c.after)
			}
			if failed := a.SetResult(r[0], json.RawMessage(c.edit), true).Results(); a.Dialect != OpenAI && !failed[0].Failed {
				t.Error("a failed result is not marked")
			}
			if string(a.Results()[0].Body) != c.want {
				t.Error("the edit changed the request it was made of")
			}
		})
	}
}

// TestEditedResults: a result is edited where it stands now, and one that was
// empty takes a form that its service takes.
func TestEditedResults(t *testing.T) {
	for name, c := range map[string]struct{ path, was, now, want string }{
		"as it was": {"/model/m/converse",
			`{"toolResult":{"toolUseId":"u","content":[{"text":"a"}]}},{"toolResult":{"toolUseId":"v","content":[{"text":"b"}]}}`,
			`{"toolResult":{"toolUseId":"u","content":[{"text":"a"}]}},{"toolResult":{"toolUseId":"v","content":[{"text":"b"}]}}`,
			`{"toolResult":{"content":[{"text":"a"}],"toolUseId":"u"}},{"toolResult":{"content":[{"text":"new"}],"toolUseId":"v"}}`},
		"behind another block": {"/model/m/converse",
			`{"toolResult":{"toolUseId":"u","content":[{"text":"a"}]}},{"toolResult":{"toolUseId":"v","content":[{"text":"b"}]}}`,
			`{"toolResult":{"toolUseId":"u","content":[{"text":"a"}]}},{"cachePoint":{"type":"default"}},{"toolResult":{"toolUseId":"v","content":[{"text":"b"}]}}`,
			`{"toolResult":{"content":[{"text":"a"}],"toolUseId":"u"}},{"cachePoint":{"type":"default"}},{"toolResult":{"content":[{"text":"new"}],"toolUseId":"v"}}`},
		"without another block": {"/model/m/converse",
			`{"text":" "},{"toolResult":{"toolUseId":"v","content":[{"text":"b"}]}}`,
			`{"toolResult":{"toolUseId":"v","content":[{"text":"b"}]}}`,
			`{"toolResult":{"content":[{"text":"new"}],"toolUseId":"v"}}`},
		"nothing for Converse": {"/model/m/converse", `{"toolResult":{"toolUseId":"v","content":[]}}`, `{"toolResult":{"toolUseId":"v","content":[]}}`,
			`{"toolResult":{"content":[{"text":"new"}],"toolUseId":"v"}}`},
		"nothing for Anthropic": {"/anthropic/v1/messages", `{"type":"tool_result","tool_use_id":"v"}`, `{"type":"tool_result","tool_use_id":"v"}`,
			`{"content":"new","tool_use_id":"v","type":"tool_result"}`},
		"an empty list for Anthropic": {"/anthropic/v1/messages", `{"type":"tool_result","tool_use_id":"v","content":[]}`, `{"type":"tool_result","tool_use_id":"v","content":[]}`,
			`{"content":"new","tool_use_id":"v","type":"tool_result"}`},
	} {
		t.Run(name, func(t *testing.T) {
			request := func(content string) Asked {
				return read(t, c.path, `{"messages":[{"role":"user","content":[`+content+`]}]}`)
			}
			results := request(c.was).Results()
			got := request(c.now).SetResult(results[len(results)-1], json.RawMessage(`"new"`), false).Request.Body()
			if want := `{"messages":[{"content":[` + c.want + `],"role":"user"}]}`; string(got) != want {
				t.Errorf("got  %s\nwant %s", got, want)
			}
		})
	}
}

func TestQuestion(t *testing.T) {
	for body, want := range map[string]string{
		`{"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`:     "q",
		`{"messages":[{"role":"user","content":[{"text":""},{"text":"q"},{"text":"r"}]}]}`: "q",
		`{"messages":[]}`: "",
	} {
		a := read(t, "/model/m/converse", body)
		if got := a.Question(); got != want {
			t.Errorf("%s: %q, expected %q", body, got, want)
		}
		if got := a.SetQuestion("new").Question(); want != "" && got != "new" {
			t.Errorf("%s: %q after it was set", body, got)
		}
	}
}
