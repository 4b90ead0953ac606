package foreign

import (
	"encoding/json"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// Result is a tool result as a request brings it.
type Result struct {
	ID      string
	Body    json.RawMessage // canonical
	Failed  bool
	Message int // its message's index in the request
	Block   int // its block's index in that message
	Nth     int // among the results of that message, whatever stands between them
}

// Results returns the tool results after the last assistant message.
func (a Asked) Results() []Result {
	t := a.Request.Messages
	for t != nil && stringOf(member(t.Last(), "role")) != "assistant" {
		t = t.Parent()
	}
	var out []Result
	for i, m := range a.Request.Messages.Since(t) {
		out = append(out, resultsOf(a.Dialect, m, t.Len()+i)...)
	}
	return out
}

func resultsOf(d Dialect, message json.RawMessage, at int) []Result {
	if d == OpenAI {
		if stringOf(member(message, "role")) != "tool" {
			return nil
		}
		return []Result{{ID: stringOf(member(message, "tool_call_id")), Body: bodyOf(member(message, "content")), Message: at}}
	}
	blocks, _ := elements(member(message, "content"))
	var out []Result
	for i, b := range blocks {
		r := member(b, "toolResult")
		switch {
		case d == Converse && len(r) > 0 && r[0] == '{': // anything else could not be edited
			out = append(out, Result{stringOf(member(r, "toolUseId")), bodyOf(member(r, "content")), stringOf(member(r, "status")) == "error", at, i, len(out)})
		case d == Anthropic && stringOf(member(b, "type")) == "tool_result":
			out = append(out, Result{stringOf(member(b, "tool_use_id")), bodyOf(member(b, "content")), string(member(b, "is_error")) == "true", at, i, len(out)})
		}
	}
	return out
}

// bodyOf is a result as an event holds it: the one json or text of its content,
// a text that is a JSON object or array as such, anything else as content
// blocks.
func bodyOf(content json.RawMessage) json.RawMessage {
	if len(content) > 0 && content[0] == '"' {
		return textBody(stringOf(content))
	}
	blocks, isList := elements(content)
	if isList && len(blocks) == 1 {
		if v := member(blocks[0], "json"); v != nil {
			return v
		}
		if v := member(blocks[0], "text"); len(v) > 0 && v[0] == '"' {
			return textBody(stringOf(v))
		}
	}
	if !isList {
		return json.RawMessage(`""`)
	}
	return append(append([]byte(`{"`+converse.ContentMember+`":`), content...), '}')
}

func textBody(s string) json.RawMessage {
	if len(s) > 1 && (s[0] == '{' || s[0] == '[') {
		if canon, err := ledger.Canon([]byte(s)); err == nil {
			return canon
		}
	}
	return ledger.AppendString(nil, s)
}

// SetResult returns the request with one tool result replaced, in the form that
// the agent gave it: a text stays a text. It is found by its message and by its
// number there, since honest clients put other blocks before it or leave them out.
func (a Asked) SetResult(r Result, body json.RawMessage, failed bool) Asked {
	messages := a.Request.Messages.Messages()
	if r.Message >= len(messages) {
		return a
	}
	messages[r.Message] = setResult(a.Dialect, messages[r.Message], r.Nth, body, failed)
	a.Request.Messages = converse.NewThread(messages...)
	return a
}

func setResult(d Dialect, message json.RawMessage, nth int, body json.RawMessage, failed bool) json.RawMessage {
	results := resultsOf(d, message, 0)
	if nth >= len(results) {
		return message
	}
	if d == OpenAI {
		return with(message, "content", inForm(d, member(message, "content"), body))
	}
	blocks, _ := elements(member(message, "content"))
	block := results[nth].Block
	b := blocks[block]
	if d == Anthropic {
		b = with(b, "content", inForm(d, member(b, "content"), body))
		if failed || member(b, "is_error") != nil {
			b = with(b, "is_error", boolJSON(failed))
		}
	} else {
		r := member(b, "toolResult")
		r = with(r, "content", inForm(d, member(r, "content"), body))
		switch {
		case failed:
			r = with(r, "status", json.RawMessage(`"error"`))
		case member(r, "status") != nil:
			r = with(r, "status", json.RawMessage(`"success"`))
		}
		b = with(b, "toolResult", r)
	}
	blocks[block] = b
	list, err := ledger.CanonValue(blocks)
	if err != nil {
		return message
	}
	return with(message, "content", list)
}

func boolJSON(b bool) json.RawMessage {
	if b {
		return json.RawMessage("true")
	}
	return json.RawMessage("false")
}

// inForm puts a result into the form its content had. Where it had none it is a
// text, of which Converse alone makes a block.
func inForm(d Dialect, content, body json.RawMessage) json.RawMessage {
	if blocks := member(body, converse.ContentMember); blocks != nil {
		return blocks
	}
	if len(body) == 0 {
		body = json.RawMessage(`""`)
	}
	text := body
	if body[0] != '"' {
		text = ledger.AppendString(nil, string(body))
	} else if stringOf(body) == "" {
		text = ledger.AppendString(nil, converse.EmptyMark)
	}
	blocks, _ := elements(content)
	if len(content) > 0 && content[0] == '"' || len(blocks) == 0 && d != Converse {
		return text
	}
	if len(blocks) > 0 && member(blocks[0], "json") != nil && body[0] == '{' {
		return append(append([]byte(`[{"json":`), body...), "}]"...)
	}
	kind := ""
	if len(blocks) > 0 && member(blocks[0], "type") != nil {
		kind = `,"type":"text"`
	}
	return append(append(append([]byte(`[{"text":`), text...), kind...), "}]"...)
}
