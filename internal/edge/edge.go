// Package edge is the border between a run and the world. Whatever is not
// determined by what came before (a model's answer, a tool's result) enters a
// run as the Return of a Call through an Edge, and only so.
//
// Live, replay, fork and sweep differ in their edges alone. An Edge is one
// method, and the rest is composition: an edge that records, one that answers
// from a tape, one that patches a return on its way in, one that refuses calls
// with effects. Every edge obeys the contract stated at Edge and passes the
// contract suite in package edgetest.
//
// A world that fails is data: a tool that fails or a model that stays
// throttled is a Return with Failed set, recorded and replayed like any other.
// An error from Do means that this edge cannot go on; it ends the run and
// keeps what was recorded.
//
// The package is pure.
package edge

import (
	"context"
	"encoding/json"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// Kind says which edge a call is for.
type Kind string

// The kinds of calls.
const (
	Model Kind = "model"
	Tool  Kind = "tool"
)

// Call is one thing a run asks of the world. Calls are identified by Turn and
// Pos, never by a tool use id alone, because models repeat ids.
type Call struct {
	Kind Kind
	Seq  int    // the seq of the event that its return becomes
	Turn int    // the model turn, from 1: for a tool call, the turn that asked
	Pos  int    // the position among the calls of one turn, from 0
	In   string // digest (64 hex digits) of what goes out

	Request converse.Request // when Kind is Model
	Use     converse.ToolUse // when Kind is Tool
}

// ToolDigest is the In of a tool call: equal digests mean the same tool asked
// the same question.
func ToolDigest(name string, input json.RawMessage) string {
	b := make([]byte, 0, len(input)+len(name)+32)
	b = append(append(b, `{"input":`...), input...)
	b = append(b, `,"name":`...)
	return ledger.Digest(append(ledger.AppendString(b, name), '}'))
}

// Origin says where a return came from. Origins are kept beside the ledger and
// are not compared.
type Origin string

// The origins.
const (
	Live     Origin = "live"     // a Bedrock model answered now
	Rule     Origin = "rule"     // the rule model answered now
	Executed Origin = "executed" // a tool ran now
	Tape     Origin = "tape"     // answered from a cassette
	Patched  Origin = "patched"  // edited by a fork
	Refused  Origin = "refused"  // a guard answered instead
	Derived  Origin = "derived"  // follows from other events
)

// Return is the world's answer to a call.
type Return struct {
	// Body is canonical JSON: for a model the normalised Converse response, or
	// {"error":{"message","name","status"}} when Failed; for a tool its result.
	// Neither side modifies it after the return.
	Body   json.RawMessage
	Failed bool
	Origin Origin
	Wire   *Wire  // what was exchanged over the network, nil if nothing was
	At     string // when the call began, RFC 3339 UTC; "" if unknown
	Took   string // how long it took, a Go duration; "" if unknown
}

// Wire is an exchange as it went over the network, for the cassette.
type Wire struct {
	URL      string
	Attempts []Attempt // in order; the last one gave the return

	// Given says that the last attempt is what an agent was given, although a
	// fork patched the return, so that it has to be kept beside it.
	Given bool
}

// Attempt is one try of a call.
type Attempt struct {
	Code   int               // HTTP status, 0 if none came
	Header map[string]string // allow-listed response headers
	Body   []byte            // exactly the bytes received
	Err    string            // what cut the attempt short, "" if nothing did
	At     string
	Took   string
	Wait   string // how long was waited before it, "" for the first
}

// Edge answers calls.
//
// Do is called from several goroutines at once when a turn holds several tool
// calls. It returns when the call is answered or ctx is done, and then with
// ctx's error. It keeps no reference to the call after it returned. Its Return's
// Body is canonical JSON. The same call gives an equal Return when the world
// behind the edge has not changed.
type Edge interface {
	Do(ctx context.Context, call Call) (Return, error)
}

// Batch is the optional ability to answer several tool calls at once.
type Batch interface {
	// DoAll answers calls and hands their returns to took in call order, as
	// soon as each one and all before it are there. It stops at the first
	// error, its own or took's, and returns it.
	DoAll(ctx context.Context, calls []Call, took func(Call, Return) error) error
}

// DoAll answers all calls over e, at once if e is a Batch and else in turn.
func DoAll(ctx context.Context, e Edge, calls []Call, took func(Call, Return) error) error {
	if b, ok := e.(Batch); ok && len(calls) > 1 {
		return b.DoAll(ctx, calls, took)
	}
	for _, c := range calls {
		r, err := e.Do(ctx, c)
		if err != nil {
			return err
		}
		if err := took(c, r); err != nil {
			return err
		}
	}
	return nil
}

// Func makes an edge of a function.
type Func func(ctx context.Context, call Call) (Return, error)

// Do calls f.
func (f Func) Do(ctx context.Context, call Call) (Return, error) { return f(ctx, call) }

// Split sends model calls to one edge and tool calls to another.
type Split struct{ Model, Tool Edge }

// Do passes the call on by its kind.
func (s Split) Do(ctx context.Context, call Call) (Return, error) {
	if call.Kind == Model {
		return s.Model.Do(ctx, call)
	}
	return s.Tool.Do(ctx, call)
}

// DoAll passes a turn's tool calls on together.
func (s Split) DoAll(ctx context.Context, calls []Call, took func(Call, Return) error) error {
	return DoAll(ctx, s.Tool, calls, took)
}

// Failure is the Body of a model return that failed.
type Failure struct {
	Name    string `json:"name"`    // the service's exception, like ThrottlingException, or a name of ours
	Message string `json:"message"` // the service's text
	Status  int    `json:"status"`  // HTTP status, 0 if none
}

// FailureBody returns the canonical {"error":…}.
func FailureBody(f Failure) json.RawMessage {
	b, _ := ledger.CanonValue(map[string]Failure{"error": f}) // strings and an int always encode
	return b
}

// ParseFailure reads the body of a failed model return.
func ParseFailure(body json.RawMessage) (Failure, error) {
	var f struct {
		Error Failure `json:"error"`
	}
	err := json.Unmarshal(body, &f)
	return f.Error, err
}
