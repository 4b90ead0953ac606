package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

const insertHint = `write it like {"tool":"list_deploys","input":{"service":"cart"},"result":{"deploys":[]}}`

func (in Insert) check() *Error {
	if !isName(in.Tool) {
		return fault(BadPatch, insertHint, "the inserted call: expected a tool name, found %q", in.Tool)
	}
	if in.Tool == verdict.Tool {
		return fault(BadPatch, "edit the verdict of the last turn with --set", "%s ends a run and has no return", verdict.Tool)
	}
	input, err := ledger.Canon(in.Input)
	if err != nil || input[0] != '{' {
		return fault(BadPatch, insertHint, "the inserted call's input: expected an object, found %q", abbreviate(in.Input))
	}
	if _, err := ledger.Canon(in.Result); err != nil {
		return &Error{Kind: BadPatch, What: "the inserted call's result", Hint: insertHint, Err: err}
	}
	return nil
}

// insert adds a call to the turn. A turn that made no calls for the loop to run
// becomes that one call: only its signed reasoning stays, which Bedrock wants
// to see again.
func (s *edit) insert(in Insert) *Error {
	if s.event.Type != ledger.ModelResponded {
		return fault(NotPatchable, "insert at the model turn before it", "a call is inserted at a model.responded, not at %s", s.event.Type)
	}
	turn, err := converse.ParseTurn(s.doc)
	if err != nil {
		return badTurn(err)
	}
	input, _ := ledger.Canon(in.Input)   // check saw it
	result, _ := ledger.Canon(in.Result) // likewise
	use := converse.ToolUse{ID: s.freshID(turn), Name: in.Tool, Input: input}
	s.out.Inserted = &Inserted{Use: use, Return: edge.Return{Body: result, Failed: in.Failed || statusOf(result) == statusError, Origin: edge.Patched}}
	if final(turn) {
		return s.becomeCall(turn, use)
	}
	s.out.Inserted.Pos = len(turn.ToolUses)
	return s.apply([]operation{
		{Op: "add", Path: contentPointer + "/-", Value: callBlock(use)},
		{Op: "replace", Path: "/stopReason", Value: json.RawMessage(`"tool_use"`)},
	})
}

func (s *edit) becomeCall(turn converse.Turn, use converse.ToolUse) *Error {
	blocks := slices.DeleteFunc(slices.Clone(turn.Blocks), func(b json.RawMessage) bool { return !isSigned(b) })
	if n := len(blocks); n > 0 {
		s.note("the signed reasoning stays as it is: %s", counted(n, "block"))
	}
	if n := len(turn.Blocks) - len(blocks); n > 0 {
		s.note("the inserted call stands in place of %s of the turn", counted(n, "block"))
	}
	content, _ := ledger.CanonValue(append(blocks, callBlock(use))) // canonical blocks encode
	ops := []operation{
		{Op: "replace", Path: contentPointer, Value: content},
		{Op: "replace", Path: "/stopReason", Value: json.RawMessage(`"tool_use"`)},
	}
	if malformedInputs(s.doc) != nil {
		ops = append(ops, operation{Op: "remove", Path: "/investigator/malformedInputs"})
	}
	return s.apply(ops)
}

// final reports whether the loop ran none of the turn's calls.
func final(turn converse.Turn) bool {
	runs := []string{converse.StopToolUse, converse.EndTurn, converse.StopSequence}
	return len(turn.ToolUses) == 0 || !slices.Contains(runs, turn.StopReason) || slices.ContainsFunc(turn.ToolUses, func(u converse.ToolUse) bool {
		if u.Name != verdict.Tool || u.Malformed != "" {
			return false
		}
		_, problems := verdict.Parse(u.Input)
		return len(problems) == 0
	})
}

// IsInserted reports whether a call's id is one that an Insert gives at event
// seq.
func IsInserted(id string, seq int) bool {
	own := insertedID(seq)
	return id == own || strings.HasPrefix(id, own+"-")
}

func insertedID(seq int) string { return fmt.Sprintf("inserted-%d", seq) }

// freshID is an id that no call of the turn has.
func (s *edit) freshID(turn converse.Turn) string {
	id := insertedID(s.event.Seq)
	for n := 2; slices.ContainsFunc(turn.ToolUses, func(u converse.ToolUse) bool { return u.ID == id }); n++ {
		id = fmt.Sprintf("%s-%d", insertedID(s.event.Seq), n)
	}
	return id
}

func callBlock(use converse.ToolUse) json.RawMessage {
	b := append([]byte(`{"toolUse":{"input":`), use.Input...)
	b = ledger.AppendString(append(b, `,"name":`...), use.Name)
	b = ledger.AppendString(append(b, `,"toolUseId":`...), use.ID)
	return append(b, `}}`...)
}
