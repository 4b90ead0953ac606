package foreign

import (
	"encoding/json"
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/ledger"
	"investigator/internal/scrub"
)

// Dialect is the shape of requests and answers.
type Dialect string

// The dialects. Opaque is a body that no tool event can be read from.
const (
	Converse  Dialect = "converse"
	Anthropic Dialect = "anthropic"
	OpenAI    Dialect = "openai"
	Opaque    Dialect = "opaque"
)

// Asked is a request as it was read. Request holds the members of the body in
// canonical JSON, the list "messages" as its thread, without secrets.
type Asked struct {
	Route   Route
	Dialect Dialect
	Stream  bool
	Request converse.Request
}

// ReadRequest reads a request's body. The error says that it is no JSON object.
func ReadRequest(r Route, body []byte) (Asked, error) { return ReadRequestInto(nil, r, body) }

// ReadRequestInto is ReadRequest with memory for the canonical body, which is
// used where it is large enough: what is returned stands there then.
func ReadRequestInto(memory []byte, r Route, body []byte) (Asked, error) {
	canon, err := ledger.AppendCanon(memory[:0], body)
	if err != nil {
		return Asked{}, fmt.Errorf("read request body: %w", err)
	}
	if clean, n := scrub.JSON(canon); n > 0 { // results of tools are read as JSON
		if canon, err = ledger.Canon(clean); err != nil {
			return Asked{}, fmt.Errorf("read request body: %w", err)
		}
	}
	return fromCanon(r, canon)
}

func fromCanon(r Route, canon []byte) (Asked, error) {
	messages, rest, err := split(canon)
	if err != nil {
		return Asked{}, err
	}
	a := Asked{Route: r, Dialect: dialectOf(r.Op, rest), Request: converse.Request{Model: r.Model, Messages: converse.NewThread(messages...)}}
	if a.Request.Rest, err = converse.NewRest(rest); err != nil {
		return Asked{}, err
	}
	if a.Request.Model == "" {
		a.Request.Model = stringOf(member(rest, "model"))
	}
	if a.Request.Model == "" {
		a.Request.Model = string(r.Op) // ApplyGuardrail has none
	}
	a.Stream = r.Op == OpConverseStream || r.Op == OpInvokeStream || string(member(rest, "stream")) == "true"
	return a, nil
}

// FromRequest is the Asked of a recorded request at its recorded path.
func FromRequest(r Route, req converse.Request) Asked {
	a := Asked{Route: r, Dialect: dialectOf(r.Op, req.Rest.JSON()), Request: req}
	a.Stream = r.Op == OpConverseStream || r.Op == OpInvokeStream || string(member(req.Rest.JSON(), "stream")) == "true"
	return a
}

func dialectOf(op Op, rest json.RawMessage) Dialect {
	switch op {
	case OpConverse, OpConverseStream:
		return Converse
	case OpMessages:
		return Anthropic
	case OpChatCompletions:
		return OpenAI
	case OpInvoke, OpInvokeStream:
		if member(rest, "anthropic_version") != nil {
			return Anthropic
		}
	}
	return Opaque
}

// split divides a canonical body into its messages and the rest.
func split(canon []byte) (messages []json.RawMessage, rest json.RawMessage, err error) {
	others := []byte{'{'}
	var list json.RawMessage
	err = ledger.EachMember(canon, func(name []byte, value json.RawMessage) {
		if string(name) == "messages" {
			list = value
			return
		}
		if len(others) > 1 {
			others = append(others, ',')
		}
		others = append(append(append(others, '"'), name...), `":`...)
		others = append(others, value...)
	})
	if err != nil {
		return nil, nil, fmt.Errorf("read request body: expected an object, found %.20q", canon)
	}
	rest = append(others, '}')
	if list == nil {
		return nil, rest, nil
	}
	messages, isList := elements(list)
	if !isList {
		return nil, nil, fmt.Errorf("read request body: /messages: expected an array, found %.20q", list)
	}
	return messages, rest, nil
}

// elements splits a canonical array.
func elements(array []byte) (list []json.RawMessage, isList bool) {
	if len(array) < 2 || array[0] != '[' {
		return nil, false
	}
	if len(array) > 2 {
		list = make([]json.RawMessage, 0, 4)
	}
	for pos := 1; pos < len(array)-1; pos++ {
		end := ledger.SkipValue(array, pos)
		if end <= pos || end >= len(array) {
			return nil, false
		}
		list = append(list, array[pos:end:end])
		pos = end
	}
	return list, true
}

// member returns the value of a canonical object's member, nil if there is
// none or it is no object.
func member(object []byte, name string) json.RawMessage { return ledger.Member(object, name) }

// stringOf decodes a text. Anything else is none.
func stringOf(quoted json.RawMessage) string {
	if s, plain := ledger.PlainString(quoted); plain || len(quoted) == 0 {
		return s
	}
	var s string
	_ = json.Unmarshal(quoted, &s) // anything else is no text
	return s
}

// with returns a canonical object with one member set.
func with(object []byte, name string, value json.RawMessage) json.RawMessage {
	members, err := converse.Members(object)
	if err != nil {
		return object
	}
	members[name] = value
	out, err := ledger.CanonValue(members)
	if err != nil {
		return object
	}
	return out
}

// Prompt returns the messages before any turn that tell the model who it is, and
// those after them. In some dialects the prompt is a member of the request
// instead, and there are none.
func (a Asked) Prompt() (prompt, rest []json.RawMessage) {
	messages := a.Request.Messages.Messages()
	for i, m := range messages {
		if role := stringOf(member(m, "role")); role != "system" && role != "developer" {
			return messages[:i], messages[i:]
		}
	}
	return messages, nil
}

// Question is the first text a person put to the agent, for run.started.
func (a Asked) Question() string {
	for _, m := range a.Request.Messages.Messages() {
		if stringOf(member(m, "role")) != "user" {
			continue
		}
		content := member(m, "content")
		if s := stringOf(content); s != "" {
			return s
		}
		blocks, _ := elements(content)
		for _, b := range blocks {
			if s := stringOf(member(b, "text")); s != "" {
				return s
			}
		}
	}
	return ""
}

// SetQuestion returns the request with another first text of the user.
func (a Asked) SetQuestion(text string) Asked {
	quoted := ledger.AppendString(nil, text)
	messages := a.Request.Messages.Messages()
	for i, m := range messages {
		if stringOf(member(m, "role")) != "user" {
			continue
		}
		content := member(m, "content")
		if len(content) > 0 && content[0] == '"' {
			messages[i] = with(m, "content", quoted)
			break
		}
		blocks, _ := elements(content)
		for k, b := range blocks {
			if member(b, "text") != nil {
				blocks[k] = with(b, "text", quoted)
				list, err := ledger.CanonValue(blocks)
				if err == nil {
					messages[i] = with(m, "content", list)
				}
				a.Request.Messages = converse.NewThread(messages...)
				return a
			}
		}
	}
	a.Request.Messages = converse.NewThread(messages...)
	return a
}
