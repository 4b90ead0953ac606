// Package edgetest is the contract suite that every edge passes. It holds an
// edge to what the documentation of edge.Edge and edge.Batch promises:
//
//   - a return's Body is canonical JSON, and one the loop can read: a Converse
//     response or {"error":…} for a model call, any value for a tool call;
//   - the same call gives an equal return, in any order and from many
//     goroutines at once;
//   - Do comes back when its context is done, with the context's error;
//   - nothing of a call is kept, and no return shares its memory;
//   - DoAll gives every return once, in call order, from one goroutine at a
//     time, equal to what Do gives, and stops at the first error.
//
// Call [Run] from the edge's own package with a function that makes a fresh
// Subject. The suite waits for no clock: an edge that does not come back is
// found by the test binary's own timeout.
package edgetest

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
	"weak"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Subject is an edge on trial. Edge answers each of Calls without an error; a
// world that fails is fine. Calls must be distinct.
type Subject struct {
	Edge  edge.Edge
	Calls []edge.Call
	// Blocked says how to see that Do heeds its context; nil for an edge that
	// always answers at once.
	Blocked *Blocked
}

// Blocked is a call that an edge can answer only after its context is done.
type Blocked struct {
	Edge    edge.Edge
	Call    edge.Call
	Started <-chan struct{} // is closed, or receives, once Do waits for the world
}

// Run runs the suite over fresh subjects, each part as a subtest of name.
func Run(t *testing.T, name string, factory func(t *testing.T) Subject) {
	parts := []struct {
		name string
		test func(*testing.T, Subject)
	}{
		{"returns", returns}, {"equal returns", equalReturns}, {"concurrent use", concurrentUse},
		{"done context", doneContext}, {"cancelled while waiting", cancelled}, {"memory", ownMemory}, {"references", noReferences},
		{"batch order", batchOrder}, {"batch error", batchError}, {"batch done context", batchDone},
	}
	t.Run(name, func(t *testing.T) {
		for _, part := range parts {
			t.Run(part.name, func(t *testing.T) {
				s := factory(t)
				if len(s.Calls) == 0 {
					t.Fatal("edgetest: a subject needs at least one call")
				}
				part.test(t, s)
			})
		}
	})
}

// answer is the part of a return that must be equal for equal calls.
type answer struct {
	Body   string
	Failed bool
	Origin edge.Origin
}

func do(t *testing.T, s Subject, c edge.Call) edge.Return {
	t.Helper()
	r, err := s.Edge.Do(context.Background(), c)
	if err != nil {
		t.Fatalf("%s: %v", label(c), err)
	}
	return r
}

func answerOf(r edge.Return) answer { return answer{string(r.Body), r.Failed, r.Origin} }

func label(c edge.Call) string {
	return fmt.Sprintf("%s call %d.%d %s", c.Kind, c.Turn, c.Pos, c.Use.Name)
}

func returns(t *testing.T, s Subject) {
	for _, c := range s.Calls {
		if err := checkReturn(c, do(t, s, c)); err != nil {
			t.Errorf("%s: %v", label(c), err)
		}
	}
}

// checkReturn judges one return by itself.
func checkReturn(c edge.Call, r edge.Return) error {
	canon, err := ledger.Canon(r.Body)
	if err != nil {
		return fmt.Errorf("body: %w", err)
	}
	if !bytes.Equal(canon, r.Body) {
		return fmt.Errorf("body is not canonical: %.200s, want %.200s", r.Body, canon)
	}
	if !slices.Contains([]edge.Origin{edge.Live, edge.Rule, edge.Executed, edge.Tape, edge.Patched, edge.Refused, edge.Derived}, r.Origin) {
		return fmt.Errorf("unknown origin %q", r.Origin)
	}
	if c.Kind == edge.Model {
		if err := checkModel(r); err != nil {
			return err
		}
	}
	return checkTimes(r)
}

func checkModel(r edge.Return) error {
	if r.Failed {
		f, err := edge.ParseFailure(r.Body)
		if err == nil && f.Name == "" {
			err = fmt.Errorf("failure without a name: %.200s", r.Body)
		}
		return err
	}
	_, err := converse.ParseTurn(r.Body)
	return err
}

func checkTimes(r edge.Return) error {
	if r.At != "" {
		at, err := time.Parse(time.RFC3339Nano, r.At)
		if err != nil {
			return fmt.Errorf("at: %w", err)
		}
		if _, offset := at.Zone(); offset != 0 {
			return fmt.Errorf("at: expected UTC, found %s", r.At)
		}
	}
	if r.Took != "" {
		if _, err := time.ParseDuration(r.Took); err != nil {
			return fmt.Errorf("took: %w", err)
		}
	}
	return nil
}

func equalReturns(t *testing.T, s Subject) {
	var want []answer
	for _, c := range s.Calls {
		want = append(want, answerOf(do(t, s, c)))
	}
	for i, c := range slices.Backward(s.Calls) {
		if d := cmp.Diff(want[i], answerOf(do(t, s, c))); d != "" {
			t.Errorf("%s: the same call has another return:\n%s", label(c), d)
		}
	}
}

func concurrentUse(t *testing.T, s Subject) {
	var want []answer
	for _, c := range s.Calls {
		want = append(want, answerOf(do(t, s, c)))
	}
	var wg sync.WaitGroup
	for range 4 {
		for i, c := range s.Calls {
			wg.Go(func() {
				r, err := s.Edge.Do(context.Background(), c)
				if d := cmp.Diff(want[i], answerOf(r)); err != nil || d != "" {
					t.Errorf("%s, beside others: %v\n%s", label(c), err, d)
				}
			})
		}
	}
	wg.Wait()
}

// doneContext allows an answer that needs no waiting, but no other error than
// the context's.
func doneContext(t *testing.T, s Subject) {
	why := errors.New("why the context is done")
	for _, cause := range []error{nil, why} {
		ctx, cancel := context.WithCancelCause(context.Background())
		cancel(cause)
		for _, c := range s.Calls {
			r, err := s.Edge.Do(ctx, c)
			if err != nil && !errors.Is(err, context.Canceled) && !errors.Is(err, why) {
				t.Errorf("%s: error %v, want the context's", label(c), err)
			}
			if err == nil {
				if err := checkReturn(c, r); err != nil {
					t.Errorf("%s, answered with a done context: %v", label(c), err)
				}
			}
		}
	}
}

func cancelled(t *testing.T, s Subject) {
	if s.Blocked == nil {
		t.Skip("the subject answers at once")
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	result := make(chan error, 1)
	go func() {
		_, err := s.Blocked.Edge.Do(ctx, s.Blocked.Call)
		result <- err
	}()
	select {
	case <-s.Blocked.Started:
	case err := <-result:
		t.Fatalf("%s did not wait: %v", label(s.Blocked.Call), err)
	}
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Errorf("%s: error %v, want the context's", label(s.Blocked.Call), err)
	}
}

// ownMemory scribbles over a call's input after Do came back.
func ownMemory(t *testing.T, s Subject) {
	for _, c := range s.Calls {
		if len(c.Use.Input) == 0 {
			continue
		}
		mine := c
		mine.Use.Input = bytes.Clone(c.Use.Input)
		r := do(t, s, mine)
		before := answerOf(r)
		for i := range mine.Use.Input {
			mine.Use.Input[i] = '#'
		}
		if d := cmp.Diff(before, answerOf(r)); d != "" {
			t.Errorf("%s: the return shares the call's memory:\n%s", label(c), d)
		}
		if d := cmp.Diff(before, answerOf(do(t, s, c))); d != "" {
			t.Errorf("%s: the edge kept the call's memory:\n%s", label(c), d)
		}
	}
}

// noReferences looks whether a conversation can be collected once its call is
// answered: an edge that keeps it keeps a whole run alive.
func noReferences(t *testing.T, s Subject) {
	for _, c := range s.Calls {
		if c.Request.Messages.Len() == 0 {
			continue
		}
		thread := askWithCopy(t, s, c)
		for tries := 0; thread.Value() != nil; tries++ {
			if tries == 50 {
				t.Errorf("%s: the edge keeps the call's conversation", label(c))
				break
			}
			runtime.GC()
			runtime.Gosched()
		}
	}
	runtime.KeepAlive(s.Edge)
}

//go:noinline
func askWithCopy(t *testing.T, s Subject, c edge.Call) weak.Pointer[converse.Thread] {
	var thread *converse.Thread
	for _, m := range c.Request.Messages.Messages() {
		thread = thread.Append(bytes.Clone(m))
	}
	c.Request.Messages = thread
	do(t, s, c)
	return weak.Make(thread)
}

// toolCalls are the subject's tool calls, made into those of one turn.
func toolCalls(t *testing.T, s Subject) []edge.Call {
	var out []edge.Call
	for _, c := range s.Calls {
		if c.Kind == edge.Tool {
			out = append(out, c)
		}
	}
	if len(out) < 2 {
		t.Skip("the subject has fewer than two tool calls")
	}
	return out
}

func batchOrder(t *testing.T, s Subject) {
	calls := toolCalls(t, s)
	var want, got []string
	for _, c := range calls {
		want = append(want, fmt.Sprintf("%s: %+v", label(c), answerOf(do(t, s, c))))
	}
	var inside sync.Mutex
	err := edge.DoAll(context.Background(), s.Edge, slices.Clone(calls), func(c edge.Call, r edge.Return) error {
		if !inside.TryLock() {
			t.Error("took is called while another call of it runs")
			return nil
		}
		defer inside.Unlock()
		runtime.Gosched()
		got = append(got, fmt.Sprintf("%s: %+v", label(c), answerOf(r)))
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("DoAll does not give what Do gives, once each and in call order:\n%s", d)
	}
}

func batchError(t *testing.T, s Subject) {
	calls := toolCalls(t, s)
	stop := errors.New("stop here")
	for at := range calls {
		took := 0
		err := edge.DoAll(context.Background(), s.Edge, slices.Clone(calls), func(edge.Call, edge.Return) error {
			if took++; took == at+1 {
				return stop
			}
			return nil
		})
		if !errors.Is(err, stop) || took != at+1 {
			t.Errorf("took failed at %d of %d: DoAll gave %d returns and error %v", at+1, len(calls), took, err)
		}
	}
}

func batchDone(t *testing.T, s Subject) {
	calls := toolCalls(t, s)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	next := 0
	err := edge.DoAll(ctx, s.Edge, slices.Clone(calls), func(c edge.Call, _ edge.Return) error {
		if next < len(calls) && label(c) != label(calls[next]) {
			t.Errorf("return %d is that of %s", next, label(c))
		}
		next++
		return nil
	})
	switch {
	case err == nil && next != len(calls):
		t.Errorf("DoAll gave %d of %d returns and no error", next, len(calls))
	case err != nil && !errors.Is(err, context.Canceled):
		t.Errorf("error %v, want the context's", err)
	}
}
