package faults

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
)

// Violation is a rule of the Converse API that a conversation breaks. Text
// follows the service's own, so that a reader finds it.
type Violation struct {
	Rule    string `json:"rule"`    // role-first, role-order, unanswered, surplus, duplicate-call, duplicate-result or shape
	Message int    `json:"message"` // index, from 0
	Text    string `json:"text"`
}

func (v Violation) String() string { return fmt.Sprintf("messages.%d: %s", v.Message, v.Text) }

// message is what the pairing rules look at.
type message struct {
	role    string
	calls   []string // ids of calls that the caller must answer
	results []string
}

// CheckConversation lists where a conversation that is about to be sent breaks
// the rules on roles and on the pairing of calls and results. Messages of role
// system may stand anywhere, and calls of server tools need no result.
func CheckConversation(t *converse.Thread) []Violation {
	var out []Violation
	var last message
	lastAt := -1
	for i, raw := range t.Messages() {
		m, err := parseMessage(raw)
		if err != nil {
			out = append(out, Violation{"shape", i, err.Error()})
			continue
		}
		if m.role == "system" {
			continue
		}
		out = append(out, roles(last, m, i)...)
		out = append(out, duplicates(m, i)...)
		out = append(out, pairing(last, m, i)...)
		last, lastAt = m, i
	}
	return append(out, unanswered(last, message{}, lastAt)...)
}

func parseMessage(raw json.RawMessage) (message, error) {
	var m struct {
		Role    string `json:"role"`
		Content []struct {
			ToolUse *struct {
				ID   string `json:"toolUseId"`
				Type string `json:"type"`
			} `json:"toolUse"`
			ToolResult *struct {
				ID   string `json:"toolUseId"`
				Type string `json:"type"`
			} `json:"toolResult"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return message{}, fmt.Errorf("expected a message of a role and content blocks, found %s", abbreviate(raw))
	}
	if m.Role != "user" && m.Role != "assistant" && m.Role != "system" {
		return message{}, fmt.Errorf("expected the role user, assistant or system, found %q", m.Role)
	}
	out := message{role: m.Role}
	for _, b := range m.Content {
		if b.ToolUse != nil && b.ToolUse.Type != "server_tool_use" {
			out.calls = append(out.calls, b.ToolUse.ID)
		}
		if b.ToolResult != nil && m.Role == "user" {
			out.results = append(out.results, b.ToolResult.ID)
		}
	}
	return out, nil
}

func roles(last, m message, i int) []Violation {
	switch {
	case last.role == "" && m.role != "user":
		return []Violation{{"role-first", i, "A conversation must start with a user message."}}
	case last.role == m.role:
		return []Violation{{"role-order", i, "A conversation must alternate between user and assistant roles."}}
	}
	return nil
}

func duplicates(m message, i int) []Violation {
	var out []Violation
	if ids := repeated(m.calls); len(ids) > 0 {
		out = append(out, Violation{"duplicate-call", i, "The toolUse blocks contain duplicate Ids: " + strings.Join(ids, ", ")})
	}
	if ids := repeated(m.results); len(ids) > 0 {
		out = append(out, Violation{"duplicate-result", i, "The toolResult blocks contain duplicate Ids: " + strings.Join(ids, ", ")})
	}
	return out
}

func repeated(ids []string) []string {
	var out []string
	for i, id := range ids {
		if slices.Contains(ids[:i], id) && !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

func pairing(last, m message, i int) []Violation {
	out := unanswered(last, m, i)
	for _, id := range m.results {
		if !slices.Contains(last.calls, id) {
			out = append(out, Violation{"surplus", i, fmt.Sprintf("The number of toolResult blocks exceeds the number of toolUse blocks of previous turn: %s answers no call.", id)})
		}
	}
	return out
}

// unanswered lists the calls of one message that the next does not answer.
func unanswered(last, m message, i int) []Violation {
	var ids []string
	for _, id := range last.calls {
		if !slices.Contains(m.results, id) && !slices.Contains(ids, id) {
			ids = append(ids, id)
		}
	}
	if len(ids) == 0 {
		return nil
	}
	return []Violation{{"unanswered", i, "Expected toolResult blocks for the following Ids: " + strings.Join(ids, ", ")}}
}
