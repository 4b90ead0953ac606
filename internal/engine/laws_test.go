package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

func TestReferenceExperiment(t *testing.T) {
	a := recordRun(t)
	if n, err := a.EventCount(); err != nil || n != 9 {
		t.Fatalf("run A has %d events (%v), want 9", n, err)
	}
	w := demoWorld(t)
	r := replayed(t, a, engine.Tools{World: w})
	if !r.Identical || r.Events != 9 || r.Executed != 2 || r.ModelTurns != 3 || r.FromTape != 0 {
		t.Errorf("replay of A: %+v", r)
	}
	b, out := forkRun(t, a, faults.Drop("/deploys/1").For(7), liveFork(w))
	if n, err := b.EventCount(); err != nil || n != 12 {
		t.Fatalf("run B has %d events (%v), want 12", n, err)
	}
	if out.Changed.Seq != 7 {
		t.Errorf("the fork changed event %d", out.Changed.Seq)
	}
	origins, err := b.Origins()
	if err != nil {
		t.Fatal(err)
	}
	want := map[edge.Origin]int{edge.Tape: 3, edge.Patched: 1, edge.Rule: 2, edge.Executed: 1}
	if fmt.Sprint(origins) != fmt.Sprint(want) {
		t.Errorf("origins of B: %v, want %v", origins, want)
	}
	if r := replayed(t, b, engine.Tools{World: w}); !r.Identical || r.Executed != 2 || r.FromTape != 1 {
		t.Errorf("replay of B: %+v", r)
	}
}

// laws checks laws 1, 2, 4, 5 and 12 on a cassette; forks of it are checked by
// the caller.
func laws(t *testing.T, c *recorder.Cassette) {
	t.Helper()
	first := replayed(t, c, nil)
	if again := replayed(t, c, nil); !first.Identical || again.Ledger != first.Ledger {
		t.Fatalf("law 1: %+v then %+v", first, again)
	}
	events, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		if faults.Patchable(e.Type) {
			lawEmptyFork(t, c, events, e.Seq)
			lawSnapshot(t, c, e.Seq)
		}
	}
}

// lawEmptyFork is law 2: a fork with an empty patch over the tape is identical.
func lawEmptyFork(t *testing.T, c *recorder.Cassette, events []ledger.Event, seq int) {
	t.Helper()
	tape, err := recorder.NewTape(c)
	if err != nil {
		t.Fatal(err)
	}
	point, err := engine.At(context.Background(), c, seq)
	if err != nil {
		t.Fatalf("law 2 at %d: %v", seq, err)
	}
	got := events[: seq-1 : seq-1]
	if seq == 1 {
		got = events[:1:1]
	}
	sink := loop.SinkFunc(func(_ edge.Call, _ edge.Return, es []ledger.Event) error {
		got = append(got, es...)
		return nil
	})
	_, err = point.Fork(context.Background(), engine.ForkOptions{Empty: true, Model: tape, Sink: sink})
	if err != nil {
		t.Fatalf("law 2 at %d: %v", seq, err)
	}
	if ledger.Total(got) != ledger.Total(events) {
		t.Errorf("law 2: the empty fork at %d is not identical", seq)
	}
}

// lawSnapshot is law 12: a restored snapshot equals the fold, in that it
// continues to the same ledger.
func lawSnapshot(t *testing.T, c *recorder.Cassette, seq int) {
	t.Helper()
	if seq == 1 {
		return
	}
	point, err := engine.At(context.Background(), c, seq)
	if err != nil {
		t.Fatal(err)
	}
	snap, err := point.State.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	restored, err := loop.Restore(snap)
	if err != nil {
		t.Fatal(err)
	}
	tape, err := recorder.NewTape(c)
	if err != nil {
		t.Fatal(err)
	}
	end, err := loop.Run(context.Background(), restored, tape, engine.Discard())
	if err != nil {
		t.Fatalf("law 12 at %d: %v", seq, err)
	}
	if c.Sealed() && !bytes.Equal(end.Finished(), c.Finished()) {
		t.Errorf("law 12 at %d: finished %s, recorded %s", seq, end.Finished(), c.Finished())
	}
}

func TestLawsOnRunsAndForks(t *testing.T) {
	w := demoWorld(t)
	a := recordRun(t)
	laws(t, a)
	for _, f := range []struct {
		name  string
		patch faults.Patch
	}{
		{"drop", faults.Drop("/deploys/1").For(7)},
		{"empty", faults.Empty().For(4)},
		{"error", faults.Fail("timeout").For(7)},
		{"start", mustSet(t, "/task", `"Why is cart slow?"`).For(1)},
		{"insert", faults.InsertCall("list_deploys", json.RawMessage(`{"service":"payments-db"}`), json.RawMessage(`{"deploys":[]}`)).For(8)},
	} {
		t.Run(f.name, func(t *testing.T) {
			b, _ := forkRun(t, a, f.patch, liveFork(w))
			laws(t, b)
			lawPrefix(t, a, b, f.patch.At)
			if n, _ := b.EventCount(); n > 5 {
				c, _ := forkRun(t, b, faults.Fail("gone").For(4), liveFork(w))
				laws(t, c)
				lawPrefix(t, b, c, 4)
			}
		})
	}
}

// lawPrefix is law 3: the first at-1 lines of a fork are its parent's.
func lawPrefix(t *testing.T, parent, fork *recorder.Cassette, at int) {
	t.Helper()
	p, err := parent.Events()
	if err != nil {
		t.Fatal(err)
	}
	f, err := fork.Events()
	if err != nil {
		t.Fatal(err)
	}
	if ledger.Total(p[:at-1]) != ledger.Total(f[:at-1]) {
		t.Errorf("law 3: history before %d differs", at)
	}
}

func mustSet(t *testing.T, pointer, value string) faults.Patch {
	t.Helper()
	p, err := faults.Set(pointer, json.RawMessage(value))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Another beginning that no model can see (here the effects, which --current
// takes from today's tools) is no divergence further on, and it is said.
func TestReplayOfAChangedStart(t *testing.T) {
	c := recordRun(t)
	s := startOf(t, demoWorld(t))
	s.Effects = map[string]string{"query_metrics": "idempotent"}
	start, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{Start: start})
	if err != nil || !r.Identical || !r.StartChanged || r.Events != 9 {
		t.Errorf("%+v %v", r, err)
	}
	if r := replayed(t, c, nil); r.StartChanged {
		t.Errorf("an unchanged start: %+v", r)
	}
}
