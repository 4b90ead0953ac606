package converse

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"investigator/internal/ledger"
)

// block is a content block under assembly. Text and reasoning have no start
// event, so what a block is shows in its deltas.
type block struct {
	toolUse    map[string]json.RawMessage // the start's members
	toolResult map[string]json.RawMessage
	image      map[string]json.RawMessage

	text      strings.Builder
	hasText   bool
	citations []json.RawMessage

	thought   strings.Builder
	signature strings.Builder
	reasons   bool
	redacted  []byte

	input   strings.Builder // of a call, not JSON before it is whole
	results []resultPiece
	pixels  []byte
	strange bool // something this build does not know was kept elsewhere
}

// resultPiece is a part of a tool result the provider ran itself.
type resultPiece struct {
	text string
	json json.RawMessage // nil for text
}

// begin takes one member of contentBlockStart, and reports whether it knows it.
func (b *block) begin(name string, value json.RawMessage, p *Piece) bool {
	members, err := Members(value)
	if err != nil {
		return false
	}
	switch name {
	case "toolUse":
		b.toolUse = members
		p.Kind, p.Text = ToolPiece, decodeString(members["name"])
	case "toolResult":
		b.toolResult = members
	case "image":
		b.image = members
	default:
		return false
	}
	return true
}

// add takes one member of a delta, and reports whether it knows it.
func (b *block) add(name string, value json.RawMessage, p *Piece) (known bool, err error) {
	switch name {
	case "text":
		p.Kind, b.hasText = TextPiece, true
		return true, appendText(&b.text, value, &p.Text)
	case "reasoningContent":
		return b.addReasoning(value, p)
	case "toolUse":
		var d struct {
			Input string `json:"input"`
		}
		if b.toolUse == nil {
			return true, errors.New("input of a tool call that never started")
		}
		err := json.Unmarshal(value, &d)
		b.input.WriteString(d.Input)
		return true, err
	case "citation":
		b.citations = append(b.citations, value)
		return true, nil
	case "toolResult":
		return b.addResults(value)
	case "image":
		return b.addImage(value)
	}
	return false, nil
}

func appendText(to *strings.Builder, quoted json.RawMessage, seen *string) error {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return err
	}
	to.WriteString(s)
	*seen = s
	return nil
}

func (b *block) addReasoning(value json.RawMessage, p *Piece) (bool, error) {
	members, err := Members(value)
	if err != nil {
		return true, err
	}
	var ignored string
	for _, name := range sortedKeys(members) {
		switch name {
		case "text":
			p.Kind, b.reasons = ReasoningPiece, true
			err = appendText(&b.thought, members[name], &p.Text)
		case "signature":
			b.reasons = true
			err = appendText(&b.signature, members[name], &ignored)
		case "redactedContent":
			// Each delta is base64 of its own; joined as text, the padding of
			// one would stand in the middle of the other.
			b.redacted, err = appendBase64(b.redacted, members[name])
		default:
			return false, nil
		}
		if err != nil {
			return true, err
		}
	}
	return true, nil
}

func appendBase64(dst []byte, quoted json.RawMessage) ([]byte, error) {
	var s string
	if err := json.Unmarshal(quoted, &s); err != nil {
		return dst, err
	}
	raw, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return dst, fmt.Errorf("expected base64: %w", err)
	}
	if dst == nil {
		dst = []byte{}
	}
	return append(dst, raw...), nil
}

func (b *block) addResults(value json.RawMessage) (bool, error) {
	var list []map[string]json.RawMessage
	if err := json.Unmarshal(value, &list); err != nil {
		return true, err
	}
	for _, d := range list {
		switch {
		case d["json"] != nil:
			b.results = append(b.results, resultPiece{json: d["json"]})
		case d["text"] != nil:
			b.addResultText(decodeString(d["text"]))
		default:
			return false, nil
		}
	}
	return true, nil
}

// addResultText joins pieces of text that follow one another.
func (b *block) addResultText(s string) {
	if n := len(b.results); n > 0 && b.results[n-1].json == nil {
		b.results[n-1].text += s
		return
	}
	b.results = append(b.results, resultPiece{text: s})
}

func (b *block) addImage(value json.RawMessage) (bool, error) {
	members, err := Members(value)
	if err != nil {
		return true, err
	}
	if b.image == nil {
		b.image = map[string]json.RawMessage{}
	}
	for _, name := range sortedKeys(members) {
		if name != "source" {
			b.image[name] = members[name]
			continue
		}
		source, err := Members(members[name])
		if err != nil {
			return true, err
		}
		if source["bytes"] == nil {
			b.image["source"] = members[name]
		} else if b.pixels, err = appendBase64(b.pixels, source["bytes"]); err != nil {
			return true, err
		}
	}
	return true, nil
}

// content returns the content blocks this block became, one unless a model
// mixed kinds, and the text of a call's input that was no JSON object. The call
// stands last.
func (b *block) content() (parts []json.RawMessage, malformed string, err error) {
	var out union
	if b.reasons {
		out.add("reasoningContent", map[string]any{"reasoningText": b.reasoning()})
	}
	if b.redacted != nil {
		out.add("reasoningContent", map[string]any{"redactedContent": b.redacted})
	}
	switch {
	case b.citations != nil:
		out.add("citationsContent", b.cited())
	case b.hasText || b.empty():
		out.add("text", b.text.String())
	}
	if b.image != nil {
		if b.pixels != nil {
			b.image["source"], out.err = ledger.CanonValue(map[string][]byte{"bytes": b.pixels})
		}
		out.add("image", b.image)
	}
	if b.toolResult != nil || b.results != nil {
		out.add("toolResult", b.result())
	}
	if b.toolUse != nil {
		b.toolUse["input"], malformed = parseInput(b.input.String())
		out.add("toolUse", b.toolUse)
	}
	return out.parts, malformed, out.err
}

// empty reports whether nothing came between the block's start and its stop:
// a text block without text, since every other kind says what it is.
func (b *block) empty() bool {
	return !b.strange && !b.reasons && b.redacted == nil && b.image == nil && b.toolResult == nil && b.results == nil && b.toolUse == nil
}

func (b *block) reasoning() map[string]string {
	r := map[string]string{"text": b.thought.String()}
	if b.signature.Len() > 0 {
		r["signature"] = b.signature.String()
	}
	return r
}

func (b *block) cited() map[string]any {
	content := []map[string]string{}
	if b.hasText {
		content = append(content, map[string]string{"text": b.text.String()})
	}
	return map[string]any{"citations": b.citations, "content": content}
}

func (b *block) result() map[string]any {
	content := []map[string]any{}
	for _, r := range b.results {
		if r.json != nil {
			content = append(content, map[string]any{"json": r.json})
		} else {
			content = append(content, map[string]any{"text": r.text})
		}
	}
	out := map[string]any{"content": content}
	for _, name := range sortedKeys(b.toolResult) {
		out[name] = b.toolResult[name]
	}
	return out
}

// parseInput reads a call's whole input. No text at all is a call without
// arguments.
func parseInput(text string) (input json.RawMessage, malformed string) {
	none := json.RawMessage(`{}`)
	if trimmed := strings.TrimSpace(text); trimmed == "" || trimmed == "null" {
		return none, ""
	}
	canon, err := ledger.Canon([]byte(text))
	if err != nil || canon[0] != '{' {
		return none, text
	}
	return canon, ""
}

// union collects content blocks, each an object of one member.
type union struct {
	parts []json.RawMessage
	err   error
}

func (u *union) add(kind string, value any) {
	if u.err != nil {
		return
	}
	var part json.RawMessage
	part, u.err = ledger.CanonValue(map[string]any{kind: value})
	u.parts = append(u.parts, part)
}
