package main

import (
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/price"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

// pricing finds the price of a run's models: the one the run was recorded with,
// unless a table is given, and a table's for models that a fork put in the
// chair. The zero value of table means the built-in one.
type pricing struct {
	start loop.Start
	table price.Table
	given bool // the table was asked for
}

func pricingOf(c *recorder.Cassette, file string) (pricing, error) {
	t, err := openPrices(file)
	return pricing{startOf(c), t, file != ""}, err
}

func (p pricing) of(model string) *loop.Price {
	if !p.given && p.start.Price != nil && model == p.start.Model {
		return p.start.Price
	}
	if found, ok := p.table.Lookup(model, p.start.Cache); ok {
		return &found
	}
	return nil
}

// amount words what turns cost.
func (p pricing) amount(turns []engine.TurnUsage) string {
	c := engine.Cost(turns, p.of)
	switch {
	case c.Unpriced > 0 && len(c.Tables) == 0:
		return "unpriced: the model is in no price table (--prices FILE)"
	case c.Unpriced > 0:
		return fmt.Sprintf("%s, and %d turns of a model in no price table (prices: %s)", loop.Dollars(c.Micro), c.Unpriced, strings.Join(c.Tables, "; "))
	case len(c.Tables) == 0:
		return "nothing"
	}
	return fmt.Sprintf("%s (prices: %s)", loop.Dollars(c.Micro), strings.Join(c.Tables, "; "))
}

// usageView is a run's usage for people.
func usageView(c *recorder.Cassette, p pricing) (report.UsageView, error) {
	turns, untold, err := engine.UsageByTurn(c)
	if err != nil {
		return report.UsageView{}, err
	}
	v := report.UsageView{Total: total(turns), Cost: p.amount(turns), Untold: untold}
	for _, t := range turns {
		v.Turns = append(v.Turns, report.TurnView{Seq: t.Seq, Model: t.Model, Origin: string(t.Origin), Usage: t.Usage, Cost: p.turnCost(t)})
	}
	if now := paid(turns); c.Header().Parent != nil {
		v.Paid = p.amount(now)
	}
	if !slices.ContainsFunc(turns, func(t engine.TurnUsage) bool { return t.Model != prompt.RuleModel }) {
		v.Cost, v.Paid = "", "" // nothing to speak of
	}
	return v, nil
}

func (p pricing) turnCost(t engine.TurnUsage) string {
	if t.Model == prompt.RuleModel {
		return ""
	}
	if found := p.of(t.Model); found != nil {
		return loop.Dollars(found.Cost(t.Usage))
	}
	return "unpriced"
}

func total(turns []engine.TurnUsage) (sum converse.Usage) {
	for _, t := range turns {
		sum = sum.Plus(t.Usage)
	}
	return sum
}

// paid are the turns that were not paid for in the parent already.
func paid(turns []engine.TurnUsage) (out []engine.TurnUsage) {
	for _, t := range turns {
		if t.Paid() {
			out = append(out, t)
		}
	}
	return out
}

// printUsage writes what the run of a cassette used.
func printUsage(p *report.Printer, c *recorder.Cassette, prices string, table bool) error {
	known, err := pricingOf(c, prices)
	if err != nil {
		return err
	}
	v, err := usageView(c, known)
	if err != nil {
		return err
	}
	if table {
		p.UsageTable(v)
	} else {
		p.Usage(v)
	}
	return nil
}

// usageResult is usage for scripts. Dollars are decimal strings, "" where a
// price is not known.
type usageResult struct {
	Turns []usageLine `json:"turns"`
	Total usageLine   `json:"total"`
	Paid  usageLine   `json:"paid_here"` // without what a fork's parent paid for
	// Answers of a foreign run that are no turns of a model: what they used is
	// not known and in no line.
	Untold int `json:"untold,omitempty"`
}

type usageLine struct {
	Event      int    `json:"event,omitempty"`
	Model      string `json:"model,omitempty"`
	Origin     string `json:"origin,omitempty"`
	Input      int64  `json:"input_tokens"` // neither read from the cache nor written to it
	Output     int64  `json:"output_tokens"`
	CacheRead  int64  `json:"cache_read_tokens"`
	CacheWrite int64  `json:"cache_write_tokens"`
	Share      int64  `json:"cache_read_percent"`
	Cost       string `json:"cost_usd,omitempty"`
	Prices     string `json:"prices,omitempty"`
}

func usageJSON(c *recorder.Cassette, p pricing) (usageResult, error) {
	turns, untold, err := engine.UsageByTurn(c)
	if err != nil {
		return usageResult{}, err
	}
	out := usageResult{Turns: []usageLine{}, Untold: untold, Total: p.line(turns), Paid: p.line(paid(turns))}
	for _, t := range turns {
		l := p.line([]engine.TurnUsage{t})
		l.Event, l.Model, l.Origin = t.Seq, t.Model, string(t.Origin)
		out.Turns = append(out.Turns, l)
	}
	return out, nil
}

func (p pricing) line(turns []engine.TurnUsage) usageLine {
	u := total(turns)
	l := usageLine{Input: u.Input, Output: u.Output, CacheRead: u.CacheRead, CacheWrite: u.CacheWrite, Share: report.CacheShare(u)}
	if cost := engine.Cost(turns, p.of); cost.Unpriced == 0 {
		l.Cost, l.Prices = strings.TrimPrefix(loop.Dollars(cost.Micro), "$"), strings.Join(cost.Tables, "; ")
	}
	return l
}
