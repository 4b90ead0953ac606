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
// the older half of the tool results that get smaller by it, at least one
// message, is replaced by a marker that the model can see. The newest results
// stay: they are what the model is asked about. The turn that overflowed leaves
// no message behind. With nothing left to remove the run ends.
func (s *step) overflow() error {
	messages := s.thread.Messages()
	cuts, err := trimmable(messages)
	if err != nil {
		return err
	}
	if len(cuts) == 0 {
		return s.finish(Outcome{Outcome: Stopped, Reason: "the conversation exceeds the model's context window and no older tool result is left to remove"})
	}
	results, saved := 0, 0
	for _, c := range cuts[:(len(cuts)+1)/2] {
		saved += len(messages[c.index]) - len(c.message)
		results += c.results
		messages[c.index] = c.message
	}
	data, err := ledger.CanonValue(map[string]int{"results": results, "bytes": saved})
	if err != nil {
		return err
	}
	s.emit(ledger.ContextTrimmed, "", data)
	s.thread = converse.NewThread(messages...)
	return s.checkLimits()
}

// cut is one message with its results removed.
type cut struct {
	index, results int
	message        json.RawMessage
}

// trimmable lists, oldest first, the messages before the newest results that
// would get smaller.
func trimmable(messages []json.RawMessage) ([]cut, error) {
	var holders []int
	for i, m := range messages {
		if bytes.HasPrefix(m, []byte(`{"content":[{"toolResult":`)) {
			holders = append(holders, i)
		}
	}
	var out []cut
	for _, i := range holders[:max(0, len(holders)-1)] {
		trimmed, n, err := trimMessage(messages[i])
		if err != nil {
			return nil, err
		}
		if n > 0 {
			out = append(out, cut{i, n, trimmed})
		}
	}
	return out, nil
}

// trimMessage replaces the results that are larger than the marker.
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
		block, err := trimBlock(raw)
		if err != nil {
			return nil, 0, fmt.Errorf("trim message: %w", err)
		}
		if block != nil {
			m.Content[i], n = block, n+1
		}
	}
	return converse.Message(m.Role, m.Content), n, nil
}

// trimBlock returns a result's block with the marker for content, nil if it is
// no result, is trimmed already or would not get smaller. The evidence address
// stays, so that the model can still cite it.
func trimBlock(raw json.RawMessage) (json.RawMessage, error) {
	var b struct {
		ToolResult *struct {
			Content []json.RawMessage `json:"content"`
			Status  string            `json:"status,omitempty"`
			ID      string            `json:"toolUseId"`
		} `json:"toolResult"`
	}
	if err := json.Unmarshal(raw, &b); err != nil || b.ToolResult == nil || len(b.ToolResult.Content) == 0 {
		return nil, nil // text beside results stays
	}
	content := b.ToolResult.Content
	if bytes.HasPrefix(content[len(content)-1], []byte(`{"text":"`+trimMark)) {
		return nil, nil
	}
	keep := content[:0:0]
	if len(content) > 1 && bytes.HasPrefix(content[0], []byte(`{"text":"evidence E`)) {
		keep = append(keep, content[0])
	}
	mark := fmt.Sprintf("%s%d bytes; call the tool again if you need them]", trimMark, len(raw))
	b.ToolResult.Content = append(keep, converse.TextBlock(mark))
	block, err := ledger.CanonValue(b)
	if err != nil || len(block) >= len(raw) {
		return nil, err
	}
	return block, nil
}
