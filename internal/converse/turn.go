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
// without durations, in fresh memory. Members it does not know are kept. An error
// says what is missing: a response without output.message or without a stopReason
// is not an answer, even with status 200.
func Normalize(body []byte) (json.RawMessage, error) {
	turn, err := NormalizeTurn(body)
	return turn.Raw, err
}

// NormalizeTurn is Normalize for a caller that needs the turn too: its Raw is
// what Normalize returns, and it has not to be parsed again.
func NormalizeTurn(body []byte) (Turn, error) {
	canon, err := ledger.InCanon(body)
	if err != nil {
		return Turn{}, fmt.Errorf("read model response: %w", err)
	}
	own, err := ledger.Without(canon, "metrics", extension)
	if err != nil {
		return Turn{}, fmt.Errorf("read model response: %w", err)
	}
	turn, err := ParseCanonical(own)
	if err != nil {
		return Turn{}, err
	}
	for _, use := range turn.ToolUses {
		if use.Input[0] != '{' {
			return divertInputs(turn)
		}
	}
	return turn, nil
}

// divertInputs moves the tool inputs of a response that are no objects to its
// extension.
func divertInputs(turn Turn) (Turn, error) {
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
			return Turn{}, err
		}
	}
	body, err := withBlocks(turn.Raw, blocks, ext)
	if err != nil {
		return Turn{}, err
	}
	turn.Raw, turn.Message, turn.ToolUses = body, messageOf(body), nil
	turn.Blocks = ledger.Elements(member(turn.Message, "content"))
	return turn, turn.addCalls(&ext)
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
