package loop

import (
	"context"
	"errors"
	"fmt"
	"math"

	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Sink takes a run's events as they happen. Call and ret are those that the
// events follow from. The return is not applied if Took fails, so a sink that
// makes events durable loses nothing the loop has acted on.
type Sink interface {
	Took(call edge.Call, ret edge.Return, events []ledger.Event) error
}

// SinkFunc makes a sink of a function.
type SinkFunc func(call edge.Call, ret edge.Return, events []ledger.Event) error

// Took calls f.
func (f SinkFunc) Took(call edge.Call, ret edge.Return, events []ledger.Event) error {
	return f(call, ret, events)
}

// Run drives s over e until it is done or an error ends it, and returns the
// last State reached, with an error too. The error is the edge's or the sink's,
// or says that a return could not be applied.
func Run(ctx context.Context, s State, e edge.Edge, sink Sink) (State, error) {
	return RunTo(ctx, s, e, sink, math.MaxInt)
}

// RunTo is Run, but returns as soon as the event seq has happened.
func RunTo(ctx context.Context, s State, e edge.Edge, sink Sink, seq int) (State, error) {
	for !s.Done() && s.Seq() < seq {
		err := edge.DoAll(ctx, e, s.Next(), func(call edge.Call, r edge.Return) error {
			if err := s.expects(call); err != nil {
				return err
			}
			next, events, err := s.Apply(r)
			if err != nil {
				return err
			}
			if err := sink.Took(call, r, events); err != nil {
				return err
			}
			s = next
			if s.Seq() >= seq {
				return errReached
			}
			return nil
		})
		if err != nil && !errors.Is(err, errReached) {
			return s, err
		}
	}
	return s, nil
}

// expects makes sure that a return belongs to the call it would be applied to:
// an edge that answers out of order must not swap two tools' results unnoticed.
func (s State) expects(call edge.Call) error {
	if len(s.next) == 0 {
		return fmt.Errorf("take return of %s call %d.%d: the run waits for no more returns", call.Kind, call.Turn, call.Pos)
	}
	if want := &s.next[0]; call.Kind != want.Kind || call.Turn != want.Turn || call.Pos != want.Pos || call.In != want.In {
		return fmt.Errorf("take return: expected that of %s call %d.%d, found that of %s call %d.%d: the edge does not keep call order",
			want.Kind, want.Turn, want.Pos, call.Kind, call.Turn, call.Pos)
	}
	return nil
}

// errReached ends a turn's calls when RunTo has come as far as it was asked to.
var errReached = errors.New("reached the event asked for")
