package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/ledger"
)

// CheckIn checks the patch against the event it names in a run's ledger. Its
// hints name events of that run by their seq.
func (p Patch) CheckIn(events []ledger.Event) error {
	i := slices.IndexFunc(events, func(e ledger.Event) bool { return e.Seq == p.At })
	if i < 0 {
		return at(p.At, fault(NotPatchable, patchable(events), "the run has %d events and none with this number", len(events)))
	}
	_, err := p.apply(events[i])
	if err == nil && p.Insert != nil {
		err = offered(events, p.Insert.Tool)
	}
	if err == nil {
		return nil
	}
	if err.Kind == NotPatchable {
		if hint := near(events, i); hint != "" {
			err.Hint = hint
		}
	}
	return at(p.At, err)
}

// patchable lists the events that take a patch.
func patchable(events []ledger.Event) string {
	var seqs []string
	for _, e := range events {
		if Patchable(e.Type) {
			seqs = append(seqs, fmt.Sprint(e.Seq))
		}
	}
	if len(seqs) == 0 {
		return ""
	}
	return "events that take a patch: " + strings.Join(seqs, ", ")
}

type callPlace struct {
	Turn int `json:"turn"`
	Pos  int `json:"pos"`
}

// near names the events to patch instead of events[i].
func near(events []ledger.Event, i int) string {
	turn := 0
	for j := i - 1; j >= 0 && turn == 0; j-- {
		if events[j].Type == ledger.ModelResponded || events[j].Type == ledger.ModelFailed {
			turn = events[j].Seq
		}
	}
	switch {
	case turn == 0:
		return patchable(events)
	case events[i].Type == ledger.ToolCalled:
		if result := answerTo(events[i:]); result > 0 {
			return fmt.Sprintf("patch the model turn %d that made the call, or its result, event %d", turn, result)
		}
		return fmt.Sprintf("patch the model turn %d that made the call", turn)
	case events[i].Type == ledger.ToolReturned:
		return fmt.Sprintf("the model turn that asked for it is event %d", turn)
	case !Patchable(events[i].Type):
		return fmt.Sprintf("patch the model turn %d that it follows from; %s", turn, patchable(events))
	}
	return ""
}

// answerTo finds the return of the call at the head of events.
func answerTo(events []ledger.Event) int {
	var want, have callPlace
	_ = json.Unmarshal(events[0].Data, &want) // a call without a place finds nothing below
	for _, e := range events[1:] {
		if e.Type == ledger.ToolReturned && json.Unmarshal(e.Data, &have) == nil && have == want {
			return e.Seq
		}
	}
	return 0
}

// offered makes sure that an inserted call is of a tool the model has: Bedrock
// takes no history of tools that the request does not define.
func offered(events []ledger.Event, tool string) *Error {
	type spec struct {
		Name string `json:"name"`
	}
	var start struct {
		Request struct {
			ToolConfig struct {
				Tools []struct {
					ToolSpec spec `json:"toolSpec"`
				} `json:"tools"`
			} `json:"toolConfig"`
			Tools []struct { // of foreign agents: Anthropic's and OpenAI's
				spec
				Function spec `json:"function"`
			} `json:"tools"`
		} `json:"request"`
	}
	if err := json.Unmarshal(events[0].Data, &start); err != nil {
		return &Error{Kind: Refused, What: "read the run's tools", Hint: damagedHint, Err: err}
	}
	var names []string
	for _, t := range start.Request.ToolConfig.Tools {
		names = append(names, t.ToolSpec.Name)
	}
	for _, t := range start.Request.Tools {
		names = append(names, t.Name+t.Function.Name) // a tool has one of the two
	}
	if slices.Contains(names, tool) {
		return nil
	}
	return fault(Refused, "one of "+strings.Join(names, ", "), "the run has no tool %q", tool)
}
