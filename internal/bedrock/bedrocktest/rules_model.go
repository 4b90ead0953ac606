package bedrocktest

import (
	"regexp"
	"strconv"
	"strings"
)

// The rules of this file are the model's own: they hold for both bodies, and
// Converse puts modelPrefix before their texts.

func (c *conversation) refuse(format string, args ...any) *APIError {
	e := invalid(format, args...)
	if !c.anthropic {
		e.Message = modelPrefix + e.Message
	}
	return e
}

// cachePoint is a place up to which a prompt may be cached.
type cachePoint struct{ ttl string }

// cachePoints lists them in the order tools, system, messages.
func (c *conversation) cachePoints() []cachePoint {
	lists := [][]any{listAt(c.root, "toolConfig", "tools"), listAt(c.root, "tools"), listAt(c.root, "system")}
	for _, m := range listAt(c.root, "messages") {
		lists = append(lists, listAt(m, "content"))
	}
	var points []cachePoint
	for _, list := range lists {
		for _, b := range list {
			if p := pointOf(b); p != nil {
				points = append(points, *p)
			}
		}
	}
	return points
}

// pointOf finds a Converse cachePoint block or an Anthropic cache_control.
func pointOf(b any) *cachePoint {
	for _, name := range []string{"cachePoint", "cache_control"} {
		if m := mapAt(b, name); m != nil {
			p := cachePoint{ttl: textAt(m, "ttl")}
			if p.ttl == "" {
				p.ttl = "5m"
			}
			return &p
		}
	}
	return nil
}

// Rule 16.
func checkCachePointCount(c *conversation) *APIError {
	if n := len(c.cachePoints()); n > 4 {
		return c.refuse("A maximum of 4 blocks with cache_control may be provided. Found %d.", n)
	}
	return nil
}

// Rule 17.
func checkCacheTTLOrder(c *conversation) *APIError {
	short := false
	for _, p := range c.cachePoints() {
		if p.ttl == "1h" && short {
			return c.refuse("a ttl='1h' cache_control block must not come after a ttl='5m' cache_control block")
		}
		short = short || p.ttl == "5m"
	}
	return nil
}

// Rule 13. Thinking of type "adaptive" asks for nothing.
func checkThinkingFirst(c *conversation) *APIError {
	thinking := mapAt(c.root, "additionalModelRequestFields", "thinking")
	if c.anthropic {
		thinking = mapAt(c.root, "thinking")
	}
	if textAt(thinking, "type") != "enabled" {
		return nil
	}
	m := c.lastAssistant()
	if m == nil || !(m.has("toolUse") || m.has("tool_use")) {
		return nil
	}
	kind := m.blocks[0].kind
	switch kind {
	case "reasoningContent", "thinking", "redacted_thinking":
		return nil
	case "toolUse":
		kind = "tool_use"
	}
	return c.refuse("%s.0.type: Expected `thinking` or `redacted_thinking`, but found `%s`. When `thinking` is enabled, a final `assistant` message must start with a thinking block (preceeding the lastmost set of `tool_use` and `tool_result` blocks).", m.content(), kind)
}

func (c *conversation) lastAssistant() *message {
	for i := len(c.messages) - 1; i >= 0; i-- {
		if c.messages[i].role == "assistant" {
			return &c.messages[i]
		}
	}
	return nil
}

// Rule 18.
func checkPrefill(c *conversation) *APIError {
	if m := c.last(); m != nil && m.role == "assistant" && refusesPrefill(c.model) {
		return c.refuse("This model does not support assistant message prefill. The conversation must end with a user message.")
	}
	return nil
}

// refusesPrefill holds for Opus from 4.6 and every family from 5 on.
func refusesPrefill(model string) bool {
	m := regexp.MustCompile(`claude-(opus|sonnet|haiku|fable|mythos)-(\d+)(?:-(\d{1,2}))?(?:\D|$)`).FindStringSubmatch(model)
	if m == nil {
		return false
	}
	major, _ := strconv.Atoi(m[2])
	minor, _ := strconv.Atoi(m[3])
	return major >= 5 || (m[1] == "opus" && major == 4 && minor >= 6)
}

// Rule 19.
func (v Validator) checkLength(c *conversation) *APIError {
	limit := v.ContextTokens
	if limit == 0 {
		limit = 200_000
	}
	input := estimate(c.root)
	if input > limit {
		if c.anthropic {
			return invalid("prompt is too long: %d tokens > %d maximum", input, limit)
		}
		return invalid("Input is too long for requested model.")
	}
	most, ok := intAt(c.root, "inferenceConfig", "maxTokens")
	if c.anthropic {
		most, ok = intAt(c.root, "max_tokens")
	}
	if ok && strings.Contains(c.model, "claude") && int64(input)+most > int64(limit) {
		return c.refuse("input length and `max_tokens` exceed context limit: %d + %d > %d, decrease input length or `max_tokens` and try again", input, most, limit)
	}
	return nil
}
