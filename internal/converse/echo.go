package converse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"unicode/utf8"

	"investigator/internal/ledger"
)

// Echo returns the assistant message to put into the conversation for a turn.
// It is the model's own message, byte for byte, except where Bedrock would
// refuse to read it back: blank text blocks are dropped, a missing or null tool
// input becomes {}, characters that ids and tool names may not hold become "_",
// a repeated toolUseId gets a suffix, and an empty message becomes a short text.
// ids are the tool use ids in call order as they stand in the echo.
func Echo(t Turn) (message json.RawMessage, ids []string) {
	seen := map[string]bool{}
	repaired := false
	var blocks []json.RawMessage
	for _, block := range t.Blocks {
		if blank(block) {
			repaired = true
			continue
		}
		if use, found, err := parseToolUse(block); err == nil && found {
			id := fresh(acceptable(use.ID, "_.:-"), seen)
			ids = append(ids, id)
			if fixed := repairCall(block, use, id); fixed != nil {
				block, repaired = fixed, true
			}
		}
		blocks = append(blocks, block)
	}
	if !repaired && len(blocks) > 0 {
		return t.Message, ids
	}
	return assistant(blocks), ids
}

// NoAnswer stands in the conversation for a turn that held nothing.
const NoAnswer = "(no answer)"

func assistant(blocks []json.RawMessage) json.RawMessage {
	if len(blocks) == 0 {
		blocks = []json.RawMessage{TextBlock(NoAnswer)}
	}
	return Message("assistant", blocks)
}

// blank reports whether a block is text of white space alone, which Bedrock
// refuses ("The text field in the ContentBlock object … is blank").
func blank(block json.RawMessage) bool {
	text, found := bytes.CutPrefix(block, []byte(`{"text":`))
	if !found || len(text) > 1 && text[0] == '"' && !blankString(json.RawMessage(text)) {
		return false
	}
	var b struct {
		Text string `json:"text"`
	}
	return json.Unmarshal(block, &b) == nil && strings.TrimSpace(b.Text) == ""
}

// fresh returns id, or id with a suffix where it was seen before; at most
// maxName bytes.
func fresh(id string, seen map[string]bool) string {
	out := id
	for n := 2; seen[out]; n++ {
		suffix := fmt.Sprintf("-%d", n)
		out = id[:min(len(id), maxName-len(suffix))] + suffix
	}
	seen[out] = true
	return out
}

// maxName is how long a tool's name or a tool use id may be.
const maxName = 64

// acceptable returns s as the API takes it for an id or a tool name: letters,
// digits and the extra characters, 1 to 64 of them.
func acceptable(s, extra string) string {
	s = strings.Map(func(r rune) rune {
		if 'a' <= r && r <= 'z' || 'A' <= r && r <= 'Z' || '0' <= r && r <= '9' || strings.ContainsRune(extra, r) {
			return r
		}
		return '_'
	}, s)
	if s == "" {
		return "_"
	}
	return s[:min(len(s), maxName)]
}

// repairCall returns the block with what Bedrock would refuse replaced, nil if
// there is nothing. parseToolUse read the block already, so it is an object.
func repairCall(block json.RawMessage, use ToolUse, id string) json.RawMessage {
	var fixed json.RawMessage
	set := func(name string, value json.RawMessage) {
		if fixed == nil {
			fixed = block
		}
		fixed, _ = withToolUse(fixed, name, value)
	}
	if id != use.ID {
		set("toolUseId", ledger.AppendString(nil, id))
	}
	if name := acceptable(use.Name, "_-"); name != use.Name {
		set("name", ledger.AppendString(nil, name))
	}
	if input := member(member(block, "toolUse"), "input"); len(input) == 0 || input[0] != '{' {
		set("input", json.RawMessage(`{}`))
	}
	return fixed
}

// Message builds a canonical message from canonical blocks.
func Message(role string, blocks []json.RawMessage) json.RawMessage {
	size := len(role) + 32
	for _, b := range blocks {
		size += len(b) + 1
	}
	out := append(make([]byte, 0, size), `{"content":[`...)
	for i, b := range blocks {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, b...)
	}
	out = append(out, `],"role":`...)
	return append(ledger.AppendString(out, role), '}')
}

// TextBlock builds {"text":…}. The text must not be blank.
func TextBlock(text string) json.RawMessage {
	return append(ledger.AppendString([]byte(`{"text":`), text), '}')
}

// ToolResult is the answer to one call, as it is shown to the model. Result is
// canonical JSON of any kind. Address, like "E7", is shown beside it so that
// the model can cite it.
type ToolResult struct {
	ID      string
	Address string
	Result  json.RawMessage
	Error   bool
}

// EmptyMark is what a model sees where a tool printed nothing: Bedrock refuses
// blank text, and an error result without content.
const EmptyMark = "(the tool returned nothing)"

// Block returns the canonical toolResult block. An object goes as json, a
// string as text, and everything else as the text of its JSON, because Bedrock
// accepts only objects as json.
func (r ToolResult) Block() json.RawMessage {
	out := append(make([]byte, 0, len(r.Result)+len(r.ID)+len(r.Address)+128), `{"toolResult":{"content":[`...)
	if r.Address != "" {
		out = append(out, TextBlock("evidence "+r.Address)...)
		out = append(out, ',')
	}
	out = appendContent(out, r.Result)
	out = append(out, `],"status":`...)
	if r.Error {
		out = append(out, `"error"`...)
	} else {
		out = append(out, `"success"`...)
	}
	out = append(out, `,"toolUseId":`...)
	return append(ledger.AppendString(out, r.ID), `}}`...)
}

// ContentMember is the one member of a tool result that carries Converse
// content blocks (images, documents) to pass to the model as they are.
const ContentMember = "$content"

func appendContent(dst []byte, result json.RawMessage) []byte {
	switch {
	case len(result) == 0 || blankString(result):
		return append(dst, TextBlock(EmptyMark)...)
	case result[0] == '"':
		return append(append(append(dst, `{"text":`...), result...), '}')
	case result[0] != '{':
		return append(dst, TextBlock(string(result))...)
	}
	if blocks := contentBlocks(result); blocks != nil {
		return append(dst, blocks...)
	}
	return append(append(append(dst, `{"json":`...), result...), '}')
}

// blankString reports whether canonical JSON is a string of white space alone.
// Nearly every text is told apart by its first character.
func blankString(quoted json.RawMessage) bool {
	if quoted[0] != '"' {
		return false
	}
	if c := quoted[1]; ' ' < c && c < utf8.RuneSelf && c != '\\' && c != '"' {
		return false
	}
	return strings.TrimSpace(decodeString(quoted)) == ""
}

// contentBlocks returns the inside of the array that is the result's one member,
// nil if the result is not of that form.
func contentBlocks(result json.RawMessage) []byte {
	if !bytes.HasPrefix(result, []byte(`{"`+ContentMember+`":[`)) {
		return nil
	}
	spans, err := ledger.MemberSpans(result)
	if err != nil || len(spans) != 1 || len(spans[0].Value) <= len(`[]`) {
		return nil
	}
	v := spans[0].Value
	return v[1 : len(v)-1]
}

func decodeString(quoted json.RawMessage) string {
	var s string
	_ = json.Unmarshal(quoted, &s) // canonical already
	return s
}
