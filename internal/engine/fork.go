package engine

import (
	"context"
	"errors"
	"fmt"

	"investigator/internal/diff"
	"investigator/internal/edge"
	"investigator/internal/faults"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// ForkOptions says what to change, where, and over which edges to go on.
type ForkOptions struct {
	Patch faults.Patch
	Empty bool      // fork without a patch; the future must then equal the past if the edges are the tape
	Model edge.Edge // answers the model calls after the fork point; nil halts at the first
	Swap  string    // another model id from the fork point on, "" keeps the parent's
	Tools edge.Edge // runs calls that the parent never made; nil refuses them
	Unsee Unseen    // what happens to them, "" runs them
	Sink  loop.Sink // takes the events from the fork point on
}

// Forked is the result of a fork.
type Forked struct {
	State   loop.State
	Changed ledger.Event // the patched event
	Notes   []string     // what the patch did beside what was asked (dropped signed reasoning, …)
	Halt    *HaltReport  // when the fork halted
}

// HaltReport says what the next model call would have been.
type HaltReport struct {
	Seq      int           `json:"event"`    // the event the model's answer would become
	Recorded int           `json:"recorded"` // the parent's event it stands against, 0 if it has none
	Changes  []diff.Change `json:"changes"`  // the model inputs that changed, as pointers into the Converse request
	Bytes    int           `json:"request_bytes"`
	Tokens   int64         `json:"tokens_not_spent"` // estimated tokens of the request
	Model    string        `json:"model"`
}

// Point is a fork point made ready: the parent, the state before the event and
// the event. It may be continued any number of times, from many goroutines.
type Point struct {
	Parent *recorder.Cassette
	At     int
	State  loop.State   // before the event
	Event  ledger.Event // the parent's event
	call   edge.Call
	ret    edge.Return
}

// At folds the parent's returns up to event seq and makes the fork point. It
// refuses an event that is not the return of a call (or run.started), and says
// which event to fork instead.
func At(ctx context.Context, c *recorder.Cassette, seq int) (*Point, error) {
	e, err := c.Event(seq)
	if err != nil {
		return nil, err
	}
	p := &Point{Parent: c, At: seq, Event: e}
	if seq == 1 {
		return p, nil
	}
	if !faults.Patchable(e.Type) {
		return nil, notPatchable(c, seq)
	}
	s, _, err := loop.New(c.Start())
	if err != nil {
		return nil, err
	}
	if s, err = foldTo(ctx, c, s, seq-1); err != nil {
		return nil, fmt.Errorf("fork %s at %d: %w", c.Name(), seq, err)
	}
	next := s.Next()
	if len(next) == 0 || next[0].Seq != seq {
		return nil, fmt.Errorf("fork %s at %d: the loop does not reach this event any more: code changed since it was recorded; replay names the difference", c.Name(), seq)
	}
	p.State, p.call = s, next[0]
	p.ret, err = c.Return(seq)
	return p, err
}

// foldTo applies recorded returns until event seq has happened.
func foldTo(ctx context.Context, c *recorder.Cassette, s loop.State, seq int) (loop.State, error) {
	tape, err := recorder.NewTape(c)
	if err != nil {
		return s, err
	}
	taped := &tapeEdge{c: c, tape: tape}
	for _, swap := range c.Header().Models {
		if swap.At >= seq {
			break
		}
		if s, err = loop.RunTo(ctx, s, taped, Discard(), swap.At); err != nil {
			return s, err
		}
		s = s.WithModel(swap.Model)
	}
	return loop.RunTo(ctx, s, taped, Discard(), seq)
}

// Fork patches the point's event and goes on from there.
func (p *Point) Fork(ctx context.Context, o ForkOptions) (Forked, error) {
	var out Forked
	s, added, err := p.patched(o, &out)
	if err != nil {
		return out, err
	}
	if o.Swap != "" {
		s = s.WithModel(o.Swap)
	}
	future, err := p.future(o, added)
	if err != nil {
		return out, err
	}
	out.State, err = loop.Run(ctx, s, future, p.sink(o))
	var halted *Halted
	if errors.As(err, &halted) {
		out.Halt = p.report(halted.Call)
		return out, nil
	}
	return out, err
}

func (p *Point) sink(o ForkOptions) loop.Sink {
	if o.Sink == nil {
		return Discard()
	}
	return o.Sink
}

// future is the edge after the fork point: the model asked again, or not at
// all; tools from the tape for identical calls.
func (p *Point) future(o ForkOptions, inserted *faults.Inserted) (edge.Edge, error) {
	tape, err := recorder.NewTape(p.Parent)
	if err != nil {
		return nil, err
	}
	tape.Skip(p.At + 1)
	model := o.Model
	if model == nil {
		model = halting{}
	}
	var tools edge.Edge = Identical{Tape: tape, Patch: p.again(o), Edge: o.Tools, Unseen: o.Unsee}
	if inserted != nil {
		tools = insertedCall{turn: p.call.Turn, added: *inserted, edge: tools}
	}
	return clocked(model, tools), nil
}

// again maps the patched tool call to its patched return.
func (p *Point) again(o ForkOptions) map[string]edge.Return {
	if o.Empty || p.call.Kind != edge.Tool {
		return nil
	}
	edited, err := o.Patch.Apply(p.Event)
	if err != nil {
		return nil // refused before the fork began
	}
	return map[string]edge.Return{p.call.In: edited.Return}
}

// insertedCall answers the one call that a patch inserted.
type insertedCall struct {
	turn  int
	added faults.Inserted
	edge  edge.Edge
}

func (i insertedCall) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if call.Turn == i.turn && call.Pos == i.added.Pos {
		return i.added.Return, nil
	}
	return i.edge.Do(ctx, call)
}

// report compares the call that was not made with the one the parent made in
// the same place: the parent's next model call after the fork point.
func (p *Point) report(call edge.Call) *HaltReport {
	body := call.Request.Body()
	r := &HaltReport{Seq: call.Seq, Bytes: len(body), Tokens: int64(len(body)+3) / 4, Model: call.Request.Model, Changes: []diff.Change{}}
	total, err := p.Parent.EventCount()
	if err != nil {
		return r
	}
	for seq := p.At; seq <= total; seq++ {
		if seq == p.At && p.Event.Type == ledger.ModelResponded {
			continue
		}
		recorded, err := p.Parent.Request(seq)
		if err != nil {
			continue
		}
		r.Recorded = seq
		r.Changes = append(r.Changes, RequestChanges(recorded, call.Request)...)
		break
	}
	return r
}

// patched applies the patch and takes the event it makes.
func (p *Point) patched(o ForkOptions, out *Forked) (loop.State, *faults.Inserted, error) {
	edited := faults.Edited{Event: p.Event, Return: p.ret}
	if !o.Empty {
		var err error
		if edited, err = o.Patch.Apply(p.Event); err != nil {
			return p.State, nil, err
		}
	}
	out.Notes = edited.Notes
	if p.At == 1 {
		s, e, err := loop.New(edited.Event.Data)
		out.Changed = e
		return s, nil, err
	}
	next, events, err := p.State.Apply(edited.Return)
	if err != nil {
		return p.State, nil, err
	}
	if err := p.acceptable(next); err != nil {
		return p.State, nil, err
	}
	out.Changed = events[0]
	return next, edited.Inserted, p.sink(o).Took(p.call, edited.Return, events)
}

// notPatchable says which event to fork instead.
func notPatchable(c *recorder.Cassette, seq int) error {
	events, err := c.Events()
	if err != nil {
		return err
	}
	return faults.Named(faults.Default).For(seq).CheckIn(events)
}

// acceptable makes sure that Bedrock would take the patched conversation, once
// it is the model's turn; open tool calls are answered before that.
func (p *Point) acceptable(next loop.State) error {
	calls := next.Next()
	if len(calls) == 0 || calls[0].Kind != edge.Model {
		return nil
	}
	if v := faults.CheckConversation(next.Thread()); len(v) > 0 {
		return fmt.Errorf("fork at %d: Bedrock would refuse the conversation: %s", p.At, v[0])
	}
	return nil
}
