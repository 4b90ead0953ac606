package loop

import (
	"bytes"
	"encoding/json"
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// trimMark begins the text that stands where a tool result was removed.
const trimMark = "[removed to fit the context: "

// overflow makes room when the conversation no longer fits the model's window:
// the older half of the tool results, at least one, is replaced by a marker
// that the model can see. The turn that overflowed leaves no message behind.
// With nothing left to remove the run ends.
func (s *step) overflow() error {
	messages := s.thread.Messages()
	full := resultMessages(messages)
	if len(full) < 2 { // the newest results are what the model is asked about
		return s.finish(Outcome{Outcome: Stopped, Reason: "the conversation exceeds the model's context window and no older tool result is left to remove"})
	}
	removed, bytesBefore := 0, size(messages)
	for _, i := range full[:(len(full)+1)/2] {
		if i == full[len(full)-1] {
			break
		}
		trimmed, n, err := trimMessage(messages[i])
		if err != nil {
			return err
		}
		messages[i], removed = trimmed, removed+n
	}
	data, err := ledger.CanonValue(map[string]int{"results": removed, "bytes": bytesBefore - size(messages)})
	if err != nil {
		return err
	}
	s.emit(ledger.ContextTrimmed, "", data)
	s.thread = converse.NewThread(messages...)
	return s.checkLimits()
}

func size(messages []json.RawMessage) int {
	n := 0
	for _, m := range messages {
		n += len(m)
	}
	return n
}

// resultMessages lists the indices of messages that hold untrimmed results.
func resultMessages(messages []json.RawMessage) []int {
	var out []int
	for i, m := range messages {
		if bytes.HasPrefix(m, []byte(`{"content":[{"toolResult":`)) && !bytes.Contains(m, []byte(trimMark)) {
			out = append(out, i)
		}
	}
	return out
}

type resultBlock struct {
	ToolResult *struct {
		Content []json.RawMessage `json:"content"`
		Status  string            `json:"status,omitempty"`
		ID      string            `json:"toolUseId"`
	} `json:"toolResult"`
}

func trimMessage(message json.RawMessage) (json.RawMessage, int, error) {
	var m struct {
		Content []json.RawMessage `json:"content"`
		Role    string            `json:"role"`
	}
	if err := json.Unmarshal(message, &m); err != nil {
		return nil, 0, fmt.Errorf("trim message: %w", err)
	}
	n := 0
	for i, raw := range m.Content {
		var b resultBlock
		if err := json.Unmarshal(raw, &b); err != nil || b.ToolResult == nil {
			continue
		}
		keep := b.ToolResult.Content[:0:0]
		if len(b.ToolResult.Content) > 1 && bytes.HasPrefix(b.ToolResult.Content[0], []byte(`{"text":"evidence E`)) {
			keep = append(keep, b.ToolResult.Content[0])
		}
		mark := fmt.Sprintf("%s%d bytes; call the tool again if you need them]", trimMark, len(raw))
		b.ToolResult.Content = append(keep, converse.TextBlock(mark))
		block, err := ledger.CanonValue(b)
		if err != nil {
			return nil, 0, err
		}
		m.Content[i], n = block, n+1
	}
	return converse.Message(m.Role, m.Content), n, nil
}
