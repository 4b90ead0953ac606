package main

import (
	"github.com/urfave/cli/v2"

	"investigator/internal/diff"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

func diffVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "diff",
		Usage:     "compare two runs: findings first, then the causal chain",
		UsageText: "investigator diff cassettes/run_a.yaml cassettes/run_b.yaml",
		ArgsUsage: "A B",
		Description: `Says whether both runs reached the same finding, up to where they are
identical, what differs at the first divergence, and what followed from it.
"identical" is said only when every byte of the ledgers is. Ends with 0 when
the runs are identical or reached the same finding, with 3 when not.`,
		Flags: []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			if c.Args().Len() != 2 {
				return usagef(c.Command.UsageText, "expected two cassettes, found %d arguments", c.Args().Len())
			}
			return diffRuns(sh, c.Args().Get(0), c.Args().Get(1), c.Bool("json"))
		},
	}
}

func diffRuns(sh *shell, a, b string, asJSON bool) error {
	runA, err := openRun(a)
	if err != nil {
		return err
	}
	runB, err := openRun(b)
	if err != nil {
		return err
	}
	r := diff.Ledgers(runA, runB)
	if asJSON {
		err = printJSON(sh.out, r)
	} else {
		sh.printer().Diff(r, runA, runB)
	}
	if err != nil {
		return err
	}
	if r.Identical || r.Finding == diff.FindingSame {
		return nil
	}
	return status(exitDiverged)
}

// openRun reads a cassette as diff takes it.
func openRun(file string) (diff.Run, error) {
	c, err := recorder.Open(file)
	if err != nil {
		return diff.Run{}, err
	}
	events, err := c.Events()
	if err != nil {
		return diff.Run{}, err
	}
	sums := make([]ledger.Sum, len(events))
	for i, e := range events {
		if sums[i], err = c.LedgerSum(e.Seq); err != nil {
			return diff.Run{}, err
		}
	}
	origin := func(seq int) edge.Origin {
		o, _ := c.Origin(seq) // the events are loaded, so only a seq out of range fails
		return o
	}
	return diff.Run{Name: file, Events: events, Sums: sums, Origins: origin}, nil
}
