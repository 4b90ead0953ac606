package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"

	"investigator/internal/bedrock"
	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

// firstByte is how long the local Bedrock thinks before it answers. Real models
// take a second and more, beside which recording shows even less.
const firstByte = 300 * time.Millisecond

const bedrockModel = "global.anthropic.claude-sonnet-4-6"

// overhead measures runs through the AWS SDK against a Bedrock on this machine,
// with a recorder and without one, in turn. A call is a model call or a tool
// call. How the cost of a call grows with the context shows in a longer run
// against a Bedrock that does not think.
func overhead(ctx context.Context, b *bench) error {
	turns, long, pairs := 20, 120, 2
	if b.quick {
		turns, long, pairs = 8, 60, 1
	}
	slow := pairOfRuns{turns: turns, pairs: pairs, thinks: firstByte, dir: filepath.Join(b.dir, "slow")}
	if err := slow.measure(ctx); err != nil {
		return err
	}
	with, without := took(slow.with.middle()), took(slow.without.middle())
	b.add(versus(fmt.Sprintf("Bedrock run of %d turns, the model takes %s", turns, firstByte), with, "the same run, not recorded", without, 1.02, 0))
	fast := pairOfRuns{turns: long, pairs: pairs, dir: filepath.Join(b.dir, "fast")}
	if err := fast.measure(ctx); err != nil {
		return err
	}
	b.add(within("recording, per call", took(fast.calls.trimmed()), took(time.Millisecond)),
		within("recording, per call, without the disk", took(fast.memory.trimmed()), took(time.Millisecond)),
		versus(fmt.Sprintf("the same, last quarter of %d turns", long), took(fast.quarter(3).trimmed()), "second quarter", took(fast.quarter(1).trimmed()), 1.25, 0))
	return nil
}

// pairOfRuns collects times of runs with and without a recorder.
type pairOfRuns struct {
	turns, pairs int
	thinks       time.Duration
	dir          string

	start         json.RawMessage
	model         edge.Edge
	with, without rounds // of whole runs
	calls, memory rounds // of each recorded call, on the disk and in memory
}

func (r *pairOfRuns) measure(ctx context.Context) error {
	if err := os.Mkdir(r.dir, 0o700); err != nil {
		return err
	}
	server, err := bedrocktest.Start(bedrocktest.Options{Script: asks(r.turns), FirstByteDelay: r.thinks, ContextTokens: 10_000_000, MaxLog: 1})
	if err != nil {
		return err
	}
	defer server.Close()
	model, err := bedrock.New(ctx, bedrock.Options{
		Model: bedrockModel, Region: "us-east-1", EndpointURL: server.URL, Stream: true,
		Credentials: credentials.NewStaticCredentialsProvider("local", "local", ""),
	})
	if err != nil {
		return err
	}
	defer model.Close()
	r.model = model
	if r.start, err = bedrockStart(); err != nil {
		return err
	}
	if _, err := r.run(ctx, engine.Discard()); err != nil { // what a first one pays for the others
		return err
	}
	for i := range r.pairs {
		if err := r.once(ctx, filepath.Join(r.dir, fmt.Sprintf("%d.yaml", i))); err != nil {
			return err
		}
	}
	return nil
}

// once runs without a recorder and with one. The one in memory takes the same
// events, outside of what is measured of the run.
func (r *pairOfRuns) once(ctx context.Context, file string) error {
	bare, err := r.run(ctx, engine.Discard())
	if err != nil {
		return err
	}
	h := recordertest.Header()
	h.Start = r.start
	w, err := recorder.Create(file, h)
	if err != nil {
		return err
	}
	m, err := recorder.NewMemory(h)
	if err != nil {
		return errors.Join(err, w.Close())
	}
	var beside time.Duration
	recorded, err := r.run(ctx, loop.SinkFunc(func(c edge.Call, ret edge.Return, events []ledger.Event) error {
		began := time.Now()
		err := w.Took(c, ret, events)
		middle := time.Now()
		err = errors.Join(err, m.Took(c, ret, events))
		r.calls = append(r.calls, middle.Sub(began))
		r.memory = append(r.memory, time.Since(middle))
		beside += time.Since(middle)
		return err
	}))
	r.with, r.without = append(r.with, recorded-beside), append(r.without, bare)
	return errors.Join(err, w.Close())
}

func (r *pairOfRuns) run(ctx context.Context, sink loop.Sink) (time.Duration, error) {
	began := time.Now()
	s, err := engine.Live(ctx, r.start, r.model, edge.Func(reads), sink)
	d := time.Since(began)
	if err == nil && s.Turn() != r.turns {
		err = fmt.Errorf("expected %d turns, found %d: %s", r.turns, s.Turn(), s.Finished())
	}
	return d, err
}

// quarter returns the times in memory of the n-th quarter of each run.
func (r *pairOfRuns) quarter(n int) rounds {
	var out rounds
	calls := len(r.memory) / r.pairs
	for i, d := range r.memory {
		if at := i % calls; at*4/calls == n {
			out = append(out, d)
		}
	}
	return out
}

// reads is the tool of these runs.
func reads(_ context.Context, call edge.Call) (edge.Return, error) {
	text := recordertest.Prose(rand.New(rand.NewPCG(uint64(call.Turn), 0)), turnBytes)
	body, err := ledger.CanonValue(map[string]string{"lines": text})
	return edge.Return{Body: body, Origin: edge.Executed}, err
}

// asks is a model that reads something every turn and then reports.
func asks(turns int) bedrocktest.Script {
	return func(r bedrocktest.Request) bedrocktest.Turn {
		id := fmt.Sprintf("call-%d", r.Turn)
		if r.Turn+1 < turns {
			return bedrocktest.Say(bedrocktest.Text("I read on."), bedrocktest.ToolUse(id, "read", fmt.Sprintf(`{"part":%d}`, r.Turn)))
		}
		return bedrocktest.Say(bedrocktest.ToolUse(id, "report_findings", report))
	}
}

const report = `{"component":"checkout","class":"change","mechanism":"pool too small","change":"v841","started_at":"2026-01-15T02:00:00Z",` +
	`"confidence":"high","summary":"v841 shrank the pool.","evidence":["E4"],"ruled_out":[],"recommendation":"roll back"}`

func bedrockStart() (json.RawMessage, error) {
	built, err := prompt.Request(prompt.Options{Model: bedrockModel, Tools: []prompt.Tool{
		{Name: "read", Description: "Reads a part.", InputSchema: json.RawMessage(`{"type":"object"}`)},
	}})
	if err != nil {
		return nil, err
	}
	s := loop.Start{Task: "Why is checkout slow?", Model: bedrockModel, Request: built.Request, Cache: built.Cache, Prompt: &built.Prompt}
	return s.JSON()
}
