package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

const contentPointer = "/output/message/content"

// settleTurn makes sure that an edited model turn is one that the loop can take
// and that Bedrock accepts when it is sent back.
func (s *edit) settleTurn() *Error {
	s.dropDurations()
	after, err := converse.ParseTurn(s.doc)
	if err != nil {
		return &Error{Kind: Refused, What: "the result is not a model turn", Err: err, Hint: "to let the model call fail use --error TEXT"}
	}
	before, err := converse.ParseTurn(s.event.Data)
	if err != nil {
		before = converse.Turn{} // a model.failed, or a turn that never was one
	}
	if err := checkBlocks(before, after, malformedInputs(s.doc)); err != nil {
		return err
	}
	if s.out.Dropped, err = checkReasoning(before.Blocks, after.Blocks); err != nil {
		return err.(*Error)
	}
	for _, pointer := range s.out.Dropped {
		s.note("the reasoning block %s is gone; with thinking on, Bedrock wants a turn that calls tools to begin with one", pointer)
	}
	return s.settleStop(before, after)
}

// dropDurations removes what a normalised response does not hold.
func (s *edit) dropDurations() {
	if _, found := child(s.doc, "metrics"); !found {
		return
	}
	if doc, err := applyOne(s.doc, operation{Op: "remove", Path: "/metrics"}); err == nil {
		s.doc = doc
		s.note("/metrics was left out: durations are no part of a ledger")
	}
}

// settleStop keeps the stop reason in step with the calls.
func (s *edit) settleStop(before, after converse.Turn) *Error {
	want := after.StopReason
	switch {
	case len(after.ToolUses) == 0 && after.StopReason == converse.StopToolUse && len(before.ToolUses) > 0:
		want = converse.EndTurn
	case len(after.ToolUses) > 0 && after.StopReason == converse.EndTurn && len(before.ToolUses) == 0:
		want = converse.StopToolUse
	}
	if want == after.StopReason {
		return nil
	}
	doc, _, err := applyOps(s.doc, []operation{{Op: "replace", Path: "/stopReason", Value: ledger.AppendString(nil, want)}})
	if err != nil {
		return err
	}
	s.doc = doc
	s.note("/stopReason was set to %q, as the turn makes %d calls", want, len(after.ToolUses))
	return nil
}

// malformedInputs returns the indices of blocks whose input is kept as text
// beside the turn.
func malformedInputs(doc []byte) []string {
	value, n := walk(doc, []string{"investigator", "malformedInputs"})
	if n < 2 || value[0] != '{' {
		return nil
	}
	var indices []string
	for _, m := range members(value) {
		indices = append(indices, m.Name)
	}
	return indices
}

// checkBlocks checks the API's rules for blocks of an assistant message.
func checkBlocks(before, after converse.Turn, malformed []string) *Error {
	seen := map[string]bool{}
	repeats := repeatsIDs(before)
	calls := map[string]bool{}
	for i, block := range after.Blocks {
		pointer := fmt.Sprintf("%s/%d", contentPointer, i)
		if spans := members(block); len(spans) != 1 {
			return fault(Refused, "", "%s: expected a content block with one member, found %s", pointer, abbreviate(block))
		}
		call, found := child(block, "toolUse")
		if !found {
			continue
		}
		id, err := checkCall(call, pointer+"/toolUse")
		if err != nil {
			return err
		}
		if seen[id] && !repeats {
			return fault(Refused, "give each call of a turn its own id", "%s/toolUse/toolUseId: %q is there twice", pointer, id)
		}
		seen[id], calls[strconv.Itoa(i)] = true, true
	}
	for _, index := range malformed {
		if !calls[index] {
			return fault(Refused, "remove /investigator/malformedInputs/"+index+" too", "/investigator/malformedInputs/%s: expected a call at %s/%s, found none", index, contentPointer, index)
		}
	}
	return nil
}

// repeatsIDs reports whether the recorded turn has an id twice, as models
// sometimes do: converse.Echo repairs it.
func repeatsIDs(t converse.Turn) bool {
	var ids []string
	for _, use := range t.ToolUses {
		ids = append(ids, use.ID)
	}
	slices.Sort(ids)
	return len(slices.Compact(ids)) < len(t.ToolUses)
}

func checkCall(call []byte, pointer string) (id string, _ *Error) {
	var use struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(call, &use); err != nil {
		return "", &Error{Kind: Refused, What: pointer, Err: err}
	}
	if !isName(use.Name) {
		return "", fault(Refused, "", "%s/name: expected 1 to 64 of a-z, A-Z, 0-9, _ and -, found %q", pointer, use.Name)
	}
	if !isID(use.ID) {
		return "", fault(Refused, "", "%s/toolUseId: expected 1 to 64 of a-z, A-Z, 0-9 and _.:-, found %q", pointer, use.ID)
	}
	if len(use.Input) > 0 && use.Input[0] != '{' && string(use.Input) != "null" {
		return "", fault(Refused, "", "%s/input: expected an object, found %s", pointer, abbreviate(use.Input))
	}
	return use.ID, nil
}

func isName(s string) bool { return isWord(s, "_-") }
func isID(s string) bool   { return isWord(s, "_.:-") }

func isWord(s, marks string) bool {
	for i := 0; i < len(s); i++ {
		b := s[i]
		letter := 'a' <= b && b <= 'z' || 'A' <= b && b <= 'Z' || '0' <= b && b <= '9'
		if !letter && !slices.Contains([]byte(marks), b) {
			return false
		}
	}
	return 1 <= len(s) && len(s) <= 64
}

// checkReasoning makes sure that every signed or redacted reasoning block is
// one of the recorded turn's, byte for byte and in their order: a signature
// covers the text and Bedrock refuses an edited one. It returns the pointers of
// recorded reasoning blocks that are gone.
func checkReasoning(before, after []json.RawMessage) (dropped []string, _ error) {
	next, signed := 0, slices.ContainsFunc(before, isSigned)
	for i, block := range after {
		if !isReasoning(block) || !signed && !isSigned(block) {
			continue
		}
		k := slices.IndexFunc(before[next:], func(b json.RawMessage) bool { return string(b) == string(block) })
		if k < 0 {
			return nil, fault(Refused, "leave signed reasoning as it is, or drop the whole block",
				"%s/%d: a signed reasoning block was edited, moved or added; its signature would not hold", contentPointer, i)
		}
		next += k + 1
	}
	for i, block := range before {
		if isReasoning(block) && count(after, block) < count(before[:i+1], block) {
			dropped = append(dropped, fmt.Sprintf("%s/%d", contentPointer, i))
		}
	}
	return dropped, nil
}

func count(blocks []json.RawMessage, block json.RawMessage) int {
	n := 0
	for _, b := range blocks {
		if string(b) == string(block) {
			n++
		}
	}
	return n
}

func isReasoning(block json.RawMessage) bool {
	_, found := child(block, "reasoningContent")
	return found
}

func isSigned(block json.RawMessage) bool {
	if _, n := walk(block, []string{"reasoningContent", "redactedContent"}); n == 2 {
		return true
	}
	value, n := walk(block, []string{"reasoningContent", "reasoningText", "signature"})
	return n == 3 && string(value) != `""` && string(value) != "null"
}
