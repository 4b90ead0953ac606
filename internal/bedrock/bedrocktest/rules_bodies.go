package bedrocktest

import (
	"strings"
)

// Rule 22: members every Anthropic body has. The version value is free (clients
// send bedrock-2023-05-31 and later dates); unwrapped it travels in a header.
func checkAnthropicMembers(c *conversation) *APIError {
	if c.wrapped && textAt(c.root, "anthropic_version") == "" {
		return invalid("anthropic_version: Field required")
	}
	if n, ok := intAt(c.root, "max_tokens"); !ok {
		return invalid("max_tokens: Field required")
	} else if n < 1 {
		return invalid("max_tokens: must be greater than or equal to 1")
	}
	if len(c.messages) == 0 {
		return invalid("messages: at least one message is required")
	}
	if c.messages[0].role != "user" {
		return invalid(`messages: first message must use the "user" role`)
	}
	return nil
}

// Rule 22: blocks by themselves.
func checkAnthropicShapes(c *conversation) *APIError {
	for i, m := range c.messages {
		if len(m.blocks) == 0 && i < len(c.messages)-1 {
			return invalid("messages.%d: all messages must have non-empty content except for the optional final assistant message", m.index)
		}
		for _, b := range m.blocks {
			if e := checkAnthropicBlock(m, b); e != nil {
				return e
			}
		}
	}
	return nil
}

func checkAnthropicBlock(m message, b block) *APIError {
	switch b.kind {
	case "text":
		s := textAt(b.body, "text")
		if s == "" {
			return invalid("messages: text content blocks must be non-empty")
		}
		if strings.TrimSpace(s) == "" {
			return invalid("messages: text content blocks must contain non-whitespace text")
		}
	case "tool_use":
		if mapAt(b.body, "input") == nil {
			return invalid("%s.tool_use.input: Input should be a valid dictionary", m.at(b))
		}
		if !validName(textAt(b.body, "name")) {
			return invalid("%s.tool_use.name: String should match pattern '^[a-zA-Z0-9_-]{1,64}$'", m.at(b))
		}
	}
	return nil
}

func validName(s string) bool {
	var v violations
	v.name("", s, nameExtra, false)
	return len(v.found) == 0
}

// Rule 22: calls and results belong together. Messages of one role in a row are
// one turn here, which Converse does not allow.
func checkAnthropicPairs(c *conversation) *APIError {
	turns := merge(c.messages)
	for i, m := range turns {
		uses := m.ids("tool_use", "id")
		if len(repeated(uses)) > 0 {
			return invalid("messages.%d.content: `tool_use` ids must be unique", m.index)
		}
		var results []string
		if i+1 < len(turns) {
			results = turns[i+1].ids("tool_result", "tool_use_id")
		}
		if ids := missing(uses, results); len(ids) > 0 {
			return invalid("messages.%d: `tool_use` ids were found without `tool_result` blocks immediately after: %s. Each `tool_use` block must have a corresponding `tool_result` block in the next message.", m.index, strings.Join(ids, ", "))
		}
		if e := checkUnexpectedResults(turns, i); e != nil {
			return e
		}
	}
	return nil
}

func checkUnexpectedResults(turns []message, i int) *APIError {
	var uses []string
	if i > 0 {
		uses = turns[i-1].ids("tool_use", "id")
	}
	for _, b := range turns[i].blocks {
		id := textAt(b.body, "tool_use_id")
		if b.kind == "tool_result" && len(missing([]string{id}, uses)) > 0 {
			return invalid("%s: unexpected `tool_use_id` found in `tool_result` blocks: %s. Each `tool_result` block must have a corresponding `tool_use` block in the previous message.", turns[i].at(b), id)
		}
	}
	if ids := repeated(turns[i].ids("tool_result", "tool_use_id")); len(ids) > 0 {
		return invalid("messages.%d.content: each tool_use must have a single result. Found multiple `tool_result` blocks with id: %s", turns[i].index, ids[0])
	}
	return nil
}

// merge joins neighbours of one role; the joined message keeps the first index.
func merge(messages []message) []message {
	var out []message
	for _, m := range messages {
		if n := len(out); n > 0 && out[n-1].role == m.role {
			joined := out[n-1]
			joined.blocks = append(append([]block(nil), joined.blocks...), m.blocks...)
			out[n-1] = joined
			continue
		}
		out = append(out, m)
	}
	return out
}

// checkOpenAI is as much as a client of the chat route needs: messages exist,
// and calls are answered.
func checkOpenAI(root any) *APIError {
	if textAt(root, "model") == "" {
		return invalid("you must provide a model parameter")
	}
	messages := listAt(root, "messages")
	if len(messages) == 0 {
		return invalid("[] is too short - 'messages'")
	}
	open := []string(nil)
	for i, m := range messages {
		role := textAt(m, "role")
		if role == "tool" {
			id := textAt(m, "tool_call_id")
			if len(missing([]string{id}, open)) > 0 {
				return invalid("Invalid parameter: messages with role 'tool' must be a response to a preceding message with 'tool_calls' (messages.%d)", i)
			}
			open = missing(open, []string{id})
			continue
		}
		if len(open) > 0 {
			break
		}
		for _, c := range listAt(m, "tool_calls") {
			open = append(open, textAt(c, "id"))
		}
	}
	if len(open) > 0 {
		return invalid("An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. The following tool_call_ids did not have response messages: %s", strings.Join(open, ", "))
	}
	return nil
}
