package report

import (
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/loop"
)

// Usage writes tokens and money, where a run used any that cost something.
func (p *Printer) Usage(o loop.Outcome, s loop.Start) {
	if s.Model == "rule" {
		return
	}
	p.Line(Dim, "tokens: %s", Tokens(o.Usage))
	if s.Price == nil {
		p.Line(Dim, "cost: unpriced (%s is in no price table)", s.Model)
		return
	}
	p.Line(Dim, "cost: %s (prices: %s)", loop.Dollars(s.Price.Cost(o.Usage)), s.Price.Table)
}

// Tokens says how many tokens were used, and which share of the input came from
// the prompt cache.
func Tokens(u converse.Usage) string {
	in := u.Input + u.CacheRead + u.CacheWrite
	text := fmt.Sprintf("%d in, %d out", in, u.Output)
	if u.CacheRead+u.CacheWrite > 0 {
		text += fmt.Sprintf("; cache read %d (%d %%), written %d", u.CacheRead, 100*u.CacheRead/max(in, 1), u.CacheWrite)
	}
	return text
}
