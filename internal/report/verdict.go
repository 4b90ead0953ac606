package report

import (
	"fmt"
	"strings"

	"investigator/internal/edge"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// Headline is a verdict in one line.
func Headline(v verdict.Verdict) string {
	if v.Inconclusive() {
		return "inconclusive"
	}
	s := part(v.Component) + " (" + part(v.Class) + ", confidence " + part(v.Confidence) + ")"
	if v.Change != "" {
		s += ", change " + part(v.Change)
	}
	return s
}

// part is a member of a verdict in a headline, which a model may have filled
// with a book.
func part(s string) string { return Shorten(s, 80) }

// Verdict writes a verdict whole.
func (p *Printer) Verdict(v verdict.Verdict) {
	p.Line(Bold, "verdict: %s", Headline(v))
	p.Wrapped("  ", v.Summary)
	for _, f := range []struct{ label, text string }{
		{"  mechanism    ", v.Mechanism}, {"  started      ", v.StartedAt}, {"  evidence     ", strings.Join(v.Evidence, ", ")},
	} {
		if f.text != "" {
			p.Wrapped(f.label, f.text)
		}
	}
	for _, r := range v.RuledOut {
		p.Wrapped("  ruled out    ", r.Hypothesis+": "+r.Reason)
	}
	for _, n := range v.NotExamined {
		p.Wrapped("  not examined ", n)
	}
	if v.Recommendation != "" {
		p.Wrapped("  recommends   ", v.Recommendation)
	}
}

// Outcome writes how a run ended, its verdict where it has one.
func (p *Printer) Outcome(o loop.Outcome) {
	v, problems := verdict.Parse(o.Verdict)
	switch {
	case o.Outcome != loop.Concluded:
		p.Line(Yellow, "no typed verdict: %s: %s", o.Outcome, o.Reason)
		if o.Text != "" {
			p.Wrapped("  it said      ", o.Text)
		}
	case len(problems) > 0:
		p.Line(Yellow, "the verdict is not valid: %s", strings.Join(problems, "; "))
	default:
		p.Verdict(v)
	}
	if o.Dropped > 0 {
		p.Line(Dim, "  %d calls made beside the report were not run", o.Dropped)
	}
}

// RestsOn says what a verdict rests on: where the returns before it came from.
func RestsOn(origins map[edge.Origin]int) string {
	words := []struct {
		origin edge.Origin
		format string
	}{
		{edge.Tape, "%d from tape"}, {edge.Patched, "%d patched"}, {edge.Live, "%d sampled live"},
		{edge.Rule, "%d answered by the rule model"}, {edge.Executed, "%d executed"}, {edge.Refused, "%d refused"},
	}
	var parts []string
	for _, w := range words {
		if n := origins[w.origin]; n > 0 {
			parts = append(parts, fmt.Sprintf(w.format, n))
		}
	}
	return strings.Join(parts, ", ")
}

// Flags writes what is wrong with a verdict's evidence.
func (p *Printer) Flags(flags []string) {
	for _, f := range flags {
		p.Line(Yellow, "  unsupported: %s", f)
	}
}
