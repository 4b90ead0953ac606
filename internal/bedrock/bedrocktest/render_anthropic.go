package bedrocktest

import (
	"encoding/json"
	"net/http"
	"strconv"
)

func anthropicAnswer(a answer) object {
	content := []any{}
	for _, b := range a.turn.Content {
		if c := anthropicContent(b); c != nil {
			content = append(content, c)
		}
	}
	return append(anthropicHead(a, content),
		member{"stop_reason", a.turn.stopReason()},
		member{"stop_sequence", nil},
		member{"usage", anthropicUsage(a.usage)})
}

func anthropicHead(a answer, content []any) object {
	return object{{"model", a.req.ModelID}, {"id", "msg_bdrk_" + a.id}, {"type", "message"}, {"role", "assistant"}, {"content", content}}
}

func anthropicContent(b Block) any {
	switch b.Kind {
	case KindToolUse:
		return object{{"type", "tool_use"}, {"id", b.ToolUseID}, {"name", b.Name}, {"input", json.RawMessage(b.inputText())}}
	case KindReasoning:
		return object{{"type", "thinking"}, {"thinking", b.Text}, {"signature", b.Signature}}
	case KindRedacted:
		return object{{"type", "redacted_thinking"}, {"data", b.Redacted}}
	case KindRaw:
		return nil
	}
	return object{{"type", "text"}, {"text", b.Text}}
}

// invokeReply adds the headers in which InvokeModel counts.
func invokeReply(a answer) reply {
	r := jsonReply(anthropicAnswer(a))
	for name, n := range map[string]int{
		"Input-Token-Count":             a.usage.Input,
		"Output-Token-Count":            a.usage.Output,
		"Cache-Read-Input-Token-Count":  a.usage.CacheRead,
		"Cache-Write-Input-Token-Count": a.usage.CacheWrite,
		"Invocation-Latency":            a.latency(),
	} {
		r.header[http.CanonicalHeaderKey("X-Amzn-Bedrock-"+name)] = []string{strconv.Itoa(n)}
	}
	return r
}

// anthropicEvents renders the turn as the model's own stream. Bedrock adds its
// metrics to the last event; the unwrapped route has none.
func anthropicEvents(a answer) []frame {
	before := a.usage
	before.Output = 1
	start := append(anthropicHead(a, []any{}), member{"stop_reason", nil}, member{"stop_sequence", nil}, member{"usage", anthropicUsage(before)})
	events := []frame{anthropicEvent("message_start", member{"message", start})}
	index := 0
	for _, b := range a.turn.Content {
		if b.Kind == KindRaw {
			continue
		}
		events = append(events, anthropicBlockEvents(index, b)...)
		index++
	}
	stop := []member(nil)
	if a.req.Op == OpInvokeStream {
		stop = append(stop, member{"amazon-bedrock-invocationMetrics", object{
			{"inputTokenCount", a.usage.Input}, {"outputTokenCount", a.usage.Output},
			{"invocationLatency", a.latency()}, {"firstByteLatency", 50},
			{"cacheReadInputTokenCount", a.usage.CacheRead}, {"cacheWriteInputTokenCount", a.usage.CacheWrite},
		}})
	}
	return append(events,
		anthropicEvent("message_delta",
			member{"delta", object{{"stop_reason", a.turn.stopReason()}, {"stop_sequence", nil}}},
			member{"usage", object{{"output_tokens", a.usage.Output}}}),
		anthropicEvent("message_stop", stop...))
}

func anthropicEvent(kind string, members ...member) frame {
	return frame{kind, append(object{{"type", kind}}, members...)}
}

func anthropicBlockEvents(index int, b Block) []frame {
	at := member{"index", index}
	events := []frame{anthropicEvent("content_block_start", at, member{"content_block", anthropicStart(b)})}
	delta := func(kind, name string, v any) {
		events = append(events, anthropicEvent("content_block_delta", at, member{"delta", object{{"type", kind}, {name, v}}}))
	}
	switch b.Kind {
	case KindToolUse:
		for _, p := range b.cut(b.inputText()) {
			delta("input_json_delta", "partial_json", p)
		}
	case KindReasoning:
		for _, p := range b.cut(b.Text) {
			delta("thinking_delta", "thinking", p)
		}
		delta("signature_delta", "signature", b.Signature)
	case KindText:
		for _, p := range b.cut(b.Text) {
			delta("text_delta", "text", p)
		}
	}
	return append(events, anthropicEvent("content_block_stop", at))
}

// anthropicStart is the block as it opens: empty but for what never streams.
func anthropicStart(b Block) any {
	switch b.Kind {
	case KindToolUse:
		b.Input = nil
	case KindRedacted:
	default:
		b.Text, b.Signature = "", ""
	}
	return anthropicContent(b)
}
