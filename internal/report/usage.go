package report

import (
	"fmt"

	"investigator/internal/converse"
)

// TurnView is a model turn's share of a run's usage. Cost is "" where the model
// is free and "unpriced" where no price is known.
type TurnView struct {
	Seq    int
	Model  string
	Origin string
	Usage  converse.Usage
	Cost   string
}

// UsageView is what a run used. Cost is "" where no turn was by a model that is
// paid for. Paid is what was paid in this run of a fork, "" where that is all of
// it. Untold is how many answers are no turns of a model, so that what they used
// is in no figure.
type UsageView struct {
	Turns      []TurnView
	Total      converse.Usage
	Cost, Paid string
	Untold     int
}

// Usage writes tokens and money, where a run used any that are paid for.
func (p *Printer) Usage(v UsageView) {
	if v.Untold > 0 {
		p.Line(Dim, "not counted: the tokens of %s kept as they came", records(v.Untold, "answers"))
	}
	if v.Cost == "" || v.Total == (converse.Usage{}) {
		return
	}
	p.Line(Dim, "tokens: %s", Tokens(v.Total))
	p.Line(Dim, "cost: %s", v.Cost)
	if v.Paid != "" {
		p.Line(Dim, "paid in this fork: %s", v.Paid)
	}
}

// UsageTable writes the same turn by turn. The columns add up: everything that
// went in is either read from the cache, written to it, or neither.
func (p *Printer) UsageTable(v UsageView) {
	p.Line(Bold, "%5s  %9s  %10s  %6s  %11s  %8s  %s", "event", "in", "cache read", "share", "cache write", "out", "cost")
	for _, t := range v.Turns {
		p.Line(Plain, "%5d  %s  %s  [%s]", t.Seq, columns(t.Usage, t.Cost), t.Model, t.Origin)
	}
	p.Line(Bold, "total  %s", columns(v.Total, ""))
	if v.Cost == "" && len(v.Turns) > 0 {
		p.Line(Dim, "the rule model is free, and its counts are estimates")
		return
	}
	p.Usage(v)
}

func columns(u converse.Usage, cost string) string {
	return fmt.Sprintf("%9d  %10d  %4d %%  %11d  %8d  %s", sent(u), u.CacheRead, CacheShare(u), u.CacheWrite, u.Output, cost)
}

// sent is all that went in: Bedrock counts what it read from a cache or wrote
// to it apart.
func sent(u converse.Usage) int64 { return u.Input + u.CacheRead + u.CacheWrite }

// CacheShare is how much of the input came from the prompt cache, in percent.
func CacheShare(u converse.Usage) int64 { return 100 * u.CacheRead / max(sent(u), 1) }

// Tokens says how many tokens were used, and which share of the input came from
// the prompt cache.
func Tokens(u converse.Usage) string {
	text := fmt.Sprintf("%d in, %d out", sent(u), u.Output)
	if u.CacheRead+u.CacheWrite > 0 {
		text += fmt.Sprintf("; cache read %d (%d %%), written %d", u.CacheRead, CacheShare(u), u.CacheWrite)
	}
	return text
}
