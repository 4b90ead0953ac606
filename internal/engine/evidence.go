package engine

import (
	"encoding/json"
	"fmt"

	"github.com/go-openapi/jsonpointer"

	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// CheckVerdict holds a run's verdict against the results it cites: addresses
// that lead nowhere, and numbers and times that occur in no cited result nor in
// the question. It returns one sentence for each, none for a run without a
// typed verdict.
func CheckVerdict(events []ledger.Event) []string {
	if len(events) == 0 || events[len(events)-1].Type != ledger.RunFinished {
		return nil
	}
	o, err := loop.ParseOutcome(events[len(events)-1].Data)
	if err != nil || o.Outcome != loop.Concluded {
		return nil
	}
	v, problems := verdict.Parse(o.Verdict)
	if len(problems) > 0 {
		return problems
	}
	sources, out := cited(v, events)
	for _, f := range v.Unsupported(sources) {
		out = append(out, fmt.Sprintf("%s: %s occurs in no cited result", f.Member, f.Text))
	}
	return out
}

// cited collects the texts of the results a verdict cites, and of the question.
func cited(v verdict.Verdict, events []ledger.Event) (sources, problems []string) {
	addresses := append([]string{}, v.Evidence...)
	for _, r := range v.RuledOut {
		addresses = append(addresses, r.Evidence...)
	}
	sources = append(sources, string(events[0].Data))
	for _, a := range addresses {
		text, err := Resolve(a, events)
		if err != nil {
			problems = append(problems, fmt.Sprintf("evidence %s: %v", a, err))
			continue
		}
		sources = append(sources, text)
	}
	return sources, problems
}

// Resolve gives the text behind an evidence address. For a part of a result the
// whole result is the source, because a figure beside the cited part (the
// metric's unit, the time of its first sample) is in view of whoever looks.
func Resolve(address string, events []ledger.Event) (string, error) {
	seq, pointer, err := verdict.ParseAddress(address)
	if err != nil {
		return "", err
	}
	if seq > len(events) || events[seq-1].Type != ledger.ToolReturned {
		return "", fmt.Errorf("event %d is no tool result", seq)
	}
	var data struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(events[seq-1].Data, &data); err != nil {
		return "", err
	}
	if pointer == "" {
		return string(data.Result), nil
	}
	p, err := jsonpointer.New(pointer)
	if err != nil {
		return "", err
	}
	var doc any
	if err := json.Unmarshal(data.Result, &doc); err != nil {
		return "", err
	}
	if _, _, err := p.Get(doc); err != nil {
		return "", fmt.Errorf("%s leads nowhere in the result", pointer)
	}
	return string(data.Result), nil
}
