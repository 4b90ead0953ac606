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
	parts := []string{fmt.Sprintf("%d events", r.Events), fmt.Sprintf("ledger %.4s…", r.Ledger)}
	if r.Executed > 0 {
		parts = append(parts, fmt.Sprintf("%d tools executed for real", r.Executed))
	}
	if r.FromTape > 0 {
		parts = append(parts, fmt.Sprintf("%d tools from the cassette", r.FromTape))
	}
	if r.Refused > 0 {
		parts = append(parts, fmt.Sprintf("%d tools refused", r.Refused))
	}
	parts = append(parts, fmt.Sprintf("%d model turns from the cassette", r.ModelTurns))
	word := "identical: "
	if r.Unfinished {
		word = "identical as far as it was recorded (unfinished): "
	}
	p.Line(Green, "%s", word+strings.Join(parts, ", "))
	if r.Executed == 0 && why != "" {
		p.Line(Dim, "tools were not executed: %s", why)
	}
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
