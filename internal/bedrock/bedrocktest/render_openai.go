package bedrocktest

func openAIAnswer(a answer) object {
	text, calls := openAIParts(a.turn.Content)
	message := object{{"role", "assistant"}, {"content", text}}
	if len(calls) > 0 {
		message = append(message, member{"tool_calls", calls})
	}
	choice := object{{"index", 0}, {"message", message}, {"finish_reason", finishReason(a.turn.stopReason())}}
	return append(openAIHead(a, "chat.completion"), member{"choices", []object{choice}}, member{"usage", openAIUsage(a.usage)})
}

// openAIHead has a fixed creation time: answers are the same in every run.
func openAIHead(a answer, kind string) object {
	return object{{"id", "chatcmpl-" + a.id}, {"object", kind}, {"created", 1767225600}, {"model", a.req.ModelID}}
}

func openAIParts(blocks []Block) (any, []object) {
	var text any
	var calls []object
	for _, b := range blocks {
		switch b.Kind {
		case KindText:
			before, _ := text.(string)
			text = before + b.Text
		case KindToolUse:
			f := object{{"name", b.Name}, {"arguments", b.inputText()}}
			calls = append(calls, object{{"id", b.ToolUseID}, {"type", "function"}, {"function", f}})
		}
	}
	return text, calls
}

func finishReason(stop string) string {
	switch stop {
	case "end_turn", "stop_sequence":
		return "stop"
	case "tool_use":
		return "tool_calls"
	case "max_tokens", "model_context_window_exceeded":
		return "length"
	case "guardrail_intervened", "content_filtered":
		return "content_filter"
	}
	return stop
}

func openAIEvents(a answer) []frame {
	var events []frame
	add := func(delta object, finish any) {
		choice := object{{"index", 0}, {"delta", delta}, {"finish_reason", finish}}
		events = append(events, frame{"", append(openAIHead(a, "chat.completion.chunk"), member{"choices", []object{choice}})})
	}
	add(object{{"role", "assistant"}, {"content", ""}}, nil)
	call := 0
	for _, b := range a.turn.Content {
		switch b.Kind {
		case KindText:
			for _, p := range b.cut(b.Text) {
				add(object{{"content", p}}, nil)
			}
		case KindToolUse:
			add(callDelta(object{{"index", call}, {"id", b.ToolUseID}, {"type", "function"},
				{"function", object{{"name", b.Name}, {"arguments", ""}}}}), nil)
			for _, p := range b.cut(b.inputText()) {
				add(callDelta(object{{"index", call}, {"function", object{{"arguments", p}}}}), nil)
			}
			call++
		}
	}
	add(object{}, finishReason(a.turn.stopReason()))
	return append(events, a.openAIUsageEvent()...)
}

func callDelta(call object) object { return object{{"tool_calls", []object{call}}} }

// openAIUsageEvent is sent to those who ask for it by stream_options.
func (a answer) openAIUsageEvent() []frame {
	if wants, _ := valueAt(a.req.root, "stream_options", "include_usage").(bool); !wants {
		return nil
	}
	return []frame{{"", append(openAIHead(a, "chat.completion.chunk"), member{"choices", []object{}}, member{"usage", openAIUsage(a.usage)})}}
}
