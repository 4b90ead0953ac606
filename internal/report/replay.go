package report

import (
	"fmt"
	"strings"

	"investigator/internal/engine"
)

// Replayed writes what a replay proved in one line, or where it stopped being
// the recorded run. why says why tools were not executed.
func (p *Printer) Replayed(r engine.Replayed, why string) {
	if r.Divergence != nil {
		p.Divergence(*r.Divergence)
		return
	}
	parts := []string{Count(r.Events, "event"), fmt.Sprintf("ledger %.4s…", r.Ledger)}
	if r.Executed > 0 {
		parts = append(parts, Count(r.Executed, "tool")+" executed for real")
	}
	if r.FromTape > 0 {
		parts = append(parts, Count(r.FromTape, "tool")+" from the cassette")
	}
	if r.Refused > 0 {
		parts = append(parts, Count(r.Refused, "tool")+" refused")
	}
	parts = append(parts, Count(r.ModelTurns, "model turn")+" from the cassette")
	word := "identical: "
	if r.Unfinished {
		word = "identical as far as it was recorded (unfinished): "
	}
	if r.StartChanged {
		word = "identical but for run.started, where it changes nothing that the model sees: "
	}
	p.Line(Green, "%s", word+strings.Join(parts, ", "))
	if r.Executed == 0 && why != "" {
		p.Line(Dim, "tools were not executed: %s", why)
	}
}

// Count is a number of things.
func Count(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// Divergence writes where a replay and its recording part.
func (p *Printer) Divergence(d engine.Divergence) {
	p.Line(Red, "diverged at event %d (%s): %s %s", d.Seq, d.Type, d.In, d.Problem)
	p.changes(d.Changes, "recorded", "now")
	if len(d.Changes) == 0 {
		p.value("recorded", d.Recorded)
		p.value("now", d.Now)
	}
	if d.Cause != "" {
		p.Line(Plain, "  likely cause: %s", d.Cause)
	}
}
