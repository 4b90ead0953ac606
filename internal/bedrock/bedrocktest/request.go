package bedrocktest

import (
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
)

// Request is what a Script and a Fault's predicate see: the same picture for
// every API.
type Request struct {
	Op       Op
	ModelID  string
	Header   http.Header
	Body     []byte // owned by the server, not to be changed
	Messages []Message

	Turn    int // assistant messages in the conversation
	Step    int // assistant messages since the last user message without tool results
	Number  int // requests the server had seen before this one
	Arrival int // requests with these exact bytes before this one
	// Attempt counts from 1. It is what the client says (amz-sdk-request,
	// x-stainless-retry-count), else Arrival+1.
	Attempt      int
	InvocationID string // amz-sdk-invocation-id, may be empty
	Stream       bool

	root    any   // the decoded body, read once for all who need it
	decoded error // why it could not be decoded
}

// Message is one message of the conversation, in neutral form.
type Message struct {
	Role   string
	Blocks []Block
}

// parseRequest reads the conversation out of body. It never fails: what it does
// not understand is left out, and refusing is the rules' work.
func parseRequest(op Op, modelID string, header http.Header, body []byte) Request {
	r := Request{Op: op, ModelID: modelID, Header: header, Body: body, InvocationID: header.Get("amz-sdk-invocation-id")}
	root, err := decode(body)
	r.root, r.decoded = root, err
	switch op {
	case OpConverse, OpConverseStream:
		r.Messages = converseMessages(root)
	case OpInvoke, OpInvokeStream, OpMessages:
		r.Messages = anthropicMessages(root)
	case OpChatCompletions:
		r.Messages = openAIMessages(root)
	}
	if op == OpMessages || op == OpChatCompletions {
		r.ModelID = textAt(root, "model")
	}
	wants, _ := valueAt(root, "stream").(bool)
	r.Stream = op == OpConverseStream || op == OpInvokeStream || (wants && (op == OpMessages || op == OpChatCompletions))
	r.count()
	return r
}

func (r *Request) count() {
	question := r.question()
	for i, m := range r.Messages {
		if m.Role != "assistant" {
			continue
		}
		r.Turn++
		if i > question {
			r.Step++
		}
	}
}

// question is the index of the last user message without tool results.
func (r Request) question() int {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role == "user" && !hasResult(r.Messages[i].Blocks) {
			return i
		}
	}
	return 0
}

func hasResult(blocks []Block) bool {
	for _, b := range blocks {
		if b.Kind == KindToolResult {
			return true
		}
	}
	return false
}

// attempt reads which try of a call this is from what SDKs send.
func attempt(h http.Header, arrival int) int {
	for part := range strings.SplitSeq(h.Get("amz-sdk-request"), ";") {
		if n, err := strconv.Atoi(strings.TrimPrefix(strings.TrimSpace(part), "attempt=")); err == nil && n > 0 {
			return n
		}
	}
	if n, err := strconv.Atoi(h.Get("x-stainless-retry-count")); err == nil && n >= 0 {
		return n + 1
	}
	return arrival + 1
}

func converseMessages(root any) []Message {
	var out []Message
	for _, m := range listAt(root, "messages") {
		msg := Message{Role: textAt(m, "role")}
		for _, b := range listAt(m, "content") {
			msg.Blocks = append(msg.Blocks, converseBlock(b))
		}
		out = append(out, msg)
	}
	return out
}

func converseBlock(b any) Block {
	if s, ok := valueAt(b, "text").(string); ok {
		return Text(s)
	}
	if u := mapAt(b, "toolUse"); u != nil {
		return ToolUse(textAt(u, "toolUseId"), textAt(u, "name"), string(encode(u["input"])))
	}
	if t := mapAt(b, "toolResult"); t != nil {
		return Block{Kind: KindToolResult, ToolUseID: textAt(t, "toolUseId"), Status: textAt(t, "status"),
			Text: joinTexts(t["content"]), Raw: encode(t["content"])}
	}
	if t := mapAt(b, "reasoningContent", "reasoningText"); t != nil {
		return Reasoning(textAt(t, "text"), textAt(t, "signature"))
	}
	if s, ok := valueAt(b, "reasoningContent", "redactedContent").(string); ok {
		return Redacted(unbase64(s))
	}
	return Block{Kind: KindRaw, Raw: encode(b)}
}

func anthropicMessages(root any) []Message {
	var out []Message
	for _, m := range listAt(root, "messages") {
		msg := Message{Role: textAt(m, "role")}
		if s, ok := valueAt(m, "content").(string); ok {
			msg.Blocks = []Block{Text(s)}
		}
		for _, b := range listAt(m, "content") {
			msg.Blocks = append(msg.Blocks, anthropicBlock(b))
		}
		out = append(out, msg)
	}
	return out
}

func anthropicBlock(b any) Block {
	switch textAt(b, "type") {
	case "text":
		return Text(textAt(b, "text"))
	case "tool_use":
		return ToolUse(textAt(b, "id"), textAt(b, "name"), string(encode(valueAt(b, "input"))))
	case "tool_result":
		status := "success"
		if e, _ := valueAt(b, "is_error").(bool); e {
			status = "error"
		}
		content := valueAt(b, "content")
		return Block{Kind: KindToolResult, ToolUseID: textAt(b, "tool_use_id"), Status: status, Text: joinTexts(content), Raw: encode(content)}
	case "thinking":
		return Reasoning(textAt(b, "thinking"), textAt(b, "signature"))
	case "redacted_thinking":
		return Redacted(unbase64(textAt(b, "data")))
	}
	return Block{Kind: KindRaw, Raw: encode(b)}
}

func openAIMessages(root any) []Message {
	var out []Message
	for _, m := range listAt(root, "messages") {
		role, content := textAt(m, "role"), valueAt(m, "content")
		if role == "tool" {
			out = append(out, Message{Role: "user", Blocks: []Block{{Kind: KindToolResult,
				ToolUseID: textAt(m, "tool_call_id"), Text: joinTexts(content), Raw: encode(content)}}})
			continue
		}
		msg := Message{Role: role}
		if s := joinTexts(content); s != "" {
			msg.Blocks = append(msg.Blocks, Text(s))
		}
		for _, c := range listAt(m, "tool_calls") {
			msg.Blocks = append(msg.Blocks, ToolUse(textAt(c, "id"), textAt(c, "function", "name"), textAt(c, "function", "arguments")))
		}
		out = append(out, msg)
	}
	return out
}

// joinTexts reads a content member that is a string or a list of parts.
func joinTexts(content any) string {
	if s, ok := content.(string); ok {
		return s
	}
	var b strings.Builder
	for _, part := range listAt(map[string]any{"c": content}, "c") {
		b.WriteString(textAt(part, "text"))
		if j := valueAt(part, "json"); j != nil {
			b.Write(json.RawMessage(encode(j)))
		}
	}
	return b.String()
}
