package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/recorder"
	"investigator/internal/world"
)

// flat is how much the cost of an event may grow from the shortest run to the
// longest, which outgrows the processor's cache. Cost that grew with the run
// would be sixteen times as high.
const flat = 1.5

// replay measures replays from the tape, per event, in runs of growing length.
func replay(ctx context.Context, b *bench) error {
	turns := []int{50, 200, 800}
	var tasks []task
	events := make([]int, len(turns))
	for i, n := range turns {
		text, err := generated(n, turnBytes)
		if err != nil {
			return err
		}
		tasks = append(tasks, func() error {
			c, err := recorder.Parse("run.yaml", text)
			if err != nil {
				return err
			}
			r, err := engine.Replay(ctx, c, engine.ReplayOptions{})
			if err == nil && !r.Identical {
				err = errors.New("the replay is not identical")
			}
			events[i] = r.Events
			return err
		})
	}
	times, err := compare(ctx, b.rounds(12), tasks...)
	if err != nil {
		return err
	}
	perEvent := func(i int) quantity { return took(times[i].best() / time.Duration(events[i])) }
	for i := range turns[1:] {
		b.add(versus(fmt.Sprintf("open and replay %d turns, per event", turns[i+1]), perEvent(i+1), fmt.Sprintf("at %d turns", turns[0]), perEvent(0), flat, 0))
	}
	return nil
}

// referenceFile is the run that the README shows.
const referenceFile = "cassettes/run_a.yaml"

// fork measures forks of the reference run in process: at its deploy list,
// without the deploy it blames, to a halt and to another verdict. A live fork is
// measured twice: as it is, with two turns of the rule model and a log search,
// and with both answering at once, which leaves what the fork itself costs.
func fork(ctx context.Context, b *bench) error {
	text, err := os.ReadFile(filepath.Join(root(), referenceFile))
	if err != nil {
		return err
	}
	c, err := opened(text)
	if err != nil {
		return err
	}
	w, err := world.Demo()
	if err != nil {
		return err
	}
	f := forking{ctx: ctx, parent: c, text: text, at: 7}
	patch := faults.Drop("/deploys/1").For(f.at)
	live := engine.ForkOptions{Patch: patch, Model: engine.RuleModel{}, Tools: engine.Tools{World: w}}
	canned, err := f.canned(live)
	if err != nil {
		return err
	}
	if err := f.rows(b, "halt", engine.ForkOptions{Patch: patch}); err != nil {
		return err
	}
	if err := f.rows(b, "live, answers at once", canned); err != nil {
		return err
	}
	return f.rows(b, "live, rule model", live)
}

// forking is the parent run with the point to fork it at.
type forking struct {
	ctx    context.Context
	parent *recorder.Cassette
	text   []byte
	at     int
}

func (f *forking) rows(b *bench, how string, o engine.ForkOptions) error {
	bin, err := b.program(f.ctx)
	if err != nil {
		return err
	}
	points, err := engine.Fold(f.ctx, f.parent)
	if err != nil {
		return err
	}
	mode := "halt"
	if o.Model != nil {
		mode = "live"
	}
	times, err := compare(f.ctx, b.rounds(32), f.hash, f.anew(o), f.swept(points, o), f.recorded(points, o), f.process(b, bin, mode))
	if err != nil {
		return err
	}
	best := func(i int) quantity { return took(times[i].best()) }
	b.add(versus("fork ("+how+"), history folded anew", best(1), "hashing and copying its bytes", best(0), 10, 0),
		versus("fork ("+how+"), history folded once", best(2), "a process a fork", best(4), 0, 100),
		faster("the same, recorded in memory", best(3), "a process a fork", best(4)))
	return nil
}

// anew folds the history and forks.
func (f *forking) anew(o engine.ForkOptions) task {
	return func() error {
		point, err := engine.At(f.ctx, f.parent, f.at)
		if err != nil {
			return err
		}
		return f.fork(point, o)
	}
}

// swept forks from a history that was folded before, as a sweep does.
func (f *forking) swept(points *engine.Points, o engine.ForkOptions) task {
	return func() error {
		point, err := points.At(f.at)
		if err != nil {
			return err
		}
		return f.fork(point, o)
	}
}

func (f *forking) fork(point *engine.Point, o engine.ForkOptions) error {
	out, err := point.Fork(f.ctx, o)
	if err == nil && (out.Halt == nil) == (o.Model == nil) {
		err = fmt.Errorf("the fork ended at event %d", out.State.Seq())
	}
	return err
}

// recorded is swept with a cassette in memory.
func (f *forking) recorded(points *engine.Points, o engine.ForkOptions) task {
	return func() error {
		w, err := recorder.NewMemory(f.parent.Header())
		if err != nil {
			return err
		}
		if err := w.CopyPrefix(f.parent, f.at); err != nil {
			return err
		}
		recording := o
		recording.Sink = w
		return f.swept(points, recording)()
	}
}

// hash is what a fork is measured against.
func (f *forking) hash() error {
	if sha256.Sum256(bytes.Clone(f.text)) == [sha256.Size]byte{} {
		return errors.New("no sum")
	}
	return nil
}

// canned runs a fork once and returns the options of one whose model and tools
// answer the same calls from memory.
func (f *forking) canned(o engine.ForkOptions) (engine.ForkOptions, error) {
	answers := map[string]edge.Return{}
	keeping := func(e edge.Edge) edge.Edge {
		return edge.Func(func(ctx context.Context, call edge.Call) (edge.Return, error) {
			r, err := e.Do(ctx, call)
			answers[call.In] = r
			return r, err
		})
	}
	first := o
	first.Model, first.Tools = keeping(o.Model), keeping(o.Tools)
	if err := f.anew(first)(); err != nil {
		return o, err
	}
	memory := edge.Func(func(_ context.Context, call edge.Call) (edge.Return, error) {
		r, found := answers[call.In]
		if !found {
			return r, fmt.Errorf("no answer for the %s call at event %d", call.Kind, call.Seq)
		}
		return r, nil
	})
	o.Model, o.Tools = memory, memory
	return o, nil
}

// process forks by the program, into a new file each time.
func (f *forking) process(b *bench, bin *built, mode string) task {
	return func() error {
		b.files++
		out := filepath.Join(b.dir, fmt.Sprintf("fork-%d.yaml", b.files))
		return bin.run(f.ctx, "fork", "--at", fmt.Sprint(f.at), "--mode", mode, "--drop", "/deploys/1", "--out", out, referenceFile)
	}
}
