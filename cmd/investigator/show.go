package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"github.com/urfave/cli/v2"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

func showVerb(sh *shell) *cli.Command {
	return &cli.Command{
		Name:      "show",
		Usage:     "print a recorded run for people, or one event of it whole",
		UsageText: "investigator show [--at 7] [--model-input] cassettes/run_a.yaml",
		ArgsUsage: "CASSETTE",
		Description: `Prints one line an event. --at N prints one event whole; with --model-input,
exactly what the model saw at that turn, as the canonical Converse body.
--usage prints tokens, the share read from the prompt cache, and cost by turn.
--ledger prints the ledger as JSON lines, for cmp and jq.`,
		Flags: []cli.Flag{
			&cli.IntFlag{Name: "at", Usage: "print event `SEQ` whole"},
			&cli.BoolFlag{Name: "model-input", Usage: "print the request of the model turn at --at (default: the last one)"},
			&cli.BoolFlag{Name: "usage", Usage: "print tokens and cost by model turn"},
			&cli.StringFlag{Name: "prices", Usage: "price table `FILE` to use instead of the recorded prices"},
			&cli.BoolFlag{Name: "ledger", Usage: "print the ledger, one canonical event a line"},
			&cli.BoolFlag{Name: "plain", Usage: "print the whole run as stable text, for git's textconv; says so in the text if the file is damaged"},
			jsonFlag(),
		},
		Action: func(c *cli.Context) error {
			name, err := oneArg(c, "CASSETTE")
			if err != nil {
				return err
			}
			return show(sh, name, showOptions{
				at: c.Int("at"), atGiven: c.IsSet("at"), input: c.Bool("model-input"), usage: c.Bool("usage"), prices: c.String("prices"),
				ledger: c.Bool("ledger"), plain: c.Bool("plain"), json: c.Bool("json"),
			})
		},
	}
}

type showOptions struct {
	at                                         int
	atGiven, input, usage, ledger, plain, json bool
	prices                                     string
}

func show(sh *shell, file string, o showOptions) error {
	c, err := recorder.Open(file)
	if err != nil && o.plain { // git shows no diff at all if its textconv fails
		sh.printer().Line(report.Plain, "cannot be shown: %s", reasonOf(err))
		return nil
	}
	if err != nil {
		return err
	}
	switch {
	case o.ledger:
		return showLedger(sh, c)
	case o.input:
		return showInput(sh, c, o)
	case o.atGiven:
		return showEvent(sh, c, o)
	case o.usage:
		return showUsage(sh, c, o)
	case o.json:
		return showJSON(sh, c, o)
	}
	return showRun(sh, c, o.plain)
}

// showLedger prints the ledger byte for byte, but for what could act on a
// terminal that it goes to.
func showLedger(sh *shell, c *recorder.Cassette) error {
	if !sh.tty {
		return c.WriteLedger(sh.out)
	}
	var b strings.Builder
	if err := c.WriteLedger(&b); err != nil {
		return err
	}
	_, err := io.WriteString(sh.out, report.CleanJSON(b.String()))
	return err
}

// writeLine prints a canonical document, as showLedger does.
func writeLine(sh *shell, doc []byte) error {
	text := string(doc) + "\n"
	if sh.tty {
		text = report.CleanJSON(text)
	}
	_, err := io.WriteString(sh.out, text)
	return err
}

// showInput prints the body of a model request.
func showInput(sh *shell, c *recorder.Cassette, o showOptions) error {
	seq := o.at
	events, err := c.Events()
	if err != nil {
		return err
	}
	if !o.atGiven {
		for _, e := range events {
			if e.Type == ledger.ModelResponded || e.Type == ledger.ModelFailed {
				seq = e.Seq
			}
		}
	}
	req, err := c.Request(seq)
	if recorder.Unusable(err) {
		return err
	}
	if err != nil {
		return usagef(modelTurns(events), "--at: %v", err)
	}
	if o.json {
		return writeLine(sh, req.Body())
	}
	return writeIndented(sh.out, req.Body())
}

func modelTurns(events []ledger.Event) string {
	var turns []int
	for _, e := range events {
		if e.Type == ledger.ModelResponded || e.Type == ledger.ModelFailed {
			turns = append(turns, e.Seq)
		}
	}
	return fmt.Sprintf("the model turns of this run are the events %v", turns)
}

func showEvent(sh *shell, c *recorder.Cassette, o showOptions) error {
	if err := checkSeq(c, o.at); err != nil {
		return err
	}
	e, err := c.Event(o.at)
	if err != nil {
		return err
	}
	origin, err := c.Origin(o.at)
	if err != nil {
		return err
	}
	if o.json {
		return writeLine(sh, e.Line())
	}
	p := sh.printer()
	p.Line(report.Bold, "event %d  %s  [%s]", e.Seq, e.Type, string(origin))
	if e.In != "" {
		p.Line(report.Dim, "in  %s", e.In)
	}
	return writeIndented(sh.out, e.Data)
}

// writeIndented writes JSON for people. Numbers and strings keep their text;
// what could act on a terminal is escaped, which JSON allows in strings. A large
// document that would be mostly spaces stays on one line: nobody reads what is
// nested so deep, and the spaces would be thousands of times the document.
func writeIndented(w io.Writer, doc json.RawMessage) error {
	var b bytes.Buffer
	if indentOf(doc) > 1<<20+8*len(doc) {
		b.Write(doc)
	} else if err := json.Indent(&b, doc, "", "  "); err != nil {
		return err
	}
	b.WriteByte('\n')
	_, err := io.WriteString(w, report.CleanJSON(b.String()))
	return err
}

// indentOf is how many spaces json.Indent puts before the lines of a document, or
// a few more where something is empty.
func indentOf(doc json.RawMessage) int {
	depth, spaces, text := 0, 0, false
	for i := 0; i < len(doc); i++ {
		switch b := doc[i]; {
		case b == '"':
			text = !text
		case text && b == '\\':
			i++
		case text:
		case b == '{' || b == '[':
			depth++
			spaces += 2 * depth
		case b == '}' || b == ']':
			depth--
			spaces += 2 * depth
		case b == ',':
			spaces += 2 * depth
		}
	}
	return spaces
}

func showUsage(sh *shell, c *recorder.Cassette, o showOptions) error {
	if !o.json {
		return printUsage(sh.printer(), c, o.prices, true)
	}
	p, err := pricingOf(c, o.prices)
	if err != nil {
		return err
	}
	u, err := usageJSON(c, p)
	if err != nil {
		return err
	}
	return printJSON(sh.out, u)
}

func showJSON(sh *shell, c *recorder.Cassette, o showOptions) error {
	h := c.Header()
	p, err := pricingOf(c, o.prices)
	if err != nil {
		return err
	}
	used, err := usageJSON(c, p)
	if err != nil {
		return err
	}
	events, err := c.Events()
	if err != nil {
		return err
	}
	type line struct {
		Seq    int             `json:"seq"`
		Type   string          `json:"type"`
		Origin edge.Origin     `json:"origin"`
		In     string          `json:"in,omitempty"`
		Data   json.RawMessage `json:"data"`
	}
	out := struct {
		Header recorder.Header `json:"header"`
		Sealed bool            `json:"sealed"`
		Usage  usageResult     `json:"usage"`
		Events []line          `json:"events"`
	}{Header: h, Sealed: c.Sealed(), Usage: used}
	for _, e := range events {
		origin, err := c.Origin(e.Seq)
		if err != nil {
			return err
		}
		out.Events = append(out.Events, line{e.Seq, e.Type, origin, e.In, e.Data})
	}
	return printJSON(sh.out, out)
}

func showRun(sh *shell, c *recorder.Cassette, plain bool) error {
	events, err := c.Events()
	if err != nil {
		return err
	}
	p := sh.printer()
	if plain {
		p = report.NewPrinter(sh.out, false, 4000)
	}
	showHead(p, c, plain)
	for _, e := range events {
		origin, err := c.Origin(e.Seq)
		if err != nil {
			return err
		}
		p.Event(e, origin)
	}
	p.Blank()
	if t := c.Torn(); t != nil {
		p.Line(report.Yellow, "torn: %s", t.Error())
	}
	if !c.Sealed() {
		p.Line(report.Yellow, "unfinished: there is no verdict")
		return nil
	}
	o, err := loop.ParseOutcome(c.Finished())
	if err != nil {
		return err
	}
	p.Outcome(o)
	p.Flags(engine.CheckVerdict(events))
	origins, err := c.Origins()
	if err != nil {
		return err
	}
	p.Line(report.Dim, "rests on: %s", report.RestsOn(origins))
	return printUsage(p, c, "", false)
}

func startOf(c *recorder.Cassette) loop.Start {
	var s loop.Start
	_ = json.Unmarshal(c.Start(), &s) // loop.New has read it
	return s
}

func showHead(p *report.Printer, c *recorder.Cassette, plain bool) {
	h := c.Header()
	if !plain { // git hands over a copy, whose name is another one each time
		p.Line(report.Bold, "%s", c.Name())
	}
	world := ""
	if h.World != nil {
		world = " · world " + h.World.Name
	}
	p.Line(report.Dim, "run %s · started %s%s", h.Run, h.Started, world)
	if h.RecordedWith != "" {
		p.Line(report.Dim, "recorded with %s", h.RecordedWith)
	}
	if f := startOf(c).Fallback; f != "" {
		p.Line(report.Yellow, "fallback: the rule model is in the chair, because %s", f)
	}
	if h.Parent != nil {
		p.Line(report.Dim, "fork of %s at event %d (run %s): %s", h.Parent.File, h.Parent.At, h.Parent.Run, string(h.Parent.Patch))
	}
	for _, m := range h.Models {
		p.Line(report.Dim, "model %s from event %d on", m.Model, m.At+1)
	}
	p.Blank()
}
