package engine_test

import (
	"context"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/world"
)

const task = "Checkout p99 latency spiked overnight. Find the likely cause."

func demoWorld(t testing.TB) *world.World {
	t.Helper()
	w, err := world.Demo()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func startOf(t testing.TB, w *world.World) loop.Start {
	t.Helper()
	var tools []prompt.Tool
	effects := map[string]string{}
	for _, x := range w.Tools() {
		tools = append(tools, prompt.Tool{Name: x.Name, Description: x.Description, InputSchema: x.InputSchema})
		effects[x.Name] = x.Effect
	}
	b, err := prompt.Request(prompt.Options{Model: prompt.RuleModel, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return loop.Start{Task: task, Context: w.Context(), Model: prompt.RuleModel, Request: b.Request, Effects: effects, Limits: loop.Limits{MaxTurns: 24}}
}

// recordRun records the reference run in memory.
func recordRun(t testing.TB) *recorder.Cassette {
	t.Helper()
	c, err := recorder.Parse("run", referenceRun(t))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// referenceRun is the cassette of the reference run.
func referenceRun(t testing.TB) []byte {
	t.Helper()
	w := demoWorld(t)
	start, err := startOf(t, w).JSON()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorder.NewMemory(recorder.Header{Run: "a", Start: start, World: &recorder.World{Name: w.Name(), Digest: w.Digest()}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Live(context.Background(), start, engine.RuleModel{}, engine.Tools{World: w}, rec); err != nil {
		t.Fatal(err)
	}
	return rec.Bytes()
}

func parsed(t testing.TB, rec *recorder.Writer) *recorder.Cassette {
	t.Helper()
	c, err := recorder.Parse("run", rec.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// forkRun forks c in memory and returns the fork's cassette.
func forkRun(t testing.TB, c *recorder.Cassette, p faults.Patch, o engine.ForkOptions) (*recorder.Cassette, engine.Forked) {
	t.Helper()
	point, err := engine.At(context.Background(), c, p.At)
	if err != nil {
		t.Fatal(err)
	}
	h := c.Header()
	h.Parent = &recorder.Parent{Run: h.Run, At: p.At}
	if p.At == 1 && !o.Empty {
		edited, err := p.Apply(point.Event)
		if err != nil {
			t.Fatal(err)
		}
		h.Start = edited.Event.Data
	}
	if o.Swap != "" {
		h.Models = append(h.Models, recorder.ModelSwap{At: p.At, Model: o.Swap, Price: o.Price})
	}
	rec, err := recorder.NewMemory(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := rec.CopyPrefix(c, p.At); err != nil {
		t.Fatal(err)
	}
	o.Patch, o.Sink = p, rec
	out, err := point.Fork(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return parsed(t, rec), out
}

func liveFork(w *world.World) engine.ForkOptions {
	return engine.ForkOptions{Model: engine.RuleModel{}, Tools: engine.Tools{World: w}}
}

func replayed(t testing.TB, c *recorder.Cassette, tools edge.Edge) engine.Replayed {
	t.Helper()
	r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	return r
}
