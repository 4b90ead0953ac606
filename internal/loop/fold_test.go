package loop

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

func snap(t testing.TB, s State) string {
	t.Helper()
	b, err := s.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// eventful is a run that goes through every kind of event but model.failed.
func eventful(t testing.TB) played {
	t.Helper()
	bad := use("q", "report_findings", `{}`)
	data := start(t, func(s *Start) {
		s.Cache, s.Limits, s.Price = converse.CacheTail, Limits{MaxTurns: 20, MaxTokens: 1e6, MaxCost: 1e6}, &Price{Table: "t", Input: 1}
	})
	p := play(t, data, big(
		turn("tool_use", text("<&>\u2028"), look("a"), look("a"), bad, look("b")), turn("end_turn", text("done")),
		turn("tool_use", look("c"), bad, look("d")), turn("model_context_window_exceeded"), turn("tool_use", report("r"), look("e"))))
	if o := p.outcome(t); o.Outcome != Concluded {
		t.Fatalf("outcome %+v", o)
	}
	for _, kind := range []string{ledger.RunStarted, ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned, ledger.ToolRefused, ledger.ContextTrimmed, ledger.FindingsMissing, ledger.RunFinished} {
		if !strings.Contains(types(p.events), kind) {
			t.Fatalf("the run has no %s: %s", kind, types(p.events))
		}
	}
	return p
}

// fold applies returns and gives the lines of their events.
func fold(t testing.TB, s State, rets []edge.Return) (State, string) {
	t.Helper()
	var lines bytes.Buffer
	for _, r := range rets {
		next, events, err := s.Apply(r)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			lines.Write(e.Line())
			lines.WriteByte('\n')
		}
		s = next
	}
	return s, lines.String()
}

// Law 12: a snapshot taken anywhere, in the middle of a parallel batch too, and
// restored, is the fold of the history up to it and goes on like it.
func TestRestoredSnapshotIsTheFold(t *testing.T) {
	p := eventful(t)
	middle := 0
	for i, s := range p.states {
		folded, _ := fold(t, p.states[0], p.rets[:i])
		data := snap(t, s)
		restored, err := Restore(json.RawMessage(data))
		if err != nil {
			t.Fatalf("event %d: %v", s.Seq(), err)
		}
		if d := cmp.Diff([]string{data, data}, []string{snap(t, folded), snap(t, restored)}); d != "" {
			t.Fatalf("event %d:\n%s", s.Seq(), d)
		}
		if a, b := fmt.Sprintf("%+v", ins(s)), fmt.Sprintf("%+v", ins(restored)); a != b {
			t.Errorf("event %d: waits for %s, restored for %s", s.Seq(), a, b)
		}
		_, want := fold(t, s, p.rets[i:])
		end, got := fold(t, restored, p.rets[i:])
		if d := cmp.Diff(want, got); d != "" || snap(t, end) != snap(t, p.State) {
			t.Errorf("from event %d the restored run goes another way:\n%s", s.Seq(), d)
		}
		if len(s.answers) > 0 {
			middle++
		}
	}
	if middle < 5 {
		t.Errorf("only %d states were in the middle of a batch", middle)
	}
}

// ins is what a State waits for, without the pointers of requests.
func ins(s State) (out []string) {
	for _, c := range s.Next() {
		out = append(out, fmt.Sprintf("%s %d %d.%d %s %s %s %s", c.Kind, c.Seq, c.Turn, c.Pos, c.In, c.Use.ID, c.Use.Name, c.Use.Input))
	}
	return out
}

func TestRestoreRefuses(t *testing.T) {
	p := eventful(t)
	data := snap(t, p.states[2]) // three of a batch's calls are open but one
	for name, c := range map[string]struct{ old, new, want string }{
		"no JSON":      {"{", "", "read snapshot"},
		"no start":     {`"start":`, `"began":`, "run.started"},
		"seq":          {fmt.Sprintf(`"seq":%d,"start"`, p.states[2].Seq()), `"seq":1,"start"`, "/calls/0"},
		"seq 0":        {fmt.Sprintf(`"seq":%d,"start"`, p.states[2].Seq()), `"seq":0,"start"`, "/seq: expected 1 or more"},
		"no messages":  {`"messages":[`, `"messages":[],"old":[`, "/messages"},
		"no model":     {`"model":"m","seq"`, `"model":"","seq"`, "/model"},
		"lost calls":   {`"calls":`, `"gone":`, "/calls: expected 2"},
		"lost answers": {`"answers":`, `"gone":`, "/calls: expected 0"},
		"pos":          {`"pos":3`, `"pos":2`, "/calls/1: expected pos 3"},
	} {
		t.Run(name, func(t *testing.T) {
			bad := strings.Replace(data, c.old, c.new, 1)
			if bad == data {
				t.Fatalf("the edit does not apply to %s", data)
			}
			if _, err := Restore(json.RawMessage(bad)); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want one with %q", err, c.want)
			}
		})
	}
}

// A State is a value: two continuations of one do not touch each other or it.
func TestStatesAreImmutable(t *testing.T) {
	p := eventful(t)
	other := func(s State) edge.Return {
		if s.Next()[0].Kind == edge.Tool {
			return edge.Return{Body: json.RawMessage(`{"other":true}`)}
		}
		return turn("tool_use", look("zz"), look("zz"))
	}
	for i, s := range p.states[:len(p.states)-1] {
		before := snap(t, s)
		left, leftEvents, err := s.Apply(other(s))
		if err != nil {
			t.Fatal(err)
		}
		leftSnap := snap(t, left)
		right, got := fold(t, s, p.rets[i:])
		if snap(t, s) != before || snap(t, left) != leftSnap || snap(t, right) != snap(t, p.State) {
			t.Fatalf("event %d: one continuation changed another", s.Seq())
		}
		again, againEvents, err := s.Apply(other(s))
		if err != nil || snap(t, again) != leftSnap || cmp.Diff(leftEvents, againEvents) != "" {
			t.Fatalf("event %d: the same return gave another state (%v)", s.Seq(), err)
		}
		if _, want := fold(t, p.states[0], p.rets); !strings.HasSuffix(want, got) {
			t.Fatalf("event %d: the old state goes another way", s.Seq())
		}
	}
}

func TestSameBytesOverManyRuns(t *testing.T) {
	p := eventful(t)
	want := ledger.Total(p.events)
	for n := range 1000 {
		s, first, err := New(p.events[0].Data)
		if err != nil {
			t.Fatal(err)
		}
		sum := ledger.Sum{}.Add(first)
		for i, r := range p.rets {
			if body := s.Request().Body(); n < 50 && !bytes.Equal(body, p.states[i].Request().Body()) {
				t.Fatalf("run %d: the request before return %d has another body", n, i)
			}
			next, events, err := s.Apply(r)
			if err != nil {
				t.Fatal(err)
			}
			for _, e := range events {
				sum = sum.Add(e)
			}
			s = next
		}
		if sum != want {
			t.Fatalf("run %d has ledger %s, want %s", n, sum, want)
		}
	}
}

func TestWithModelChangesTheCallsToCome(t *testing.T) {
	p := eventful(t)
	s := p.states[0]
	other := s.WithModel("other", nil)
	if other.Next()[0].In == s.Next()[0].In || s.Request().Model != "m" || other.Request().Model != "other" {
		t.Error("WithModel did not swap the model, or swapped it in the old state too")
	}
	restored, err := Restore(json.RawMessage(snap(t, other)))
	if err != nil || restored.Request().Model != "other" {
		t.Errorf("the swap is lost in a snapshot: %v", err)
	}
}

func FuzzRestore(f *testing.F) {
	p := eventful(f)
	for _, s := range p.states {
		f.Add([]byte(snap(f, s)))
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		s, err := Restore(in)
		if err != nil || s.Done() {
			return
		}
		r := turn("tool_use", look("a"))
		for range 5 {
			next, _, err := s.Apply(r)
			if err != nil || next.Done() {
				return
			}
			s = next
		}
	})
}

func BenchmarkFold(b *testing.B) {
	for _, turns := range []int{10, 100, 1000} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			s, _, err := New(start(b, nil))
			if err != nil {
				b.Fatal(err)
			}
			ask, result := turn("tool_use", look("a")), edge.Return{Body: ledger.AppendString(nil, strings.Repeat("x", 10_000))}
			b.ReportAllocs()
			for b.Loop() {
				s := s
				for range turns {
					s, _, _ = s.Apply(ask)
					s, _, _ = s.Apply(result)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*turns*2), "ns/return")
		})
	}
}
