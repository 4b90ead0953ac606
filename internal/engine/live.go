package engine

import (
	"context"
	"encoding/json"
	"time"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// Tee hands events to several sinks in order; the first error ends the run.
type Tee []loop.Sink

// Took implements loop.Sink.
func (t Tee) Took(call edge.Call, ret edge.Return, events []ledger.Event) error {
	for _, s := range t {
		if err := s.Took(call, ret, events); err != nil {
			return err
		}
	}
	return nil
}

// Discard is the sink that keeps nothing.
func Discard() loop.Sink {
	return loop.SinkFunc(func(edge.Call, edge.Return, []ledger.Event) error { return nil })
}

// Live runs an investigation from its start over a model and a tool edge, whose
// calls of one turn run in parallel, and hands every event to sink. On an error
// the State is the last one whose events the sink took.
func Live(ctx context.Context, start json.RawMessage, model, tools edge.Edge, sink loop.Sink) (loop.State, error) {
	s, _, err := loop.New(start)
	if err != nil {
		return loop.State{}, err
	}
	return loop.Run(ctx, s, clocked(model, tools), sink)
}

func clocked(model, tools edge.Edge) edge.Edge {
	return edge.Split{
		Model: Stamp{Edge: Deadline{Scrubbed{model}}, Now: time.Now},
		Tool:  Parallel{Edge: Stamp{Edge: Deadline{tools}, Now: time.Now}},
	}
}
