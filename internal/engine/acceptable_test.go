package engine

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/faults"
)

func conversation(messages ...string) *converse.Thread {
	var t *converse.Thread
	for _, m := range messages {
		t = t.Append(json.RawMessage(m))
	}
	return t
}

// TestViolationsAreThoseOfTheWholeConversation: looking at the end alone finds
// what looking at all of it finds, at the same places.
func TestViolationsAreThoseOfTheWholeConversation(t *testing.T) {
	const (
		question = `{"content":[{"text":"why?"}],"role":"user"}`
		asksA    = `{"content":[{"toolUse":{"input":{},"name":"f","toolUseId":"a"}}],"role":"assistant"}`
		answersA = `{"content":[{"toolResult":{"content":[{"text":"x"}],"status":"success","toolUseId":"a"}}],"role":"user"}`
		asksTwo  = `{"content":[{"toolUse":{"input":{},"name":"f","toolUseId":"b"}},{"toolUse":{"input":{},"name":"f","toolUseId":"c"}}],"role":"assistant"}`
		answersB = `{"content":[{"toolResult":{"content":[{"text":"x"}],"status":"success","toolUseId":"b"}}],"role":"user"}`
		system   = `{"content":[{"text":"s"}],"role":"system"}`
	)
	befores := map[string][]string{
		"question":       {question},
		"asked":          {question, asksA},
		"answered":       {question, asksA, answersA},
		"asked again":    {question, asksA, answersA, asksA},
		"two asked":      {question, asksA, answersA, asksTwo},
		"system between": {question, asksA, answersA, asksA, system},
		"nothing":        {},
	}
	added := map[string][]string{
		"result":          {answersA},
		"question":        {question},
		"one of two":      {answersB},
		"call":            {asksA},
		"call and result": {asksA, answersA},
		"calls, one":      {asksTwo, answersB},
		"no message":      {`{"content":[],"role":"nobody"}`},
		"system":          {system},
	}
	for before, old := range befores {
		for name, more := range added {
			t.Run(before+", then "+name, func(t *testing.T) {
				parent := conversation(old...)
				now := parent
				for _, m := range more {
					now = now.Append(json.RawMessage(m))
				}
				want := faults.CheckConversation(now)
				if d := cmp.Diff(want, violations(parent, now)); d != "" {
					t.Errorf("violations (-whole +end):\n%s", d)
				}
			})
		}
	}
}

// A halt report counts a request's bytes without putting the body together.
func TestBodySizeIsThatOfTheBody(t *testing.T) {
	thread := converse.NewThread(converse.Message("user", []json.RawMessage{converse.TextBlock("é?")}), converse.Message("assistant", nil), converse.Message("user", []json.RawMessage{converse.TextBlock("b")}))
	for _, members := range []string{`{}`, `{"a":1}`, `{"system":[{"cachePoint":{}}],"z":[]}`} {
		rest, err := converse.NewRest(json.RawMessage(members))
		if err != nil {
			t.Fatal(err)
		}
		for _, rule := range []converse.CacheRule{converse.CacheNone, converse.CacheTail, converse.CacheTail1h} {
			for _, messages := range []*converse.Thread{nil, thread.Parent().Parent(), thread} {
				r := converse.Request{Messages: messages, Rest: rest, Cache: rule}
				if got, want := bodySize(r), len(r.Body()); got != want {
					t.Errorf("%s, cache %q, %d messages: %d bytes, want %d", members, rule, messages.Len(), got, want)
				}
			}
		}
	}
	if got, want := bodySize(converse.Request{}), len(converse.Request{}.Body()); got != want {
		t.Errorf("the empty request: %d bytes, want %d", got, want)
	}
}
