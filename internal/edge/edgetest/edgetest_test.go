package edgetest

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// badName is the variable by which the test runs itself over one bad edge.
const badName = "EDGETEST_BAD"

type batcher struct {
	edge.Func
	all func(f edge.Func, ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error
}

func (b batcher) DoAll(ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
	return b.all(b.Func, ctx, calls, took)
}

func good(_ context.Context, c edge.Call) (edge.Return, error) {
	if c.Kind == edge.Model {
		return edge.Return{Body: json.RawMessage(`{"output":{"message":{"content":[],"role":"assistant"}},"stopReason":"end_turn"}`), Origin: edge.Live}, nil
	}
	return edge.Return{Body: ledger.AppendString(nil, c.In), Origin: edge.Executed}, nil
}

// with is a good edge whose return is spoilt.
func with(spoil func(c edge.Call, r *edge.Return)) edge.Func {
	return func(ctx context.Context, c edge.Call) (edge.Return, error) {
		r, err := good(ctx, c)
		spoil(c, &r)
		return r, err
	}
}

// badEdges break one promise each; the suite must say so in the part named.
func badEdges() map[string]struct {
	part string
	edge edge.Edge
} {
	type bad = struct {
		part string
		edge edge.Edge
	}
	var count atomic.Int64
	var mu sync.Mutex
	var kept []edge.Call
	return map[string]bad{
		"not canonical":    {"returns", with(func(_ edge.Call, r *edge.Return) { r.Body = append(r.Body, ' ') })},
		"no JSON":          {"returns", with(func(_ edge.Call, r *edge.Return) { r.Body = nil })},
		"no origin":        {"returns", with(func(_ edge.Call, r *edge.Return) { r.Origin = "" })},
		"not a turn":       {"returns", with(func(_ edge.Call, r *edge.Return) { r.Body = json.RawMessage(`{}`) })},
		"nameless failure": {"returns", with(func(_ edge.Call, r *edge.Return) { r.Body, r.Failed = json.RawMessage(`{}`), true })},
		"local time":       {"returns", with(func(_ edge.Call, r *edge.Return) { r.At = "2026-03-10T02:00:00+01:00" })},
		"unreadable took":  {"returns", with(func(_ edge.Call, r *edge.Return) { r.Took = "soon" })},
		"counts":           {"equal_returns", with(func(_ edge.Call, r *edge.Return) { r.Body = ledger.AppendString(nil, string(rune('a'+count.Add(1)))) })},
		"shares memory":    {"memory", with(func(c edge.Call, r *edge.Return) { r.Body = c.Use.Input })},
		"keeps the thread": {"references", with(func(c edge.Call, _ *edge.Return) { mu.Lock(); kept = append(kept, c); mu.Unlock() })},
		"own error on done": {"done_context", edge.Func(func(ctx context.Context, c edge.Call) (edge.Return, error) {
			if ctx.Err() != nil {
				return edge.Return{}, errors.New("connection reset")
			}
			return good(ctx, c)
		})},
		"wrong error": {"cancelled_while_waiting", edge.Func(good)},
		"reversed": {"batch_order", batcher{good, func(f edge.Func, ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
			for i := len(calls) - 1; i >= 0; i-- {
				r, _ := f(ctx, calls[i])
				if err := took(calls[i], r); err != nil {
					return err
				}
			}
			return nil
		}}},
		"swapped answers": {"batch_order", batcher{good, func(f edge.Func, ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
			for i, c := range calls {
				r, _ := f(ctx, calls[len(calls)-1-i])
				if err := took(c, r); err != nil {
					return err
				}
			}
			return nil
		}}},
		"forgets one": {"batch_order", batcher{good, func(f edge.Func, ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
			return edge.DoAll(ctx, f, calls[:1], took)
		}}},
		"goes on": {"batch_error", batcher{good, func(f edge.Func, ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
			var first error
			for _, c := range calls {
				r, _ := f(ctx, c)
				if err := took(c, r); err != nil && first == nil {
					first = err
				}
			}
			return first
		}}},
	}
}

func subject(e edge.Edge) Subject {
	tool := func(pos int, input string) edge.Call {
		in := json.RawMessage(input)
		return edge.Call{Kind: edge.Tool, Turn: 1, Pos: pos, In: edge.ToolDigest("t", in), Use: converse.ToolUse{ID: "u", Name: "t", Input: in}}
	}
	req := converse.Request{Model: "m", Messages: converse.NewThread(converse.Message("user", []json.RawMessage{converse.TextBlock("q")}))}
	started := make(chan struct{})
	blocked := edge.Func(func(ctx context.Context, _ edge.Call) (edge.Return, error) {
		close(started)
		<-ctx.Done()
		if os.Getenv(badName) == "wrong error" {
			return edge.Return{}, errors.New("broken pipe")
		}
		return edge.Return{}, context.Cause(ctx)
	})
	return Subject{
		Edge:    e,
		Calls:   []edge.Call{{Kind: edge.Model, Turn: 1, In: req.Digest(), Request: req}, tool(0, `{}`), tool(1, `{"a":1}`), tool(2, `{"a":2}`)},
		Blocked: &Blocked{Edge: blocked, Call: tool(0, `{}`), Started: started},
	}
}

func TestGoodEdgePasses(t *testing.T) {
	Run(t, "good", func(*testing.T) Subject { return subject(edge.Func(good)) })
}

// TestOneBadEdge fails on purpose; it runs only when TestBadEdgesAreCaught
// starts it.
func TestOneBadEdge(t *testing.T) {
	name := os.Getenv(badName)
	if name == "" {
		t.Skip("run by TestBadEdgesAreCaught")
	}
	Run(t, "bad", func(*testing.T) Subject { return subject(badEdges()[name].edge) })
}

func TestBadEdgesAreCaught(t *testing.T) {
	if os.Getenv(badName) != "" {
		t.Skip("inside a bad edge's run")
	}
	for name, bad := range badEdges() {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			cmd := exec.Command(os.Args[0], "-test.run=^TestOneBadEdge$", "-test.v")
			cmd.Env = append(os.Environ(), badName+"="+name)
			out, err := cmd.CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				t.Fatalf("the suite passed it (%v):\n%s", err, out)
			}
			if want := "--- FAIL: TestOneBadEdge/bad/" + bad.part; !strings.Contains(string(out), want) || strings.Contains(string(out), "panic:") {
				t.Errorf("expected %q in:\n%s", want, out)
			}
		})
	}
}
