package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"

	"investigator/internal/converse"
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
	Empty bool        // fork without a patch; the future must then equal the past if the edges are the tape
	Model edge.Edge   // answers the model calls after the fork point; nil halts at the first
	Swap  string      // another model id from the fork point on, "" keeps the parent's
	Price *loop.Price // of Swap, for the run's limit on money; nil keeps the price there was
	Tools edge.Edge   // runs calls that the parent never made; nil refuses them
	Unsee Unseen      // what happens to them, "" runs them
	Sink  loop.Sink   // takes the events from the fork point on
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

// Fork patches the point's event and goes on from there.
func (p *Point) Fork(ctx context.Context, o ForkOptions) (Forked, error) {
	var out Forked
	edited, err := p.edit(o)
	if err != nil {
		return out, err
	}
	s, err := p.patched(o, edited, &out)
	if err != nil {
		return out, err
	}
	if o.Swap != "" {
		s = s.WithModel(o.Swap, o.Price)
	}
	future, err := p.future(o, edited)
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
func (p *Point) future(o ForkOptions, edited faults.Edited) (edge.Edge, error) {
	tape, err := recorder.NewTape(p.Parent)
	if err != nil {
		return nil, err
	}
	tape.Skip(p.At + 1)
	model := o.Model
	if model == nil {
		model = halting{}
	}
	var tools edge.Edge = Identical{Tape: tape, Patch: p.again(o, edited), Edge: o.Tools, Unseen: o.Unsee}
	if edited.Inserted != nil {
		tools = insertedCall{turn: p.call.Turn, added: *edited.Inserted, edge: tools}
	}
	return clocked(model, tools), nil
}

// again maps the patched tool call to its patched return.
func (p *Point) again(o ForkOptions, edited faults.Edited) map[string]edge.Return {
	if o.Empty || p.call.Kind != edge.Tool {
		return nil
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
	size := bodySize(call.Request)
	r := &HaltReport{Seq: call.Seq, Bytes: size, Tokens: int64(size+3) / 4, Model: call.Request.Model, Changes: []diff.Change{}}
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

// edit applies the patch.
func (p *Point) edit(o ForkOptions) (faults.Edited, error) {
	if o.Empty {
		return faults.Edited{Event: p.Event, Return: p.ret}, nil
	}
	return o.Patch.Apply(p.Event)
}

// patched takes the event that the patch made.
func (p *Point) patched(o ForkOptions, edited faults.Edited, out *Forked) (loop.State, error) {
	out.Notes = edited.Notes
	if p.At == 1 {
		s, e, err := loop.New(edited.Event.Data)
		out.Changed = e
		return s, err
	}
	next, events, err := p.State.Apply(edited.Return)
	if err != nil {
		return p.State, err
	}
	if err := p.acceptable(next); err != nil {
		return p.State, err
	}
	out.Changed = events[0]
	return next, p.sink(o).Took(p.call, edited.Return, events)
}

// acceptable makes sure that Bedrock would take the patched conversation, once
// it is the model's turn; open tool calls are answered before that.
func (p *Point) acceptable(next loop.State) error {
	calls := next.Next()
	if len(calls) == 0 || calls[0].Kind != edge.Model {
		return nil
	}
	if v := violations(p.State.Thread(), next.Thread()); len(v) > 0 {
		return fmt.Errorf("fork at %d: Bedrock would refuse the conversation: %s", p.At, v[0])
	}
	return nil
}

// violations checks what a conversation has beyond an earlier one that was sent
// before. Each rule is about a message and the one before it, so two of the
// earlier messages say all that matters; what is wrong with them alone is not
// the patch's doing.
func violations(before, now *converse.Thread) []faults.Violation {
	for n := 0; n < 2 && before.Len() > 0; before = before.Parent() {
		if !bytes.HasSuffix(before.Last(), []byte(`"role":"system"}`)) {
			n++
		}
	}
	var out []faults.Violation
	for _, v := range faults.CheckConversation(converse.NewThread(now.Since(before)...)) {
		if v.Message == 0 && before.Len() > 0 {
			continue
		}
		v.Message += before.Len()
		out = append(out, v)
	}
	return out
}
