package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/rule"
	"investigator/internal/world"
)

// RuleModel answers model calls with the rule model.
type RuleModel struct{}

// Do implements edge.Edge. It never fails.
func (RuleModel) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if err := ctx.Err(); err != nil {
		return edge.Return{}, err
	}
	return edge.Return{Body: rule.Respond(call.Request), Origin: edge.Rule}, nil
}

// Tools executes tool calls on a world. Results are canonical and free of
// secrets before the loop sees them, so that live and replay agree.
type Tools struct{ World *world.World }

// Do implements edge.Edge. A tool that fails is a failed Return.
func (t Tools) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if err := ctx.Err(); err != nil {
		return edge.Return{}, err
	}
	res := t.World.Call(ctx, call.Use.Name, call.Use.Input)
	body, err := cleanJSON(res.Body)
	if err != nil {
		return edge.Return{}, fmt.Errorf("tool %s: result: %w", call.Use.Name, err)
	}
	return edge.Return{Body: body, Failed: res.Status == "error", Origin: edge.Executed}, nil
}

// Parallel runs a turn's calls at once, at most Limit at a time (4 if zero).
type Parallel struct {
	Edge  edge.Edge
	Limit int
}

// Do implements edge.Edge.
func (p Parallel) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	return p.Edge.Do(ctx, call)
}

type answer struct {
	ret edge.Return
	err error
}

// DoAll implements edge.Batch. The first error cancels the calls still under
// way; all of them have returned when DoAll does.
func (p Parallel) DoAll(ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
	ctx, cancel := context.WithCancel(ctx)
	var running sync.WaitGroup
	defer running.Wait()
	defer cancel()
	limit := p.Limit
	if limit <= 0 {
		limit = 4
	}
	slots := make(chan struct{}, limit)
	answers := make([]chan answer, len(calls))
	for i := range calls {
		answers[i] = make(chan answer, 1)
		running.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			r, err := p.Edge.Do(ctx, calls[i])
			answers[i] <- answer{r, err}
		})
	}
	for i, call := range calls {
		a := <-answers[i]
		if a.err != nil {
			return a.err
		}
		if err := took(call, a.ret); err != nil {
			return err
		}
	}
	return nil
}

// Stamp notes on each return when its call began and how long it took. Now is
// the clock.
type Stamp struct {
	Edge edge.Edge
	Now  func() time.Time
}

// Do implements edge.Edge.
func (s Stamp) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	began := s.Now()
	r, err := s.Edge.Do(ctx, call)
	if r.At == "" {
		r.At = began.UTC().Format(time.RFC3339Nano)
		r.Took = s.Now().Sub(began).String()
	}
	return r, err
}

// Guard answers calls to tools whose effects are not allowed instead of
// running them. A tool without a declared effect counts as one that writes.
type Guard struct {
	Edge    edge.Edge
	Effects map[string]string // tool to read, idempotent or write
	Writes  bool              // allow all
}

// Do implements edge.Edge.
func (g Guard) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	effect, declared := g.Effects[call.Use.Name]
	if g.Writes || effect == "read" {
		return g.Edge.Do(ctx, call)
	}
	if !declared {
		effect = "write"
	}
	return refusal(fmt.Sprintf("%s has effect %q and is not run here; allow it with --allow-writes", call.Use.Name, effect)), nil
}

// refusal is the failed return of a tool call that was not let through.
func refusal(message string) edge.Return {
	body, _ := ledger.CanonValue(map[string]any{"status": "error", "error": map[string]string{"message": message}})
	return edge.Return{Body: body, Failed: true, Origin: edge.Refused}
}

// Unseen says what happens to a tool call that the parent run never made.
type Unseen string

// The policies: run the tool, answer with an error result, or stop the run.
const (
	UnseenRun    Unseen = "run"
	UnseenRefuse Unseen = "refuse"
	UnseenStop   Unseen = "stop"
)

// Lookup finds recorded tool returns by the digest of their call.
type Lookup interface {
	Lookup(in string) (edge.Return, bool)
}

// Identical answers a tool call from the parent's tape when the parent made the
// same call, and by its policy otherwise: in a fork, all else stays equal. A
// call whose return the fork patched gets the patched return again, or asking
// twice would undo the fork's premise.
type Identical struct {
	Tape   Lookup
	Patch  map[string]edge.Return // by the In of the call
	Edge   edge.Edge              // runs the others; nil when there is nothing to run them on
	Unseen Unseen
}

// Do implements edge.Edge.
func (i Identical) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if err := ctx.Err(); err != nil {
		return edge.Return{}, err
	}
	if r, found := i.Patch[call.In]; found {
		return r, nil
	}
	if r, found := i.Tape.Lookup(call.In); found {
		return r, nil
	}
	switch {
	case i.Unseen == UnseenStop:
		return edge.Return{}, &UnseenCall{Call: call}
	case i.Unseen == UnseenRefuse || i.Edge == nil:
		return refusal(fmt.Sprintf("%s was not called like this in the recorded run, and there is no world here to run it on", call.Use.Name)), nil
	}
	return i.Edge.Do(ctx, call)
}

// UnseenCall is the error of a fork that stops at a call its parent never made.
type UnseenCall struct{ Call edge.Call }

func (u *UnseenCall) Error() string {
	return fmt.Sprintf("event %d: the parent run never made the call %s %s", u.Call.Seq, u.Call.Use.Name, abbreviate(u.Call.Use.Input))
}

func abbreviate(b json.RawMessage) string {
	if len(b) > 120 {
		return string(b[:117]) + "..."
	}
	return string(b)
}

// Halted is how a halting model edge ends a run: the model call that would
// come next, not made.
type Halted struct{ Call edge.Call }

func (h *Halted) Error() string {
	return fmt.Sprintf("halted before the model call at event %d", h.Call.Seq)
}

// halting is the model edge of fork --mode halt.
type halting struct{}

func (halting) Do(_ context.Context, call edge.Call) (edge.Return, error) {
	return edge.Return{}, &Halted{Call: call}
}
