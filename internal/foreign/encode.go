package foreign

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// Encoded is an answer as it travels.
type Encoded struct {
	ContentType string
	Body        []byte
}

// The content types of answers.
const (
	typeJSON   = "application/json"
	typeFrames = "application/vnd.amazon.eventstream"
	typeSSE    = "text/event-stream"
)

// Encode turns a canonical Converse response into the answer to a request, in
// its dialect, streamed or whole. Frames carry right lengths and checksums.
func Encode(a Asked, response json.RawMessage) (Encoded, error) {
	if a.Dialect == Opaque {
		return Encoded{typeJSON, response}, nil
	}
	turn, err := converse.ParseCanonical(response)
	if err != nil {
		return Encoded{}, fmt.Errorf("encode answer: %w", err)
	}
	switch {
	case a.Dialect == Converse && !a.Stream:
		return Encoded{typeJSON, converseWhole(turn)}, nil
	case a.Dialect == Converse:
		return Encoded{typeFrames, converseFrames(turn)}, nil
	case a.Dialect == OpenAI:
		return encodeOpenAI(a, turn), nil
	}
	return encodeAnthropic(a, turn), nil
}

// EncodeFailure is a failed call in the shape of its dialect.
func EncodeFailure(a Asked, name, message string) Encoded {
	var v any = map[string]string{"message": message}
	switch a.Dialect {
	case OpenAI:
		v = map[string]any{"error": map[string]string{"message": message, "type": name, "code": name}}
	case Anthropic:
		if a.Route.Op == OpMessages {
			v = map[string]any{"type": "error", "error": map[string]string{"type": name, "message": message}}
		}
	}
	b, _ := ledger.CanonValue(v) // texts encode
	return Encoded{typeJSON, b}
}

type object = map[string]any

func encode(v any) json.RawMessage {
	b, _ := ledger.CanonValue(v) // built of texts, numbers and canonical JSON here
	return b
}

// useOf is a call with its place in the turn's content.
func useOf(turn converse.Turn, block json.RawMessage, index int) (id, name, input string, found bool) {
	use := member(block, "toolUse")
	if use == nil {
		return "", "", "", false
	}
	input = string(member(use, "input"))
	malformed := member(member(turn.Raw, "investigator"), "malformedInputs")
	if m := member(malformed, fmt.Sprint(index)); m != nil {
		input = stringOf(m)
	}
	return stringOf(member(use, "toolUseId")), stringOf(member(use, "name")), input, true
}

// converseWhole is an answer of Converse: without what only a recording has beside
// it, and with the inputs that are no objects in their places.
func converseWhole(turn converse.Turn) json.RawMessage {
	whole := turn.Raw
	if top, _ := converse.Members(whole); top["investigator"] != nil { // a turn was parsed from it
		blocks := slices.Clone(turn.Blocks)
		for i, b := range blocks {
			if _, _, input, found := useOf(turn, b, i); found && json.Valid([]byte(input)) {
				blocks[i] = with(b, "toolUse", with(member(b, "toolUse"), "input", json.RawMessage(input)))
			}
		}
		delete(top, "investigator")
		whole = with(encode(top), "output", with(top["output"], "message", with(turn.Message, "content", listOf(blocks))))
	}
	return with(whole, "metrics", json.RawMessage(`{"latencyMs":1}`))
}

// converseStream is a ConverseStream answer being made.
type converseStream struct {
	out     []byte
	index   int // of the block
	unknown unknownEvents
}

func converseFrames(turn converse.Turn) []byte {
	s := converseStream{unknown: keptUnknown(turn, Converse)}
	s.frame("messageStart", object{"role": "assistant"})
	for i, block := range turn.Blocks {
		for s.unknown.starts(s.index) {
			s.end(s.index)
		}
		start, pieces := blockEvents(turn, block, i)
		if start != nil {
			s.frame("contentBlockStart", object{"contentBlockIndex": s.index, "start": start})
		}
		for _, d := range pieces {
			s.frame("contentBlockDelta", object{"contentBlockIndex": s.index, "delta": d})
		}
		s.end(s.index)
	}
	for k := s.unknown.next(); k >= 0; k = s.unknown.next() {
		if s.unknown.opens(k) {
			s.end(k)
			continue
		}
		s.again(s.unknown.upTo(k, s.index)) // the end of a block that is none would be an empty text
	}
	s.again(s.unknown.list)
	stop, metadata := closing(turn)
	s.frame("messageStop", stop)
	s.frame("metadata", metadata)
	return s.out
}

func (s *converseStream) frame(kind string, payload any) {
	s.out = append(s.out, converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: kind, Payload: encode(payload)})...)
}

func (s *converseStream) again(events []unknown) {
	for _, e := range events {
		s.frame(e.kind, e.payload)
	}
}

// end ends a block with the unknown events of the one that had number was.
func (s *converseStream) end(was int) {
	s.again(s.unknown.upTo(was, s.index))
	s.frame("contentBlockStop", object{"contentBlockIndex": s.index})
	s.index++
}

// closing is what a stream says after its blocks.
func closing(turn converse.Turn) (stop, metadata object) {
	stop, metadata = object{"stopReason": turn.StopReason}, object{"metrics": object{"latencyMs": 1}, "usage": turn.Usage}
	top, _ := converse.Members(turn.Raw) // a turn was parsed from it
	for _, name := range sorted(top) {
		switch name {
		case "output", "stopReason", "investigator":
		case "additionalModelResponseFields":
			stop[name] = top[name]
		default:
			metadata[name] = top[name]
		}
	}
	return stop, metadata
}

// blockEvents returns the start of a block, nil for kinds that have none, and
// the deltas it travels in.
func blockEvents(turn converse.Turn, block json.RawMessage, index int) (start object, pieces []any) {
	if _, _, input, found := useOf(turn, block, index); found {
		return startOf(block, "toolUse", "input"), []any{object{"toolUse": object{"input": input}}}
	}
	if r := member(block, "toolResult"); r != nil {
		return startOf(block, "toolResult", "content"), []any{object{"toolResult": member(r, "content")}}
	}
	if image := member(block, "image"); member(image, "source") != nil {
		return startOf(block, "image", "source"), []any{object{"image": object{"source": member(image, "source")}}}
	}
	return nil, deltas(block)
}

// startOf is the start event of a block: its members without the one that
// follows in deltas.
func startOf(block json.RawMessage, kind, without string) object {
	members, _ := converse.Members(member(block, kind)) // none for what is no object
	delete(members, without)
	return object{kind: members}
}

// deltas are the pieces of a block that has no start.
func deltas(block json.RawMessage) (out []any) {
	reasoning, cited := member(block, "reasoningContent"), member(block, "citationsContent")
	text := member(reasoning, "reasoningText")
	switch {
	case text != nil:
		out = append(out, object{"reasoningContent": object{"text": member(text, "text")}})
		if s := member(text, "signature"); s != nil {
			out = append(out, object{"reasoningContent": object{"signature": s}})
		}
	case reasoning != nil:
		out = append(out, object{"reasoningContent": reasoning})
	case cited != nil:
		texts, _ := elements(member(cited, "content"))
		for _, t := range texts {
			out = append(out, t)
		}
		citations, _ := elements(member(cited, "citations"))
		for _, c := range citations {
			out = append(out, object{"citation": c})
		}
	default:
		out = append(out, block)
	}
	return out
}

// anthropicBlocks returns the turn's blocks, and the text of each one's input,
// which need not be JSON in a stream.
func anthropicBlocks(turn converse.Turn) (out []object, inputs []string) {
	out = []object{}
	for i, block := range turn.Blocks {
		reasoning := member(block, "reasoningContent")
		thought := member(reasoning, "reasoningText")
		id, name, input, found := useOf(turn, block, i)
		switch {
		case found:
			whole := json.RawMessage(`{}`)
			if json.Valid([]byte(input)) {
				whole = json.RawMessage(input)
			}
			out = append(out, object{"type": "tool_use", "id": id, "name": name, "input": whole})
		case thought != nil:
			b := object{"type": "thinking", "thinking": member(thought, "text"), "signature": ""}
			if s := member(thought, "signature"); s != nil {
				b["signature"] = s
			}
			out = append(out, b)
		case reasoning != nil:
			out = append(out, object{"type": "redacted_thinking", "data": member(reasoning, "redactedContent")})
		case member(block, "text") != nil:
			out = append(out, object{"type": "text", "text": member(block, "text")})
		case member(block, "anthropic") != nil:
			raw, _ := converse.Members(member(block, "anthropic")) // was an object when it was read
			b := object{}
			for _, s := range sorted(raw) {
				b[s] = raw[s]
			}
			out = append(out, b)
		}
		if len(out) > len(inputs) {
			inputs = append(inputs, input)
		}
	}
	return out, inputs
}

func anthropicUsageOf(u converse.Usage) object {
	return object{"input_tokens": u.Input, "output_tokens": u.Output, "cache_read_input_tokens": u.CacheRead, "cache_creation_input_tokens": u.CacheWrite}
}

func encodeAnthropic(a Asked, turn converse.Turn) Encoded {
	blocks, inputs := anthropicBlocks(turn)
	message := object{
		"id": "msg_investigator", "type": "message", "role": "assistant", "model": a.Request.Model,
		"content": blocks, "stop_reason": turn.StopReason, "stop_sequence": nil, "usage": anthropicUsageOf(turn.Usage),
	}
	if !a.Stream {
		return Encoded{typeJSON, encode(message)}
	}
	message["content"], message["stop_reason"] = []object{}, nil
	events := []unknown{{kind: "message_start", payload: encode(object{"type": "message_start", "message": message})}}
	events = append(events, anthropicEvents(turn, blocks, inputs)...)
	return frameAnthropic(a.Route.Op, events)
}

// anthropicEvents are the events after the start.
func anthropicEvents(turn converse.Turn, blocks []object, inputs []string) (out []unknown) {
	add := func(list ...object) {
		for _, e := range list {
			out = append(out, unknown{kind: fmt.Sprint(e["type"]), payload: encode(e)})
		}
	}
	kept := keptUnknown(turn, Anthropic)
	for i, b := range blocks {
		add(anthropicBlockEvents(i, b, inputs[i])...)
		out = append(out, kept.upTo(i, i)...)
		add(object{"type": "content_block_stop", "index": i})
	}
	out = append(out, kept.list...)
	add(object{"type": "message_delta", "delta": object{"stop_reason": turn.StopReason, "stop_sequence": nil}, "usage": anthropicUsageOf(turn.Usage)},
		object{"type": "message_stop"})
	return out
}

func frameAnthropic(op Op, events []unknown) Encoded {
	var body []byte
	for _, e := range events {
		if op == OpMessages {
			body = fmt.Appendf(body, "event: %s\ndata: %s\n\n", e.kind, e.payload)
			continue
		}
		body = append(body, converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "chunk", Payload: encode(map[string][]byte{"bytes": e.payload})})...)
	}
	if op == OpMessages {
		return Encoded{typeSSE, body}
	}
	return Encoded{typeFrames, body}
}

// anthropicBlockEvents are the events of a block up to its stop.
func anthropicBlockEvents(i int, b object, input string) []object {
	start := object{}
	for _, k := range sorted(b) {
		start[k] = b[k]
	}
	var pieces []object
	switch b["type"] {
	case "text":
		start["text"] = ""
		pieces = append(pieces, object{"type": "text_delta", "text": b["text"]})
	case "tool_use":
		start["input"] = object{}
		pieces = append(pieces, object{"type": "input_json_delta", "partial_json": input})
	case "thinking":
		start["thinking"], start["signature"] = "", ""
		pieces = append(pieces, object{"type": "thinking_delta", "thinking": b["thinking"]}, object{"type": "signature_delta", "signature": b["signature"]})
	}
	events := []object{{"type": "content_block_start", "index": i, "content_block": start}}
	for _, p := range pieces {
		events = append(events, object{"type": "content_block_delta", "index": i, "delta": p})
	}
	return events
}

// openAIMessageOf is a turn as a message. Reasoning has no place in it.
func openAIMessageOf(turn converse.Turn) object {
	calls := []object{}
	for i, block := range turn.Blocks {
		if id, name, input, found := useOf(turn, block, i); found {
			calls = append(calls, object{"id": id, "type": "function", "function": object{"name": name, "arguments": input}})
		}
	}
	message := object{"role": "assistant", "content": nil}
	if s := turn.Text(); s != "" {
		message["content"] = s
	}
	if len(calls) > 0 {
		message["tool_calls"] = calls
	}
	return message
}

func encodeOpenAI(a Asked, turn converse.Turn) Encoded {
	head := func(kind string, choice any) object {
		return object{"id": "chatcmpl-investigator", "object": kind, "created": 0, "model": a.Request.Model, "choices": []any{choice}}
	}
	usage, message := openAIUsageOf(turn.Usage), openAIMessageOf(turn)
	finish := finishOf(turn.StopReason)
	if !a.Stream {
		answer := head("chat.completion", object{"index": 0, "message": message, "finish_reason": finish})
		answer["usage"] = usage
		return Encoded{typeJSON, encode(answer)}
	}
	calls, _ := message["tool_calls"].([]object)
	for i, c := range calls {
		c["index"] = i
	}
	last := head("chat.completion.chunk", object{"index": 0, "delta": object{}, "finish_reason": finish})
	last["usage"] = usage
	first := head("chat.completion.chunk", object{"index": 0, "delta": message, "finish_reason": nil})
	return Encoded{typeSSE, fmt.Appendf(nil, "data: %s\n\ndata: %s\n\ndata: [DONE]\n\n", encode(first), encode(last))}
}

// openAIUsageOf counts as OpenAI does: what was read from the cache is part of
// the prompt.
func openAIUsageOf(u converse.Usage) object {
	prompt := u.Input + u.CacheRead + u.CacheWrite
	out := object{"prompt_tokens": prompt, "completion_tokens": u.Output, "total_tokens": prompt + u.Output}
	if u.CacheRead > 0 {
		out["prompt_tokens_details"] = object{"cached_tokens": u.CacheRead}
	}
	return out
}

func finishOf(stop string) string {
	switch stop {
	case converse.EndTurn, converse.StopSequence:
		return "stop"
	case converse.StopToolUse:
		return "tool_calls"
	case converse.MaxTokens, converse.ContextWindowLimit:
		return "length"
	case converse.Guardrail, converse.ContentFiltered:
		return "content_filter"
	}
	return stop
}

func sorted[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
