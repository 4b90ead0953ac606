package converse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"investigator/internal/ledger"
)

// Stop reasons of the Converse API (botocore's service description). Others
// may appear; they are kept as text and never taken for one of these.
const (
	EndTurn            = "end_turn"
	StopToolUse        = "tool_use"
	MaxTokens          = "max_tokens"
	StopSequence       = "stop_sequence"
	Guardrail          = "guardrail_intervened"
	ContentFiltered    = "content_filtered"
	MalformedOutput    = "malformed_model_output"
	MalformedToolUse   = "malformed_tool_use"
	ContextWindowLimit = "model_context_window_exceeded"
)

// Usage counts tokens. Input excludes what was read from or written to the
// prompt cache, as Bedrock reports it.
type Usage struct {
	Input      int64 `json:"inputTokens"`
	Output     int64 `json:"outputTokens"`
	Total      int64 `json:"totalTokens"`
	CacheRead  int64 `json:"cacheReadInputTokens,omitempty"`
	CacheWrite int64 `json:"cacheWriteInputTokens,omitempty"`
}

// Plus returns the sum of both counts.
func (u Usage) Plus(v Usage) Usage {
	return Usage{u.Input + v.Input, u.Output + v.Output, u.Total + v.Total, u.CacheRead + v.CacheRead, u.CacheWrite + v.CacheWrite}
}

// ToolUse is one call a model asked for. Input is canonical JSON; when the
// model sent text that is no JSON object, Malformed holds that text as it came
// and Input is {}.
type ToolUse struct {
	ID        string
	Name      string
	Input     json.RawMessage
	Malformed string
}

// Turn is a model's answer. Message is the canonical assistant message as the
// model gave it; Raw is the whole canonical response.
type Turn struct {
	Raw        json.RawMessage
	Message    json.RawMessage
	Blocks     []json.RawMessage
	StopReason string
	Usage      Usage
	ToolUses   []ToolUse
}

// extension is the member under which a normalised response keeps what the
// Converse shape has no place for.
const extension = "investigator"

// Extension is what Normalize and Assemble found outside the Converse shape.
type Extension struct {
	// Malformed maps a block's index (decimal) to the text of a tool input
	// that was not a JSON object.
	Malformed map[string]string `json:"malformedInputs,omitempty"`
	// Unknown lists stream events or deltas this build does not know, raw.
	Unknown []json.RawMessage `json:"unknownEvents,omitempty"`
}

// Normalize reads a Converse response body and returns its canonical form
// without durations. Members it does not know are kept. An error says what is
// missing: a response without output.message or without a stopReason is not an
// answer, even with status 200.
func Normalize(body []byte) (json.RawMessage, error) {
	canon, err := ledger.Canon(body)
	if err != nil {
		return nil, fmt.Errorf("read model response: %w", err)
	}
	spans, err := ledger.MemberSpans(canon)
	if err != nil {
		return nil, fmt.Errorf("read model response: %w", err)
	}
	out := []byte{'{'}
	for _, m := range spans {
		if m.Name == "metrics" || m.Name == extension {
			continue
		}
		if len(out) > 1 {
			out = append(out, ',')
		}
		out = append(out, canon[m.Start:m.End]...)
	}
	return checked(append(out, '}'))
}

// checked makes sure that a normalised response can be read as a turn, and
// moves tool inputs that are no objects to the extension.
func checked(body json.RawMessage) (json.RawMessage, error) {
	turn, err := ParseTurn(body)
	if err != nil {
		return nil, err
	}
	for _, use := range turn.ToolUses {
		if use.Input[0] != '{' {
			return divertInputs(turn)
		}
	}
	return body, nil
}

// divertInputs rewrites a response whose tool inputs are not all objects.
func divertInputs(turn Turn) (json.RawMessage, error) {
	var ext Extension
	blocks := slices.Clone(turn.Blocks)
	for i, block := range turn.Blocks {
		use, found, err := parseToolUse(block)
		if err != nil || !found || use.Input[0] == '{' {
			continue
		}
		if ext.Malformed == nil {
			ext.Malformed = map[string]string{}
		}
		ext.Malformed[fmt.Sprint(i)] = string(use.Input)
		if blocks[i], err = withToolUse(block, "input", json.RawMessage(`{}`)); err != nil {
			return nil, err
		}
	}
	return withBlocks(turn.Raw, blocks, ext)
}

// withToolUse returns a toolUse block with one member of the call replaced.
func withToolUse(block json.RawMessage, name string, value json.RawMessage) (json.RawMessage, error) {
	call, err := withMember(member(block, "toolUse"), name, value)
	if err != nil {
		return nil, err
	}
	return withMember(block, "toolUse", call)
}

// withMember returns an object with one member added or replaced and all others
// kept as they are.
func withMember(object json.RawMessage, name string, value json.RawMessage) (json.RawMessage, error) {
	members, err := Members(object)
	if err != nil {
		return nil, err
	}
	members[name] = value
	return ledger.CanonValue(members)
}

// withBlocks puts other blocks and the extension into a response.
func withBlocks(raw json.RawMessage, blocks []json.RawMessage, ext Extension) (json.RawMessage, error) {
	content, err := ledger.CanonValue(blocks)
	if err != nil {
		return nil, err
	}
	message, err := withMember(messageOf(raw), "content", content)
	if err != nil {
		return nil, err
	}
	output, err := withMember(member(raw, "output"), "message", message)
	if err != nil {
		return nil, err
	}
	members, err := Members(raw)
	if err != nil {
		return nil, err
	}
	members["output"] = output
	if ext.Malformed != nil || ext.Unknown != nil {
		if members[extension], err = ledger.CanonValue(ext); err != nil {
			return nil, err
		}
	}
	return ledger.CanonValue(members)
}

// response is the part of a Converse response that the loop acts on.
type response struct {
	Output *struct {
		Message *said `json:"message"`
	} `json:"output"`
	StopReason *string    `json:"stopReason"`
	Usage      Usage      `json:"usage"`
	Extension  *Extension `json:"investigator"`
}

type said struct {
	Content []json.RawMessage `json:"content"`
	Role    string            `json:"role"`
}

// readResponse decodes a response. Nearly every one is of a form that needs no
// decoding of what the model said; encoding/json reads the others, and says
// what is wrong with them.
func readResponse(body json.RawMessage) (r response, err error) {
	if r, ok := quickResponse(body); ok {
		return r, nil
	}
	err = json.Unmarshal(body, &r)
	return r, err
}

func quickResponse(body json.RawMessage) (r response, ok bool) {
	if !json.Valid(body) {
		return r, false
	}
	spans, err := ledger.MemberSpans(body)
	for _, s := range spans {
		switch s.Name {
		case "output":
			r.Output = &struct {
				Message *said `json:"message"`
			}{quickMessage(member(s.Value, "message"))}
		case "stopReason":
			if text, plain := ledger.PlainString(s.Value); plain {
				r.StopReason = &text
			}
		case "usage":
			err = json.Unmarshal(s.Value, &r.Usage)
		case extension:
			return r, false
		}
	}
	return r, err == nil && r.Output != nil && r.Output.Message != nil && r.StopReason != nil
}

// quickMessage reads a message of objects, nil for anything else.
func quickMessage(message json.RawMessage) *said {
	role, plain := ledger.PlainString(member(message, "role"))
	content := ledger.Elements(member(message, "content"))
	if !plain || content == nil || slices.ContainsFunc(content, func(b json.RawMessage) bool { return b[0] != '{' }) {
		return nil
	}
	return &said{Content: content, Role: role}
}

// ParseTurn reads a canonical response. Errors name the JSON pointer.
func ParseTurn(body json.RawMessage) (Turn, error) {
	r, err := readResponse(body)
	if err != nil {
		return Turn{}, fmt.Errorf("read model response: %w", err)
	}
	switch {
	case r.Output == nil || r.Output.Message == nil:
		return Turn{}, fmt.Errorf("read model response: /output/message: expected the model's message, found none")
	case r.Output.Message.Role != "assistant":
		return Turn{}, fmt.Errorf("read model response: /output/message/role: expected %q, found %q", "assistant", r.Output.Message.Role)
	case r.StopReason == nil:
		return Turn{}, fmt.Errorf("read model response: /stopReason: missing, so the answer may be cut off")
	}
	message := messageOf(body)
	if message == nil {
		return Turn{}, fmt.Errorf("read model response: expected canonical JSON, found another spelling")
	}
	t := Turn{Raw: body, Message: message, Blocks: r.Output.Message.Content, StopReason: *r.StopReason, Usage: r.Usage}
	for i, block := range t.Blocks {
		use, found, err := parseToolUse(block)
		if err != nil {
			return Turn{}, fmt.Errorf("read model response: /output/message/content/%d: %w", i, err)
		}
		if !found {
			continue
		}
		if r.Extension != nil {
			use.Malformed = r.Extension.Malformed[fmt.Sprint(i)]
		}
		t.ToolUses = append(t.ToolUses, use)
	}
	return t, nil
}

// messageOf cuts the message out of a canonical response without copying.
func messageOf(body json.RawMessage) json.RawMessage {
	return member(member(body, "output"), "message")
}

func member(object json.RawMessage, name string) json.RawMessage {
	spans, err := ledger.MemberSpans(object)
	if err != nil {
		return nil
	}
	for _, m := range spans {
		if m.Name == name {
			return m.Value
		}
	}
	return nil
}

// parseToolUse reads a block if it is a call for the caller to run. A server
// tool's call (type server_tool_use) is the provider's own business.
func parseToolUse(block json.RawMessage) (ToolUse, bool, error) {
	call := member(block, "toolUse") // not by prefix: a block may have members beside it
	if call == nil {
		return ToolUse{}, false, nil
	}
	u, plain := quickCall(call)
	if !plain {
		u = calling{}
		if err := json.Unmarshal(call, &u); err != nil {
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
	ID    string          `json:"toolUseId"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
	Type  string          `json:"type"`
}

// quickCall reads a call whose texts need no decoding.
func quickCall(call json.RawMessage) (u calling, plain bool) {
	spans, err := ledger.MemberSpans(call)
	plain = err == nil
	for _, s := range spans {
		if s.Name == "input" {
			u.Input = s.Value
			continue
		}
		text, ok := ledger.PlainString(s.Value)
		switch s.Name {
		case "toolUseId":
			u.ID = text
		case "name":
			u.Name = text
		case "type":
			u.Type = text
		default:
			ok = true
		}
		plain = plain && ok
	}
	return u, plain
}

// Text joins the turn's text blocks with newlines.
func (t Turn) Text() string {
	var out []byte
	for _, block := range t.Blocks {
		if !bytes.HasPrefix(block, []byte(`{"text":`)) {
			continue
		}
		var b struct {
			Text string `json:"text"`
		}
		if json.Unmarshal(block, &b) == nil && b.Text != "" {
			if len(out) > 0 {
				out = append(out, '\n')
			}
			out = append(out, b.Text...)
		}
	}
	return string(out)
}
