package main

import (
	"context"
	"errors"

	"github.com/urfave/cli/v2"

	"investigator/internal/engine"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

func verifyVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "verify",
		Usage:     "check that cassettes are intact, sealed and obey the laws",
		UsageText: "investigator verify cassettes/run_a.yaml",
		ArgsUsage: "CASSETTE...",
		Description: `Checks every byte against the sums in the file and names the damage, says
whether the run was sealed, and replays it from the cassette alone. --quick
stops after the bytes.`,
		Flags: []cli.Flag{&cli.BoolFlag{Name: "quick", Usage: "check the bytes and the seal, do not replay"}, jsonFlag()},
		Action: func(c *cli.Context) error {
			if !c.Args().Present() {
				return usagef(c.Command.UsageText, "expected a CASSETTE, found none")
			}
			return verify(c.Context, sh, c.Args().Slice(), c.Bool("quick"), c.Bool("json"))
		},
	}
}

type verified struct {
	Cassette string `json:"cassette"`
	Intact   bool   `json:"intact"`
	Sealed   bool   `json:"sealed"`
	Events   int    `json:"events,omitempty"`
	Ledger   string `json:"ledger,omitempty"`
	Torn     string `json:"torn,omitempty"`
	Laws     string `json:"laws,omitempty"` // "hold", or what broke
	Error    string `json:"error,omitempty"`
}

func verify(ctx context.Context, sh *shell, files []string, quick, asJSON bool) error {
	var results []verified
	var first error
	for _, file := range files {
		v, err := verifyOne(ctx, file, quick)
		if err != nil && first == nil {
			first = err
		}
		results = append(results, v)
		if !asJSON && err == nil {
			printVerified(sh.printer(), v)
		} else if !asJSON {
			complain(sh.notes(), err)
		}
	}
	if asJSON {
		if err := printJSON(sh.out, results); err != nil {
			return err
		}
	}
	if first == nil {
		return nil
	}
	return status(statusOf(first))
}

func verifyOne(ctx context.Context, file string, quick bool) (verified, error) {
	v := verified{Cassette: file}
	c, err := recorder.Open(file)
	if err != nil {
		v.Error = err.Error()
		return v, err
	}
	v.Intact, v.Sealed = true, c.Sealed()
	if t := c.Torn(); t != nil {
		v.Torn = t.Error()
	}
	if quick {
		return v, nil
	}
	first, err := engine.Replay(ctx, c, engine.ReplayOptions{})
	if err != nil {
		v.Error = err.Error()
		return v, err
	}
	again, err := engine.Replay(ctx, c, engine.ReplayOptions{})
	if err != nil {
		v.Error = err.Error()
		return v, err
	}
	v.Events, v.Ledger = first.Events, first.Ledger
	if !first.Identical {
		err = &engine.Diverged{Divergence: *first.Divergence}
	} else if first.Ledger != again.Ledger {
		err = errors.New("two replays of " + file + " differ")
	}
	v.Laws = "hold"
	if err != nil {
		v.Laws = err.Error()
		return v, err
	}
	return v, nil
}

func printVerified(p *report.Printer, v verified) {
	state := "sealed"
	if !v.Sealed {
		state = "not sealed: the run did not finish"
	}
	if v.Laws == "" {
		p.Line(report.Green, "%s: intact, %s", v.Cassette, state)
	} else {
		p.Line(report.Green, "%s: intact, %s, laws hold: %d events, ledger %.8s", v.Cassette, state, v.Events, v.Ledger)
	}
	if v.Torn != "" {
		p.Line(report.Yellow, "  %s", v.Torn)
	}
}
