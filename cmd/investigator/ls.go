package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"strconv"

	"github.com/urfave/cli/v2"

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
	reason   string // Error without the file's name
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
	cells := make([][]string, 0, len(rows))
	for _, r := range rows {
		cells = append(cells, r.cells())
	}
	sh.printer().Table([]report.Column{
		{Head: "CASSETTE", Min: 42, Max: 60}, {Head: "EVENTS", Min: 6, Max: 9}, {Head: "VERDICT", Min: 24, Max: 56},
		{Head: "PARENT", Min: 6, Max: 40}, {Head: "MODEL", Min: 4, Max: 40}, {Head: "TASK", Min: 8, Max: 56},
	}, cells)
	return nil
}

func (r listed) cells() []string {
	name := filepath.Base(r.Cassette)
	if r.Error != "" {
		return []string{name, "(" + r.reason + ")"}
	}
	parent := ""
	if r.Parent != "" {
		parent = fmt.Sprintf("%s at %d", r.Parent, r.At)
	}
	return []string{name, strconv.Itoa(r.Events), r.verdict, parent, r.Model, r.Task}
}

// reasonOf is what is wrong with a cassette, without the name that stands
// beside it.
func reasonOf(err error) string {
	var damage *recorder.Damage
	var file *recorder.FileError
	switch {
	case errors.As(err, &damage):
		return fmt.Sprintf("damaged: line %d: %s", damage.Line, damage.Reason)
	case errors.As(err, &file):
		return file.Err.Error()
	}
	return err.Error()
}

func describe(f found) listed {
	r := listed{Cassette: f.path}
	if f.err != nil {
		r.Error, r.reason = f.err.Error(), reasonOf(f.err)
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
