package bedrocktest

import (
	"encoding/json"
)

func converseAnswer(a answer) object {
	content := make([]any, len(a.turn.Content))
	for i, b := range a.turn.Content {
		content[i] = converseContent(b)
	}
	o := object{
		{"metrics", object{{"latencyMs", a.latency()}}},
		{"output", object{{"message", object{{"content", content}, {"role", "assistant"}}}}},
		{"stopReason", a.turn.stopReason()},
	}
	if a.turn.Trace != nil {
		o = append(o, member{"trace", a.turn.Trace})
	}
	return append(o, member{"usage", converseUsage(a.usage)})
}

func converseContent(b Block) any {
	switch b.Kind {
	case KindToolUse:
		return object{{"toolUse", object{{"input", json.RawMessage(b.inputText())}, {"name", b.Name}, {"toolUseId", b.ToolUseID}}}}
	case KindReasoning:
		text := object{{"signature", b.Signature}, {"text", b.Text}}
		if b.Signature == "" {
			text = text[1:]
		}
		return object{{"reasoningContent", object{{"reasoningText", text}}}}
	case KindRedacted:
		return object{{"reasoningContent", object{{"redactedContent", b.Redacted}}}}
	case KindRaw:
		return b.Raw
	}
	return object{{"text", b.Text}}
}

// frame is one stream event before framing.
type frame struct {
	kind    string // "!" in front: an exception
	payload any
}

// converseEvents renders the turn as the service streams it. Text and reasoning
// blocks have no start event.
func converseEvents(a answer) []frame {
	events := []frame{{"messageStart", object{{"role", "assistant"}}}}
	for i, b := range a.turn.Content {
		events = append(events, converseBlockEvents(i, b)...)
	}
	meta := object{{"metrics", object{{"latencyMs", a.latency()}}}}
	if a.turn.Trace != nil {
		meta = append(meta, member{"trace", a.turn.Trace})
	}
	return append(events,
		frame{"messageStop", object{{"stopReason", a.turn.stopReason()}}},
		frame{"metadata", append(meta, member{"usage", converseUsage(a.usage)})})
}

func converseBlockEvents(index int, b Block) []frame {
	var events []frame
	delta := func(d any) {
		events = append(events, frame{"contentBlockDelta", object{{"contentBlockIndex", index}, {"delta", d}}})
	}
	switch b.Kind {
	case KindToolUse:
		start := object{{"toolUse", object{{"name", b.Name}, {"toolUseId", b.ToolUseID}}}}
		events = append(events, frame{"contentBlockStart", object{{"contentBlockIndex", index}, {"start", start}}})
		for _, p := range b.cut(b.inputText()) {
			delta(object{{"toolUse", object{{"input", p}}}})
		}
	case KindReasoning:
		for _, p := range b.cut(b.Text) {
			delta(object{{"reasoningContent", object{{"text", p}}}})
		}
		if b.Signature != "" {
			delta(object{{"reasoningContent", object{{"signature", b.Signature}}}})
		}
	case KindRedacted:
		delta(object{{"reasoningContent", object{{"redactedContent", b.Redacted}}}})
	case KindRaw:
		delta(b.Raw)
	default:
		for _, p := range b.cut(b.Text) {
			delta(object{{"text", p}})
		}
	}
	return append(events, frame{"contentBlockStop", object{{"contentBlockIndex", index}}})
}
