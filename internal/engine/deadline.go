package engine

import (
	"context"
	"errors"

	"investigator/internal/edge"
	"investigator/internal/loop"
)

// ErrRunTimeout is the cause (context.WithTimeoutCause) of a context whose run
// has used up its time. Any other end of a context breaks the run off.
var ErrRunTimeout = errors.New("the run's time is over")

// Deadline turns the end of a run's time into returns, so that the run ends
// with run.finished and a sealed recording instead of breaking off.
type Deadline struct{ Edge edge.Edge }

// Do implements edge.Edge.
func (d Deadline) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if !over(ctx) {
		r, err := d.Edge.Do(ctx, call)
		if err == nil || !over(ctx) {
			return r, err
		}
	}
	if call.Kind == edge.Model {
		return edge.Return{Body: edge.FailureBody(edge.Failure{Name: loop.RunTimeout, Message: ErrRunTimeout.Error()}), Failed: true, Origin: edge.Refused}, nil
	}
	return refusal(ErrRunTimeout.Error()), nil
}

func over(ctx context.Context) bool {
	return ctx.Err() != nil && errors.Is(context.Cause(ctx), ErrRunTimeout)
}
