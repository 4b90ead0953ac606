package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

type anthropicUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	raw       json.RawMessage
}

func (b *anthropicBlock) UnmarshalJSON(raw []byte) error {
	type plain anthropicBlock
	b.raw = bytes.Clone(raw)
	return json.Unmarshal(raw, (*plain)(b))
}

func (a *answer) anthropic(b anthropicBlock) {
	switch b.Type {
	case "text":
		a.text(b.Text)
	case "tool_use":
		a.call(b.ID, b.Name, string(b.Input))
	case "thinking":
		r := map[string]string{"text": b.Thinking}
		if b.Signature != "" {
			r["signature"] = b.Signature
		}
		a.block("reasoningContent", map[string]any{"reasoningText": r})
	case "redacted_thinking":
		a.block("reasoningContent", map[string]string{"redactedContent": b.Data})
	default:
		if len(b.raw) > 0 && b.raw[0] == '{' { // else it is null, or never began
			a.block("anthropic", b.raw)
		}
	}
}

func (a *answer) anthropicUsage(u anthropicUsage) {
	a.usage.Input, a.usage.CacheRead, a.usage.CacheWrite = max(a.usage.Input, u.Input), max(a.usage.CacheRead, u.CacheRead), max(a.usage.CacheWrite, u.CacheWrite)
	a.usage.Output = max(a.usage.Output, u.Output)
}

func readAnthropic(events []json.RawMessage, whole bool) (json.RawMessage, error) {
	var a answer
	if whole {
		var m struct {
			Type    string           `json:"type"`
			Content []anthropicBlock `json:"content"`
			Stop    string           `json:"stop_reason"`
			Usage   anthropicUsage   `json:"usage"`
		}
		if err := json.Unmarshal(events[0], &m); err != nil || m.Type != "message" {
			return nil, fmt.Errorf("read model response: expected an Anthropic message, found %.60q", events[0])
		}
		for _, b := range m.Content {
			a.anthropic(b)
		}
		a.stop = m.Stop
		a.anthropicUsage(m.Usage)
		return a.response()
	}
	s := anthropicStream{answer: &a}
	for i, e := range events {
		if err := s.add(e); err != nil {
			return nil, fmt.Errorf("read model stream: event %d: %w", i+1, err)
		}
	}
	if !s.stopped {
		return nil, fmt.Errorf("read model stream of %d events: %w", len(events), ErrCut)
	}
	return a.response()
}

type anthropicStream struct {
	*answer
	block   anthropicBlock
	input   strings.Builder
	stopped bool
}

func (s *anthropicStream) add(event json.RawMessage) error {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Usage anthropicUsage `json:"usage"`
		} `json:"message"`
		Block anthropicBlock `json:"content_block"`
		Delta struct {
			Type, Text, Thinking, Signature string
			Input                           string `json:"partial_json"`
			Stop                            string `json:"stop_reason"`
		} `json:"delta"`
		Usage anthropicUsage `json:"usage"`
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return err
	}
	switch e.Type {
	case "message_start":
		s.anthropicUsage(e.Message.Usage)
	case "content_block_start":
		s.block = e.Block
		s.input.Reset()
	case "content_block_delta":
		if s.block.raw == nil {
			s.ext.Unknown = append(s.ext.Unknown, event)
			return nil
		}
		s.block.Text += e.Delta.Text
		s.block.Thinking += e.Delta.Thinking
		s.block.Signature += e.Delta.Signature
		s.input.WriteString(e.Delta.Input)
		if !knownDelta(e.Delta.Type) {
			s.ext.Unknown = append(s.ext.Unknown, event)
		}
	case "content_block_stop":
		s.end()
	case "message_delta":
		if e.Delta.Stop != "" { // one that only counts tokens takes no reason back
			s.stop = e.Delta.Stop
		}
		s.anthropicUsage(e.Usage)
	case "message_stop":
		s.stopped = true
	case "error":
		return &converse.StreamError{Name: e.Error.Type, Message: e.Error.Message}
	case "ping":
	default:
		s.ext.Unknown = append(s.ext.Unknown, event)
	}
	return nil
}

// end takes the block that the stream says is whole; the end of none is nothing.
// Tools that the service runs itself send their input in the same deltas and are
// not the agent's.
func (s *anthropicStream) end() {
	input, block := s.input.String(), s.block
	s.input.Reset()
	s.block = anthropicBlock{}
	switch canon, err := ledger.Canon([]byte(input)); {
	case input == "":
	case block.Type == "tool_use":
		s.call(block.ID, block.Name, input)
		return
	case err != nil:
		canon = ledger.AppendString(nil, input)
		fallthrough
	default:
		block.raw = with(block.raw, "input", canon)
	}
	s.anthropic(block)
}

func knownDelta(kind string) bool {
	switch kind {
	case "text_delta", "thinking_delta", "signature_delta", "input_json_delta":
		return true
	}
	return false
}
