package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/engine"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
)

// door is a way to ask for a turn, by hand: a tool loop over plain HTTP.
type door struct {
	path  string
	frame string                                        // the request, %s for its messages
	turn  func(t *testing.T, said converse.Turn) string // the model's turn as a message
	tool  func(id, text string) string                  // a result
	then  string                                        // a further question, "" for none
	group func(results []string) string                 // the message or messages of a turn's results
}

const (
	cityTool  = `"type":"object","properties":{"city":{"type":"string"}},"required":["city"]`
	wordsUser = `{"role":"user","content":"What is the weather in Oslo?"}`
)

func anthropicDoor(path, members string) door {
	return door{
		path:  path,
		frame: `{` + members + `"max_tokens":100,"tools":[{"name":"get_weather","input_schema":{` + cityTool + `}},{"name":"get_time","input_schema":{` + cityTool + `}}],"messages":[%s]}`,
		turn: func(t *testing.T, said converse.Turn) string {
			var blocks []string
			if s := said.Text(); s != "" {
				blocks = append(blocks, fmt.Sprintf(`{"type":"text","text":%s}`, quoted(s)))
			}
			for _, u := range said.ToolUses {
				blocks = append(blocks, fmt.Sprintf(`{"type":"tool_use","id":%q,"name":%q,"input":%s}`, u.ID, u.Name, u.Input))
			}
			return `{"role":"assistant","content":[` + strings.Join(blocks, ",") + `]}`
		},
		tool: func(id, text string) string {
			return fmt.Sprintf(`{"type":"tool_result","tool_use_id":%q,"content":%s}`, id, quoted(text))
		},
		group: func(results []string) string { return `{"role":"user","content":[` + strings.Join(results, ",") + `]}` },
	}
}

func openAIDoor(members string) door {
	f := `{"type":"function","function":{"name":"%s","parameters":{` + cityTool + `}}}`
	return door{
		path:  "/openai/v1/chat/completions",
		frame: `{` + members + `"tools":[` + fmt.Sprintf(f, "get_weather") + `,` + fmt.Sprintf(f, "get_time") + `],"messages":[%s]}`,
		turn: func(t *testing.T, said converse.Turn) string {
			var calls []string
			for _, u := range said.ToolUses {
				calls = append(calls, fmt.Sprintf(`{"id":%q,"type":"function","function":{"name":%q,"arguments":%s}}`, u.ID, u.Name, quoted(string(u.Input))))
			}
			if calls == nil {
				return `{"role":"assistant","content":` + quoted(said.Text()) + `}`
			}
			return `{"role":"assistant","content":` + quoted(said.Text()) + `,"tool_calls":[` + strings.Join(calls, ",") + `]}`
		},
		tool: func(id, text string) string {
			return fmt.Sprintf(`{"role":"tool","tool_call_id":%q,"content":%s}`, id, quoted(text))
		},
		group: func(results []string) string { return strings.Join(results, ",") },
	}
}

func quoted(s string) string { return string(ledger.AppendString(nil, s)) }

// doors are the front doors beside Converse's, whole and streamed.
func doors() map[string]door {
	return map[string]door{
		"InvokeModel":             anthropicDoor("/model/anthropic.claude-3/invoke", `"anthropic_version":"bedrock-2023-05-31",`),
		"InvokeModel, streamed":   anthropicDoor("/model/anthropic.claude-3/invoke-with-response-stream", `"anthropic_version":"bedrock-2023-05-31",`),
		"Messages":                anthropicDoor("/anthropic/v1/messages", `"model":"anthropic.claude-3",`),
		"Messages, streamed":      anthropicDoor("/anthropic/v1/messages", `"model":"anthropic.claude-3","stream":true,`),
		"ChatCompletions":         openAIDoor(`"model":"openai.gpt-oss",`),
		"ChatCompletions, stream": openAIDoor(`"model":"openai.gpt-oss","stream":true,`),
	}
}

// answers is what the tools of a door's agent say.
type answers func(name string) string

func weather(temp int) answers {
	return func(name string) string {
		if name == "get_time" {
			return `{"time":"10:00"}`
		}
		return fmt.Sprintf(`{"records":["first","second"],"temp":%d}`, temp)
	}
}

// loop runs the agent and returns what the model said, or the answer that was
// no turn.
func (d door) loop(t *testing.T, url string, tools answers) (text string, code int) {
	t.Helper()
	messages, then := wordsUser, d.then
	for range 12 {
		code, _, body := post(t, url, d.path, fmt.Sprintf(d.frame, messages))
		if code != http.StatusOK {
			return body, code
		}
		route, _ := foreign.ParseRoute(d.path)
		asked, err := foreign.ReadRequest(route, fmt.Appendf(nil, d.frame, messages))
		if err != nil {
			t.Fatal(err)
		}
		answer, err := foreign.ReadAnswer(asked.Dialect, []byte(body))
		if err != nil {
			t.Fatalf("%v: %s", err, body)
		}
		turn, err := converse.ParseTurn(answer)
		if err != nil {
			t.Fatal(err)
		}
		if text += turn.Text(); len(turn.ToolUses) == 0 {
			if then == "" {
				return text, code
			}
			messages += "," + d.turn(t, turn) + "," + then
			text, then = text+" ", ""
			continue
		}
		var results []string
		for _, u := range turn.ToolUses {
			results = append(results, d.tool(u.ID, tools(u.Name)))
		}
		messages += "," + d.turn(t, turn) + "," + d.group(results)
	}
	t.Fatal("no end")
	return "", 0
}

// TestRuleUpstreamAtEveryDoor: the rule model calls the tools it is offered and
// reports on what they said, whatever the client speaks; the run verifies and
// replays.
func TestRuleUpstreamAtEveryDoor(t *testing.T) {
	const want = `get_weather returned {"records":["first","second"],"temp":3}. get_time returned {"time":"10:00"}.`
	for name, d := range doors() {
		t.Run(name, func(t *testing.T) {
			p := recordTo(t, RuleUpstream{}, nil)
			text, code := d.loop(t, p.url, weather(3))
			if code != http.StatusOK || !strings.Contains(text, want) {
				t.Fatalf("%d %s, expected %s", code, text, want)
			}
			path := p.end().Recorded[0]
			c := open(t, path)
			types := []string{ledger.RunStarted, ledger.ModelResponded, ledger.ToolCalled, ledger.ToolCalled, ledger.ToolReturned, ledger.ToolReturned, ledger.ModelResponded, ledger.RunFinished}
			if diff := cmp.Diff(types, typesOf(t, c)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
			if v, err := engine.Replay(t.Context(), c, engine.ReplayOptions{}); err != nil || !v.Identical {
				t.Errorf("verify: %+v, %v", v, err)
			}
			r := replayOf(t, false, path)
			if again, _ := d.loop(t, r.url, weather(3)); again != text {
				t.Errorf("replayed %q, recorded %q", again, text)
			}
		})
	}
}

// TestRuleUpstreamRefusesByName what it cannot read.
func TestRuleUpstreamRefusesByName(t *testing.T) {
	p := recordTo(t, RuleUpstream{}, nil)
	code, kind, text := post(t, p.url, "/model/meta.llama/invoke", `{"prompt":"hi"}`)
	var e struct{ Message string }
	if err := json.Unmarshal([]byte(text), &e); err != nil || code != 400 || kind != "ValidationException" || !strings.Contains(e.Message, "read InvokeModel: expected the body of Anthropic's Messages") {
		t.Errorf("%d %s %s", code, kind, text)
	}
	for path, body := range map[string]string{"/model/m/count-tokens": `{"input":{}}`, "/guardrail/g/version/1/apply": `{"source":"INPUT","content":[]}`} {
		if code, _, text := post(t, p.url, path, body); code != 200 || !json.Valid([]byte(text)) {
			t.Errorf("%s: %d %s", path, code, text)
		}
	}
}
