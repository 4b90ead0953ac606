package rule_test

import (
	"encoding/json"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/rule"
)

// offers reads the tools of a request the slow and plain way.
func offers(rest json.RawMessage, name string) bool {
	var body any
	_ = json.Unmarshal(rest, &body)
	config, _ := body.(map[string]any)["toolConfig"].(map[string]any)
	tools, _ := config["tools"].([]any)
	for _, tool := range tools {
		outer, _ := tool.(map[string]any)
		spec, _ := outer["toolSpec"].(map[string]any)
		if spec["name"] == name {
			return true
		}
	}
	return false
}

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
		turn, err := converse.ParseTurn(got)
		if err != nil {
			t.Fatalf("%v: %s", err, got)
		}
		if canon, err := converse.Normalize(got); err != nil || string(canon) != string(got) {
			t.Fatalf("not canonical (%v): %s", err, got)
		}
		if (turn.StopReason == converse.StopToolUse) != (len(turn.ToolUses) > 0) {
			t.Fatalf("stop reason %s with %d calls", turn.StopReason, len(turn.ToolUses))
		}
		for _, use := range turn.ToolUses {
			if !offers(rest.JSON(), use.Name) {
				t.Fatalf("calls %q, which the request does not offer", use.Name)
			}
		}
		if again := rule.Respond(req); string(again) != string(got) {
			t.Fatalf("answered %s, then %s", got, again)
		}
	})
}
