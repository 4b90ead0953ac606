package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"github.com/urfave/cli/v2"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

func forkVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "fork",
		Usage:     "change one event of a recorded run, then halt or go on",
		UsageText: "investigator fork --at 7 --mode halt [CASSETTE]",
		ArgsUsage: "[CASSETTE]",
		Description: `Copies the run's history up to the event, patches that event, and then halts
before the next model call and reports which of its inputs changed (--mode
halt), or asks the model again (--mode live). Before the fork point everything
comes from the cassette; after it a tool call that the parent made too is
answered from the cassette, and a new one is executed.

Without CASSETTE the newest finished run in cassettes/ that is not itself a
fork is taken. Without a patch the fault "missing" is applied: the last record
of the result's one array is dropped. Pointers (RFC 6901) point into the tool's
result, into the model's response, or into the data of run.started (--at 1).

Faults: ` + faultNames(),
		Flags: append([]cli.Flag{
			&cli.IntFlag{Name: "at", Usage: "the event to change, by its `SEQ`"},
			&cli.StringFlag{Name: "mode", Value: "halt", Usage: "halt, or live (also: resample)"},
			&cli.StringFlag{Name: "world", Usage: "where the recorded world is, if it is not found by its name"},
			&cli.StringFlag{Name: "unseen", Value: "run", Usage: "a tool call the parent never made: run, refuse or stop"},
			&cli.BoolFlag{Name: "allow-writes", Usage: "execute tools that are not declared as reading"},
			&cli.IntFlag{Name: "samples", Value: 1, Usage: "with --mode live: how many futures to sample"},
			&cli.DurationFlag{Name: "timeout", Usage: "with --mode live: end the run after `DURATION`"},
			outFlag(), jsonFlag(),
		}, append(patchFlags(), forkModelFlags()...)...),
		Action: func(c *cli.Context) error {
			o, err := forkOptionsOf(c)
			if err != nil {
				return err
			}
			return fork(c.Context, sh, o)
		},
	}
}

type forkOptions struct {
	file, mode, world, out string
	at, samples            int
	unseen                 engine.Unseen
	writes, json           bool
	patch                  patchOptions
	model                  modelOptions
	modelGiven             bool
	timeout                time.Duration
}

func forkOptionsOf(c *cli.Context) (forkOptions, error) {
	o := forkOptions{
		mode: c.String("mode"), world: c.String("world"), out: c.String("out"), at: c.Int("at"), samples: c.Int("samples"),
		unseen: engine.Unseen(c.String("unseen")), writes: c.Bool("allow-writes"), json: c.Bool("json"),
		patch: patchOptionsOf(c), model: modelOptionsOf(c), modelGiven: c.IsSet("model"),
		timeout: c.Duration("timeout"),
	}
	if o.mode == "resample" {
		o.mode = "live"
	}
	switch {
	case c.Args().Len() > 1:
		return o, usagef(c.Command.UsageText, "expected one CASSETTE, found %d arguments", c.Args().Len())
	case !c.IsSet("at"):
		return o, usagef("investigator show CASSETTE lists the events; then --at SEQ", "--at: expected the event to change, found none")
	case o.mode != "halt" && o.mode != "live":
		return o, usagef("--mode halt or --mode live", "--mode: expected halt or live, found %q", o.mode)
	case o.modelGiven && o.model.id == "":
		return o, usagef("--model ID, or leave it out to keep the parent's", "--model: expected a model, found none")
	case o.unseen != engine.UnseenRun && o.unseen != engine.UnseenRefuse && o.unseen != engine.UnseenStop:
		return o, usagef("--unseen run, refuse or stop", "--unseen: expected run, refuse or stop, found %q", o.unseen)
	case o.samples < 1:
		return o, usagef("leave it out for one future", "--samples: expected at least 1, found %d", o.samples)
	case o.samples > 1 && (o.mode != "live" || o.out != ""):
		return o, usagef("sampled futures are named by themselves", "--samples goes with --mode live and without --out")
	}
	o.file = c.Args().First()
	return o, nil
}

func fork(ctx context.Context, sh *shell, o forkOptions) error {
	c, err := parentOf(sh, o)
	if err != nil {
		return err
	}
	if err := checkSeq(c, o.at); err != nil {
		return err
	}
	point, err := engine.At(ctx, c, o.at)
	if err != nil {
		return err
	}
	if err := o.patch.fits(c, point.Event); err != nil {
		return err
	}
	patch, err := o.patch.build(sh, point.Event)
	if err != nil {
		return err
	}
	patch = patch.For(o.at)
	events, err := c.Events()
	if err != nil {
		return err
	}
	if err := patch.CheckIn(events); err != nil {
		return err
	}
	if o.patch.none() && !o.json {
		sh.notes().Line(report.Dim, `no patch given: the fault "missing" drops the last record; investigator fork --help lists the others`)
	}
	f := forking{sh: sh, o: o, parent: c, point: point, patch: patch}
	if err := f.checkWorld(); err != nil {
		return err
	}
	if o.mode == "halt" {
		return f.halt(ctx)
	}
	return f.live(ctx)
}

// parentOf opens the cassette to fork, the newest finished original if none is
// named.
func parentOf(sh *shell, o forkOptions) (*recorder.Cassette, error) {
	name := o.file
	if name == "" {
		var err error
		if name, err = newestOriginal(cassetteFolder); err != nil {
			return nil, err
		}
		if !o.json {
			sh.notes().Line(report.Dim, "no cassette given: forking %s, the newest finished run that is not a fork", name)
		}
	}
	return recorder.Open(name)
}

// forking is one fork under way.
type forking struct {
	sh     *shell
	o      forkOptions
	parent *recorder.Cassette
	point  *engine.Point
	patch  faults.Patch
}

// record creates the fork's cassette and copies its history.
func (f *forking) record(swap recorder.ModelSwap) (*recorder.Writer, error) {
	h, err := f.header(swap)
	if err != nil {
		return nil, err
	}
	base := filepath.Base(f.parent.Name())
	base = base[:len(base)-len(filepath.Ext(base))]
	rec, err := create(f.o.out, fmt.Sprintf("%s-fork%d", base, f.o.at), h)
	if err != nil {
		return nil, err
	}
	if err := rec.CopyPrefix(f.parent, f.o.at); err != nil {
		return nil, errors.Join(err, rec.Close())
	}
	return rec, nil
}

func (f *forking) header(swap recorder.ModelSwap) (recorder.Header, error) {
	patch, err := f.patch.JSON()
	if err != nil {
		return recorder.Header{}, err
	}
	total, err := f.parent.EventCount()
	if err != nil {
		return recorder.Header{}, err
	}
	sum, err := f.parent.LedgerSum(total)
	if err != nil {
		return recorder.Header{}, err
	}
	h := f.parent.Header()
	h.Parent = &recorder.Parent{Run: h.Run, Ledger: sum.String(), File: filepath.Base(f.parent.Name()), At: f.o.at, Patch: patch, Mode: f.o.mode}
	h.Tool, h.Run, h.Started = "investigator "+version, newRunID(), f.sh.stamp()
	h.Models = swaps(h.Models, swap, f.o.at)
	if f.o.at == 1 {
		edited, err := f.patch.Apply(f.point.Event)
		if err != nil {
			return h, err
		}
		h.Start = edited.Event.Data
	}
	return h, nil
}

// swaps keeps the parent's model changes before the fork point and adds ours.
func swaps(parent []recorder.ModelSwap, ours recorder.ModelSwap, at int) []recorder.ModelSwap {
	var out []recorder.ModelSwap
	for _, s := range parent {
		if s.At < at {
			out = append(out, s)
		}
	}
	if ours.Model != "" {
		out = append(out, ours)
	}
	return out
}

// tools is the edge for calls the parent never made: its world, if it is at
// hand and unchanged.
func (f *forking) tools() edge.Edge {
	w, why := findWorld(f.parent, f.o.world)
	if w == nil {
		f.sh.notes().Line(report.Yellow, "new tool calls cannot be executed: %s", why)
		return nil
	}
	var s loop.Start
	_ = json.Unmarshal(f.parent.Start(), &s)
	return engine.Guard{Edge: engine.Tools{World: w}, Effects: s.Effects, Writes: f.o.writes}
}

// checkWorld refuses a world that was named and cannot be used. One that was
// only looked for may be missing: the tape answers what it can.
func (f *forking) checkWorld() error {
	if f.o.world == "" {
		return nil
	}
	w, why := findWorld(f.parent, f.o.world)
	if w == nil {
		return hint(errors.New("--world: "+why), "name the world that the parent was recorded on, or leave --world out")
	}
	return nil
}

func (f *forking) live(ctx context.Context) error {
	ch, swap, err := f.chair(ctx)
	if err != nil {
		return err
	}
	defer ch.close()
	ctx, cancel := withTimeout(ctx, f.o.timeout)
	defer cancel()
	if f.o.samples > 1 {
		return f.sample(ctx, ch, swap)
	}
	rec, err := f.record(swap)
	if err != nil {
		return err
	}
	defer rec.Close()
	p := f.sh.printer()
	if !f.o.json {
		p.Line(report.Dim, "fork of %s at event %d: %s", f.parent.Name(), f.o.at, describePatch(f.patch))
	}
	sink := &watched{Sink: rec, watch: f.sh.watch(p, f.o.json)}
	out, err := f.future(ctx, ch, swap, sink)
	for _, n := range out.Notes {
		f.sh.notes().Line(report.Dim, "note: %s", n)
	}
	end := concluded(f.sh, rec, out.State, sink.lost, err, f.o.json)
	if err != nil {
		return end
	}
	if err := f.restsOn(p, rec.Path()); err != nil {
		return err
	}
	return end // a limit for example, which has a result too
}

func (f *forking) future(ctx context.Context, ch chair, swap recorder.ModelSwap, sink loop.Sink) (engine.Forked, error) {
	return f.point.Fork(ctx, engine.ForkOptions{Patch: f.patch, Model: ch.edge, Swap: swap.Model, Price: swap.Price, Tools: f.tools(), Unsee: f.o.unseen, Sink: sink})
}

// restsOn prints where the returns came from that the verdict rests on.
func (f *forking) restsOn(p *report.Printer, path string) error {
	if f.o.json {
		return nil
	}
	c, err := recorder.Open(path)
	if err != nil {
		return err
	}
	origins, err := c.Origins()
	if err != nil {
		return err
	}
	p.Line(report.Dim, "rests on: %s", report.RestsOn(origins))
	p.Line(report.Dim, "compare:  investigator diff %s %s", shellQuote(f.parent.Name()), shellQuote(path))
	return nil
}

// chair is the parent's model, or the one that --model names, which then is in
// the chair from the fork point on.
func (f *forking) chair(ctx context.Context) (chair, recorder.ModelSwap, error) {
	swap, err := f.swap()
	if err != nil {
		return chair{}, swap, err
	}
	m := f.o.model
	if m.id = swap.Model; m.id == "" {
		m.id, _, _ = f.current() // swap has asked already
	}
	ch, err := takeChair(ctx, f.sh, m)
	return ch, swap, err
}

// swap is the model that --model puts into the chair, none if it is there
// already.
func (f *forking) swap() (recorder.ModelSwap, error) {
	current, start, err := f.current()
	if err != nil || !f.o.modelGiven || f.o.model.id == current {
		return recorder.ModelSwap{}, err
	}
	out := recorder.ModelSwap{At: f.o.at, Model: f.o.model.id}
	if start.Limits.MaxCost > 0 {
		out.Price, err = f.priceOf(out.Model)
	}
	return out, err
}

// priceOf is by what a model's tokens count against the limit on money that the
// run was started with.
func (f *forking) priceOf(model string) (*loop.Price, error) {
	if model == prompt.RuleModel {
		return &loop.Price{Table: "the rule model is free"}, nil
	}
	known, err := pricingOf(f.parent, f.o.model.prices)
	if err != nil {
		return nil, err
	}
	p := known.of(model)
	if p == nil {
		return nil, usagef("give a price file with --prices, or name a model that has a price", "--model: the run has a limit on its cost, and the model %q is unpriced, so it cannot be held", model)
	}
	return p, nil
}

// current is the model that would be called next, and the run's beginning.
func (f *forking) current() (string, loop.Start, error) {
	if f.o.at > 1 {
		return f.point.State.Request().Model, f.point.State.Start(), nil
	}
	edited, err := f.patch.Apply(f.point.Event)
	if err != nil {
		return "", loop.Start{}, err
	}
	var s loop.Start
	err = json.Unmarshal(edited.Event.Data, &s)
	return s.Model, s, err
}

func describePatch(p faults.Patch) string {
	switch {
	case p.Fault != "":
		return "fault " + p.Fault
	case p.Error != nil:
		return "the call fails: " + *p.Error
	case p.Insert != nil:
		return "a call to " + p.Insert.Tool + " is inserted"
	case p.Replace != nil:
		return "replaced"
	}
	return string(p.Ops)
}
