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
	if err := checkBlocks(before, after); err != nil {
		return err
	}
	if err := checkMalformed(before, after, malformedInputs(s.doc)); err != nil {
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
	if s.apply([]operation{{Op: "remove", Path: "/metrics"}}) == nil {
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
	if err := s.apply([]operation{{Op: "replace", Path: "/stopReason", Value: ledger.AppendString(nil, want)}}); err != nil {
		return err
	}
	s.note("/stopReason was set to %q, as the turn makes %s", want, counted(len(after.ToolUses), "call"))
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

// checkBlocks checks the API's rules for blocks of an assistant message. Blocks
// that stand in the recorded turn too are taken as they are: what a model did
// wrong is repaired when its turn is echoed.
func checkBlocks(before, after converse.Turn) *Error {
	seen := map[string]bool{}
	repeats := repeatsIDs(before)
	for i, block := range after.Blocks {
		pointer := fmt.Sprintf("%s/%d", contentPointer, i)
		if count(before.Blocks, block) == 0 {
			if err := checkBlock(block, pointer); err != nil {
				return err
			}
		}
		id, found := walk(block, []string{"toolUse", "toolUseId"})
		if found < 2 {
			continue
		}
		if seen[string(id)] && !repeats {
			return fault(Refused, "give each call of a turn its own id", "%s/toolUse/toolUseId: %s is there twice", pointer, id)
		}
		seen[string(id)] = true
	}
	return nil
}

func checkBlock(block []byte, pointer string) *Error {
	if len(members(block)) != 1 {
		return fault(Refused, `a block is like {"text":"…"} or {"toolUse":{…}}`, "%s: expected a content block with one member, found %s", pointer, abbreviate(block))
	}
	if call, found := child(block, "toolUse"); found {
		return checkCall(call, pointer+"/toolUse")
	}
	return nil
}

// checkMalformed makes sure that a text that was no input stands beside the
// call it came with: it is kept by the call's index, which moves when blocks
// before it go.
func checkMalformed(before, after converse.Turn, indices []string) *Error {
	for _, index := range indices {
		pointer := contentPointer + "/" + index
		now, was := callAt(after, index), callAt(before, index)
		id, _ := child(now, "toolUseId")
		oldID, _ := child(was, "toolUseId")
		input, _ := child(now, "input")
		hint := "remove /investigator/malformedInputs/" + index + " too, or move it to where its call is now"
		switch {
		case now == nil:
			return fault(Refused, hint, "/investigator/malformedInputs/%s: expected a call at %s, found none", index, pointer)
		case was != nil && string(id) != string(oldID):
			return fault(Refused, hint, "/investigator/malformedInputs/%s: expected the call %s at %s, found %s", index, oldID, pointer, id)
		case string(input) != "{}":
			return fault(Refused, "remove /investigator/malformedInputs/"+index+" too, so that the call is run", "%s/toolUse/input: expected {} beside a text that is no input, found %s", pointer, abbreviate(input))
		}
	}
	return nil
}

// callAt returns the call of the block with this index, nil if there is none.
func callAt(t converse.Turn, index string) []byte {
	if !isIndex(index, len(t.Blocks)) {
		return nil
	}
	i, _ := strconv.Atoi(index)
	call, _ := child(t.Blocks[i], "toolUse")
	return call
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

func checkCall(call []byte, pointer string) *Error {
	const hint = `a call is like {"input":{},"name":"list_deploys","toolUseId":"t1"}`
	var use struct {
		ID    string          `json:"toolUseId"`
		Name  string          `json:"name"`
		Input json.RawMessage `json:"input"`
	}
	if err := json.Unmarshal(call, &use); err != nil {
		return &Error{Kind: Refused, What: pointer, Hint: hint, Err: err}
	}
	if !isName(use.Name) {
		return fault(Refused, hint, "%s/name: expected 1 to 64 of a-z, A-Z, 0-9, _ and -, found %q", pointer, use.Name)
	}
	if !isID(use.ID) {
		return fault(Refused, hint, "%s/toolUseId: expected 1 to 64 of a-z, A-Z, 0-9 and _.:-, found %q", pointer, use.ID)
	}
	if len(use.Input) > 0 && use.Input[0] != '{' && string(use.Input) != "null" {
		return fault(Refused, hint, "%s/input: expected an object, found %s", pointer, abbreviate(use.Input))
	}
	return nil
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
// recorded reasoning blocks that are gone. A turn that began with reasoning must
// still begin with it if that block is there.
func checkReasoning(before, after []json.RawMessage) (dropped []string, _ error) {
	if len(before) > 0 && isSigned(before[0]) && count(after, before[0]) > 0 && !isReasoning(after[0]) {
		return nil, fault(Refused, "put new blocks after it, or drop it too",
			"%s/0: expected the signed reasoning that the turn began with, found %s", contentPointer, abbreviate(after[0]))
	}
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
