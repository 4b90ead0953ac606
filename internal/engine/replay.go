package engine

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// ReplayOptions says over which edges a cassette is replayed.
type ReplayOptions struct {
	// Model answers model calls over the recorded wire; nil answers them from the
	// tape. It must not be able to reach a model.
	Model edge.Edge
	// Tools executes tool calls for real; nil answers them from the tape.
	Tools edge.Edge
	// Start replaces the recorded run.started data (--current); nil keeps it.
	Start json.RawMessage
	// Sink takes the events beside the comparison, nil for none.
	Sink loop.Sink
}

// Replayed is the result of a replay.
type Replayed struct {
	Identical  bool   `json:"identical"`
	Events     int    `json:"events"` // events that were compared and equal
	Ledger     string `json:"ledger"` // sum over them
	ModelTurns int    `json:"model_turns"`
	Executed   int    `json:"tools_executed"`
	FromTape   int    `json:"tools_from_tape"`
	Refused    int    `json:"tools_refused,omitempty"`
	Unfinished bool   `json:"unfinished,omitempty"` // the recording ends before run.finished
	// StartChanged says that another run.started was asked for (--current) and
	// differs, in what no model sees: everything after it is identical.
	StartChanged bool        `json:"start_changed,omitempty"`
	Divergence   *Divergence `json:"divergence,omitempty"`
}

// Replay runs the loop again with the model from the cassette and compares
// every event and every digest of what went out with the recording. It stops at
// the first divergence, which is a result and not an error.
func Replay(ctx context.Context, c *recorder.Cassette, o ReplayOptions) (Replayed, error) {
	if c.Foreign() != nil {
		return replayForeign(c, o)
	}
	cmp := &comparer{cassette: c}
	tape, err := recorder.NewTape(c)
	if err != nil {
		return Replayed{}, err
	}
	state, err := cmp.begin(o.Start)
	if err == nil {
		taped := &tapeEdge{c: c, tape: tape}
		var model edge.Edge = taped
		if o.Model != nil {
			model = wired{c, o.Model}
		}
		_, err = walk(ctx, c, state, edge.Split{Model: model, Tool: toolEdge(c, taped, o)}, cmp.sinks(o.Sink), toTheEnd)
	}
	out := cmp.result
	var diverged *Diverged
	var ended *recorder.Missing
	switch {
	case errors.As(err, &diverged):
		out.Divergence = &diverged.Divergence
	case errors.Is(err, errBeyond):
		out.Unfinished = true
	case errors.As(err, &ended):
		out.Unfinished = !c.Sealed()
		if c.Sealed() {
			return out, fmt.Errorf("replay %s: %w", c.Name(), err)
		}
	case err != nil:
		return out, fmt.Errorf("replay %s: %w", c.Name(), err)
	default:
		if out.Divergence, err = cmp.leftOver(); err != nil {
			return out, fmt.Errorf("replay %s: %w", c.Name(), err)
		}
	}
	out.Identical = out.Divergence == nil
	out.Ledger = cmp.sum.String()
	return out, nil
}

// walk runs the cassette's run over e, changing the model where the cassette says
// that its fork did. Wherever it stops it asks how far to go, by event, and it
// returns when that has happened or the run is done.
func walk(ctx context.Context, c *recorder.Cassette, s loop.State, e edge.Edge, sink loop.Sink, upTo func(loop.State) int) (loop.State, error) {
	swaps := c.Header().Models
	for {
		for len(swaps) > 0 && swaps[0].At <= s.Seq() {
			s, swaps = s.WithModel(swaps[0].Model, swaps[0].Price), swaps[1:]
		}
		seq := upTo(s)
		if s.Done() || s.Seq() >= seq {
			return s, nil
		}
		if len(swaps) > 0 {
			seq = min(seq, swaps[0].At)
		}
		var err error
		if s, err = loop.RunTo(ctx, s, e, sink, seq); err != nil {
			return s, err
		}
	}
}

func toTheEnd(loop.State) int { return math.MaxInt }

func toolEdge(c *recorder.Cassette, taped *tapeEdge, o ReplayOptions) edge.Edge {
	if o.Tools == nil {
		return taped
	}
	return Parallel{Edge: executing{c: c, taped: taped, tools: o.Tools}}
}

// executing runs tools for real, except for returns that no tool gave when
// they were recorded: a patched or refused one comes from the tape again.
type executing struct {
	c     *recorder.Cassette
	taped edge.Edge
	tools edge.Edge
}

func (x executing) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if origin, err := x.c.Origin(call.Seq); err == nil && (origin == edge.Patched || origin == edge.Refused) {
		return x.taped.Do(ctx, call)
	}
	return x.tools.Do(ctx, call)
}

// tapeEdge answers from the tape and turns its refusals into divergences.
type tapeEdge struct {
	c    *recorder.Cassette
	tape *recorder.Tape
}

func (t *tapeEdge) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	r, err := t.tape.Do(ctx, call)
	var mismatch *recorder.Mismatch
	if !errors.As(err, &mismatch) {
		return r, err
	}
	if call.Kind == edge.Model {
		return r, requestDiverged(t.c, call)
	}
	return r, &Diverged{callDivergence(t.c, call)}
}

// wired asks the model edge, once the call is known to be the recorded one.
type wired struct {
	c     *recorder.Cassette
	model edge.Edge
}

func (w wired) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	e, err := w.c.Event(call.Seq)
	if err != nil || e.In != call.In {
		return edge.Return{}, requestDiverged(w.c, call)
	}
	return w.model.Do(ctx, call)
}

// comparer is the sink that holds events against a recording.
type comparer struct {
	cassette *recorder.Cassette
	sum      ledger.Sum
	result   Replayed
}

// begin starts the loop and compares its first event.
func (c *comparer) begin(start json.RawMessage) (loop.State, error) {
	if start == nil {
		s := c.cassette.Begin()
		return s, c.compare(ledger.Event{Seq: 1, Type: ledger.RunStarted, Data: c.cassette.Start()})
	}
	s, first, err := loop.New(start)
	if err != nil {
		return s, fmt.Errorf("replay %s: %w", c.cassette.Name(), err)
	}
	if string(first.Data) != string(c.cassette.Start()) {
		return s, c.passStart()
	}
	return s, c.compare(first)
}

// passStart lets another start pass: what it changes shows in the first model
// request, which is where the model would have seen it. The events after it are
// compared as if it were the recorded one.
func (c *comparer) passStart() error {
	var err error
	c.sum, err = c.cassette.LedgerSum(1)
	c.result.Events++
	c.result.StartChanged = true
	return err
}

func (c *comparer) sinks(extra loop.Sink) loop.Sink {
	if extra == nil {
		return c
	}
	return Tee{c, extra}
}

// Took implements loop.Sink.
func (c *comparer) Took(call edge.Call, r edge.Return, events []ledger.Event) error {
	for _, e := range events {
		if err := c.compare(e); err != nil {
			return err
		}
	}
	switch {
	case call.Kind == edge.Model:
		c.result.ModelTurns++
	case r.Origin == edge.Executed:
		c.result.Executed++
	case r.Origin == edge.Refused:
		c.result.Refused++
	default:
		c.result.FromTape++
	}
	return nil
}

// errBeyond ends the replay of an unfinished recording after its last event. It
// may end between a tool call and its return, and the tool ran for real.
var errBeyond = errors.New("the recording ends here")

func (c *comparer) compare(e ledger.Event) error {
	sum := c.sum.Add(e)
	recorded, err := c.cassette.LedgerSum(e.Seq)
	if err != nil {
		if _, err := c.cassette.EventCount(); err != nil {
			return err // it was not read to its end, which says nothing about where the run ends
		}
		if e.Type == ledger.RunFinished && !c.cassette.Sealed() {
			c.sum = sum // the recording was cut between the last return and the seal
			c.result.Events++
			return nil
		}
		if !c.cassette.Sealed() {
			return errBeyond
		}
		return &Diverged{Divergence{Seq: e.Seq, Type: e.Type, Problem: "extra", In: "event", Now: e.Data, Cause: "the recording ends before it"}}
	}
	if sum != recorded {
		was, err := c.cassette.Event(e.Seq)
		if err != nil {
			return err
		}
		return &Diverged{eventDivergence(was, e)}
	}
	c.sum = sum
	c.result.Events++
	return nil
}

// leftOver reports recorded events that the replay did not reach.
func (c *comparer) leftOver() (*Divergence, error) {
	total, err := c.cassette.EventCount()
	if err != nil || c.result.Events >= total {
		return nil, err
	}
	next, err := c.cassette.Event(c.result.Events + 1)
	if err != nil {
		return nil, err
	}
	return &Divergence{Seq: next.Seq, Type: next.Type, Problem: "missing", In: "event", Recorded: next.Data,
		Cause: fmt.Sprintf("the run finished while %d recorded events were left over: code changed", total-c.result.Events)}, nil
}
