package main

import (
	"context"
	"encoding/json"
	"errors"
	"math"
	"slices"

	"github.com/urfave/cli/v2"

	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/report"
	"investigator/internal/verdict"
)

// forkModelFlags are the model flags of a fork, which keeps its parent's model
// unless one is named on the command line, and its parent's settings always:
// only the patch may differ. There is no --fallback, which would change models
// half-way; --model rule does so by name.
func forkModelFlags() []cli.Flag {
	return append(append([]cli.Flag{
		&cli.StringFlag{Name: "model", Usage: "put another model in the chair from the fork point on (default: the parent's)"},
	}, callFlags()...), endpointFlags()...)
}

// sampled is one future of a fork.
type sampled struct {
	Cassette string          `json:"cassette"`
	Events   int             `json:"events"`
	Outcome  string          `json:"outcome"`
	Verdict  json.RawMessage `json:"verdict,omitempty"`
	verdict  verdict.Verdict
}

// share is how many futures reached one finding, with the Wilson score interval
// at 95 % for the probability behind it.
type share struct {
	Finding string  `json:"finding"`
	Count   int     `json:"count"`
	Of      int     `json:"of"`
	Low     float64 `json:"low"`
	High    float64 `json:"high"`
}

// sample takes several futures of one fork point, each recorded by itself, and
// counts which finding each reached.
func (f *forking) sample(ctx context.Context, ch chair, swap recorder.ModelSwap) error {
	var all []sampled
	var failed error
	for i := range f.o.samples {
		var s sampled
		if s, failed = f.sampleOne(ctx, ch, swap); failed != nil {
			break // what the others found was paid for
		}
		if !f.o.json {
			f.sh.printer().Line(report.Plain, "sample %d of %d: %s  (%s, %d events)", i+1, f.o.samples, findingOf(s), s.Cassette, s.Events)
		}
		all = append(all, s)
	}
	if len(all) == 0 {
		return failed
	}
	shares := tally(all)
	if f.o.json {
		return errors.Join(printJSON(f.sh.out, struct {
			Samples  []sampled `json:"samples"`
			Findings []share   `json:"findings"`
		}{all, shares}), failed)
	}
	p := f.sh.printer()
	p.Blank()
	for _, s := range shares {
		p.Line(report.Bold, "%d of %d: %s  (95 %% interval %.0f–%.0f %%)", s.Count, s.Of, s.Finding, 100*s.Low, 100*s.High)
	}
	return failed
}

func (f *forking) sampleOne(ctx context.Context, ch chair, swap recorder.ModelSwap) (sampled, error) {
	rec, err := f.record(swap)
	if err != nil {
		return sampled{}, err
	}
	defer rec.Close()
	out, err := f.future(ctx, ch, swap, engine.Tee{rec})
	if err != nil {
		return sampled{}, kept(rec, err)
	}
	o, err := loop.ParseOutcome(out.State.Finished())
	if err != nil {
		return sampled{}, err
	}
	s := sampled{Cassette: rec.Path(), Events: out.State.Seq(), Outcome: o.Outcome, Verdict: o.Verdict}
	s.verdict, _ = verdict.Parse(o.Verdict)
	return s, nil
}

func findingOf(s sampled) string {
	if s.Outcome != loop.Concluded {
		return "no verdict (" + s.Outcome + ")"
	}
	return report.Headline(s.verdict)
}

// tally groups futures by finding (verdict.Same), most frequent first.
func tally(all []sampled) []share {
	var shares []share
	var heads []sampled
	for _, s := range all {
		i := slices.IndexFunc(heads, func(h sampled) bool {
			return h.Outcome == s.Outcome && verdict.Same(h.verdict, s.verdict)
		})
		if i < 0 {
			heads, shares = append(heads, s), append(shares, share{Finding: findingOf(s), Of: len(all)})
			i = len(heads) - 1
		}
		shares[i].Count++
	}
	for i := range shares {
		shares[i].Low, shares[i].High = wilson(shares[i].Count, shares[i].Of)
	}
	slices.SortStableFunc(shares, func(a, b share) int { return b.Count - a.Count })
	return shares
}

// wilson is the score interval at 95 % for k successes in n trials (E. B.
// Wilson, 1927).
func wilson(k, n int) (low, high float64) {
	const z = 1.959964
	p, m := float64(k)/float64(n), float64(n)
	centre := (p + z*z/(2*m)) / (1 + z*z/m)
	half := z / (1 + z*z/m) * math.Sqrt(p*(1-p)/m+z*z/(4*m*m))
	return max(0, centre-half), min(1, centre+half)
}
