package foreign

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/converse"
)

type openAICall struct {
	Index    *int   `json:"index"`
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

type openAIChoice struct {
	Index   int           `json:"index"`
	Message openAIMessage `json:"message"`
	Delta   openAIMessage `json:"delta"`
	Finish  string        `json:"finish_reason"`
}

type openAIEvent struct {
	Choices []openAIChoice `json:"choices"`
	Usage   struct {
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
	var calls openAICalls
	answer := -1 // the index of the first choice: what others say comes between
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
		if answer < 0 && len(e.Choices) > 0 {
			answer = slices.MinFunc(e.Choices, func(a, b openAIChoice) int { return cmp.Compare(a.Index, b.Index) }).Index
		}
		at := slices.IndexFunc(e.Choices, func(c openAIChoice) bool { return c.Index == answer })
		if at < 0 {
			continue
		}
		m := e.Choices[at].Delta
		if whole {
			m = e.Choices[at].Message
			for k := range m.Calls {
				m.Calls[k].Index = &k
			}
		}
		text.WriteString(m.Content + m.Refusal)
		for _, c := range m.Calls {
			calls.join(c)
		}
		if f := e.Choices[at].Finish; f != "" {
			a.stop = stopOf(f)
		}
	}
	if a.stop == "" {
		return nil, fmt.Errorf("read model response of %d events: no finish_reason: %w", len(events), ErrCut)
	}
	if text.Len() > 0 {
		a.text(text.String())
	}
	for _, c := range calls.inOrder() {
		a.call(c.ID, c.Function.Name, c.Function.Arguments)
	}
	a.usage.CacheRead = min(a.usage.CacheRead, a.usage.Input)
	a.usage.Input -= a.usage.CacheRead // which the prompt's count includes
	return a.response()
}

// openAICalls puts the calls of a stream together from their pieces.
type openAICalls struct {
	list []openAICall // by index, and those without one as they came
	last int          // the place in list of the call that was added to last
}

// maxCalls bounds the calls of one answer.
const maxCalls = 1024

// join adds a piece to its call. Services differ in what tells calls apart: an
// index, an id alone, or one index for all and another id for each. A piece
// that has neither goes on with the call before it.
func (s *openAICalls) join(c openAICall) {
	at := s.find(c)
	if at == len(s.list) {
		if at == maxCalls {
			return
		}
		s.list = append(s.list, openAICall{Index: c.Index})
	}
	s.last = at
	to := &s.list[at]
	if c.ID != "" {
		to.ID = c.ID
	}
	to.Function.Name += c.Function.Name
	to.Function.Arguments += c.Function.Arguments
}

// find returns the place of the call that a piece belongs to, len(list) where
// it begins one.
func (s *openAICalls) find(c openAICall) int {
	if c.Index == nil && c.ID == "" {
		return min(s.last, len(s.list))
	}
	latest := len(s.list)
	for i := len(s.list) - 1; i >= 0; i-- {
		o := s.list[i]
		switch {
		case c.Index == nil && o.ID == c.ID:
			return i
		case c.Index == nil || o.Index == nil || *o.Index != *c.Index:
		case c.ID == "" || o.ID == "" || o.ID == c.ID:
			return i
		case latest == len(s.list):
			latest = i
		}
	}
	if c.Function.Name != "" {
		return len(s.list) // one index for several calls
	}
	return latest
}

// inOrder returns the calls by index where all have one, else as they came.
func (s *openAICalls) inOrder() []openAICall {
	if !slices.ContainsFunc(s.list, func(c openAICall) bool { return c.Index == nil }) {
		slices.SortStableFunc(s.list, func(a, b openAICall) int { return cmp.Compare(*a.Index, *b.Index) })
	}
	return s.list
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
