package loop

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

func TestNudgedOnce(t *testing.T) {
	p := play(t, start(t, nil), script(turn("end_turn", text("done")), turn("end_turn", text("done, I say"))))
	o := p.outcome(t)
	if got := types(p.events); got != "run.started model.responded findings.missing model.responded run.finished" || o.Outcome != Untyped || o.Text != "done, I say" {
		t.Errorf("events %s, outcome %+v", got, o)
	}
	if last := string(p.Thread().Last()); !strings.Contains(last, "call report_findings now") {
		t.Errorf("the model does not see the nudge: %s", last)
	}
	restored, err := Restore(json.RawMessage(snap(t, p.states[1])))
	if err != nil {
		t.Fatal(err)
	}
	if s, _, err := restored.Apply(turn("end_turn", text("again"))); err != nil || !s.Done() {
		t.Errorf("a restored run is nudged twice (%v)", err)
	}
	p = play(t, start(t, func(s *Start) { s.Request = nil }), script(turn("end_turn", text("done"))))
	if got := types(p.events); got != "run.started model.responded run.finished" {
		t.Errorf("nudged towards a tool it does not have: %s", got)
	}
	p = play(t, start(t, nil), script(turn("end_turn"), turn("tool_use", report("r"))))
	if o := p.outcome(t); o.Outcome != Concluded {
		t.Errorf("an empty turn was not nudged to a verdict: %+v", o)
	}
}

func TestLimits(t *testing.T) {
	price := &Price{Table: "t", Input: 1_000_000, Output: 2_000_000}
	cases := map[string]struct {
		limits Limits
		price  *Price
		turns  int
		reason string
	}{
		"turns":       {Limits{MaxTurns: 2}, nil, 2, "max turns reached: 2 of 2"},
		"tokens":      {Limits{MaxTokens: 31}, nil, 3, "max tokens reached: 45 of 31"},
		"tokens even": {Limits{MaxTokens: 30}, nil, 2, "max tokens reached: 30 of 30"},
		"cost":        {Limits{MaxCost: 40}, price, 2, "max cost reached: $0.000040 of $0.000040"},
		"first wins":  {Limits{MaxTurns: 1, MaxTokens: 1, MaxCost: 1}, price, 1, "max turns reached: 1 of 1"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := play(t, start(t, func(s *Start) { s.Limits, s.Price = c.limits, c.price }), script(turn("tool_use", look("a")), turn("tool_use", look("b")), turn("tool_use", look("c"))))
			o := p.outcome(t)
			if o.Outcome != Limit || o.Reason != c.reason || o.Turns != c.turns {
				t.Errorf("outcome %+v", o)
			}
		})
	}
	p := play(t, start(t, func(s *Start) { s.Limits.MaxTurns = 1 }), script(turn("tool_use", report("r"))))
	if o := p.outcome(t); o.Outcome != Concluded {
		t.Errorf("a verdict in the last turn allowed was lost: %+v", o)
	}
	p = play(t, start(t, func(s *Start) { s.Limits.MaxCost = 1 }), script(turn("tool_use", look("a"))))
	if !errors.Is(p.err, errOut) {
		t.Errorf("a model without a price was stopped for its cost: %v", p.err)
	}
}

// A fork that puts another model in the chair counts on by that model's price:
// neither does a cheap one use up the money at its parent's price, nor a dear one
// spare it.
func TestCostCountsEachModelByItsPrice(t *testing.T) {
	parent := &Price{Table: "t", Input: 1_000_000, Output: 2_000_000} // 20 for a turn of the script
	for name, c := range map[string]struct {
		price  *Price
		turns  int
		reason string
	}{
		"cheap": {&Price{Table: "t", Input: 100_000, Output: 200_000}, 3, ""},
		"free":  {&Price{Table: "free"}, 3, ""},
		"dear":  {&Price{Table: "t", Input: 2_000_000, Output: 4_000_000}, 2, "max cost reached: $0.000060 of $0.000050"},
		"none":  {nil, 3, "max cost reached: $0.000060 of $0.000050"},
	} {
		t.Run(name, func(t *testing.T) {
			s, _, err := New(start(t, func(s *Start) { s.Limits.MaxCost, s.Price = 50, parent }))
			if err != nil {
				t.Fatal(err)
			}
			for i := 0; i < 3 && !s.Done(); i++ {
				if i == 1 {
					s = s.WithModel("other", c.price)
				}
				s = twice(t, s, turn("tool_use", look("a")))
				s = twice(t, s, edge.Return{Body: json.RawMessage(`{}`)})
			}
			reason := ""
			if o, err := ParseOutcome(s.Finished()); err == nil {
				reason = o.Reason
			}
			if s.Turn() != c.turns || reason != c.reason {
				t.Errorf("%d turns, %q; want %d, %q", s.Turn(), reason, c.turns, c.reason)
			}
		})
	}
}

// twice applies a return to a state and to its snapshot, which must agree.
func twice(t *testing.T, s State, r edge.Return) State {
	t.Helper()
	restored, err := Restore(json.RawMessage(snap(t, s)))
	if err != nil {
		t.Fatal(err)
	}
	again, _, err := restored.Apply(r)
	if err != nil {
		t.Fatal(err)
	}
	next, _, err := s.Apply(r)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(snap(t, next), snap(t, again)); d != "" {
		t.Errorf("a restored state goes on differently:\n%s", d)
	}
	return next
}

func TestPriceRoundsUp(t *testing.T) {
	p := Price{Input: 3, Output: 5, CacheRead: 7, CacheWrite: 11}
	for want, u := range map[int64]converse.Usage{0: {}, 1: {Input: 1}, 26: {Input: 1_000_000, Output: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000}, 4: {Input: 1_000_001}} {
		if got := p.Cost(u); got != want {
			t.Errorf("Cost(%+v) = %d, want %d", u, got, want)
		}
	}
	if got := Dollars(12_000_345); got != "$12.000345" {
		t.Errorf("Dollars = %s", got)
	}
}

func TestModelFailures(t *testing.T) {
	cases := map[string]struct {
		ret             edge.Return
		outcome, reason string
	}{
		"throttled": {failed("ThrottlingException", "slow down"), Failed, "ThrottlingException: slow down"},
		"timeout":   {failed(RunTimeout, "timeout of 5m reached"), Limit, "timeout of 5m reached"},
		"one call":  {failed(CallTimeout, "no whole answer within 1m"), Limit, "model call: no whole answer within 1m"},
		"too long":  {failed("ValidationException", "Input is too long for requested model."), Stopped, "the conversation exceeds the model's context window and no older tool result is left to remove"},
		"refused":   {failed("ValidationException", "The provided model identifier is invalid."), Failed, "ValidationException: The provided model identifier is invalid."},
		"quoted":    {failed("ThrottlingException", "Input is too long"), Failed, "ThrottlingException: Input is too long"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			p := play(t, start(t, nil), script(c.ret))
			o := p.outcome(t)
			if got := types(p.events); got != "run.started model.failed run.finished" || o.Outcome != c.outcome || o.Reason != c.reason {
				t.Errorf("events %s, outcome %+v", got, o)
			}
			if string(p.events[1].Data) != string(c.ret.Body) || p.events[1].In == "" {
				t.Errorf("model.failed %s", p.events[1].Line())
			}
		})
	}
}

func TestToolThatFailsIsData(t *testing.T) {
	e := edge.Func(func(ctx context.Context, c edge.Call) (edge.Return, error) {
		if c.Kind == edge.Tool {
			return edge.Return{Body: json.RawMessage(`""`), Failed: true}, nil
		}
		return script(turn("tool_use", look("a")), turn("tool_use", report("r"))).Do(ctx, c)
	})
	p := play(t, start(t, nil), e)
	if got := string(p.events[3].Data); got != `{"pos":0,"result":"","status":"error","tool":"look","turn":1}` {
		t.Errorf("the true empty output was not kept: %s", got)
	}
	if last := string(p.Thread().Last()); !strings.Contains(last, converse.EmptyMark) || !strings.Contains(last, `"status":"error"`) {
		t.Errorf("the model sees %s", last)
	}
}

// big answers tools with results large enough to be worth removing.
func big(turns ...edge.Return) edge.Edge {
	inner := script(turns...)
	return edge.Func(func(ctx context.Context, c edge.Call) (edge.Return, error) {
		if c.Kind == edge.Tool {
			return edge.Return{Body: ledger.AppendString(nil, c.Use.ID+strings.Repeat(".", 500))}, nil
		}
		return inner.Do(ctx, c)
	})
}

func trimmedResults(m []json.RawMessage) (out string) {
	for _, raw := range m {
		if strings.Contains(string(raw), `"toolResult"`) {
			out += map[bool]string{true: "t", false: "f"}[strings.Contains(string(raw), trimMark)]
		}
	}
	return out
}

func TestOverflowTrimsUntilNothingIsLeft(t *testing.T) {
	over := turn("model_context_window_exceeded", text("cut"))
	p := play(t, start(t, nil), big(turn("tool_use", look("a")), turn("tool_use", look("b"), look("c")), turn("tool_use", look("d")), turn("tool_use", look("e")),
		over, failed("ValidationException", "prompt is too long: 9 tokens"), over))
	var shapes []string
	for _, e := range p.events {
		if e.Type == ledger.ContextTrimmed {
			shapes = append(shapes, string(e.Data))
		}
	}
	for _, s := range p.states[10:] {
		shapes = append(shapes, trimmedResults(s.Thread().Messages()))
	}
	want := []string{`{"bytes":1272,"results":3}`, `{"bytes":424,"results":1}`, "ttff", "tttf", "tttf"}
	if d := cmp.Diff(want, shapes); d != "" {
		t.Error(d)
	}
	if o := p.outcome(t); o.Outcome != Stopped || !strings.Contains(o.Reason, "no older tool result is left") {
		t.Errorf("outcome %+v", o)
	}
	messages := p.Thread().Messages()
	if len(messages) != 9 || !strings.Contains(string(messages[4]), `"evidence E8"`) || !strings.Contains(string(messages[4]), `"toolUseId":"c"`) || !strings.Contains(string(messages[8]), "e....") {
		t.Errorf("conversation after trimming: %s", messages)
	}
	if trimmedResults(p.states[9].Thread().Messages()) != "ffff" {
		t.Error("trimming changed an older State")
	}
}

// A result smaller than the marker stays: removing it would make the
// conversation longer.
func TestOverflowLeavesSmallResults(t *testing.T) {
	p := play(t, start(t, nil), script(turn("tool_use", look("a")), turn("tool_use", look("b")), failed("ValidationException", "too many input tokens")))
	if o := p.outcome(t); o.Outcome != Stopped || strings.Contains(types(p.events), ledger.ContextTrimmed) {
		t.Errorf("events %s, outcome %+v", types(p.events), o)
	}
}

// JSON is written by hand; encoding/json must agree with it.
func FuzzOutcomeJSON(f *testing.F) {
	f.Add("limit", "max turns reached: 3 of 3", "he said \"no\"\u2028\x07\xff", int64(0), int64(12), uint8(0))
	f.Add("verdict", "", "", int64(-3), int64(1<<40), uint8(7))
	f.Fuzz(func(t *testing.T, outcome, reason, text string, a, b int64, members uint8) {
		o := Outcome{Outcome: outcome, Reason: reason, Text: text, Turns: int(a), Usage: converse.Usage{Input: a, Output: b, Total: a + b}}
		if members&1 != 0 {
			o.Verdict = json.RawMessage(`{"component":"","n":1.0}`)
		}
		if members&2 != 0 {
			o.Dropped, o.Usage.CacheRead = int(b), a
		}
		if members&4 != 0 {
			o.Usage.CacheWrite = b
		}
		want, err := ledger.CanonValue(o)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(o.JSON())); d != "" {
			t.Errorf("(-encoding/json +JSON):\n%s", d)
		}
	})
}
