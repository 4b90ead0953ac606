package engine

import (
	"context"
	"fmt"
	"slices"

	"investigator/internal/faults"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// At folds the parent's returns up to event seq and makes the fork point. It
// refuses an event that is not the return of a call (or run.started), and says
// which event to fork instead. For many fork points of one run see Fold.
func At(ctx context.Context, c *recorder.Cassette, seq int) (*Point, error) {
	if _, err := c.Event(seq); err != nil {
		return nil, err
	}
	p := &Points{parent: c}
	p.err = p.fold(ctx, seq-1)
	return p.At(seq)
}

// Points are the fork points of one run. States share their past, so all of
// them take little more memory than the last one. They may be used from many
// goroutines.
type Points struct {
	parent *recorder.Cassette
	states []loop.State // after run.started, and after each return that was folded
	err    error        // why the fold went no further
}

// Fold folds a run once, so that each of its fork points costs nothing more.
// Where the loop stops being the recorded one, the points before it are good
// and At tells the reason for those after it. The error says that the cassette
// cannot be read.
func Fold(ctx context.Context, c *recorder.Cassette) (*Points, error) {
	total, err := c.EventCount()
	if err != nil {
		return nil, err
	}
	p := &Points{parent: c}
	p.err = p.fold(ctx, total)
	return p, nil
}

// fold applies recorded returns until event seq has happened.
func (p *Points) fold(ctx context.Context, seq int) error {
	tape, err := recorder.NewTape(p.parent)
	if err != nil {
		return err
	}
	_, err = walk(ctx, p.parent, p.parent.Begin(), &tapeEdge{c: p.parent, tape: tape}, Discard(), func(s loop.State) int {
		p.states = append(p.states, s)
		return min(seq, s.Seq()+1)
	})
	return err
}

// At makes the fork point at event seq, as the function At does.
func (p *Points) At(seq int) (*Point, error) {
	c := p.parent
	if c.Foreign() != nil {
		return nil, &ForeignRun{c.Name(), "fork"}
	}
	e, err := c.Event(seq)
	if err != nil {
		return nil, err
	}
	out := &Point{Parent: c, At: seq, Event: e}
	if seq == 1 {
		return out, nil
	}
	if !faults.Patchable(e.Type) {
		return nil, notPatchable(c, seq)
	}
	if err := p.before(out); err != nil {
		return nil, err
	}
	out.ret, err = c.Return(seq)
	return out, err
}

// before sets the state before the point's event, and the call that it answers.
func (p *Points) before(out *Point) error {
	i, found := slices.BinarySearchFunc(p.states, out.At-1, func(s loop.State, seq int) int { return s.Seq() - seq })
	if !found && p.err != nil {
		return fmt.Errorf("fork %s at %d: %w", p.parent.Name(), out.At, p.err)
	}
	if found {
		if next := p.states[i].Next(); len(next) > 0 && next[0].Seq == out.At {
			out.State, out.call = p.states[i], next[0]
			return nil
		}
	}
	return fmt.Errorf("fork %s at %d: the loop does not reach this event any more: code changed since it was recorded; replay names the difference", p.parent.Name(), out.At)
}

// notPatchable says which event to fork instead.
func notPatchable(c *recorder.Cassette, seq int) error {
	events, err := c.Events()
	if err != nil {
		return err
	}
	return faults.Named(faults.Default).For(seq).CheckIn(events)
}
