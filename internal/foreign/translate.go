package foreign

import (
	"encoding/json"
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// ToConverse is the request in Converse's shape, for a model that speaks no
// other: its prompt, its tools, and what was said, called and returned. What
// else another dialect holds (images, documents, reasoning, settings, tools
// that the service runs) is left out. The error is about an opaque body.
func (a Asked) ToConverse() (converse.Request, error) {
	t := translation{rest: a.Request.Rest.JSON()}
	switch a.Dialect {
	case Converse:
		return a.Request, nil
	case Anthropic:
		t.anthropic(a.Request.Messages.Messages())
	case OpenAI:
		t.openAI(a.Request.Messages.Messages())
	default:
		return converse.Request{}, fmt.Errorf("read %s: expected the body of Anthropic's Messages, found another", a.Route.Op)
	}
	members := object{}
	if t.system != nil {
		members["system"] = t.system
	}
	if t.tools != nil {
		members["toolConfig"] = object{"tools": t.tools}
	}
	rest, err := converse.NewRest(encode(members))
	return converse.Request{Model: a.Request.Model, Messages: converse.NewThread(t.said()...), Rest: rest}, err
}

// translation is a request on its way into Converse's shape.
type translation struct {
	rest   json.RawMessage
	system []json.RawMessage
	tools  []object
	turns  []passage
}

// passage is a message. Converse wants roles to alternate, so what one role says
// in a row is one message.
type passage struct {
	role   string
	blocks []json.RawMessage
}

func (t *translation) say(role string, blocks ...json.RawMessage) {
	if len(blocks) == 0 {
		return
	}
	if n := len(t.turns); n > 0 && t.turns[n-1].role == role {
		t.turns[n-1].blocks = append(t.turns[n-1].blocks, blocks...)
		return
	}
	t.turns = append(t.turns, passage{role, blocks})
}

func (t *translation) said() (out []json.RawMessage) {
	for _, s := range t.turns {
		out = append(out, converse.Message(s.role, s.blocks))
	}
	return out
}

func (t *translation) offer(name, description, schema json.RawMessage) {
	if stringOf(name) == "" {
		return
	}
	spec := object{"name": name, "inputSchema": object{"json": json.RawMessage(`{"type":"object"}`)}}
	if stringOf(description) != "" {
		spec["description"] = description
	}
	if schema != nil {
		spec["inputSchema"] = object{"json": schema}
	}
	t.tools = append(t.tools, object{"toolSpec": spec})
}

// textsOf are the texts of a message's content, which is one or a list of parts.
func textsOf(content json.RawMessage) (out []json.RawMessage) {
	if s := stringOf(content); !blank(s) {
		return []json.RawMessage{converse.TextBlock(s)}
	}
	parts, _ := elements(content)
	for _, p := range parts {
		for _, name := range []string{"text", "refusal"} {
			if s := stringOf(member(p, name)); !blank(s) {
				out = append(out, converse.TextBlock(s))
			}
		}
	}
	return out
}

func (t *translation) anthropic(messages []json.RawMessage) {
	t.system = textsOf(member(t.rest, "system"))
	tools, _ := elements(member(t.rest, "tools"))
	for _, tool := range tools {
		if schema := member(tool, "input_schema"); schema != nil { // others run at the service
			t.offer(member(tool, "name"), member(tool, "description"), schema)
		}
	}
	for _, m := range messages {
		role, content := "user", member(m, "content")
		if stringOf(member(m, "role")) == "assistant" {
			role = "assistant"
		}
		if len(content) > 0 && content[0] == '"' {
			t.say(role, textsOf(content)...)
			continue
		}
		blocks, _ := elements(content)
		for _, b := range blocks {
			t.say(role, anthropicPart(b)...)
		}
	}
}

func anthropicPart(b json.RawMessage) []json.RawMessage {
	switch stringOf(member(b, "type")) {
	case "text":
		return textsOf(member(b, "text"))
	case "tool_use":
		return []json.RawMessage{callBlock(member(b, "id"), member(b, "name"), member(b, "input"))}
	case "tool_result":
		r := converse.ToolResult{ID: stringOf(member(b, "tool_use_id")), Result: bodyOf(member(b, "content")), Error: string(member(b, "is_error")) == "true"}
		return []json.RawMessage{r.Block()}
	}
	return nil
}

func callBlock(id, name, input json.RawMessage) json.RawMessage {
	if len(input) == 0 || input[0] != '{' {
		input = json.RawMessage(`{}`)
	}
	return encode(object{"toolUse": object{"toolUseId": stringOf(id), "name": stringOf(name), "input": input}})
}

func (t *translation) openAI(messages []json.RawMessage) {
	tools, _ := elements(member(t.rest, "tools"))
	for _, tool := range tools {
		f := member(tool, "function")
		t.offer(member(f, "name"), member(f, "description"), member(f, "parameters"))
	}
	for _, m := range messages {
		content := member(m, "content")
		switch stringOf(member(m, "role")) {
		case "system", "developer":
			t.system = append(t.system, textsOf(content)...)
		case "tool":
			t.say("user", converse.ToolResult{ID: stringOf(member(m, "tool_call_id")), Result: bodyOf(content)}.Block())
		case "assistant":
			t.say("assistant", textsOf(content)...)
			calls, _ := elements(member(m, "tool_calls"))
			for _, c := range calls {
				f := member(c, "function")
				input, _ := ledger.Canon([]byte(stringOf(member(f, "arguments")))) // what is no JSON is no input
				t.say("assistant", callBlock(member(c, "id"), member(f, "name"), input))
			}
		default:
			t.say("user", textsOf(content)...)
		}
	}
}
