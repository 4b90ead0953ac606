package bedrocktest

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
)

// Script decides what the model says to a request. It is called at the same
// time from several connections. It should be a function of the request alone.
type Script func(Request) Turn

// Turn is one answer. Exactly one of Content, Events and Response is used, in
// the order Response, Events, Content.
type Turn struct {
	// Content is rendered for whichever API was called.
	Content []Block
	// StopReason in Converse's words; empty means tool_use when Content holds a
	// call and end_turn otherwise.
	StopReason string
	// Usage replaces the estimate when set.
	Usage *Usage
	// Trace becomes the trace member of a Converse answer or metadata event.
	Trace json.RawMessage

	// Events are sent as they are by the streaming operations.
	Events []Event
	// Response is sent as it is by any operation.
	Response *Response

	// Fault names a trouble for this answer, see Fault. FaultAttempts bounds it
	// to the first n attempts of a call; zero means every attempt.
	Fault         string
	FaultAttempts int
}

// Response is a literal HTTP answer.
type Response struct {
	Status int
	Header http.Header
	Body   []byte
}

// Event is a stream event. A Type that begins with "!" is an exception frame.
type Event struct {
	Type    string
	Payload json.RawMessage
}

// ParseEvents reads a JSON list of [type, payload] pairs.
func ParseEvents(data []byte) ([]Event, error) {
	var pairs [][]json.RawMessage
	if err := json.Unmarshal(data, &pairs); err != nil {
		return nil, fmt.Errorf("parse events: expected a list of [type, payload] pairs: %w", err)
	}
	events := make([]Event, len(pairs))
	for i, p := range pairs {
		if len(p) != 2 {
			return nil, fmt.Errorf("parse events: item %d has %d members, expected [type, payload]", i, len(p))
		}
		if err := json.Unmarshal(p[0], &events[i].Type); err != nil {
			return nil, fmt.Errorf("parse events: item %d: type %q is not a string: %w", i, p[0], err)
		}
		events[i].Payload = p[1]
	}
	return events, nil
}

// Kind says what a Block is.
type Kind string

// The kinds of Block. KindRaw is a Converse-shaped block given as JSON; it is
// left out where the API called has no such block.
const (
	KindText       Kind = "text"
	KindToolUse    Kind = "toolUse"
	KindToolResult Kind = "toolResult" // in requests only
	KindReasoning  Kind = "reasoning"
	KindRedacted   Kind = "redacted"
	KindRaw        Kind = "raw"
)

// Block is a part of a message.
type Block struct {
	Kind      Kind
	Text      string // text, reasoning text, or the joined texts of a result
	Signature string
	ToolUseID string
	Name      string
	Input     json.RawMessage // a call's input, byte for byte
	Redacted  []byte
	Status    string // of a result
	Raw       json.RawMessage
	// Pieces says how a stream cuts Text or Input; nil lets the server choose.
	// An empty list sends no delta at all.
	Pieces []string
}

// Text is a text block.
func Text(s string) Block { return Block{Kind: KindText, Text: s} }

// ToolUse is a tool call whose input is the JSON text given.
func ToolUse(id, name, input string) Block {
	return Block{Kind: KindToolUse, ToolUseID: id, Name: name, Input: json.RawMessage(input)}
}

// Reasoning is a signed reasoning block. The server remembers it and refuses a
// conversation that brings it back altered.
func Reasoning(text, signature string) Block {
	return Block{Kind: KindReasoning, Text: text, Signature: signature}
}

// Redacted is an encrypted reasoning block.
func Redacted(data []byte) Block { return Block{Kind: KindRedacted, Redacted: data} }

// Raw is a Converse content block given as JSON.
func Raw(block string) Block { return Block{Kind: KindRaw, Raw: json.RawMessage(block)} }

// Say is a turn of these blocks.
func Say(blocks ...Block) Turn { return Turn{Content: blocks} }

func (t Turn) stopReason() string {
	if t.StopReason != "" {
		return t.StopReason
	}
	for _, b := range t.Content {
		if b.Kind == KindToolUse {
			return "tool_use"
		}
	}
	return "end_turn"
}

// Turns answers with the turn whose number is the count of assistant messages
// in the request, so that clients and retries share it without upsetting each
// other. A conversation longer than the script gets a ValidationException that
// says so.
func Turns(turns ...Turn) Script {
	return func(r Request) Turn {
		if r.Turn < len(turns) {
			return turns[r.Turn]
		}
		return scriptEnd(len(turns), fmt.Sprintf("holds %d assistant messages", r.Turn))
	}
}

// Arrivals answers the n-th request that reaches the script with the n-th turn,
// whatever it asks. Use it where one client repeats one request.
func Arrivals(turns ...Turn) Script {
	var next atomic.Int64
	return func(Request) Turn {
		n := int(next.Add(1)) - 1
		if n < len(turns) {
			return turns[n]
		}
		return scriptEnd(len(turns), fmt.Sprintf("is number %d", n+1))
	}
}

func scriptEnd(have int, asked string) Turn {
	e := invalid("bedrocktest: the script has %d turns and this request %s", have, asked)
	r := errorReply(OpConverse, e)
	return Turn{Response: &Response{Status: r.status, Header: r.header, Body: r.chunks[0]}}
}

// ToolLoop is a whole tool-using conversation that works in every API: two
// parallel calls, get_weather {city:"Oslo"} and get_time {city:"Oslo", id: 2^53+1},
// then one more call, then a final text that names how many results it was
// given. It starts again when the conversation asks a new question.
func ToolLoop() Script {
	return func(r Request) Turn {
		id := func(n int) string { return fmt.Sprintf("tooluse_t%dc%d", r.Turn, n) }
		switch r.Step {
		case 0:
			return Say(
				Text("I will look up the weather and the time in Oslo."),
				ToolUse(id(0), "get_weather", `{"city":"Oslo"}`),
				ToolUse(id(1), "get_time", `{"city":"Oslo","id":9007199254740993}`),
			)
		case 1:
			return Say(ToolUse(id(0), "get_weather", `{"city":"Bergen"}`))
		}
		return Say(Text(fmt.Sprintf("Done: I asked three times and was given %d results.", r.results())))
	}
}

// results counts the tool results since the last question.
func (r Request) results() int {
	n := 0
	for _, m := range r.Messages[r.question():] {
		for _, b := range m.Blocks {
			if b.Kind == KindToolResult {
				n++
			}
		}
	}
	return n
}

// LookupScript finds a ready-made script by the name a command line gives.
func LookupScript(name string) (Script, error) {
	switch name {
	case "toolloop":
		return ToolLoop(), nil
	case "hello":
		return func(Request) Turn { return Say(Text("Hello from a local Bedrock.")) }, nil
	}
	return nil, fmt.Errorf("look up script: unknown name %q, expected one of %s", name, strings.Join(ScriptNames(), ", "))
}

// ScriptNames lists the ready-made scripts.
func ScriptNames() []string { return []string{"hello", "toolloop"} }
