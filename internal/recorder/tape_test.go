package recorder_test

import (
	"context"
	"errors"
	"slices"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/edge/edgetest"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"

	"github.com/google/go-cmp/cmp"
)

func tapeOf(t *testing.T, b []byte) *recorder.Tape {
	t.Helper()
	tape, err := recorder.NewTape(parse(t, b))
	if err != nil {
		t.Fatal(err)
	}
	return tape
}

// Law 1, as far as the recorder goes: a run over its tape is the run.
func TestTapeReplaysTheRun(t *testing.T) {
	for name, o := range variants() {
		t.Run(name, func(t *testing.T) {
			run := record(t, o)
			tape := tapeOf(t, run.bytes)
			again, err := recorder.NewMemory(recordertest.Header())
			if err != nil {
				t.Fatal(err)
			}
			s, _, err := loop.New(recordertest.Start())
			if err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if s, err = loop.Run(t.Context(), s, tape, again); err != nil {
					t.Fatal(err)
				}
			}
			events, err := parse(t, again.Bytes()).Events()
			if err != nil {
				t.Fatal(err)
			}
			sameEvents(t, "replay", run.events, events)
			if left := tape.Left(); left != nil {
				t.Errorf("left over: %v", left)
			}
		})
	}
}

// The tape is an edge like any other, once each call in its suite is distinct.
func TestTapeContract(t *testing.T) {
	for name, o := range variants() {
		run := record(t, o)
		edgetest.Run(t, name, func(t *testing.T) edgetest.Subject {
			return edgetest.Subject{Edge: tapeOf(t, run.bytes), Calls: slices.Clone(run.calls)}
		})
	}
}

func TestTapeRefusesAnotherCall(t *testing.T) {
	run := record(t, recordertest.Options{Turns: 3, Bytes: 50})
	tape := tapeOf(t, run.bytes)
	for _, call := range run.calls {
		recorded := call.In
		call.In = "other"
		_, err := tape.Do(t.Context(), call)
		var m *recorder.Mismatch
		if !errors.As(err, &m) || m.Seq != call.Seq || m.Recorded != recorded || m.Now != "other" {
			t.Errorf("event %d: %v", call.Seq, err)
		}
		call.Turn += 100
		_, err = tape.Do(t.Context(), call)
		var missing *recorder.Missing
		if !errors.As(err, &missing) || missing.Call.Turn != call.Turn {
			t.Errorf("turn %d: %v", call.Turn, err)
		}
	}
	if left := tape.Left(); len(left) != len(run.calls) {
		t.Errorf("left over: %v, want all %d", left, len(run.calls))
	}
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := tape.Do(gone, run.calls[0]); !errors.Is(err, context.Canceled) {
		t.Errorf("after the context's end: %v", err)
	}
}

// repeating asks for the same call each turn and gets another answer each time.
func repeating(t *testing.T, turns int) taken {
	t.Helper()
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	o := recordertest.Options{Turns: turns, Bytes: 10}
	e := edge.Func(func(ctx context.Context, call edge.Call) (edge.Return, error) {
		r, err := recordertest.Edge(o).Do(ctx, call)
		if call.Kind == edge.Model && call.Turn < turns {
			r.Body = []byte(`{"output":{"message":{"content":[{"toolUse":{"input":{"part":1},"name":"read","toolUseId":"a"}}],"role":"assistant"}},"stopReason":"tool_use"}`)
		}
		return r, err
	})
	s, _, err := loop.New(recordertest.Start())
	if err != nil {
		t.Fatal(err)
	}
	var out taken
	if _, err := loop.Run(t.Context(), s, e, sinkOf(&out, w)); err != nil {
		t.Fatal(err)
	}
	out.bytes = w.Bytes()
	return out
}

func TestLookupGivesTheAnswersOfIdenticalCallsInOrder(t *testing.T) {
	run := repeating(t, 4)
	var in string
	var want []string
	for i, call := range run.calls {
		if call.Kind == edge.Tool {
			in = call.In
			want = append(want, string(run.rets[i].Body))
		}
	}
	lookup := func(tape *recorder.Tape, n int) []string {
		var got []string
		for range n {
			r, found := tape.Lookup(in)
			if !found || r.Origin != edge.Tape {
				t.Fatalf("found %v, origin %q", found, r.Origin)
			}
			got = append(got, string(r.Body))
		}
		return got
	}
	tape := tapeOf(t, run.bytes)
	if d := cmp.Diff(append(want, want[len(want)-1]), lookup(tape, len(want)+1)); d != "" {
		t.Errorf("(-recorded +found):\n%s", d)
	}
	tape = tapeOf(t, run.bytes)
	tape.Skip(5) // the first return is event 4
	if d := cmp.Diff(want[1:], lookup(tape, len(want)-1)); d != "" {
		t.Errorf("after Skip (-recorded +found):\n%s", d)
	}
	if _, found := tape.Lookup("other"); found {
		t.Error("an answer to a call that was never made")
	}
}
