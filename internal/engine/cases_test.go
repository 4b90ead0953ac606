package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
)

// The cases of bedrocktest/testdata/cases as what the product does: a whole run
// over the local Bedrock, which refuses what Bedrock refuses. Each is recorded,
// replayed, and replayed over its recorded wire.

// played is a run that went through a case.
type played struct {
	cassette *recorder.Cassette
	events   []ledger.Event
	outcome  loop.Outcome
	requests []bedrocktest.Record
	executed []converse.ToolUse
}

// stage is what a case needs: what the model says, and what the tools give.
type stage struct {
	stream bool
	script bedrocktest.Script
	tool   func(converse.ToolUse) edge.Return // nil: {"ok":true}
	window int                                // tokens the model takes, 0: 200,000
	faulty bool                               // the local Bedrock may refuse requests
}

func caseTools() []prompt.Tool {
	object := json.RawMessage(`{"type":"object"}`)
	return []prompt.Tool{{Name: "read_file", Description: "Reads a file.", InputSchema: object}, {Name: "now", Description: "Tells the time.", InputSchema: object}}
}

func ok(converse.ToolUse) edge.Return {
	return edge.Return{Body: json.RawMessage(`{"ok":true}`), Origin: edge.Executed}
}

func (s stage) play(t *testing.T) played {
	t.Helper()
	noAWS(t)
	server := bedrocktest.New(t, bedrocktest.Options{Script: s.script, ContextTokens: s.window})
	if s.tool == nil {
		s.tool = ok
	}
	var p played
	var mu sync.Mutex
	tools := edge.Func(func(ctx context.Context, call edge.Call) (edge.Return, error) {
		mu.Lock()
		p.executed = append(p.executed, call.Use)
		mu.Unlock()
		return s.tool(call.Use), ctx.Err()
	})
	start := bedrockStart(t, "What is going on?", nil, caseTools())
	rec, err := recorder.NewMemory(recorder.Header{Run: "case", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Live(t.Context(), start, bedrockEdge(t, server.URL, s.stream), tools, rec); err != nil {
		t.Fatal(err)
	}
	p.cassette, p.requests = parsed(t, rec), server.Requests()
	s.check(t, &p)
	return p
}

// check is what holds in every case: nothing sent was refused, each request
// names the tools, and the run replays from its cassette alone.
func (s stage) check(t *testing.T, p *played) {
	t.Helper()
	var err error
	if p.events, err = p.cassette.Events(); err != nil {
		t.Fatal(err)
	}
	if p.outcome, err = loop.ParseOutcome(p.cassette.Finished()); err != nil {
		t.Fatal(err)
	}
	for i, r := range p.requests {
		if r.Status != http.StatusOK && !s.faulty {
			t.Errorf("request %d was refused with %d: %s", i, r.Status, r.Body)
		}
		if !bytes.Contains(r.Body, []byte(`"toolConfig"`)) || !utf8.Valid(r.Body) {
			t.Errorf("request %d has no toolConfig, or is not UTF-8: %s", i, r.Body)
		}
	}
	if r := replayed(t, p.cassette, nil); !r.Identical {
		t.Errorf("replay: %+v", r.Divergence)
	}
	sameOverTheWire(t, p.cassette, s.stream)
}

// sent is the body of request i, for a look at what went back to the model.
func (p played) sent(t *testing.T, i int) string {
	t.Helper()
	if i >= len(p.requests) {
		t.Fatalf("%d requests were made, expected one more; outcome %+v", len(p.requests), p.outcome)
	}
	return string(p.requests[i].Body)
}

func (p played) types() string {
	var names []string
	for _, e := range p.events {
		names = append(names, e.Type)
	}
	return strings.Join(names, " ")
}

func reports() bedrocktest.Turn {
	return bedrocktest.Say(bedrocktest.ToolUse("r", "report_findings",
		`{"component":"","class":"unknown","mechanism":"","change":"","started_at":"","confidence":"none","summary":"s","evidence":[],"ruled_out":[],"recommendation":"r"}`))
}

// caseInput reads a case's input.
func caseInput(t *testing.T, number string) json.RawMessage {
	t.Helper()
	files, err := filepath.Glob("../bedrock/bedrocktest/testdata/cases/" + number + "-*.json")
	if err != nil || len(files) != 1 {
		t.Fatalf("case %s: %d files, error %v", number, len(files), err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Input json.RawMessage }
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	if c.Input == nil {
		return b // a case without an envelope
	}
	return c.Input
}

// says is a turn of a case's stream events.
func says(t *testing.T, number string) bedrocktest.Turn {
	t.Helper()
	events, err := bedrocktest.ParseEvents(caseInput(t, number))
	if err != nil {
		t.Fatal(err)
	}
	return bedrocktest.Turn{Events: events}
}

func TestCasesOfStreamsInARun(t *testing.T) {
	for _, c := range []struct {
		number   string
		outcome  string
		reason   string   // in the outcome's reason
		executed []string // inputs that reached a tool
		next     []string // what the second request holds
		never    []string // what no event and no later request holds
		attempts int      // requests for the turn
	}{
		{number: "22", outcome: loop.Concluded, next: []string{`{"reasoningContent":{"redactedContent":"AAECAwQFBgcI/w=="}},{"text":"ok"}`}, attempts: 1},
		{number: "23", outcome: loop.Concluded, next: []string{`{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"why not"}}},{"text":"42"}`}, attempts: 1},
		{number: "25", outcome: loop.Concluded, executed: []string{"{}"}, next: []string{`"toolUse":{"input":{},"name":"now","toolUseId":"o1"}`}, attempts: 1},
		{number: "27", outcome: loop.Concluded, executed: []string{`{"path":"🙂.txt"}`}, attempts: 1},
		{number: "28", outcome: loop.Concluded, next: []string{`"toolUse":{"input":{},"name":"read_file","toolUseId":"q1"}`, `"status":"error","toolUseId":"q1"`, "the call was not run"}, attempts: 1},
		{number: "29", outcome: loop.Stopped, reason: "the model stopped with max_tokens", attempts: 1},
		{number: "34", outcome: loop.Stopped, reason: `unknown stop reason "shiny_stop"`, attempts: 1},
		{number: "31", outcome: loop.Failed, reason: "IncompleteResponse: the stream ended before messageStop", never: []string{"half an ans"}, attempts: 8},
		{number: "32", outcome: loop.Failed, reason: "ThrottlingException: slow down", never: []string{`"part"`}, attempts: 8},
	} {
		t.Run(c.number, func(t *testing.T) {
			turn := says(t, c.number)
			p := stage{stream: true, script: func(r bedrocktest.Request) bedrocktest.Turn {
				if r.Turn == 0 {
					return turn
				}
				return reports()
			}}.play(t)
			if p.outcome.Outcome != c.outcome || !strings.Contains(p.outcome.Reason, c.reason) {
				t.Errorf("outcome %q, %q, expected %q, %q", p.outcome.Outcome, p.outcome.Reason, c.outcome, c.reason)
			}
			var inputs []string
			for _, use := range p.executed {
				inputs = append(inputs, string(use.Input))
			}
			if diff := cmp.Diff(c.executed, inputs); diff != "" {
				t.Errorf("inputs that reached a tool (-want +got):\n%s", diff)
			}
			for _, text := range c.next {
				if body := p.sent(t, 1); !strings.Contains(body, text) {
					t.Errorf("the second request lacks %s: %s", text, body)
				}
			}
			for _, e := range p.events {
				for _, text := range c.never {
					if strings.Contains(string(e.Data), text) {
						t.Errorf("%q is in event %s", text, e.Line())
					}
				}
			}
			first, err := p.cassette.Interaction(0)
			if err != nil || len(first.Attempts) != c.attempts {
				t.Errorf("%d attempts are on record, expected %d, error %v", len(first.Attempts), c.attempts, err)
			}
		})
	}
}

// TestCase28KeepsTheText: input that is no JSON stays in the ledger as it came.
func TestCase28KeepsTheText(t *testing.T) {
	p := stage{stream: true, script: bedrocktest.Turns(says(t, "28"), reports())}.play(t)
	if p.types() != "run.started model.responded tool.refused model.responded run.finished" {
		t.Errorf("events %s", p.types())
	}
	var refused struct{ Malformed string }
	if err := json.Unmarshal(p.events[2].Data, &refused); err != nil || refused.Malformed != "{\n\":12path\",\nx" {
		t.Errorf("kept %q, error %v", refused.Malformed, err)
	}
}

// TestCases31And32Once: what breaks off once is asked again; the answer has no
// trace of it and the cassette has both.
func TestCases31And32Once(t *testing.T) {
	for number, c := range map[string]struct{ part, err string }{
		"31": {"half an ans", "IncompleteResponse: the stream ended before messageStop, so the answer is cut off"},
		"32": {"part", "ThrottlingException: slow down"},
	} {
		t.Run(number, func(t *testing.T) {
			p := stage{stream: true, script: bedrocktest.Arrivals(says(t, number), bedrocktest.Say(bedrocktest.Text("Let me see."), bedrocktest.ToolUse("u", "now", "{}")), reports())}.play(t)
			if p.outcome.Outcome != loop.Concluded || len(p.requests) != 3 {
				t.Fatalf("outcome %+v after %d requests", p.outcome, len(p.requests))
			}
			if text := turnOf(t, p.events[1]).Text(); text != "Let me see." {
				t.Errorf("the answer is %q", text)
			}
			x, err := p.cassette.Interaction(0)
			if err != nil || len(x.Attempts) != 2 {
				t.Fatalf("%d attempts, error %v", len(x.Attempts), err)
			}
			if first := x.Attempts[0]; first.Err != c.err || !bytes.Contains(first.Body, []byte(c.part)) {
				t.Errorf("the first attempt is recorded as ended by %q, with %q", first.Err, first.Body)
			}
			if bytes.Contains(x.Attempts[1].Body, []byte(`"`+c.part)) {
				t.Errorf("the second attempt holds what the first said")
			}
		})
	}
}

// TestCase02: a blank text block is recorded as the model gave it, and left out
// when the turn goes back.
func TestCase02(t *testing.T) {
	blank := bedrocktest.Turn{Response: &bedrocktest.Response{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: caseInput(t, "02")}}
	p := stage{script: bedrocktest.Arrivals(blank, reports())}.play(t)
	if p.outcome.Outcome != loop.Concluded || len(p.executed) != 1 {
		t.Fatalf("outcome %+v, %d tools ran", p.outcome, len(p.executed))
	}
	if got := string(turnOf(t, p.events[1]).Blocks[1]); got != `{"text":""}` {
		t.Errorf("the ledger holds %s", got)
	}
	want := `{"content":[{"reasoningContent":{"reasoningText":{"text":"need the file"}}},{"toolUse":{"input":{"path":"b"},"name":"read_file","toolUseId":"tooluse_b1"}}],"role":"assistant"}`
	if body := p.sent(t, 1); !strings.Contains(body, want) || strings.Contains(body, `{"text":""}`) {
		t.Errorf("went back: %s", body)
	}
}

// TestCase19: signed reasoning goes back with its trailing newlines, or the
// local Bedrock would refuse it.
func TestCase19(t *testing.T) {
	const text, signature = "step one\n\n", "c2lnLW92ZXItZXhhY3QtdGV4dA=="
	for _, stream := range []bool{false, true} {
		p := stage{stream: stream, script: bedrocktest.Turns(
			bedrocktest.Say(bedrocktest.Reasoning(text, signature), bedrocktest.ToolUse("l1", "now", "{}")), reports())}.play(t)
		if body := p.sent(t, 1); p.outcome.Outcome != loop.Concluded || !strings.Contains(body, `"reasoningText":{"signature":"`+signature+`","text":"step one\n\n"}`) {
			t.Errorf("outcome %+v, went back: %s", p.outcome, body)
		}
	}
}

// TestCasesOfToolResults (01, 04, 05, 24, 36): whatever a tool gives, the
// ledger holds it and Bedrock is sent something that it takes.
func TestCasesOfToolResults(t *testing.T) {
	for _, c := range []struct {
		name, result string
		failed       bool
		sent         string // content of the toolResult, behind its evidence address
	}{
		{"05 nothing", `""`, false, `{"text":"(the tool returned nothing)"}],"status":"success"`},
		{"04 failed with nothing", `""`, true, `{"text":"(the tool returned nothing)"}],"status":"error"`},
		{"01 white space", `" \n\t"`, false, `{"text":"(the tool returned nothing)"}],"status":"success"`},
		{"24 array", `[{"a":1}]`, false, `{"text":"[{\"a\":1}]"}],`},
		{"24 string", `"plain"`, false, `{"text":"plain"}],`},
		{"24 number", `9007199254740993`, false, `{"text":"9007199254740993"}],`},
		{"24 null", `null`, false, `{"text":"null"}],`},
		{"24 object", `{"e":1e400,"i":9007199254740993}`, false, `{"json":{"e":1e400,"i":9007199254740993}}],`},
		{"an image", `{"$content":[{"image":{"format":"png","source":{"bytes":"iVBORw=="}}}]}`, false, `{"image":{"format":"png","source":{"bytes":"iVBORw=="}}}],`},
		{"huge", `"` + strings.Repeat("x", 1<<18) + `"`, false, strings.Repeat("x", 1000)},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := stage{
				stream: true, script: bedrocktest.Turns(bedrocktest.Say(bedrocktest.ToolUse("u", "read_file", `{"path":"b"}`)), reports()),
				tool: func(converse.ToolUse) edge.Return {
					return edge.Return{Body: json.RawMessage(c.result), Failed: c.failed, Origin: edge.Executed}
				},
			}.play(t)
			var returned struct{ Result json.RawMessage }
			if err := json.Unmarshal(p.events[3].Data, &returned); err != nil || string(returned.Result) != c.result {
				t.Errorf("the ledger holds %.200s, error %v", returned.Result, err)
			}
			if body := p.sent(t, 1); p.outcome.Outcome != loop.Concluded || !strings.Contains(body, c.sent) {
				t.Errorf("outcome %+v, sent %.600s", p.outcome, body)
			}
		})
	}
}

// TestContextOverflow: when Bedrock says that a request is too long, old tool
// results make room for new ones, and the model is told.
func TestContextOverflow(t *testing.T) {
	read := func(id string) bedrocktest.Turn {
		return bedrocktest.Say(bedrocktest.ToolUse(id, "read_file", `{"path":"`+id+`"}`))
	}
	result := edge.Return{Body: json.RawMessage(`"` + strings.Repeat("line ", 2000) + `"`), Origin: edge.Executed}
	p := stage{
		stream: true, faulty: true, window: 9000, script: bedrocktest.Turns(read("a"), read("b"), read("c"), read("d"), reports()),
		tool: func(converse.ToolUse) edge.Return { return result },
	}.play(t)
	if p.outcome.Outcome != loop.Concluded || !strings.Contains(p.types(), "model.failed context.trimmed model.responded") || len(p.executed) != 4 {
		t.Errorf("outcome %+v, events %s", p.outcome, p.types())
	}
	if last := p.sent(t, len(p.requests)-1); !strings.Contains(last, "[removed to fit the context: ") || !strings.Contains(last, "evidence E4") || !strings.Contains(last, "line line") {
		t.Errorf("the model is shown %.2000s", last)
	}
}

// TestCase36: half a surrogate pair becomes U+FFFD before the ledger and the
// model see it, so both see the same and a replay sends what live sent.
func TestCase36(t *testing.T) {
	canon, err := ledger.Canon(caseInput(t, "36"))
	if err != nil {
		t.Fatal(err)
	}
	p := stage{
		script: bedrocktest.Turns(bedrocktest.Say(bedrocktest.ToolUse("u", "read_file", `{"path":"b"}`)), reports()),
		tool:   func(converse.ToolUse) edge.Return { return edge.Return{Body: canon, Origin: edge.Executed} },
	}.play(t)
	if body := p.sent(t, 1); !strings.Contains(body, "status: \ufffd") || !strings.Contains(string(p.events[3].Data), "status: \ufffd") {
		t.Errorf("sent %s", body)
	}
}

// TestCase38: numbers of a call reach the tool, the ledger and the model again
// as they were written; of a name given twice the last counts.
func TestCase38(t *testing.T) {
	const input = `{"d":2,"e":1e400,"f":1.0,"i":9007199254740993,"z":-0.0}`
	answer := bedrocktest.Turn{Response: &bedrocktest.Response{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: caseInput(t, "38")}}
	p := stage{script: bedrocktest.Arrivals(answer, reports())}.play(t)
	if len(p.executed) != 1 || string(p.executed[0].Input) != input {
		t.Fatalf("executed %+v", p.executed)
	}
	if body := p.sent(t, 1); !strings.Contains(body, `"toolUse":{"input":`+input) {
		t.Errorf("went back: %s", body)
	}
}

// TestCasesOfCalls (07, 09, 11, 12, 42, 53): every call of a turn is answered in
// the very next message, whatever the model named it.
func TestCasesOfCalls(t *testing.T) {
	read := func(id, name string) bedrocktest.Block { return bedrocktest.ToolUse(id, name, `{"path":"b"}`) }
	raw := func(id, name, input string) bedrocktest.Block {
		return bedrocktest.Raw(`{"toolUse":{"toolUseId":"` + id + `","name":"` + name + `","input":` + input + `}}`)
	}
	long := "ops.cluster.telemetry.get_evaluation_status_for_whole_organization_x1"
	for _, c := range []struct {
		name     string
		calls    []bedrocktest.Block
		executed int
		results  []string // ids, in order
	}{
		{"07 one id twice", []bedrocktest.Block{read("e1", "read_file"), read("e1", "read_file")}, 2, []string{"e1", "e1-2"}},
		{"09 one call twice", []bedrocktest.Block{read("f1", "read_file"), read("f2", "read_file")}, 2, []string{"f1", "f2"}},
		{"11 one refused", []bedrocktest.Block{read("t1", "read_file"), raw("t2", "now", `"nonsense"`), read("t3", "read_file")}, 2, []string{"t1", "t2", "t3"}},
		{"12 three at once", []bedrocktest.Block{read("h1", "read_file"), read("h2", "now"), read("h3", "now")}, 3, []string{"h1", "h2", "h3"}},
		{"42 a name no tool may have", []bedrocktest.Block{read("n1", long)}, 1, []string{"n1"}},
		{"an id no call may have", []bedrocktest.Block{read("a b/c", "now")}, 1, []string{"a_b_c"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := stage{script: bedrocktest.Turns(bedrocktest.Turn{Content: c.calls, StopReason: "tool_use"}, reports())}.play(t)
			if len(p.executed) != c.executed || p.outcome.Outcome != loop.Concluded {
				t.Errorf("%d calls were executed, expected %d; outcome %+v", len(p.executed), c.executed, p.outcome)
			}
			if diff := cmp.Diff(c.results, resultIDs(t, p.sent(t, 1))); diff != "" {
				t.Errorf("answered in the next message (-want +got):\n%s", diff)
			}
		})
	}
}

// resultIDs lists whom the last message of a request answers.
func resultIDs(t *testing.T, body string) (ids []string) {
	t.Helper()
	var r struct {
		Messages []struct {
			Content []struct {
				ToolResult *struct{ ToolUseID string }
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err)
	}
	for _, b := range r.Messages[len(r.Messages)-1].Content {
		if b.ToolResult != nil {
			ids = append(ids, b.ToolResult.ToolUseID)
		}
	}
	return ids
}

// TestCase53: a run that is stopped while a tool runs answers the open call with
// an error, so what was recorded can be gone on with.
func TestCase53(t *testing.T) {
	noAWS(t)
	s := bedrocktest.New(t, bedrocktest.Options{Script: bedrocktest.Turns(bedrocktest.Say(bedrocktest.ToolUse("x1", "now", "{}"), bedrocktest.ToolUse("x2", "now", "{}")), reports())})
	start := bedrockStart(t, "long job", nil, caseTools())
	rec, err := recorder.NewMemory(recorder.Header{Run: "case", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancelCause(t.Context())
	hangs := edge.Func(func(ctx context.Context, _ edge.Call) (edge.Return, error) {
		stop(engine.ErrRunTimeout)
		<-ctx.Done()
		return edge.Return{}, ctx.Err()
	})
	state, err := engine.Live(ctx, start, bedrockEdge(t, s.URL, true), hangs, rec)
	if err != nil {
		t.Fatal(err)
	}
	o, err := loop.ParseOutcome(state.Finished())
	if err != nil || o.Outcome != loop.Limit || len(s.Requests()) != 1 {
		t.Errorf("outcome %+v, error %v, %d requests", o, err, len(s.Requests()))
	}
	if ids := resultIDs(t, string(state.Request().Body())); !cmp.Equal(ids, []string{"x1", "x2"}) || !strings.Contains(string(state.Thread().Last()), `"status":"error"`) {
		t.Errorf("the open calls are closed by %q", state.Thread().Last())
	}
	c := parsed(t, rec)
	if r := replayed(t, c, nil); !r.Identical || !c.Sealed() {
		t.Errorf("%+v", r)
	}
}
