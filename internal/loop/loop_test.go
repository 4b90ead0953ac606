package loop

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

const tools = `{"toolConfig":{"tools":[{"toolSpec":{"inputSchema":{"json":{}},"name":"look"}},{"toolSpec":{"inputSchema":{"json":{}},"name":"report_findings"}}]}}`

func start(t testing.TB, edit func(*Start)) json.RawMessage {
	t.Helper()
	s := Start{Task: "why?", Model: "m", Request: json.RawMessage(tools)}
	if edit != nil {
		edit(&s)
	}
	data, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func finding() json.RawMessage {
	return verdict.Verdict{Component: "db", Class: "change", Confidence: "high", Summary: "s", Evidence: []string{"E4"}}.JSON()
}

// turn builds a normalised response.
func turn(stop string, blocks ...string) edge.Return {
	body := `{"output":{"message":{"content":[` + strings.Join(blocks, ",") + `],"role":"assistant"}},"stopReason":"` + stop +
		`","usage":{"inputTokens":10,"outputTokens":5,"totalTokens":15}}`
	return edge.Return{Body: json.RawMessage(body), Origin: edge.Rule}
}

func text(s string) string { return string(converse.TextBlock(s)) }

func use(id, name, input string) string {
	return `{"toolUse":{"input":` + input + `,"name":"` + name + `","toolUseId":"` + id + `"}}`
}

func look(id string) string { return use(id, "look", `{"at":"`+id+`"}`) }

func report(id string) string { return use(id, "report_findings", string(finding())) }

func failed(name, message string) edge.Return {
	return edge.Return{Body: edge.FailureBody(edge.Failure{Name: name, Message: message, Status: 400}), Failed: true}
}

// script answers model calls with turns, in order, and tools with their input.
func script(turns ...edge.Return) edge.Edge {
	return edge.Func(func(_ context.Context, c edge.Call) (edge.Return, error) {
		if c.Kind == edge.Tool {
			return edge.Return{Body: json.RawMessage(`{"of":` + string(c.Use.Input) + `}`), Origin: edge.Executed}, nil
		}
		if c.Turn > len(turns) {
			return edge.Return{}, errOut
		}
		return turns[c.Turn-1], nil
	})
}

var errOut = errors.New("the script is over")

// played is a run from its first event to where it ended.
type played struct {
	State
	events []ledger.Event
	states []State // after each return, the one before the first return first
	rets   []edge.Return
	err    error
}

func play(t testing.TB, data json.RawMessage, e edge.Edge) played {
	t.Helper()
	s, first, err := New(data)
	if err != nil {
		t.Fatal(err)
	}
	p := played{events: []ledger.Event{first}, states: []State{s}}
	at := s
	p.State, p.err = Run(context.Background(), s, e, SinkFunc(func(_ edge.Call, r edge.Return, events []ledger.Event) error {
		var err error
		if at, _, err = at.Apply(r); err != nil {
			return err
		}
		p.events = append(p.events, events...)
		p.states, p.rets = append(p.states, at), append(p.rets, r)
		return nil
	}))
	checkEvents(t, p.events)
	return p
}

// checkEvents holds every ledger of these tests to its form.
func checkEvents(t testing.TB, events []ledger.Event) {
	t.Helper()
	for i, e := range events {
		if e.Seq != i+1 {
			t.Errorf("event %d has seq %d", i+1, e.Seq)
		}
		if _, err := ledger.ParseLine(e.Line()); err != nil {
			t.Errorf("%v: %s", err, e.Line())
		}
	}
}

func types(events []ledger.Event) string {
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return strings.Join(out, " ")
}

func (p played) outcome(t testing.TB) Outcome {
	t.Helper()
	if p.err != nil || !p.Done() {
		t.Fatalf("the run did not finish: %v after %s", p.err, types(p.events))
	}
	o, err := ParseOutcome(p.Finished())
	if err != nil {
		t.Fatal(err)
	}
	if last := p.events[len(p.events)-1]; last.Type != ledger.RunFinished || string(last.Data) != string(p.Finished()) || last.Seq != p.Seq() {
		t.Errorf("the last event is %s", last.Line())
	}
	return o
}

func TestPlainRun(t *testing.T) {
	p := play(t, start(t, nil), script(turn("tool_use", look("a")), turn("tool_use", report("b"))))
	want := "run.started model.responded tool.called tool.returned model.responded run.finished"
	if got := types(p.events); got != want {
		t.Errorf("events %s, want %s", got, want)
	}
	o := p.outcome(t)
	if o.Outcome != Concluded || string(o.Verdict) != string(finding()) || o.Turns != 2 || o.Dropped != 0 {
		t.Errorf("outcome %+v", o)
	}
	if d := cmp.Diff(converse.Usage{Input: 20, Output: 10, Total: 30}, o.Usage); d != "" {
		t.Error(d)
	}
	for i, want := range map[int]string{
		2: `{"input":{"at":"a"},"pos":0,"tool":"look","toolUseId":"a","turn":1}`,
		3: `{"pos":0,"result":{"of":{"at":"a"}},"status":"success","tool":"look","turn":1}`,
	} {
		if got := string(p.events[i].Data); got != want {
			t.Errorf("event %d: %s, want %s", i+1, got, want)
		}
	}
	if p.events[3].In != edge.ToolDigest("look", json.RawMessage(`{"at":"a"}`)) || p.events[1].In != p.states[0].Request().Digest() || p.events[2].In != "" {
		t.Error("in is not the digest of what went out")
	}
	if last := string(p.Thread().Last()); !strings.Contains(last, `{"text":"evidence E4"},{"json":{"of":{"at":"a"}}}`) {
		t.Errorf("the model does not see the result with its address: %s", last)
	}
}

// Every stop reason of the API, one that is unknown, and each beside a call.
func TestStopReasons(t *testing.T) {
	const stopped = "model.responded run.finished"
	cases := map[string]struct {
		stop, block, events, outcome, reason string
	}{
		"end_turn text":      {"end_turn", text("x"), "model.responded findings.missing", "", ""},
		"stop_sequence text": {"stop_sequence", text("x"), "model.responded findings.missing", "", ""},
		"tool_use":           {"tool_use", look("a"), "model.responded tool.called tool.returned", "", ""},
		"end_turn call":      {"end_turn", look("a"), "model.responded tool.called tool.returned", "", ""},
		"stop_sequence call": {"stop_sequence", look("a"), "model.responded tool.called tool.returned", "", ""},
		"tool_use text":      {"tool_use", text("x"), stopped, Stopped, "the model stopped for a tool call but made none"},
		"max_tokens":         {"max_tokens", text("x"), stopped, Stopped, "the model stopped with max_tokens"},
		"max_tokens call":    {"max_tokens", look("a"), stopped, Stopped, "the model stopped with max_tokens"},
		"max_tokens report":  {"max_tokens", report("a"), stopped, Stopped, "the model stopped with max_tokens"},
		"guardrail":          {"guardrail_intervened", text("x"), stopped, Stopped, "the model stopped with guardrail_intervened"},
		"filtered":           {"content_filtered", text("x"), stopped, Stopped, "the model stopped with content_filtered"},
		"malformed output":   {"malformed_model_output", text("x"), stopped, Stopped, "the model stopped with malformed_model_output"},
		"malformed call":     {"malformed_tool_use", look("a"), stopped, Stopped, "the model stopped with malformed_tool_use"},
		"window":             {"model_context_window_exceeded", text("x"), stopped, Stopped, "the conversation exceeds the model's context window and no older tool result is left to remove"},
		"unknown":            {"shiny_stop", text("x"), stopped, Stopped, `unknown stop reason "shiny_stop"`},
		"unknown call":       {"shiny_stop", look("a"), stopped, Stopped, `unknown stop reason "shiny_stop"`},
		"empty":              {"", text("x"), stopped, Stopped, `unknown stop reason ""`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := play(t, start(t, nil), script(turn(c.stop, c.block)))
			if got := types(p.events[1:]); got != c.events {
				t.Fatalf("events %s, want %s", got, c.events)
			}
			if c.outcome == "" {
				if !errors.Is(p.err, errOut) {
					t.Errorf("error %v, want the edge's", p.err)
				}
				return
			}
			if o := p.outcome(t); o.Outcome != c.outcome || o.Reason != c.reason || o.Verdict != nil || o.Turns != 1 {
				t.Errorf("outcome %+v", o)
			}
		})
	}
}

func TestParallelCallsKeepCallOrder(t *testing.T) {
	p := play(t, start(t, nil), script(turn("tool_use", text("let me see"), look("x"), look("x"), look("y")), turn("tool_use", report("r"))))
	want := "run.started model.responded tool.called tool.called tool.called tool.returned tool.returned tool.returned model.responded run.finished"
	if got := types(p.events); got != want {
		t.Errorf("events %s", got)
	}
	next := p.states[1].Next()
	var got []string
	for _, c := range next {
		got = append(got, fmt.Sprintf("turn %d pos %d seq %d id %s %s", c.Turn, c.Pos, c.Seq, c.Use.ID, c.Use.Input))
	}
	wantCalls := []string{`turn 1 pos 0 seq 6 id x {"at":"x"}`, `turn 1 pos 1 seq 7 id x-2 {"at":"x"}`, `turn 1 pos 2 seq 8 id y {"at":"y"}`}
	if d := cmp.Diff(wantCalls, got); d != "" {
		t.Error(d)
	}
	for i, address := range []string{"E6", "E7", "E8"} {
		if !strings.Contains(string(p.Thread().Last()), "evidence "+address) {
			t.Errorf("result %d is not shown as %s", i, address)
		}
	}
	next[0].Pos = 99
	if p.states[1].Next()[0].Pos != 0 {
		t.Error("Next handed out the State's own slice")
	}
}

func TestRefusedCalls(t *testing.T) {
	bad := use("r", "report_findings", `{"confidence":"sure"}`)
	p := play(t, start(t, nil), script(turn("tool_use", look("a"), bad, look("b")), turn("tool_use", bad), turn("tool_use", report("z"))))
	want := "run.started model.responded tool.called tool.refused tool.called tool.returned tool.returned model.responded tool.refused model.responded run.finished"
	if got := types(p.events); got != want {
		t.Fatalf("events %s", got)
	}
	if data := string(p.events[3].Data); !strings.Contains(data, `/confidence: expected one of`) || !strings.Contains(data, `"pos":1`) {
		t.Errorf("tool.refused: %s", data)
	}
	results := string(p.states[3].Thread().Last())
	order := []string{`"toolUseId":"a"`, `"status":"error","toolUseId":"r"`, `"toolUseId":"b"`}
	for i := 1; i < len(order); i++ {
		if strings.Index(results, order[i-1]) >= strings.Index(results, order[i]) || !strings.Contains(results, order[i-1]) {
			t.Errorf("results are not in call order: %s", results)
		}
	}
}

func TestReportBesideOtherCalls(t *testing.T) {
	for name, blocks := range map[string][]string{
		"last": {look("a"), look("b"), report("r")}, "beside a bad one": {use("q", "report_findings", `{}`), report("r"), look("a")},
	} {
		p := play(t, start(t, nil), script(turn("tool_use", blocks...)))
		o := p.outcome(t)
		if got := types(p.events); got != "run.started model.responded run.finished" || o.Dropped != 2 || o.Outcome != Concluded {
			t.Errorf("%s: events %s, outcome %+v", name, got, o)
		}
	}
}

// Input that is no object (half a JSON text, say) is never run: an error result
// goes back, and the conversation holds an object.
func TestMalformedInputIsNotRun(t *testing.T) {
	body, err := converse.Normalize([]byte(`{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"q","name":"look","input":"{\"half"}},{"toolUse":{"toolUseId":"r","name":"report_findings","input":[]}}]}},"stopReason":"tool_use"}`))
	if err != nil {
		t.Fatal(err)
	}
	p := play(t, start(t, nil), script(edge.Return{Body: body}, turn("tool_use", report("r"))))
	if got := types(p.events); got != "run.started model.responded tool.refused tool.refused model.responded run.finished" {
		t.Fatalf("events %s", got)
	}
	if data := string(p.events[2].Data); !strings.Contains(data, `"malformed":"\"{\\\"half\""`) || !strings.Contains(data, `"input":{}`) {
		t.Errorf("tool.refused does not keep the raw text: %s", data)
	}
	messages := p.Thread().Messages()
	if strings.Contains(string(messages[1]), "half") || !strings.Contains(string(messages[2]), "the input is not a JSON object") {
		t.Errorf("conversation %s", messages)
	}
}

func TestApplyRefuses(t *testing.T) {
	p := play(t, start(t, nil), script(turn("tool_use", look("a")), turn("tool_use", report("b"))))
	for name, c := range map[string]struct {
		s    State
		ret  edge.Return
		want string
	}{
		"after done":    {p.State, turn("end_turn", text("x")), "the run has finished at event 6"},
		"not a turn":    {p.states[0], edge.Return{Body: json.RawMessage(`{}`)}, "/output/message"},
		"no model body": {p.states[0], edge.Return{}, "apply return of model call at event 2"},
		"bad failure":   {p.states[0], edge.Return{Failed: true}, "read failure"},
		"no tool body":  {p.states[1], edge.Return{}, "apply return of tool call at event 4: expected a result"},
	} {
		t.Run(name, func(t *testing.T) {
			after, events, err := c.s.Apply(c.ret)
			if err == nil || !strings.Contains(err.Error(), c.want) || events != nil || snap(t, after) != snap(t, c.s) {
				t.Errorf("%v, %d events; want an error with %q and the state unchanged", err, len(events), c.want)
			}
		})
	}
	if p.Next() != nil {
		t.Error("a finished run waits for calls")
	}
}

func TestNewRefuses(t *testing.T) {
	for in, want := range map[string]string{
		``: "read run.started", `[]`: "read run.started", `{}`: "/task", `{"task":" \n","model":"m","request":{}}`: "/task",
		`{"task":"t","request":{}}`: "/model", `{"task":"t","model":"m","request":[]}`: "/request", `{"task":"t","model":"m","request":{"messages":[]}}`: "/request",
		`{"task":"t","model":"m","request":{},"cache":"forever"}`: `/cache: expected "", "tail-5m" or "tail-1h", found "forever"`,
	} {
		if _, _, err := New(json.RawMessage(in)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("New(%s): %v, want an error with %q", in, err, want)
		}
	}
}

func TestStartIsKeptWhole(t *testing.T) {
	s, first, err := New(json.RawMessage(`{"task":"t","model":"m","request":{},"context":{"services":["a"]},"future":1.0}`))
	if err != nil {
		t.Fatal(err)
	}
	if got := string(first.Data); got != `{"context":{"services":["a"]},"future":1.0,"model":"m","request":{},"task":"t"}` {
		t.Errorf("run.started %s", got)
	}
	if got := string(s.Thread().Last()); got != `{"content":[{"text":"t"},{"text":"Context: {\"services\":[\"a\"]}"}],"role":"user"}` {
		t.Errorf("first message %s", got)
	}
}

// Everything the model request is made of must reach its digest.
func TestEveryMemberOfTheRequestChangesTheDigest(t *testing.T) {
	seen := map[string]string{}
	for name, edit := range map[string]func(*Start){
		"as it is":    func(*Start) {},
		"task":        func(s *Start) { s.Task = "why not?" },
		"context":     func(s *Start) { s.Context = json.RawMessage(`{"a":1}`) },
		"model":       func(s *Start) { s.Model = "n" },
		"cache":       func(s *Start) { s.Cache = converse.CacheTail },
		"cache 1h":    func(s *Start) { s.Cache = converse.CacheTail1h },
		"tool name":   func(s *Start) { s.Request = json.RawMessage(strings.Replace(tools, "look", "see", 1)) },
		"temperature": func(s *Start) { s.Request = json.RawMessage(`{"inferenceConfig":{"temperature":0},` + tools[1:]) },
		"0.0":         func(s *Start) { s.Request = json.RawMessage(`{"inferenceConfig":{"temperature":0.0},` + tools[1:]) },
		"system":      func(s *Start) { s.Request = json.RawMessage(`{"system":[{"text":"be brief"}],` + tools[1:]) },
	} {
		s, _, err := New(start(t, edit))
		if err != nil {
			t.Fatal(err)
		}
		in := s.Next()[0].In
		if other, found := seen[in]; found {
			t.Errorf("%s has the digest of %s", name, other)
		}
		seen[in] = name
	}
	for name, edit := range map[string]func(*Start){"limits": func(s *Start) { s.Limits.MaxTurns = 9 }, "now": func(s *Start) { s.Now = "2026-03-10T02:00:00Z" }} {
		s, _, err := New(start(t, edit))
		if err != nil {
			t.Fatal(err)
		}
		if seen[s.Next()[0].In] != "as it is" {
			t.Errorf("%s is no part of the request but changes its digest", name)
		}
	}
}

func TestRunKeepsTheStateBeforeAFailingSink(t *testing.T) {
	full := errors.New("disk full")
	e := script(turn("tool_use", look("a"), look("b")), turn("tool_use", report("r")))
	whole := play(t, start(t, nil), e)
	for at := range whole.rets {
		s, _, err := New(start(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		taken := 0
		s, err = Run(t.Context(), s, e, SinkFunc(func(edge.Call, edge.Return, []ledger.Event) error {
			if taken == at {
				return full
			}
			taken++
			return nil
		}))
		if !errors.Is(err, full) || snap(t, s) != snap(t, whole.states[at]) {
			t.Errorf("sink failed at return %d: error %v, state at event %d, want %d", at, err, s.Seq(), whole.states[at].Seq())
		}
	}
}

func TestRunStopsAtTheEdgesError(t *testing.T) {
	p := play(t, start(t, nil), script(turn("tool_use", look("a"))))
	if !errors.Is(p.err, errOut) || p.Done() || p.Seq() != 4 {
		t.Errorf("error %v at event %d", p.err, p.Seq())
	}
}

// shuffled is a batch that breaks the contract: it answers in reverse.
type shuffled struct{ edge.Edge }

func (s shuffled) DoAll(ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
	slices.Reverse(calls)
	return edge.DoAll(ctx, s.Edge, calls, took)
}

func TestRunRefusesReturnsOutOfOrder(t *testing.T) {
	s, _, err := New(start(t, nil))
	if err != nil {
		t.Fatal(err)
	}
	e := shuffled{script(turn("tool_use", look("a"), look("b")))}
	s, err = Run(t.Context(), s, e, SinkFunc(func(edge.Call, edge.Return, []ledger.Event) error { return nil }))
	if err == nil || !strings.Contains(err.Error(), "expected that of tool call 1.0, found that of tool call 1.1") || s.Seq() != 4 {
		t.Errorf("error %v at event %d", err, s.Seq())
	}
}

func TestRunToStopsAtTheEvent(t *testing.T) {
	e := script(turn("tool_use", look("a"), look("b")), turn("tool_use", report("r")))
	whole := play(t, start(t, nil), e)
	for seq := 0; seq <= len(whole.events)+1; seq++ {
		s, _, err := New(start(t, nil))
		if err != nil {
			t.Fatal(err)
		}
		s, err = RunTo(t.Context(), s, e, SinkFunc(func(edge.Call, edge.Return, []ledger.Event) error { return nil }), seq)
		at := slices.IndexFunc(whole.states, func(s State) bool { return s.Seq() >= seq })
		if at < 0 {
			at = len(whole.states) - 1
		}
		if err != nil || snap(t, s) != snap(t, whole.states[at]) {
			t.Errorf("RunTo %d: event %d, error %v; want event %d", seq, s.Seq(), err, whole.states[at].Seq())
		}
	}
}
