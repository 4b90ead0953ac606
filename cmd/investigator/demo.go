package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/urfave/cli/v2"

	"investigator/internal/diff"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

func demoVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "demo",
		Usage:     "record, replay, fork and compare a small incident, offline",
		UsageText: "investigator demo [--out FOLDER]",
		Description: `Plays the three experiments on the demo world with the rule model: a run is
recorded and replayed; the deploy it blames is taken out of history, once to
see which model inputs change and once to see what it would have concluded; and
both runs are compared. Everything shown is computed now. Writes into FOLDER
where one is named, into a temporary folder that is removed otherwise.`,
		Flags: []cli.Flag{&cli.StringFlag{Name: "out", Usage: "keep run_a.yaml and run_b.yaml in `FOLDER`"}},
		Action: func(c *cli.Context) error {
			if err := noArgs(c); err != nil {
				return err
			}
			return demo(c.Context, sh, c.String("out"))
		},
	}
}

func demo(ctx context.Context, sh *shell, folder string) error {
	if folder == "" {
		temporary, err := os.MkdirTemp("", "investigator-demo-")
		if err != nil {
			return hint(fmt.Errorf("make a folder for the demo: %w", err), "name a folder that can be written to: --out FOLDER")
		}
		defer os.RemoveAll(temporary)
		folder = temporary
	} else if err := os.MkdirAll(folder, 0o777); err != nil {
		return hint(fmt.Errorf("make a folder for the demo: %w", err), "choose another --out FOLDER, or leave it out")
	}
	d := demonstration{sh: sh, p: sh.printer(), a: filepath.Join(folder, "run_a.yaml"), b: filepath.Join(folder, "run_b.yaml")}
	for _, step := range []func(context.Context) error{d.record, d.replay, d.halt, d.resample, d.compare} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	return nil
}

// demonstration is the demo under way. Its steps are those of the verbs.
type demonstration struct {
	sh   *shell
	p    *report.Printer
	a, b string
}

const demoTask = "Checkout p99 latency spiked overnight. Find the likely cause."

func (d *demonstration) title(n int, text string) {
	if n > 1 {
		d.p.Blank()
	}
	d.p.Line(report.Bold, "%d. %s", n, text)
}

func (d *demonstration) record(ctx context.Context) error {
	d.title(1, "Record: "+demoTask)
	w, err := openWorld(demoWorld)
	if err != nil {
		return err
	}
	start, err := newStart(w, demoTask, ruleChair(""), loop.Limits{MaxTurns: defaultMaxTurns})
	if err != nil {
		return err
	}
	rec, err := recorder.Create(d.a, newHeader(d.sh, w, start))
	if err != nil {
		return err
	}
	defer rec.Close()
	tools := engine.Guard{Edge: engine.Tools{World: w}, Effects: effectsOf(w)}
	_, err = engine.Live(ctx, start, engine.RuleModel{}, tools, engine.Tee{rec, watch(d.p, false)})
	if err != nil {
		return err
	}
	return d.conclusion(d.a)
}

func (d *demonstration) conclusion(file string) error {
	c, err := recorder.Open(file)
	if err != nil {
		return err
	}
	e, err := c.Event(countOf(c))
	if err != nil {
		return err
	}
	d.p.Event(e, "")
	return nil
}

func (d *demonstration) replay(ctx context.Context) error {
	d.title(2, "Replay: the model from the cassette, the tools for real")
	c, err := recorder.Open(d.a)
	if err != nil {
		return err
	}
	tools, why, err := toolsFor(c, "auto", "")
	if err != nil {
		return err
	}
	r, err := engine.Replay(ctx, c, engine.ReplayOptions{Tools: tools})
	if err != nil {
		return err
	}
	d.p.Replayed(r, why)
	if !r.Identical {
		return status(exitDiverged)
	}
	return nil
}

// forking makes the demo's fork: the second deploy is missing from event 7.
func (d *demonstration) forking(ctx context.Context, mode, out string) (*forking, error) {
	c, err := recorder.Open(d.a)
	if err != nil {
		return nil, err
	}
	point, err := engine.At(ctx, c, 7)
	if err != nil {
		return nil, err
	}
	patch := faults.Drop("/deploys/1").For(7)
	o := forkOptions{file: d.a, mode: mode, out: out, at: 7, samples: 1, patch: patchOptions{drop: []string{"/deploys/1"}}}
	return &forking{sh: d.sh, o: o, parent: c, point: point, patch: patch}, nil
}

func (d *demonstration) halt(ctx context.Context) error {
	d.title(3, "Fork at event 7 and halt: had the deploy list missed one record, what would the model see?")
	f, err := d.forking(ctx, "halt", "")
	if err != nil {
		return err
	}
	out, err := f.point.Fork(ctx, engine.ForkOptions{Patch: f.patch, Tools: f.tools()})
	if err != nil {
		return err
	}
	v := f.haltView(out, "")
	d.p.Line(report.Plain, "model input of event %d: %s, nothing spent", v.Seq, report.CountChanges(len(v.Changes)))
	d.p.Changes(v.Changes)
	return nil
}

func (d *demonstration) resample(ctx context.Context) error {
	d.title(4, "Fork at event 7 and go on: what would it have concluded?")
	f, err := d.forking(ctx, "live", d.b)
	if err != nil {
		return err
	}
	rec, err := f.record(recorder.ModelSwap{})
	if err != nil {
		return err
	}
	defer rec.Close()
	if _, err := f.future(ctx, ruleChair(""), recorder.ModelSwap{}, engine.Tee{rec, watch(d.p, false)}); err != nil {
		return err
	}
	return d.conclusion(d.b)
}

func (d *demonstration) compare(context.Context) error {
	d.title(5, "Diff: what the one record changed")
	runA, err := openRun(d.a)
	if err != nil {
		return err
	}
	runB, err := openRun(d.b)
	if err != nil {
		return err
	}
	runA.Name, runB.Name = "run_a", "run_b"
	d.p.Diff(diff.Ledgers(runA, runB), runA, runB)
	return nil
}
