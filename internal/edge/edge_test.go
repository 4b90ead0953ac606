package edge_test

import (
	"context"
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/edge/edgetest"
	"investigator/internal/ledger"
)

const modelTurn = `{"output":{"message":{"content":[{"text":"hi"}],"role":"assistant"}},"stopReason":"end_turn"}`

func toolCall(pos int, name, input string) edge.Call {
	in := json.RawMessage(input)
	return edge.Call{
		Kind: edge.Tool, Seq: 4 + pos, Turn: 1, Pos: pos, In: edge.ToolDigest(name, in),
		Use: converse.ToolUse{ID: "u", Name: name, Input: in},
	}
}

func modelCall() edge.Call {
	question := converse.Message("user", []json.RawMessage{converse.TextBlock("why?")})
	req := converse.Request{Model: "m", Messages: converse.NewThread(question)}
	return edge.Call{Kind: edge.Model, Seq: 2, Turn: 1, In: req.Digest(), Request: req}
}

func calls() []edge.Call {
	return []edge.Call{modelCall(), toolCall(0, "a", `{}`), toolCall(1, "a", `{"x":1}`), toolCall(2, "b", `{}`)}
}

// echo answers tools with the digest of what they were asked.
func echo(_ context.Context, c edge.Call) (edge.Return, error) {
	if c.Kind == edge.Model {
		return edge.Return{Body: json.RawMessage(modelTurn), Origin: edge.Rule}, nil
	}
	return edge.Return{Body: ledger.AppendString(nil, c.In), Origin: edge.Executed}, nil
}

// waiting answers when its context is done, which is never with an answer.
func waiting() *edgetest.Blocked {
	started := make(chan struct{})
	wait := edge.Func(func(ctx context.Context, _ edge.Call) (edge.Return, error) {
		close(started)
		<-ctx.Done()
		return edge.Return{}, ctx.Err()
	})
	return &edgetest.Blocked{Edge: edge.Split{Model: wait, Tool: wait}, Call: toolCall(0, "a", `{}`), Started: started}
}

// parallel is a Batch that runs its calls at once and keeps their order.
type parallel struct{ edge.Func }

func (p parallel) DoAll(ctx context.Context, calls []edge.Call, took func(edge.Call, edge.Return) error) error {
	type result struct {
		r   edge.Return
		err error
	}
	results := make([]chan result, len(calls))
	for i, c := range calls {
		results[i] = make(chan result, 1)
		go func() {
			r, err := p.Do(ctx, c)
			results[i] <- result{r, err}
		}()
	}
	for i, c := range calls {
		got := <-results[i]
		if got.err != nil {
			return got.err
		}
		if err := took(c, got.r); err != nil {
			return err
		}
	}
	return nil
}

func TestEdgesKeepTheContract(t *testing.T) {
	subject := func(e edge.Edge) func(*testing.T) edgetest.Subject {
		return func(*testing.T) edgetest.Subject {
			return edgetest.Subject{Edge: e, Calls: calls(), Blocked: waiting()}
		}
	}
	edgetest.Run(t, "Func", subject(edge.Func(echo)))
	edgetest.Run(t, "Split", subject(edge.Split{Model: edge.Func(echo), Tool: edge.Func(echo)}))
	edgetest.Run(t, "Split over a batch", subject(edge.Split{Model: edge.Func(echo), Tool: parallel{echo}}))
	edgetest.Run(t, "batch", subject(parallel{echo}))
	edgetest.Run(t, "failing world", subject(edge.Func(func(_ context.Context, c edge.Call) (edge.Return, error) {
		return edge.Return{Body: edge.FailureBody(edge.Failure{Name: "ThrottlingException", Message: "slow down", Status: 429}), Failed: true, Origin: edge.Live, At: "2026-03-10T02:00:00Z", Took: "1.2ms"}, nil
	})))
}

func TestSplitSendsEachCallToItsEdge(t *testing.T) {
	named := func(name string) edge.Edge {
		return edge.Func(func(context.Context, edge.Call) (edge.Return, error) {
			return edge.Return{Body: ledger.AppendString(nil, name)}, nil
		})
	}
	s := edge.Split{Model: named("model"), Tool: named("tool")}
	for call, want := range map[string]edge.Call{`"model"`: modelCall(), `"tool"`: toolCall(0, "a", `{}`)} {
		if r, err := s.Do(t.Context(), want); err != nil || string(r.Body) != call {
			t.Errorf("%s: %s, %v", want.Kind, r.Body, err)
		}
	}
}

// One call alone needs no batch, so an edge may leave its bookkeeping out.
func TestDoAllSendsOneCallAlone(t *testing.T) {
	ok := func(edge.Call, edge.Return) error { return nil }
	if err := edge.DoAll(t.Context(), noBatch{}, calls()[1:2], ok); err != nil {
		t.Error(err)
	}
	if err := edge.DoAll(t.Context(), noBatch{}, calls()[1:3], ok); !errors.Is(err, errBatched) {
		t.Errorf("error %v, want that two calls went to DoAll", err)
	}
	if err := edge.DoAll(t.Context(), noBatch{}, nil, ok); err != nil {
		t.Error(err)
	}
}

var errBatched = errors.New("batched")

type noBatch struct{}

func (noBatch) Do(ctx context.Context, c edge.Call) (edge.Return, error) { return echo(ctx, c) }
func (noBatch) DoAll(context.Context, []edge.Call, func(edge.Call, edge.Return) error) error {
	return errBatched
}

func TestDoAllStopsAtTheEdgesError(t *testing.T) {
	broken := errors.New("broken")
	for name, wrap := range map[string]func(edge.Func) edge.Edge{
		"in turn": func(f edge.Func) edge.Edge { return f },
		"batch":   func(f edge.Func) edge.Edge { return parallel{f} },
		"split":   func(f edge.Func) edge.Edge { return edge.Split{Model: f, Tool: f} },
	} {
		t.Run(name, func(t *testing.T) {
			e := wrap(func(ctx context.Context, c edge.Call) (edge.Return, error) {
				if c.Pos == 1 {
					return edge.Return{}, broken
				}
				return echo(ctx, c)
			})
			var took []int
			err := edge.DoAll(t.Context(), e, calls()[1:], func(c edge.Call, _ edge.Return) error {
				took = append(took, c.Pos)
				return nil
			})
			if d := cmp.Diff([]int{0}, took); !errors.Is(err, broken) || d != "" {
				t.Errorf("error %v\n%s", err, d)
			}
		})
	}
}

func TestToolDigestIsOfNameAndInput(t *testing.T) {
	seen := map[string]string{}
	for _, c := range [][2]string{{"a", `{}`}, {"b", `{}`}, {"a", `{"x":1}`}, {"a", `{"x":1.0}`}, {`a","name":"b`, `{}`}} {
		d := edge.ToolDigest(c[0], json.RawMessage(c[1]))
		if other, found := seen[d]; found || len(d) != 64 || d != edge.ToolDigest(c[0], json.RawMessage(c[1])) {
			t.Errorf("digest of %q is %s, that of %q", c, d, other)
		}
		seen[d] = c[0] + c[1]
	}
}

func TestFailureBodyRoundTrip(t *testing.T) {
	want := edge.Failure{Name: "ValidationException", Message: "<prompt> is too long\xff", Status: 400}
	body := edge.FailureBody(want)
	if string(body) != "{\"error\":{\"message\":\"<prompt> is too long\uFFFD\",\"name\":\"ValidationException\",\"status\":400}}" {
		t.Errorf("FailureBody = %s", body)
	}
	got, err := edge.ParseFailure(body)
	want.Message = "<prompt> is too long\uFFFD"
	if d := cmp.Diff(want, got); err != nil || d != "" {
		t.Errorf("%v\n%s", err, d)
	}
	if _, err := edge.ParseFailure(json.RawMessage(`[`)); err == nil {
		t.Error("ParseFailure took no JSON")
	}
}
