package proxy

import (
	"errors"
	"strings"
	"testing"

	"investigator/internal/recorder"
)

// TestTurnedAway: a client whose base URL lacks an end once heard a refusal in a
// shape that it does not read, while the proxy said nothing and counted no call.
func TestTurnedAway(t *testing.T) {
	for name, c := range map[string]struct{ path, shape, advice string }{
		"OpenAI's":                  {"/chat/completions", `{"error":{`, "has to end in /openai/v1"},
		"OpenAI's, with half of it": {"/v1/chat/completions", `{"error":{`, "has to end in /openai/v1"},
		"responses":                 {"/openai/v1/responses", `{"error":{`, "knows Chat Completions"},
		"Anthropic's":               {"/v1/messages", `"type":"error"`, "has to end in /anthropic"},
		"another":                   {"/" + strings.Repeat("x", 5000), `{"message":`, "it knows Converse"},
	} {
		t.Run(name, func(t *testing.T) {
			var notes []Note
			p := start(t, Options{Record: &RecordOptions{Create: func(int, recorder.Header) (*recorder.Writer, error) { return nil, errors.New("no") }}, Upstream: RuleUpstream{}, Notify: func(n Note) { notes = append(notes, n) }})
			for range 3 {
				code, kind, text := post(t, p.url, c.path, "{}")
				if code != 404 || kind != "UnknownOperationException" || !strings.Contains(text, c.shape) || !strings.Contains(text, c.advice) {
					t.Errorf("%d %s %s", code, kind, text)
				}
			}
			r := p.end()
			if r.Calls != 0 || r.Away == nil || r.Away.Count != 3 || !strings.Contains(r.Away.First, c.advice) || len(r.Away.First) > 500 {
				t.Errorf("result %+v, %+v", r, r.Away)
			}
			if len(notes) != 1 || notes[0].Kind != "refused" || notes[0].Text != r.Away.First {
				t.Errorf("told %+v", notes)
			}
		})
	}
}
