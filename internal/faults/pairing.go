package faults

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
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
	out, ok := quickMessage(raw)
	if !ok {
		var err error
		if out, err = decodeMessage(raw); err != nil {
			return message{}, err
		}
	}
	if out.role != "user" && out.role != "assistant" && out.role != "system" {
		return message{}, fmt.Errorf("expected the role user, assistant or system, found %q", out.role)
	}
	if out.role != "user" {
		out.results = nil
	}
	return out, nil
}

// decodeMessage reads a message of any spelling.
func decodeMessage(raw json.RawMessage) (message, error) {
	var m struct {
		Role    string `json:"role"`
		Content []struct {
			ToolUse    *tied `json:"toolUse"`
			ToolResult *tied `json:"toolResult"`
		} `json:"content"`
	}
	if err := json.Unmarshal(raw, &m); err != nil {
		return message{}, fmt.Errorf("expected a message of a role and content blocks, found %s", abbreviate(raw))
	}
	out := message{role: m.Role}
	for _, b := range m.Content {
		out.take(b.ToolUse, b.ToolResult)
	}
	return out, nil
}

// tied is what ties a result to its call.
type tied struct {
	ID   string `json:"toolUseId"`
	Type string `json:"type"`
}

func (m *message) take(call, result *tied) {
	if call != nil && call.Type != "server_tool_use" {
		m.calls = append(m.calls, call.ID)
	}
	if result != nil {
		m.results = append(m.results, result.ID)
	}
}

// quickMessage reads a message without decoding what was said in it, if it is
// spelled as Converse does: content and role, and blocks of one member each.
func quickMessage(raw json.RawMessage) (out message, ok bool) {
	content, found := bytes.CutPrefix(raw, []byte(`{"content":[`))
	if !found {
		return out, false
	}
	for _, role := range []string{"user", "assistant", "system"} {
		if bytes.HasSuffix(content, []byte(`],"role":"`+role+`"}`)) {
			out.role, content = role, content[:len(content)-len(`],"role":""}`)-len(role)]
		}
	}
	if out.role == "" {
		return out, false
	}
	for pos := 0; pos < len(content); pos++ {
		if pos = out.quickBlock(content, pos); pos < 0 || pos < len(content) && content[pos] != ',' {
			return out, false
		}
	}
	return out, true
}

// quickBlock takes the block that begins at pos and returns the offset behind
// it, -1 if it is spelled in another way.
func (m *message) quickBlock(content []byte, pos int) int {
	members := 0
	return visit(content, pos, func(kind []byte, value place) bool {
		members++
		switch string(kind) {
		case "toolUse":
			return members == 1 && m.quickTied(content, value, true)
		case "toolResult":
			return members == 1 && m.quickTied(content, value, false)
		}
		return members == 1 && !foldsTo(kind, "toolUse", "toolResult")
	})
}

// foldsTo reports whether encoding/json takes a name for one of those given,
// which it compares without regard to case.
func foldsTo(name []byte, names ...string) bool {
	return slices.ContainsFunc(names, func(s string) bool { return bytes.EqualFold(name, []byte(s)) })
}

// quickTied takes a call or a result.
func (m *message) quickTied(content []byte, at place, isCall bool) bool {
	t, plain := tied{}, false
	end := visit(content, at.start, func(name []byte, value place) bool {
		ok := true
		switch string(name) {
		case "toolUseId":
			t.ID, ok = ledger.PlainString(content[value.start:value.end])
			plain = ok
		case "type":
			t.Type, ok = ledger.PlainString(content[value.start:value.end])
		default:
			ok = !foldsTo(name, "toolUseId", "type")
		}
		return ok
	})
	if end != at.end || !plain {
		return false
	}
	if isCall {
		m.take(&t, nil)
	} else {
		m.take(nil, &t)
	}
	return true
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
