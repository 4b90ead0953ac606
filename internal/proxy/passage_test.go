package proxy

import (
	"encoding/base64"
	"net/http/httptest"
	"strings"
	"testing"

	"investigator/internal/edge"
)

// ending is a stream as a service sends it: what a client may have at once, and
// the event that says the end, with all that services add to it.
type ending struct{ text, end string }

func endings() map[string]ending {
	const metrics = `"amazon-bedrock-invocationMetrics":{"inputTokenCount":412,"outputTokenCount":113,"invocationLatency":2210,"firstByteLatency":560}`
	chunk := func(event string) string {
		return string(frameOf("chunk", `{"bytes":"`+base64.StdEncoding.EncodeToString([]byte(event))+`","p":"abcdefghijklmnopqrstuvwxyzABCDEFGH"}`))
	}
	const looksSo = `[DONE] message_stop \"finish_reason\":\"stop\" \"bytes\":\"eyJ0eXBlIjoibWVzc2FnZV9zdG9w`
	const finish = `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop","logprobs":null}],"usage":{"prompt_tokens":412,"completion_tokens":113,"total_tokens":525}}`
	return map[string]ending{
		"Converse": {
			string(frameOf("messageStart", `{"role":"assistant"}`)) + string(frameOf("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"`+looksSo+`"}}`)) + string(frameOf("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"`+strings.Repeat("more ", 20)+`"}}`)),
			string(frameOf("messageStop", `{"stopReason":"end_turn"}`)) + string(frameOf("metadata", `{"metrics":{"latencyMs":2210},"trace":{"guardrail":"`+strings.Repeat("found ", 4000)+`"}}`)),
		},
		"Anthropic in chunks": {chunk(`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"` + looksSo + `"}}`), chunk(`{"type":"message_stop",` + metrics + `}`)},
		"Anthropic": {
			"event: content_block_stop\ndata: {\"type\":\"content_block_stop\",\"index\":0}\n\n",
			"event: message_stop\ndata: {\"type\":\"message_stop\"," + metrics + "}\n\n",
		},
		"OpenAI":             {"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\n\n", finish + "\n\ndata: [DONE]\n\n"},
		"OpenAI, other ends": {"data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":null}]}\r\n\r\n", finish + "\r\n\r\n"},
	}
}

// came is what of a stream in pieces is with the client before the stream ends.
func came(pieces ...string) string {
	rw := httptest.NewRecorder()
	p := passage{attempt: &attempt{Attempt: edge.Attempt{}}, w: &writer{ResponseWriter: rw, durable: true}}
	for _, piece := range pieces {
		p.take([]byte(piece))
	}
	return rw.Body.String()
}

// TestEndIsHeldHoweverItIsCut: no client has the event that says the end before
// the stream has ended, in however many pieces it comes.
func TestEndIsHeldHoweverItIsCut(t *testing.T) {
	for name, s := range endings() {
		t.Run(name, func(t *testing.T) {
			whole := strings.TrimRight(s.text+s.end, "\r\n")
			for cut := 1; cut < len(s.end); cut++ {
				if got := came(s.text, s.end[:cut], s.end[cut:]); strings.HasPrefix(got, whole) {
					t.Fatalf("cut at %d of %d: all but %q came", cut, len(s.end), (s.text + s.end)[len(got):])
				}
			}
			if got := came(strings.Split(s.text+s.end, "")...); strings.HasPrefix(got, whole) {
				t.Errorf("in single bytes: all but %q came", (s.text + s.end)[len(got):])
			}
		})
	}
}

// TestNothingElseIsHeld: what comes before the end is with the client when the next
// piece is, also where a text looks like an end.
func TestNothingElseIsHeld(t *testing.T) {
	for name, s := range endings() {
		if got := came(s.text); got != s.text {
			t.Errorf("%s: of %q came %q", name, s.text, got)
		}
	}
	const unfinished = "data: {\"choices\":[{\"delta\":{\"content\":\"hi\"},\"finish_reason\":\"\"}]}\n\n"
	if got := came(unfinished); got != unfinished {
		t.Errorf("of an event that finishes nothing came %q", got)
	}
	const looksSo, next = "data: {\"choices\":[{\"delta\":{\"content\":\"[DONE]\"}}]}\n\n", "data: {\"choices\":[{\"delta\":{\"content\":\"that was one, and there is more to come of it yet\"}}]}\n\n"
	for cut := range len(looksSo) {
		if got := came(looksSo[:cut], looksSo[cut:], next); got != looksSo+next {
			t.Fatalf("cut at %d: %q came", cut, got)
		}
	}
}
