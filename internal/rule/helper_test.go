package rule_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/rule"
	"investigator/internal/verdict"
	"investigator/internal/world"
)

// toolSpec is one tool as the request offers it.
type toolSpec struct {
	name, description string
	schema            json.RawMessage
}

// findings is the tool that ends a run.
func findings() toolSpec { return toolSpec{verdict.Tool, verdict.Description, verdict.Schema()} }

// requestOf builds the members of a Converse body beside the messages.
func requestOf(t testing.TB, tools ...toolSpec) json.RawMessage {
	t.Helper()
	list := []any{}
	for _, s := range tools {
		list = append(list, map[string]any{"toolSpec": map[string]any{
			"name": s.name, "description": s.description, "inputSchema": map[string]any{"json": s.schema},
		}})
	}
	b, err := ledger.CanonValue(map[string]any{"toolConfig": map[string]any{"tools": list}})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// patch edits a tool's return on its way to the model; n counts tool returns
// from 1.
type patch func(n int, call edge.Call, r edge.Return) edge.Return

// played is a run and what it left.
type played struct {
	events  []ledger.Event
	outcome loop.Outcome
	verdict verdict.Verdict
	state   loop.State
	// requests are the model requests in order.
	requests []converse.Request
}

// play drives a run of the rule model over tools.
func play(t testing.TB, start loop.Start, tools edge.Edge, p patch) played {
	t.Helper()
	data, err := start.JSON()
	if err != nil {
		t.Fatal(err)
	}
	s, begun, err := loop.New(data)
	if err != nil {
		t.Fatal(err)
	}
	out := played{events: []ledger.Event{begun}}
	n := 0
	e := edge.Func(func(ctx context.Context, c edge.Call) (edge.Return, error) {
		if c.Kind == edge.Model {
			out.requests = append(out.requests, c.Request)
			return rule.Do(ctx, c)
		}
		n++
		r, err := tools.Do(ctx, c)
		if p != nil {
			r = p(n, c, r)
		}
		return r, err
	})
	sink := loop.SinkFunc(func(_ edge.Call, _ edge.Return, events []ledger.Event) error {
		out.events = append(out.events, events...)
		if len(out.events) > 300 {
			return fmt.Errorf("the run does not end")
		}
		return nil
	})
	if out.state, err = loop.Run(context.Background(), s, e, sink); err != nil {
		t.Fatal(err)
	}
	if out.outcome, err = loop.ParseOutcome(out.state.Finished()); err != nil {
		t.Fatal(err)
	}
	if out.outcome.Verdict != nil {
		v, problems := verdict.Parse(out.outcome.Verdict)
		if len(problems) > 0 {
			t.Fatalf("verdict has problems: %q", problems)
		}
		out.verdict = v
	}
	return out
}

// worldEdge runs the tools of a world.
func worldEdge(w *world.World) edge.Edge {
	return edge.Func(func(ctx context.Context, c edge.Call) (edge.Return, error) {
		r := w.Call(ctx, c.Use.Name, c.Use.Input)
		return edge.Return{Body: r.Body, Failed: r.Status == world.StatusError, Origin: edge.Executed}, nil
	})
}

// worldStart is the beginning of a run on a world.
func worldStart(t testing.TB, w *world.World) loop.Start {
	t.Helper()
	var specs []toolSpec
	for _, tool := range w.Tools() {
		specs = append(specs, toolSpec{tool.Name, tool.Description, tool.InputSchema})
	}
	return loop.Start{
		Task: w.Alert().Task, Context: w.Context(), Model: "rule",
		Request: requestOf(t, append(specs, findings())...), Limits: loop.Limits{MaxTurns: 30},
	}
}

func openWorld(t testing.TB, name string) *world.World {
	t.Helper()
	if name == "demo" {
		w, err := world.Demo()
		if err != nil {
			t.Fatal(err)
		}
		return w
	}
	w, err := world.OpenDir("../../worlds/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// calls lists the tool calls of a run as "name input".
func (p played) calls() []string {
	var out []string
	for _, e := range p.events {
		if e.Type != ledger.ToolCalled {
			continue
		}
		var d struct {
			Tool  string          `json:"tool"`
			Input json.RawMessage `json:"input"`
		}
		_ = json.Unmarshal(e.Data, &d)
		out = append(out, d.Tool+" "+string(d.Input))
	}
	return out
}
