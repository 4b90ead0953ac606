package main

import (
	"fmt"
	"path/filepath"
	"text/tabwriter"

	"github.com/urfave/cli/v2"

	"encoding/json"

	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/report"
	"investigator/internal/verdict"
)

func lsVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:        "ls",
		Usage:       "list cassettes with task, model, events, verdict and parent",
		UsageText:   "investigator ls [FOLDER]",
		ArgsUsage:   "[FOLDER]",
		Description: `Lists the cassettes of a folder (default: cassettes).`,
		Flags:       []cli.Flag{jsonFlag()},
		Action: func(c *cli.Context) error {
			folder := cassetteFolder
			switch c.Args().Len() {
			case 0:
			case 1:
				folder = c.Args().First()
			default:
				return usagef(c.Command.UsageText, "expected one FOLDER, found %d arguments", c.Args().Len())
			}
			return ls(sh, folder, c.Bool("json"))
		},
	}
}

type listed struct {
	Cassette string          `json:"cassette"`
	Run      string          `json:"run,omitempty"`
	Started  string          `json:"started,omitempty"`
	Task     string          `json:"task,omitempty"`
	Model    string          `json:"model,omitempty"`
	World    string          `json:"world,omitempty"`
	Events   int             `json:"events"`
	Finished json.RawMessage `json:"finished,omitempty"`
	Parent   string          `json:"parent,omitempty"`
	At       int             `json:"fork_at,omitempty"`
	Error    string          `json:"error,omitempty"`
	verdict  string
}

func ls(sh *shell, folder string, asJSON bool) error {
	all, err := cassettesIn(folder)
	if err != nil {
		return err
	}
	rows := make([]listed, 0, len(all))
	for _, f := range all {
		rows = append(rows, describe(f))
	}
	if asJSON {
		return printJSON(sh.out, rows)
	}
	t := tabwriter.NewWriter(sh.out, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, "CASSETTE\tMODEL\tEVENTS\tVERDICT\tPARENT\tTASK")
	for _, r := range rows {
		if r.Error != "" {
			fmt.Fprintf(t, "%s\t\t\t%s\t\t\n", report.Clean(filepath.Base(r.Cassette)), report.Clean(report.Shorten(r.Error, 60)))
			continue
		}
		parent := ""
		if r.Parent != "" {
			parent = fmt.Sprintf("%s at %d", report.Clean(r.Parent), r.At)
		}
		fmt.Fprintf(t, "%s\t%s\t%d\t%s\t%s\t%s\n", report.Clean(filepath.Base(r.Cassette)), report.Clean(r.Model), r.Events,
			report.Clean(report.Shorten(r.verdict, 48)), parent, report.Clean(report.Shorten(r.Task, 56)))
	}
	return t.Flush()
}

func describe(f found) listed {
	r := listed{Cassette: f.path}
	if f.err != nil {
		r.Error = f.err.Error()
		return r
	}
	c := f.cassette
	h := c.Header()
	r.Run, r.Started = h.Run, h.Started
	if h.World != nil {
		r.World = h.World.Name
	}
	if h.Parent != nil {
		r.Parent, r.At = h.Parent.File, h.Parent.At
	}
	var s loop.Start
	_ = json.Unmarshal(c.Start(), &s)
	r.Task, r.Model = s.Task, s.Model
	for _, m := range h.Models {
		r.Model += " → " + m.Model
	}
	r.Events, r.Finished = countOf(c), c.Finished()
	r.verdict = verdictOf(c)
	return r
}

// countOf takes the number of events from the seal, where there is one, so that
// listing decodes nothing.
func countOf(c *recorder.Cassette) int {
	if s := c.Seal(); s != nil {
		return s.Events
	}
	n, _ := c.EventCount()
	return n
}

func verdictOf(c *recorder.Cassette) string {
	if !c.Sealed() {
		return "(unfinished)"
	}
	o, err := loop.ParseOutcome(c.Finished())
	if err != nil {
		return err.Error()
	}
	if o.Outcome != loop.Concluded {
		return o.Outcome
	}
	v, _ := verdict.Parse(o.Verdict)
	return report.Headline(v)
}
