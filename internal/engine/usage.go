package engine

import (
	"slices"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
)

// TurnUsage is what one model turn of a run used.
type TurnUsage struct {
	Seq    int // the event of the turn
	Model  string
	Origin edge.Origin
	Usage  converse.Usage
}

// Paid reports whether the turn was paid for in this run, and not in the one
// that it was forked from.
func (t TurnUsage) Paid() bool { return t.Origin == edge.Live }

// UsageByTurn lists the model turns of a run with the tokens that each used and
// the model in the chair, which a fork may have changed. A turn that failed has
// no usage and is left out. So is an answer to a foreign agent that is no turn,
// of CountTokens or of a model whose answers are kept as they are; untold says how
// many there are.
func UsageByTurn(c *recorder.Cassette) (turns []TurnUsage, untold int, err error) {
	events, err := c.Events()
	if err != nil {
		return nil, 0, err
	}
	model, swaps := c.Begin().Request().Model, c.Header().Models
	for _, e := range events {
		for len(swaps) > 0 && swaps[0].At < e.Seq {
			model, swaps = swaps[0].Model, swaps[1:]
		}
		if e.Type != ledger.ModelResponded {
			continue
		}
		turn, err := converse.ParseCanonical(e.Data)
		if err != nil && c.Foreign() != nil {
			untold++
			continue
		}
		if err != nil {
			return nil, 0, err
		}
		origin, err := c.Origin(e.Seq)
		if err != nil {
			return nil, 0, err
		}
		turns = append(turns, TurnUsage{e.Seq, model, origin, turn.Usage})
	}
	return turns, untold, nil
}

// Priced is what turns cost, as far as it is known.
type Priced struct {
	Micro    int64 // micro-dollars, over the turns that have a price
	Unpriced int   // turns of a model in no price table
	Tables   []string
}

// Cost prices turns, each by its own model. The rule model is free. price
// returns nil for a model that no table knows; its turns are counted and never
// guessed at.
func Cost(turns []TurnUsage, price func(model string) *loop.Price) Priced {
	var out Priced
	sums, counts := map[string]converse.Usage{}, map[string]int{}
	var models []string
	for _, t := range turns {
		if t.Model == prompt.RuleModel {
			continue
		}
		if _, seen := sums[t.Model]; !seen {
			models = append(models, t.Model)
		}
		sums[t.Model] = sums[t.Model].Plus(t.Usage)
		counts[t.Model]++
	}
	for _, m := range models {
		p := price(m)
		if p == nil {
			out.Unpriced += counts[m]
			continue
		}
		out.Micro += p.Cost(sums[m])
		if !slices.Contains(out.Tables, p.Table) {
			out.Tables = append(out.Tables, p.Table)
		}
	}
	return out
}
