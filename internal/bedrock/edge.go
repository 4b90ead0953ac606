package bedrock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"investigator/internal/converse"
	"investigator/internal/edge"
)

// Options says how Bedrock is reached. The zero value takes everything from the
// AWS environment and configuration and asks for whole answers.
type Options struct {
	// Model is the model, profile or ARN of the run. An ARN names a region,
	// which is used where none is configured. Each call names its own model.
	Model string
	// Region, Profile and EndpointURL override the AWS configuration.
	Region, Profile, EndpointURL string
	// Stream asks for ConverseStream instead of Converse.
	Stream bool
	// Credentials replaces the SDK's chain of sources; nil means the chain.
	Credentials aws.CredentialsProvider
	// CallTimeout bounds a call with all its attempts and waits; zero means 15
	// minutes.
	CallTimeout time.Duration
	// IdleTimeout bounds the silence between two bytes of an answer; zero means
	// 2 minutes. An answer that has not begun is bounded by CallTimeout.
	IdleTimeout time.Duration
	// MaxAttempts bounds the attempts of one call; zero means 8.
	MaxAttempts int
	// Watch is told what happens during calls.
	Watch Watch
	// Sleep waits between attempts until ctx ends; nil means by the clock.
	Sleep func(ctx context.Context, d time.Duration) error
	// Now tells the time of attempts; nil means the clock.
	Now func() time.Time
}

// Watch holds functions that are told what happens during a call, for a
// terminal. Any may be nil. They are called from the goroutine of Do, before it
// reads on: they should not block. An Edge shared by runs calls them for all
// of these; see Edge.Watching.
type Watch struct {
	// Text and Reasoning get pieces of the answer as they come.
	Text, Reasoning func(piece string)
	// Tool gets the name of a tool as the model begins to call it.
	Tool func(name string)
	// Discard says that the pieces of this call so far are void: the answer
	// broke off, and the attempt after it begins anew.
	Discard func()
	// Wait is told before each pause that precedes another attempt.
	Wait func(Wait)
}

// Wait is a pause before another attempt.
type Wait struct {
	Failure edge.Failure // what went wrong
	Attempt int          // the number of the attempt to come, from 2
	Of      int          // how many there may be
	Pause   time.Duration
}

// String says it in one line: "ThrottlingException, waiting 3s (attempt 2 of 8)".
func (w Wait) String() string {
	pause := w.Pause.Round(100 * time.Millisecond)
	return fmt.Sprintf("%s, waiting %s (attempt %d of %d)", w.Failure.Name, pause, w.Attempt, w.Of)
}

// Edge answers model calls by Bedrock. It may be used from many goroutines.
type Edge struct {
	client  *bedrockruntime.Client
	http    *http.Client
	region  string
	custom  bool // the endpoint is not AWS's own
	stream  bool
	call    time.Duration
	idle    time.Duration
	retryer *retry.Standard
	watch   Watch
	sleep   func(context.Context, time.Duration) error
	now     func() time.Time
}

// Watching returns an edge that tells w and shares everything else with e.
func (e *Edge) Watching(w Watch) *Edge {
	other := *e
	other.watch = w
	return &other
}

// Region returns the region calls go to.
func (e *Edge) Region() string { return e.region }

// Close ends idle connections. The edge stays usable.
func (e *Edge) Close() { e.http.CloseIdleConnections() }

// errCallTimeout is the cause by which CallTimeout ends a call.
var errCallTimeout = errors.New("the call's time is over")

// Do answers a model call. A call that fails for good, after its last attempt,
// is a Return with Failed set; the error is ctx's, or says that the call is not
// for a model.
func (e *Edge) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if call.Kind != edge.Model {
		return edge.Return{}, fmt.Errorf("call bedrock: expected a model call, found a %s call of %q", call.Kind, call.Use.Name)
	}
	began := e.now()
	callCtx, cancel := context.WithTimeoutCause(ctx, e.call, errCallTimeout)
	defer cancel()
	c := &ongoing{Edge: e, ctx: callCtx, model: call.Request.Model, request: call.Request.Body()}
	body, failure := c.attempts()
	if err := ctx.Err(); err != nil && failure != nil {
		return edge.Return{}, err
	}
	r := edge.Return{
		Body: body, Origin: edge.Live, Wire: &edge.Wire{URL: c.url, Attempts: c.log},
		At: began.UTC().Format(time.RFC3339Nano), Took: e.now().Sub(began).String(),
	}
	if failure != nil {
		r.Failed, r.Body = true, edge.FailureBody(*failure)
	}
	return r, nil
}

// ongoing is a call under way.
type ongoing struct {
	*Edge
	ctx        context.Context
	model      string
	request    []byte
	invocation string // the SDK's id of the call, the same for all attempts
	url        string
	log        []edge.Attempt
}

// attempts tries until an answer is whole, or nothing is left to try.
func (c *ongoing) attempts() (json.RawMessage, *edge.Failure) {
	var pause time.Duration
	for n := 1; ; n++ {
		body, err := c.attempt(n, pause)
		if err == nil {
			return body, nil
		}
		failure := c.failure(err)
		if c.ctx.Err() != nil || n >= c.retryer.MaxAttempts() || !c.retryer.IsErrorRetryable(err) {
			return nil, &failure
		}
		pause = c.pause(n, err)
		if c.watch.Wait != nil {
			c.watch.Wait(Wait{Failure: failure, Attempt: n + 1, Of: c.retryer.MaxAttempts(), Pause: pause})
		}
		if c.sleep(c.ctx, pause) != nil {
			failure = c.failure(err)
			return nil, &failure
		}
	}
}

// attempt makes one attempt and logs it.
func (c *ongoing) attempt(n int, pause time.Duration) (json.RawMessage, error) {
	ctx, cancel := context.WithCancelCause(c.ctx)
	defer cancel(nil)
	x := &exchange{ongoing: c, ctx: ctx, cancel: cancel, number: n}
	began := c.now()
	body, err := x.do()
	record := edge.Attempt{
		Code: x.code, Header: x.kept(), Body: x.body,
		At: began.UTC().Format(time.RFC3339Nano), Took: c.now().Sub(began).String(),
	}
	if n > 1 {
		record.Wait = pause.String()
	}
	if err != nil {
		record.Err = x.cutShort(err)
		if x.shown && c.watch.Discard != nil {
			c.watch.Discard()
		}
	}
	c.log = append(c.log, record)
	return body, err
}

// show passes a piece of the answer on to whoever watches.
func (x *exchange) show(p converse.Piece) {
	var tell func(string)
	switch p.Kind {
	case converse.TextPiece:
		tell = x.watch.Text
	case converse.ReasoningPiece:
		tell = x.watch.Reasoning
	case converse.ToolPiece:
		tell = x.watch.Tool
	}
	if tell != nil && p.Text != "" {
		x.shown = true
		tell(p.Text)
	}
}
