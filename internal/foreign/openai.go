package foreign

import (
	"encoding/json"
	"fmt"
	"strings"

	"investigator/internal/converse"
)

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
		Details    struct {
			Cached int64 `json:"cached_tokens"`
		} `json:"prompt_tokens_details"`
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
		a.usage.CacheRead = max(a.usage.CacheRead, e.Usage.Details.Cached)
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
		if c != (openAICall{}) { // an index that was left out
			a.call(c.ID, c.Function.Name, c.Function.Arguments)
		}
	}
	a.usage.CacheRead = min(a.usage.CacheRead, a.usage.Input)
	a.usage.Input -= a.usage.CacheRead // which the prompt's count includes
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
