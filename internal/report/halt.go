package report

import (
	"encoding/json"

	"investigator/internal/diff"
)

// HaltView is what fork --mode halt reports.
type HaltView struct {
	Parent   string
	At       int
	Type     string
	Patch    string
	Notes    []string
	Seq      int // the event the model's answer would become, 0 if the run ended without a model call
	Recorded int // the parent's model turn in the same place, 0 if none
	Model    string
	Tokens   int64
	Cost     string // of going on, "" if the model is free
	Changes  []diff.Change
	Cassette string
	Next     string
}

// Halted writes a halt report.
func (p *Printer) Halted(v HaltView) {
	p.Line(Bold, "halted: fork of %s at event %d (%s), %s", v.Parent, v.At, v.Type, v.Patch)
	for _, n := range v.Notes {
		p.Line(Dim, "  note: %s", n)
	}
	switch {
	case v.Seq == 0:
		p.Line(Yellow, "the run ends here: no model call follows")
	case v.Recorded == 0:
		p.Line(Plain, "the model would be called for event %d, where the parent made no call", v.Seq)
	default:
		p.Line(Plain, "model input of event %d, against event %d of the parent: %s", v.Seq, v.Recorded, CountChanges(len(v.Changes)))
		p.changes(v.Changes, "was", "now")
	}
	if v.Seq > 0 {
		p.Line(Dim, "not spent: about %d input tokens", v.Tokens)
		if v.Cost != "" {
			p.Line(Dim, "cost:      going on with %s costs %s", v.Model, v.Cost)
		}
		p.Line(Dim, "go on:     %s", v.Next)
	}
	if v.Cassette != "" {
		p.Line(Dim, "recorded:  %s (unfinished)", v.Cassette)
	}
}

// CountChanges says how many parts changed.
func CountChanges(n int) string {
	return Count(n, "part") + " changed"
}

// maxChanges is how many changes are written before the rest is counted.
const maxChanges = 12

func (p *Printer) changes(changes []diff.Change, was, now string) {
	for i, c := range changes {
		if i == maxChanges {
			p.Line(Dim, "  … and %d more; --json has all", len(changes)-i)
			return
		}
		p.change(c, was, now)
	}
}

func (p *Printer) change(c diff.Change, was, now string) {
	lost := lostRecords(c)
	if lost == nil {
		p.Line(Yellow, "  %-9s %s", c.Kind, p.pointer(c.Path))
		p.value("  "+was, c.Old)
		p.value("  "+now, c.New)
		return
	}
	p.Line(Yellow, "  %-9s %s: %d of %d gone", c.Kind, p.pointer(c.Path), len(lost.gone), lost.of)
	for i, r := range lost.gone {
		if i == 3 {
			p.Line(Dim, "    … and %d more", len(lost.gone)-i)
			break
		}
		p.value("  gone", r)
	}
}

// pointer is a JSON pointer for people: the whole document has none, and a
// member's name may be of any length.
func (p *Printer) pointer(path string) string {
	if path == "" {
		return "(the whole)"
	}
	return Shorten(Clean(path), max(p.width-32, 40))
}

type lost struct {
	gone []json.RawMessage
	of   int
}

// lostRecords gives what a truncated array lost, nil for any other change.
func lostRecords(c diff.Change) *lost {
	var before, after []json.RawMessage
	if c.Kind != diff.Truncated || json.Unmarshal(c.Old, &before) != nil || json.Unmarshal(c.New, &after) != nil || len(after) > len(before) {
		return nil
	}
	return &lost{before[len(after):], len(before)}
}

// value writes a JSON value on one line, shortened.
func (p *Printer) value(label string, v json.RawMessage) {
	if len(v) == 0 {
		return
	}
	room := p.width - 14
	p.Line(Plain, "  %-10s %s", label, Shorten(Clean(string(v)), room))
}

// Changes writes changed model inputs.
func (p *Printer) Changes(changes []diff.Change) { p.changes(changes, "was", "now") }
