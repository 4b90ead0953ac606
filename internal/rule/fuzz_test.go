package rule_test

import (
	"testing"

	"investigator/internal/converse"
	"investigator/internal/rule"
)

// Whatever conversation it is shown, the rule model gives an answer that can be
// read, and the same one twice.
func FuzzRespond(f *testing.F) {
	w := openWorld(f, "demo")
	for _, req := range play(f, worldStart(f, w), worldEdge(w), dropV841).requests {
		f.Add([]byte(req.Body()))
	}
	f.Add([]byte(`{"messages":[{"role":"user","content":[{"text":"hi"},{"image":{"format":"png"}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"get_weather","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"}},"required":["city"]}}}}]}}`))
	f.Add([]byte(`{"messages":[{"role":"assistant","content":[]},null,7],"toolConfig":{"tools":[null,{"toolSpec":7}]}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		thread, rest, err := converse.SplitBody(body)
		if err != nil {
			t.Skip()
		}
		req := converse.Request{Model: "rule", Messages: thread, Rest: rest}
		got := rule.Respond(req)
		if _, err := converse.ParseTurn(got); err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if again := rule.Respond(req); string(again) != string(got) {
			t.Fatalf("answered %s, then %s", got, again)
		}
	})
}
