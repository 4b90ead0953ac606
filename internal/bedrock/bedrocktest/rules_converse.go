package bedrocktest

import (
	"strings"
)

// Rule 1.
func checkStartsWithUser(c *conversation) *APIError {
	if len(c.messages) > 0 && c.messages[0].role != "user" {
		return invalid("A conversation must start with a user message. Try again with a conversation that starts with a user message.")
	}
	return nil
}

// Rule 2.
func checkAlternation(c *conversation) *APIError {
	for i := 1; i < len(c.messages); i++ {
		if c.messages[i].role == c.messages[i-1].role {
			return invalid("A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.")
		}
	}
	return nil
}

// Rule 3. A text of spaces is as blank as none.
func checkBlankText(c *conversation) *APIError {
	for _, m := range c.messages {
		for _, b := range m.blocks {
			if s, ok := b.body.(string); ok && b.kind == "text" && strings.TrimSpace(s) == "" {
				return invalid("The text field in the ContentBlock object at %s is blank. Add text to the text field, and try again.", m.at(b))
			}
		}
	}
	return nil
}

// Rule 4: every call is answered in the very next message.
func checkMissingResults(c *conversation) *APIError {
	for i, m := range c.messages {
		uses := m.uses()
		if m.role != "assistant" || len(uses) == 0 {
			continue
		}
		next := message{index: m.index + 1}
		if i+1 < len(c.messages) {
			next = c.messages[i+1]
		}
		if ids := missing(uses, next.results()); len(ids) > 0 {
			return invalid("Expected toolResult blocks at %s for the following Ids: %s", next.content(), strings.Join(ids, ", "))
		}
	}
	return nil
}

// Rule 5.
func checkSurplusResults(c *conversation) *APIError {
	var previous message
	for _, m := range c.messages {
		if len(m.results()) > len(previous.uses()) {
			return invalid("The number of toolResult blocks at %s exceeds the number of toolUse blocks of previous turn.", m.content())
		}
		previous = m
	}
	return nil
}

// Rule 6. An id that comes back in a later message is legal.
func checkDuplicateUses(c *conversation) *APIError {
	for _, m := range c.messages {
		if ids := repeated(m.uses()); len(ids) > 0 {
			return invalid("The toolUse blocks at %s contain duplicate Ids: %s", m.content(), strings.Join(ids, ", "))
		}
	}
	return nil
}

// Rule 7.
func checkDuplicateResults(c *conversation) *APIError {
	for _, m := range c.messages {
		if ids := repeated(m.results()); len(ids) > 0 {
			return invalid("The toolResult blocks at %s contain duplicate Ids: %s", m.content(), strings.Join(ids, ", "))
		}
	}
	return nil
}

// Rule 8.
func checkToolConfig(c *conversation) *APIError {
	if mapAt(c.root, "toolConfig") != nil {
		return nil
	}
	for _, m := range c.messages {
		if m.has("toolUse") || m.has("toolResult") {
			return invalid("The toolConfig field must be defined when using toolUse and toolResult content blocks.")
		}
	}
	return nil
}

// Rule 9. An empty result with status success is in no report, and passes.
func checkEmptyErrorResult(c *conversation) *APIError {
	for _, m := range c.messages {
		for _, b := range m.blocks {
			if b.kind == "toolResult" && textAt(b.body, "status") == "error" && len(listAt(b.body, "content")) == 0 {
				return invalid("The content field at %s.toolResult cannot be empty when status value is error.", m.at(b))
			}
		}
	}
	return nil
}

// Rule 10: documents are objects, at the three places that take one.
func checkJSONObjects(c *conversation) *APIError {
	for i, t := range listAt(c.root, "toolConfig", "tools") {
		if e := checkSchema(i, t); e != nil {
			return e
		}
	}
	for _, m := range c.messages {
		for _, b := range m.blocks {
			if e := checkBlockObjects(m, b); e != nil {
				return e
			}
		}
	}
	return nil
}

func checkSchema(i int, tool any) *APIError {
	if mapAt(tool, "toolSpec") == nil {
		return nil
	}
	schema, ok := valueAt(tool, "toolSpec", "inputSchema", "json").(map[string]any)
	if !ok {
		return notObject("toolConfig.tools.%d.toolSpec.inputSchema.json", i)
	}
	if schema["type"] != "object" {
		return invalid("The value at toolConfig.tools.%d.toolSpec.inputSchema.json.type must be one of the following: object.", i)
	}
	return nil
}

func checkBlockObjects(m message, b block) *APIError {
	if b.kind == "toolUse" {
		if mapAt(b.body, "input") == nil {
			return notObject("messages.%d.content.%d.toolUse.input", m.index, b.index)
		}
		return nil
	}
	if b.kind != "toolResult" {
		return nil
	}
	for k, item := range listAt(b.body, "content") {
		j, present := lookup(item, "json")
		if _, ok := j.(map[string]any); present && !ok {
			return notObject("messages.%d.content.%d.toolResult.content.%d.json", m.index, b.index, k)
		}
	}
	return nil
}

func notObject(format string, args ...any) *APIError {
	return invalid("The format of the value at "+format+" is invalid. Provide a json object for the field and try again.", args...)
}

// Rule 15.
func checkMixedTurns(c *conversation) *APIError {
	if !strings.Contains(c.model, "llama") {
		return nil
	}
	for _, m := range c.messages {
		if m.has("text") && m.has("toolUse") {
			return invalid("Conversation blocks and tool use blocks cannot be provided in the same turn.")
		}
		if m.has("text") && m.has("toolResult") {
			return invalid("Conversation blocks and tool result blocks cannot be provided in the same turn.")
		}
	}
	return nil
}

// Rule a.
func checkEmptyContent(c *conversation) *APIError {
	for _, m := range c.messages {
		if len(m.blocks) == 0 {
			return invalid("The content field in the Message object at messages.%d is empty. Add a ContentBlock object to the content field and try again.", m.index)
		}
	}
	return nil
}

// Rule b: an empty text inside a tool result is refused by the model's own API.
func checkEmptyResultText(c *conversation) *APIError {
	for _, m := range c.messages {
		for _, b := range m.blocks {
			for _, item := range listAt(b.body, "content") {
				if s, ok := valueAt(item, "text").(string); ok && s == "" && b.kind == "toolResult" {
					return invalid(modelPrefix + "messages: text content blocks must be non-empty")
				}
			}
		}
	}
	return nil
}
