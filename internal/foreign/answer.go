package foreign

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// ErrCut is wrapped by the error about a stream that ended before its end was
// said.
var ErrCut = errors.New("the stream ended before the answer was whole")

// ReadAnswer turns what came over the wire with a good status into a canonical
// Converse response. An answer of an opaque dialect becomes its own canonical
// JSON, or {"bytes":…}. The error is a *converse.StreamError for an exception
// in the stream, wraps ErrCut or converse.ErrTruncated when the end is missing,
// and else says what cannot be read.
func ReadAnswer(d Dialect, body []byte) (json.RawMessage, error) {
	framed := len(body) > 0 && body[0] == 0
	switch {
	case d == Converse && !framed:
		return converse.Normalize(body)
	case d == Converse:
		frames, rest, err := converse.DecodeFrames(body)
		if err != nil {
			return nil, err
		}
		if rest > 0 {
			return nil, fmt.Errorf("read model stream: inside a frame: %w", ErrCut)
		}
		return converse.Assemble(frames)
	case d == Opaque:
		return opaque(body), nil
	}
	events, whole, err := eventsOf(body)
	if err != nil {
		return nil, err
	}
	if d == OpenAI {
		return readOpenAI(events, whole)
	}
	return readAnthropic(events, whole)
}

func opaque(body []byte) json.RawMessage {
	if canon, err := ledger.Canon(body); err == nil {
		return canon
	}
	b, _ := ledger.CanonValue(map[string][]byte{"bytes": body})
	return b
}

// eventsOf splits an answer into its JSON events: whole says that the one event
// is the whole answer and not a part of a stream.
func eventsOf(body []byte) (events []json.RawMessage, whole bool, err error) {
	switch trimmed := bytes.TrimSpace(body); {
	case len(trimmed) == 0:
		return nil, false, fmt.Errorf("read model stream: empty: %w", ErrCut)
	case body[0] == 0:
		events, err = chunks(body)
		return events, false, err
	case trimmed[0] == '{':
		canon, err := ledger.Canon(trimmed)
		return []json.RawMessage{canon}, true, err
	}
	for _, line := range bytes.Split(body, []byte("\n")) {
		data, found := bytes.CutPrefix(line, []byte("data:"))
		data = bytes.TrimSpace(data)
		if !found || len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		canon, err := ledger.Canon(data)
		if err != nil {
			return nil, false, fmt.Errorf("read model stream: event %d: %w", len(events)+1, err)
		}
		events = append(events, canon)
	}
	return events, false, nil
}

// chunks unwraps an InvokeModelWithResponseStream answer.
func chunks(body []byte) ([]json.RawMessage, error) {
	frames, rest, err := converse.DecodeFrames(body)
	if err != nil {
		return nil, err
	}
	var out []json.RawMessage
	for i, f := range frames {
		if f.Kind != converse.EventFrame {
			_, err := converse.Assemble([]converse.Frame{f}) // names the exception
			return nil, err
		}
		var c struct {
			Bytes []byte `json:"bytes"`
		}
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return nil, fmt.Errorf("read model stream: chunk %d: %w", i+1, err)
		}
		canon, err := ledger.Canon(c.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read model stream: chunk %d: %w", i+1, err)
		}
		out = append(out, canon)
	}
	if rest > 0 {
		return nil, fmt.Errorf("read model stream: inside a frame: %w", ErrCut)
	}
	return out, nil
}

// answer collects a Converse response.
type answer struct {
	content []json.RawMessage
	ext     converse.Extension
	stop    string
	usage   converse.Usage
}

func (a *answer) text(s string) {
	a.content = append(a.content, append(ledger.AppendString([]byte(`{"text":`), s), '}'))
}

// call adds a toolUse block; input is the text of its JSON.
func (a *answer) call(id, name, input string) {
	canon, err := ledger.Canon([]byte(input))
	if strings.TrimSpace(input) == "" {
		canon, err = []byte(`{}`), nil
	}
	if err != nil || canon[0] != '{' {
		if a.ext.Malformed == nil {
			a.ext.Malformed = map[string]string{}
		}
		a.ext.Malformed[fmt.Sprint(len(a.content))] = input
		canon = []byte(`{}`)
	}
	b := append([]byte(`{"toolUse":{"input":`), canon...)
	b = ledger.AppendString(append(b, `,"name":`...), name)
	b = ledger.AppendString(append(b, `,"toolUseId":`...), id)
	a.content = append(a.content, append(b, "}}"...))
}

func (a *answer) block(kind string, value any) {
	b, err := ledger.CanonValue(map[string]any{kind: value})
	if err == nil {
		a.content = append(a.content, b)
	}
}

func (a *answer) response() (json.RawMessage, error) {
	content := a.content
	if content == nil {
		content = []json.RawMessage{}
	}
	a.usage.Total = a.usage.Input + a.usage.Output + a.usage.CacheRead + a.usage.CacheWrite
	members := map[string]any{
		"output":     map[string]any{"message": map[string]any{"content": content, "role": "assistant"}},
		"stopReason": a.stop, "usage": a.usage,
	}
	if a.ext.Malformed != nil {
		members["investigator"] = a.ext
	}
	body, err := ledger.CanonValue(members)
	if err != nil {
		return nil, err
	}
	_, err = converse.ParseTurn(body)
	return body, err
}

type anthropicUsage struct {
	Input      int64 `json:"input_tokens"`
	Output     int64 `json:"output_tokens"`
	CacheRead  int64 `json:"cache_read_input_tokens"`
	CacheWrite int64 `json:"cache_creation_input_tokens"`
}

type anthropicBlock struct {
	Type      string          `json:"type"`
	Text      string          `json:"text"`
	Thinking  string          `json:"thinking"`
	Signature string          `json:"signature"`
	Data      string          `json:"data"`
	ID        string          `json:"id"`
	Name      string          `json:"name"`
	Input     json.RawMessage `json:"input"`
	raw       json.RawMessage
}

func (b *anthropicBlock) UnmarshalJSON(raw []byte) error {
	type plain anthropicBlock
	b.raw = bytes.Clone(raw)
	return json.Unmarshal(raw, (*plain)(b))
}

func (a *answer) anthropic(b anthropicBlock) {
	switch b.Type {
	case "text":
		a.text(b.Text)
	case "tool_use":
		a.call(b.ID, b.Name, string(b.Input))
	case "thinking":
		r := map[string]string{"text": b.Thinking}
		if b.Signature != "" {
			r["signature"] = b.Signature
		}
		a.block("reasoningContent", map[string]any{"reasoningText": r})
	case "redacted_thinking":
		a.block("reasoningContent", map[string]string{"redactedContent": b.Data})
	default:
		a.block("anthropic", b.raw)
	}
}

func (a *answer) anthropicUsage(u anthropicUsage) {
	a.usage.Input, a.usage.CacheRead, a.usage.CacheWrite = max(a.usage.Input, u.Input), max(a.usage.CacheRead, u.CacheRead), max(a.usage.CacheWrite, u.CacheWrite)
	a.usage.Output = max(a.usage.Output, u.Output)
}

func readAnthropic(events []json.RawMessage, whole bool) (json.RawMessage, error) {
	var a answer
	if whole {
		var m struct {
			Type    string           `json:"type"`
			Content []anthropicBlock `json:"content"`
			Stop    string           `json:"stop_reason"`
			Usage   anthropicUsage   `json:"usage"`
		}
		if err := json.Unmarshal(events[0], &m); err != nil || m.Type != "message" {
			return nil, fmt.Errorf("read model response: expected an Anthropic message, found %.60q", events[0])
		}
		for _, b := range m.Content {
			a.anthropic(b)
		}
		a.stop = m.Stop
		a.anthropicUsage(m.Usage)
		return a.response()
	}
	s := anthropicStream{answer: &a}
	for i, e := range events {
		if err := s.add(e); err != nil {
			return nil, fmt.Errorf("read model stream: event %d: %w", i+1, err)
		}
	}
	if !s.stopped {
		return nil, fmt.Errorf("read model stream of %d events: %w", len(events), ErrCut)
	}
	return a.response()
}

type anthropicStream struct {
	*answer
	block   anthropicBlock
	input   strings.Builder
	stopped bool
}

func (s *anthropicStream) add(event json.RawMessage) error {
	var e struct {
		Type    string `json:"type"`
		Message struct {
			Usage anthropicUsage `json:"usage"`
		} `json:"message"`
		Block anthropicBlock `json:"content_block"`
		Delta struct {
			Text, Thinking, Signature string
			Input                     string `json:"partial_json"`
			Stop                      string `json:"stop_reason"`
		} `json:"delta"`
		Usage anthropicUsage `json:"usage"`
		Error struct{ Type, Message string }
	}
	if err := json.Unmarshal(event, &e); err != nil {
		return err
	}
	switch e.Type {
	case "message_start":
		s.anthropicUsage(e.Message.Usage)
	case "content_block_start":
		s.block = e.Block
		s.input.Reset()
	case "content_block_delta":
		s.block.Text += e.Delta.Text
		s.block.Thinking += e.Delta.Thinking
		s.block.Signature += e.Delta.Signature
		s.input.WriteString(e.Delta.Input)
	case "content_block_stop":
		if s.input.Len() > 0 {
			s.call(s.block.ID, s.block.Name, s.input.String())
		} else {
			s.anthropic(s.block)
		}
		s.input.Reset()
	case "message_delta":
		s.stop = e.Delta.Stop
		s.anthropicUsage(e.Usage)
	case "message_stop":
		s.stopped = true
	case "error":
		return &converse.StreamError{Name: e.Error.Type, Message: e.Error.Message}
	}
	return nil
}

type openAICall struct {
	Index    int    `json:"index"`
	ID       string `json:"id"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

type openAIMessage struct {
	Content string       `json:"content"`
	Refusal string       `json:"refusal"`
	Calls   []openAICall `json:"tool_calls"`
}

type openAIEvent struct {
	Choices []struct {
		Message openAIMessage `json:"message"`
		Delta   openAIMessage `json:"delta"`
		Finish  string        `json:"finish_reason"`
	} `json:"choices"`
	Usage struct {
		Prompt     int64 `json:"prompt_tokens"`
		Completion int64 `json:"completion_tokens"`
	} `json:"usage"`
	Error *struct{ Type, Message string } `json:"error"`
}

func readOpenAI(events []json.RawMessage, whole bool) (json.RawMessage, error) {
	var a answer
	var text strings.Builder
	var calls []openAICall
	for i, raw := range events {
		var e openAIEvent
		if err := json.Unmarshal(raw, &e); err != nil {
			return nil, fmt.Errorf("read model response: event %d: %w", i+1, err)
		}
		if e.Error != nil {
			return nil, &converse.StreamError{Name: e.Error.Type, Message: e.Error.Message}
		}
		a.usage.Input, a.usage.Output = max(a.usage.Input, e.Usage.Prompt), max(a.usage.Output, e.Usage.Completion)
		if len(e.Choices) == 0 {
			continue
		}
		m := e.Choices[0].Delta
		if whole {
			m = e.Choices[0].Message
			for k := range m.Calls {
				m.Calls[k].Index = k
			}
		}
		text.WriteString(m.Content + m.Refusal)
		for _, c := range m.Calls {
			calls = joinCall(calls, c)
		}
		if f := e.Choices[0].Finish; f != "" {
			a.stop = stopOf(f)
		}
	}
	if a.stop == "" {
		return nil, fmt.Errorf("read model response of %d events: no finish_reason: %w", len(events), ErrCut)
	}
	if text.Len() > 0 {
		a.text(text.String())
	}
	for _, c := range calls {
		a.call(c.ID, c.Function.Name, c.Function.Arguments)
	}
	return a.response()
}

// maxCalls bounds the index of a call in a stream, which is a number that
// anybody may send.
const maxCalls = 1024

func joinCall(calls []openAICall, c openAICall) []openAICall {
	if c.Index < 0 || c.Index >= maxCalls {
		return calls
	}
	for len(calls) <= c.Index {
		calls = append(calls, openAICall{})
	}
	at := &calls[c.Index]
	if c.ID != "" {
		at.ID = c.ID
	}
	at.Function.Name += c.Function.Name
	at.Function.Arguments += c.Function.Arguments
	return calls
}

func stopOf(finish string) string {
	switch finish {
	case "stop":
		return converse.EndTurn
	case "tool_calls", "function_call":
		return converse.StopToolUse
	case "length":
		return converse.MaxTokens
	case "content_filter":
		return converse.ContentFiltered
	}
	return finish
}

// Clean returns wire bytes without secrets: bytes itself when there are none.
// scrub works on text; the payloads of frames are taken out and framed again.
func Clean(body []byte, scrub func([]byte) ([]byte, int)) []byte {
	if len(body) == 0 || body[0] != 0 {
		clean, _ := scrub(body)
		return clean
	}
	frames, rest, err := converse.DecodeFrames(body)
	if err != nil {
		return body
	}
	changed := false
	var out []byte
	for _, f := range frames {
		payload, n := scrubPayload(f, scrub)
		changed = changed || n > 0
		f.Payload = payload
		out = append(out, converse.EncodeFrame(f)...)
	}
	if !changed {
		return body
	}
	return append(out, body[len(body)-rest:]...)
}

func scrubPayload(f converse.Frame, scrub func([]byte) ([]byte, int)) (json.RawMessage, int) {
	encoded := stringOf(member(f.Payload, "bytes"))
	inner, err := base64.StdEncoding.DecodeString(encoded)
	if f.Type != "chunk" || err != nil || encoded == "" {
		return scrub(f.Payload)
	}
	clean, n := scrub(inner)
	if n == 0 {
		return f.Payload, 0
	}
	payload, err := ledger.CanonValue(map[string][]byte{"bytes": clean})
	if err != nil {
		return f.Payload, 0
	}
	return payload, n
}
