package report

import (
	"fmt"
	"strings"

	"investigator/internal/diff"
)

// Diff writes how two runs differ: the findings, then the causal chain from
// the first divergence on, then what each concluded.
func (p *Printer) Diff(r diff.Report, a, b diff.Run) {
	p.findings(r)
	if r.Identical {
		p.Line(Green, "identical: %s, byte for byte", Count(r.A.Events, "event"))
		return
	}
	p.Blank()
	p.divergence(r)
	p.consequences(r, a, b)
	p.Blank()
	p.concluded("A", r.A)
	p.concluded("B", r.B)
}

func (p *Printer) findings(r diff.Report) {
	switch r.Finding {
	case diff.FindingSame:
		p.Line(Bold, "same finding")
	case diff.FindingDifferent:
		var parts []string
		for _, d := range r.Differences {
			parts = append(parts, fmt.Sprintf("%s %s → %s", d.Member, orNone(part(d.A)), orNone(part(d.B))))
		}
		p.Line(Bold, "different findings: %s", strings.Join(parts, ", "))
	default:
		p.Line(Bold, "no findings to compare: a run ended without a typed verdict")
	}
	p.Line(Plain, "  A  %s: %s", r.A.Name, headline(r.A))
	p.Line(Plain, "  B  %s: %s", r.B.Name, headline(r.B))
}

func orNone(s string) string {
	if s == "" {
		return "none"
	}
	return s
}

func headline(c diff.Conclusion) string {
	switch {
	case c.Problem != "":
		return c.Problem
	case c.Verdict != nil:
		return Headline(*c.Verdict)
	case c.Outcome == "":
		return "unfinished after " + Count(c.Events, "event")
	}
	return c.Outcome + ": " + c.Reason
}

func (p *Printer) divergence(r diff.Report) {
	if r.IdenticalTo > 0 {
		p.Line(Green, "identical up to event %d", r.IdenticalTo)
	}
	if r.Prefix != "" {
		p.Line(Yellow, "run %s ends there; the other goes on", strings.ToUpper(r.Prefix))
		return
	}
	d := r.Divergence
	p.Line(Yellow, "first divergence: event %d, %s", d.Seq, sides(d.A, d.B))
	if d.A.Type != d.B.Type {
		return
	}
	if d.InToo {
		p.Line(Plain, "  what went out to it differs as well")
	}
	p.changes(append(d.Changes[:len(d.Changes):len(d.Changes)], d.Beside...), "A saw", "B saw")
	if d.Problem != "" {
		p.Line(Red, "  %s", d.Problem)
	}
}

func sides(a, b diff.Side) string {
	name := func(s diff.Side) string { return strings.TrimSpace(s.Type + " " + s.Tool) }
	if name(a) != name(b) {
		return fmt.Sprintf("A %s [%s], B %s [%s]", name(a), a.Origin, name(b), b.Origin)
	}
	return fmt.Sprintf("%s  [A %s, B %s]", name(a), a.Origin, b.Origin)
}

// maxConsequences is how many aligned events are written before the rest is
// counted.
const maxConsequences = 24

func (p *Printer) consequences(r diff.Report, a, b diff.Run) {
	if len(r.Consequences) == 0 {
		return
	}
	p.Line(Plain, "what followed:")
	for i, c := range r.Consequences {
		if i == maxConsequences {
			p.Line(Dim, "  … and %s; --json has all", Count(len(r.Consequences)-i, "more event"))
			return
		}
		p.Line(consequenceStyle(c.Kind), "  %-5s %-5s %-13s  %-15s  %s", seq("A", c.A), seq("B", c.B), c.Kind, c.Type, p.followed(c, a, b))
	}
}

func consequenceStyle(kind string) Style {
	switch kind {
	case diff.Same, diff.InputChanged:
		return Dim
	case diff.OnlyA, diff.OnlyB:
		return Yellow
	}
	return Plain
}

func seq(run string, n int) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf("%s%d", run, n)
}

// followed says what an event holds that stands in one run alone, or how much
// of it changed.
func (p *Printer) followed(c diff.Consequence, a, b diff.Run) string {
	room := max(p.width-46, 20)
	switch {
	case c.Kind == diff.OnlyA && c.A <= len(a.Events):
		return Shorten(Clean(Summary(a.Events[c.A-1])), room)
	case c.Kind == diff.OnlyB && c.B <= len(b.Events):
		return Shorten(Clean(Summary(b.Events[c.B-1])), room)
	case c.Count > 0:
		return strings.TrimSpace(Shorten(Clean(c.Tool), 40) + "  " + CountChanges(c.Count))
	}
	return c.Tool
}

// concluded says what a run came to: its verdict, else what the model said last,
// which is all that a foreign agent's run has.
func (p *Printer) concluded(run string, c diff.Conclusion) {
	switch {
	case c.Verdict == nil && c.Problem == "" && c.Text != "":
		p.Wrapped(run+" said: ", c.Text)
	case c.Verdict != nil && c.Verdict.Recommendation != "":
		p.Wrapped(run+" concluded: ", c.Verdict.Summary+" → "+c.Verdict.Recommendation)
	case c.Verdict != nil:
		p.Wrapped(run+" concluded: ", c.Verdict.Summary)
	default:
		p.Wrapped(run+" concluded: ", headline(c))
	}
}
