package converse

import (
	"encoding/json"
	"fmt"
	"slices"

	"investigator/internal/ledger"
)

// ParseTurn reads a canonical response. Errors name the JSON pointer. The parts
// of the turn may be parts of body, which must not be modified afterwards.
func ParseTurn(body json.RawMessage) (Turn, error) {
	if ledger.IsCanon(body) {
		return ParseCanonical(body)
	}
	return decodeTurn(body)
}

// ParseCanonical is ParseTurn for a body that is known to be canonical JSON: one
// that Normalize, Assemble or the ledger package made, or that was read from a
// cassette whose sums are right. It does not look whether that is so.
func ParseCanonical(body json.RawMessage) (Turn, error) {
	if t, ok := cutTurn(body); ok {
		return t, nil
	}
	return decodeTurn(body)
}

// cutTurn cuts a turn out of a canonical response without decoding what the model
// said. Nearly every response can be read so; decodeTurn reads the others, and
// says what is wrong with them.
func cutTurn(body json.RawMessage) (t Turn, ok bool) {
	t, ok = Turn{Raw: body}, true
	stopped := false
	err := ledger.EachMember(body, func(name []byte, value json.RawMessage) {
		switch string(name) {
		case "output":
			t.Message = ledger.Member(value, "message")
		case "stopReason":
			t.StopReason, stopped = ledger.PlainString(value)
		case "usage":
			ok = ok && cutUsage(value, &t.Usage)
		case extension:
			ok = false
		}
	})
	if err != nil || !ok || !stopped {
		return t, false
	}
	t.Blocks = ledger.Elements(ledger.Member(t.Message, "content"))
	if t.Blocks == nil || string(ledger.Member(t.Message, "role")) != `"assistant"` || slices.ContainsFunc(t.Blocks, isNoObject) {
		return t, false
	}
	return t, t.addCalls(nil) == nil
}

func isNoObject(block json.RawMessage) bool { return block[0] != '{' }

// cutUsage reads counts that are written as Bedrock writes them.
func cutUsage(value json.RawMessage, u *Usage) bool {
	ok := true
	err := ledger.EachMember(value, func(name []byte, value json.RawMessage) {
		if to := u.count(string(name)); to != nil {
			ok = ok && cutCount(value, to)
		}
	})
	return err == nil && ok
}

func (u *Usage) count(name string) *int64 {
	switch name {
	case "inputTokens":
		return &u.Input
	case "outputTokens":
		return &u.Output
	case "totalTokens":
		return &u.Total
	case "cacheReadInputTokens":
		return &u.CacheRead
	case "cacheWriteInputTokens":
		return &u.CacheWrite
	}
	return nil
}

// cutCount reads a number of digits alone that fits.
func cutCount(digits []byte, to *int64) bool {
	var n int64
	for _, d := range digits {
		if d < '0' || d > '9' || len(digits) > 18 {
			return false
		}
		n = 10*n + int64(d-'0')
	}
	*to = n
	return len(digits) > 0
}

// response is the part of a Converse response that the loop acts on.
type response struct {
	message    json.RawMessage // nil for none
	content    []json.RawMessage
	role       string
	stopReason *string
	usage      Usage
	extension  *Extension
}

func (r *response) read(body json.RawMessage) error {
	var output, usage, ext json.RawMessage
	if err := exactly(body, map[string]any{"output": &output, "stopReason": &r.stopReason, "usage": &usage, extension: &ext}); err != nil {
		return err
	}
	if err := exactly(output, map[string]any{"message": &r.message}); err != nil {
		return fmt.Errorf("/output: %w", err)
	}
	if err := exactly(r.message, map[string]any{"content": &r.content, "role": &r.role}); err != nil {
		return fmt.Errorf("/output/message: %w", err)
	}
	u := &r.usage
	err := exactly(usage, map[string]any{"inputTokens": &u.Input, "outputTokens": &u.Output, "totalTokens": &u.Total, "cacheReadInputTokens": &u.CacheRead, "cacheWriteInputTokens": &u.CacheWrite})
	if err != nil {
		return fmt.Errorf("/usage: %w", err)
	}
	r.extension = new(Extension)
	if err := exactly(ext, map[string]any{"malformedInputs": &r.extension.Malformed, "unknownEvents": &r.extension.Unknown}); err != nil {
		return fmt.Errorf("/%s: %w", extension, err)
	}
	return nil
}

// exactly decodes those members of an object that are named, by their exact names:
// encoding/json would take StopReason for stopReason too, which is another member.
// A value that is missing or null has none.
func exactly(object json.RawMessage, into map[string]any) error {
	if len(object) == 0 || string(object) == "null" {
		return nil
	}
	members, err := Members(object)
	if err != nil {
		return err
	}
	for _, name := range sortedKeys(into) {
		if value, found := members[name]; found {
			if err := json.Unmarshal(value, into[name]); err != nil {
				return fmt.Errorf("/%s: %w", name, err)
			}
		}
	}
	return nil
}

// decodeTurn is ParseTurn by way of encoding/json.
func decodeTurn(body json.RawMessage) (Turn, error) {
	var r response
	if err := r.read(body); err != nil {
		return Turn{}, fmt.Errorf("read model response: %w", err)
	}
	switch {
	case len(r.message) == 0 || string(r.message) == "null":
		return Turn{}, fmt.Errorf("read model response: /output/message: expected the model's message, found none")
	case r.role != "assistant":
		return Turn{}, fmt.Errorf("read model response: /output/message/role: expected %q, found %q", "assistant", r.role)
	case r.stopReason == nil:
		return Turn{}, fmt.Errorf("read model response: /stopReason: missing, so the answer may be cut off")
	}
	message := messageOf(body)
	if message == nil {
		return Turn{}, fmt.Errorf("read model response: expected canonical JSON, found another spelling")
	}
	t := Turn{Raw: body, Message: message, Blocks: r.content, StopReason: *r.stopReason, Usage: r.usage}
	if err := t.addCalls(r.extension); err != nil {
		return Turn{}, err
	}
	return t, nil
}

// addCalls finds the calls among the blocks.
func (t *Turn) addCalls(ext *Extension) error {
	for i, block := range t.Blocks {
		use, found, err := parseToolUse(block)
		if err != nil {
			return fmt.Errorf("read model response: /output/message/content/%d: %w", i, err)
		}
		if !found {
			continue
		}
		if ext != nil {
			use.Malformed = ext.Malformed[fmt.Sprint(i)]
		}
		t.ToolUses = append(t.ToolUses, use)
	}
	return nil
}

// messageOf cuts the message out of a canonical response without copying.
func messageOf(body json.RawMessage) json.RawMessage {
	return member(member(body, "output"), "message")
}

func member(object json.RawMessage, name string) json.RawMessage { return ledger.Member(object, name) }

// parseToolUse reads a block if it is a call for the caller to run. A server
// tool's call (type server_tool_use) is the provider's own business.
func parseToolUse(block json.RawMessage) (ToolUse, bool, error) {
	call := member(block, "toolUse") // not by prefix: a block may have members beside it
	if call == nil {
		return ToolUse{}, false, nil
	}
	u, plain := cutCall(call)
	if !plain {
		u = calling{}
		if err := u.read(call); err != nil {
			return ToolUse{}, false, fmt.Errorf("toolUse: %w", err)
		}
	}
	if u.Type == "server_tool_use" {
		return ToolUse{}, false, nil
	}
	if len(u.Input) == 0 || string(u.Input) == "null" {
		u.Input = json.RawMessage(`{}`) // a call without arguments may carry none
	}
	return ToolUse{ID: u.ID, Name: u.Name, Input: u.Input}, true, nil
}

// calling is the inside of a toolUse block.
type calling struct {
	ID    string
	Name  string
	Input json.RawMessage
	Type  string
}

func (u *calling) read(call json.RawMessage) error {
	return exactly(call, map[string]any{"toolUseId": &u.ID, "name": &u.Name, "input": &u.Input, "type": &u.Type})
}

// cutCall reads a call whose texts need no decoding.
func cutCall(call json.RawMessage) (u calling, plain bool) {
	plain = true
	err := ledger.EachMember(call, func(name []byte, value json.RawMessage) {
		ok := true
		switch string(name) {
		case "input":
			u.Input = value
		case "toolUseId":
			u.ID, ok = ledger.PlainString(value)
		case "name":
			u.Name, ok = ledger.PlainString(value)
		case "type":
			u.Type, ok = ledger.PlainString(value)
		}
		plain = plain && ok
	})
	return u, plain && err == nil
}
