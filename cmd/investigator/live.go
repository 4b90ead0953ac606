package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/urfave/cli/v2"

	"investigator/internal/bedrock"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/report"
	"investigator/internal/world"
)

func liveVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "live",
		Usage:     "run an investigation and record it",
		UsageText: `investigator live --model rule --task "Checkout p99 latency spiked overnight. Find the likely cause."`,
		Description: `Runs the investigator on a model, executes its tool calls on a world, prints
what happens and records every call into a cassette as it happens. Without
--task the world's alert is the question. With --model rule the run needs no
account and no network.`,
		Flags: append(append([]cli.Flag{
			&cli.StringFlag{Name: "task", Usage: "the question to investigate (default: the world's alert)"},
			worldFlag(), outFlag(), jsonFlag(),
			&cli.StringFlag{Name: "note", Usage: "a `TEXT` for the cassette's header: how it was recorded"},
		}, modelFlags()...), limitFlags()...),
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			if err := checkLimits(c); err != nil {
				return err
			}
			return live(c.Context, sh, liveOptionsOf(c))
		},
	}
}

type liveOptions struct {
	task, world, out, note string
	json                   bool
	model                  modelOptions
	limits                 loop.Limits
	timeout                time.Duration
}

func liveOptionsOf(c *cli.Context) liveOptions {
	return liveOptions{
		task: c.String("task"), world: c.String("world"), out: c.String("out"), json: c.Bool("json"), note: c.String("note"),
		model: modelOptionsOf(c).orDefault(), limits: limitsOf(c), timeout: c.Duration("timeout"),
	}
}

func live(ctx context.Context, sh *shell, o liveOptions) error {
	if err := o.model.checkRule(); err != nil {
		return err
	}
	w, err := openWorld(o.world)
	if err != nil {
		return err
	}
	if err := w.Check(); err != nil {
		return hint(err, "mend that line, or take it out")
	}
	chair, err := takeChair(ctx, sh, o.model)
	if err != nil {
		return err
	}
	defer func() { chair.close() }()
	start, err := newStart(w, o.task, chair, o.limits)
	if err != nil {
		return err
	}
	ctx, cancel := withTimeout(ctx, o.timeout)
	defer cancel()
	if o.model.fallback != "" && chair.fallback == "" {
		if chair, start, err = firstCall(ctx, sh, chair, w, start, o); err != nil {
			return err
		}
	}
	h := newHeader(sh, w, start)
	h.RecordedWith = o.note
	rec, err := create(o.out, "run", h)
	if err != nil {
		return err
	}
	defer rec.Close()
	p := sh.printer()
	if !o.json {
		p.Line(report.Dim, "model %s · world %s · recording %s", chair.name, worldName(o.world, w), rec.Path())
	}
	tools := engine.Guard{Edge: engine.Tools{World: w}, Effects: effectsOf(w)}
	sink := &watched{Sink: rec, watch: sh.watch(p, o.json)}
	state, err := engine.Live(ctx, start, chair.edge, tools, sink)
	return concluded(sh, rec, state, sink.lost, err, o.json)
}

// firstCall makes a run's first model call before anything is recorded. If it
// cannot reach Bedrock the rule model takes the chair, and run.started says so;
// if it can, its answer is the run's first. A run never changes models half-way.
func firstCall(ctx context.Context, sh *shell, ch chair, w *world.World, start json.RawMessage, o liveOptions) (chair, json.RawMessage, error) {
	s, _, err := loop.New(start)
	if err != nil {
		return ch, start, err
	}
	r, err := engine.Deadline{Edge: ch.edge}.Do(ctx, s.Next()[0])
	if err != nil {
		return ch, start, err
	}
	if f, err := edge.ParseFailure(r.Body); r.Failed && err == nil && bedrock.Unreachable(f) {
		sh.speech.end()
		sh.notes().Line(report.Yellow, "%s cannot be reached (%s): the rule model takes its place", ch.id, f.Message)
		ch.close()
		ch = ruleChair(fmt.Sprintf("%s could not be reached: %s: %s", ch.id, f.Name, f.Message))
		start, err := newStart(w, o.task, ch, o.limits)
		return ch, start, err
	}
	ch.edge = &primed{edge: ch.edge, first: &r}
	return ch, start, nil
}

// primed answers the first call with what was asked already.
type primed struct {
	edge  edge.Edge
	first *edge.Return
}

func (p *primed) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if r := p.first; r != nil {
		p.first = nil
		return *r, nil
	}
	return p.edge.Do(ctx, call)
}

// watched records events and shows them. What cannot be recorded is shown all the
// same: it was paid for, and is nowhere else.
type watched struct {
	loop.Sink
	watch loop.Sink
	lost  json.RawMessage // how a run finished whose end could not be recorded
}

// Took implements loop.Sink.
func (w *watched) Took(call edge.Call, ret edge.Return, events []ledger.Event) error {
	err := w.Sink.Took(call, ret, events)
	for _, e := range events {
		if err != nil && e.Type == ledger.RunFinished {
			w.lost = e.Data
		}
	}
	return errors.Join(err, w.watch.Took(call, ret, events))
}

// watch prints events as they happen, below what the model was heard saying.
func (sh *shell) watch(p *report.Printer, quiet bool) loop.Sink {
	hush := loop.SinkFunc(func(edge.Call, edge.Return, []ledger.Event) error {
		sh.speech.end()
		return nil
	})
	return engine.Tee{hush, watch(p, quiet)}
}

// watch prints events as they happen.
func watch(p *report.Printer, quiet bool) loop.Sink {
	return loop.SinkFunc(func(_ edge.Call, r edge.Return, events []ledger.Event) error {
		for i, e := range events {
			origin := r.Origin
			if i > 0 {
				origin = "" // it follows from the line above
			}
			if !quiet && e.Type != ledger.RunFinished && e.Type != ledger.ToolCalled {
				p.Event(e, origin)
			}
		}
		return nil
	})
}

// concluded prints how a run ended and gives its exit status. lost is an end that
// could not be recorded, of which err tells.
func concluded(sh *shell, rec *recorder.Writer, s loop.State, lost json.RawMessage, err error, asJSON bool) error {
	sh.speech.end()
	if err != nil {
		return errors.Join(unrecorded(sh, rec, s, lost, asJSON), kept(rec, err))
	}
	o, err := loop.ParseOutcome(s.Finished())
	if err != nil {
		return err
	}
	if asJSON {
		err = printJSON(sh.out, runResult{Cassette: rec.Path(), Run: rec.Header().Run, Events: s.Seq(), Ledger: rec.Sum().String(), Finished: s.Finished()})
	} else {
		p := sh.printer()
		p.Blank()
		if f := s.Start().Fallback; f != "" {
			p.Line(report.Yellow, "this is the rule model's verdict, because %s", f)
		}
		p.Outcome(o)
		adviseOn(p, s)
		afterwards(p, rec.Path())
		p.Line(report.Dim, "recorded: %s (%d events, ledger %.8s)", rec.Path(), s.Seq(), rec.Sum().String())
	}
	if err != nil {
		return err
	}
	return status(outcomeStatus(o))
}

// unrecorded prints an end that is in no cassette.
func unrecorded(sh *shell, rec *recorder.Writer, s loop.State, lost json.RawMessage, asJSON bool) error {
	if lost == nil {
		return nil
	}
	if asJSON {
		return printJSON(sh.out, runResult{Cassette: rec.Path(), Run: rec.Header().Run, Events: s.Seq(), Ledger: rec.Sum().String(), Finished: lost})
	}
	o, err := loop.ParseOutcome(lost)
	if err != nil {
		return err
	}
	p := sh.printer()
	p.Blank()
	p.Line(report.Yellow, "this end of the run is not recorded")
	p.Outcome(o)
	return nil
}

// afterwards holds the verdict against what it cites, and says what the run
// used.
func afterwards(p *report.Printer, file string) {
	c, err := recorder.Open(file)
	if err != nil {
		return // the next command that opens it will say so
	}
	if events, err := c.Events(); err == nil {
		p.Flags(engine.CheckVerdict(events))
	}
	_ = printUsage(p, c, "", false) // fails where Events did
}

// adviseOn says what to do about a model that failed.
func adviseOn(p *report.Printer, s loop.State) {
	if f, failed := s.Failure(); failed {
		if _, advice := bedrock.Explain(f); advice != "" {
			p.Line(report.Plain, "  hint: %s", advice)
		}
	}
}

type runResult struct {
	Cassette string          `json:"cassette"`
	Run      string          `json:"run"`
	Events   int             `json:"events"`
	Ledger   string          `json:"ledger"`
	Finished json.RawMessage `json:"finished"`
}

func outcomeStatus(o loop.Outcome) int {
	switch o.Outcome {
	case loop.Limit:
		return exitLimit
	case loop.Failed, loop.Stopped:
		return exitError
	}
	return exitDone
}

// kept says what is on the disk when a run breaks off.
func kept(rec *recorder.Writer, err error) error {
	if rec.Path() == "" {
		return err
	}
	return hint(err, "%s holds events 1 to %d; investigator show %s", rec.Path(), rec.Seq(), shellQuote(rec.Path()))
}

func openWorld(name string) (*world.World, error) {
	if name == "" || name == demoWorld {
		return world.Demo()
	}
	w, err := world.OpenDir(name)
	if err != nil {
		return nil, hint(err, "leave --world out for the world that is built in; worlds/README.md describes the folders")
	}
	return w, nil
}

// demoWorld is the name of the world built into the program.
const demoWorld = "demo"

func worldName(flag string, w *world.World) string {
	if flag == "" || flag == demoWorld {
		return demoWorld
	}
	return w.Name()
}
