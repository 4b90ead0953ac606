package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// testShell is a shell whose output goes into a buffer.
func testShell() (*shell, *bytes.Buffer) {
	var out bytes.Buffer
	return &shell{out: &out, err: &bytes.Buffer{}, now: time.Now, speech: &speech{}}, &out
}

var errFull = errors.New("no space left on device")

// TestLostEndIsShown: the verdict of a run whose last event cannot be recorded
// was paid for, and is shown before the error.
func TestLostEndIsShown(t *testing.T) {
	for _, asJSON := range []bool{false, true} {
		w, err := openWorld(demoWorld)
		if err != nil {
			t.Fatal(err)
		}
		start, err := newStart(w, demoTask, ruleChair(""), loop.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		sh, out := testShell()
		rec, err := recorder.Create(filepath.Join(t.TempDir(), "a.yaml"), newHeader(sh, w, start))
		if err != nil {
			t.Fatal(err)
		}
		defer rec.Close()
		full := loop.SinkFunc(func(call edge.Call, r edge.Return, events []ledger.Event) error {
			if events[len(events)-1].Type == ledger.RunFinished {
				return errFull
			}
			return rec.Took(call, r, events)
		})
		sink := &watched{Sink: full, watch: sh.watch(sh.printer(), asJSON)}
		state, err := engine.Live(t.Context(), start, engine.RuleModel{}, engine.Tools{World: w}, sink)
		err = concluded(sh, rec, state, sink.lost, err, asJSON)
		if !errors.Is(err, errFull) || statusOf(err) != exitError || !strings.Contains(hintOf(err), "holds events 1 to") {
			t.Errorf("error %v, hint %q", err, hintOf(err))
		}
		if asJSON {
			var r runResult
			if err := json.Unmarshal(out.Bytes(), &r); err != nil || !strings.Contains(string(r.Finished), `"verdict"`) || r.Events != rec.Seq() {
				t.Errorf("printed %s, %v", out, err)
			}
			continue
		}
		if !strings.Contains(out.String(), "this end of the run is not recorded\n") || !strings.Contains(out.String(), "verdict: checkout") {
			t.Errorf("printed %s", out)
		}
	}
}

// failsLater is a model that answers so many calls.
type failsLater struct{ left int }

func (f *failsLater) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if f.left--; f.left < 0 {
		return edge.Return{}, errFull
	}
	return engine.RuleModel{}.Do(ctx, call)
}

// TestSamplesBeforeAnError are counted and printed; one that failed took all of
// them with it.
func TestSamplesBeforeAnError(t *testing.T) {
	c, err := recorder.Open(filepath.Join("..", "..", "cassettes", "run_a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	point, err := engine.At(t.Context(), c, 7)
	if err != nil {
		t.Fatal(err)
	}
	t.Chdir(t.TempDir())
	for _, asJSON := range []bool{false, true} {
		sh, out := testShell()
		o := forkOptions{mode: "live", at: 7, samples: 9, json: asJSON}
		f := &forking{sh: sh, o: o, parent: c, point: point, patch: faults.Drop("/deploys/1").For(7)}
		err = f.sample(t.Context(), chair{edge: &failsLater{5}}, recorder.ModelSwap{})
		if !errors.Is(err, errFull) {
			t.Errorf("error %v", err)
		}
		want := "2 of 2: payments-db"
		if asJSON {
			want = `"of": 2`
		}
		if !strings.Contains(out.String(), want) {
			t.Errorf("printed %s", out)
		}
	}
}
