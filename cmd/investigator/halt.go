package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/report"
)

func (f *forking) halt(ctx context.Context) error {
	swap, err := f.swap()
	if err != nil {
		return err
	}
	rec, err := f.record(swap)
	if err != nil {
		return err
	}
	defer rec.Close()
	out, err := f.point.Fork(ctx, engine.ForkOptions{Patch: f.patch, Swap: swap.Model, Price: swap.Price, Tools: f.tools(), Unsee: f.o.unseen, Sink: rec})
	if err != nil {
		return kept(rec, err)
	}
	if f.o.json {
		return printJSON(f.sh.out, haltResult{Parent: f.parent.Name(), At: f.o.at, Cassette: rec.Path(), Notes: out.Notes, Halt: out.Halt, Finished: out.State.Finished()})
	}
	f.sh.printer().Halted(f.haltView(out, rec.Path()))
	return nil
}

type haltResult struct {
	Parent   string             `json:"parent"`
	At       int                `json:"at"`
	Cassette string             `json:"cassette"`
	Notes    []string           `json:"notes,omitempty"`
	Halt     *engine.HaltReport `json:"halt"`
	Finished json.RawMessage    `json:"finished,omitempty"`
}

func (f *forking) haltView(out engine.Forked, path string) report.HaltView {
	v := report.HaltView{
		Parent: f.parent.Name(), At: f.o.at, Type: f.point.Event.Type, Patch: describePatch(f.patch), Notes: out.Notes, Cassette: path,
		Next: f.goOn(),
	}
	if out.Halt != nil {
		v.Seq, v.Recorded, v.Model, v.Tokens, v.Changes = out.Halt.Seq, out.Halt.Recorded, out.Halt.Model, out.Halt.Tokens, out.Halt.Changes
		v.Cost = f.estimate(out.Halt)
	}
	return v
}

// goOn is the command line that goes on where this fork halts.
func (f *forking) goOn() string {
	words := []string{"investigator fork --at", strconv.Itoa(f.o.at), "--mode live"}
	if f.o.world != "" {
		words = append(words, "--world", shellQuote(f.o.world))
	}
	if f.o.unseen != engine.UnseenRun {
		words = append(words, "--unseen", string(f.o.unseen))
	}
	if f.o.writes {
		words = append(words, "--allow-writes")
	}
	if f.o.modelGiven {
		words = append(words, "--model", shellQuote(f.o.model.id))
	}
	if p := f.o.patch.words(); p != "" {
		words = append(words, p)
	}
	return strings.Join(append(words, shellQuote(f.parent.Name())), " ")
}

const unknownCost = "an unknown amount: the model is in no price table"

// inputCost words what the tokens of a request cost.
func inputCost(p *loop.Price, tokens int64) string {
	return fmt.Sprintf("at most %s for the input of the next request (prices: %s)", loop.Dollars(p.Cost(converse.Usage{Input: tokens})), p.Table)
}

// estimate says what going on would cost, if anything: the next request, which is
// known, and beside it what the parent's own turns from here on did cost.
func (f *forking) estimate(h *engine.HaltReport) string {
	if h.Model == prompt.RuleModel {
		return "" // it is free
	}
	known, err := pricingOf(f.parent, f.o.model.prices)
	if err != nil {
		return err.Error()
	}
	p := known.of(h.Model)
	if p == nil {
		return unknownCost + " (--prices FILE)"
	}
	text := inputCost(p, h.Tokens)
	if turns, _, err := engine.UsageByTurn(f.parent); err == nil {
		var later []engine.TurnUsage
		for _, t := range turns {
			if t.Seq > f.o.at {
				t.Model = h.Model
				later = append(later, t)
			}
		}
		if cost := engine.Cost(later, known.of); cost.Micro > 0 {
			text += fmt.Sprintf("; the tokens of the parent's %d turns from here on would cost %s", len(later), loop.Dollars(cost.Micro))
		}
	}
	return text
}
