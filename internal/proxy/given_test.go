package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/engine"
	"investigator/internal/faults"
)

// oddities is a model whose answers hold what no answer that is made anew holds:
// members that this build does not know, blanks, another order of members.
type oddities struct {
	seen  [][]byte
	paths []string
}

func (o *oddities) Place(path string) string { return "https://odd.example" + path }

func (o *oddities) Do(r *http.Request, body []byte) (*http.Response, error) {
	o.seen, o.paths = append(o.seen, bytes.Clone(body)), append(o.paths, r.URL.Path)
	e, found := echoes()[r.URL.Path]
	if !found { // another model's
		e = echoes()["/model/m/converse"]
	}
	text, asks := e.said, bytes.Count(body, []byte(`"role":"assistant"`))
	if asks < 2 {
		text = fmt.Sprintf(e.calls, asks+1)
	}
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: io.NopCloser(strings.NewReader(text)), ContentLength: int64(len(text))}, nil
}

// echo is an agent that sends back what it was given as it was given, and whose
// tool returns its input as it is spelled.
type echo struct {
	frame       string // of a request, around its messages
	asks        string // the first of them
	calls, said string // the model's answers
	message     []string
	use         func(message json.RawMessage) (id, input string)
	result      string // of an id and a text
	heedless    bool   // its tool returns the same whatever it is asked
}

func echoes() map[string]echo {
	return map[string]echo{
		"/openai/v1/chat/completions": {
			frame: `{"model":"m","tools":[{"type":"function","function":{"name":"get_time"}}],"messages":[%s]}`,
			asks:  `{"role":"user","content":"What time is it?"}`,
			calls: `{"id":"c","choices":[{"message":{"role":"assistant","content":"","refusal":null,"annotations":[],"reasoning":"hm","tool_calls":[{"index":0,"id":"a%d","type":"function","function":{"name":"get_time","arguments":"{\"z\": 1, \"city\": \"Oslo\"}"}}]},"finish_reason":"tool_calls"}]}`,
			said:  `{"id":"c","choices":[{"message":{"role":"assistant","content":"Ten."},"finish_reason":"stop"}]}`,
			use: func(m json.RawMessage) (string, string) {
				var v struct {
					Calls []struct {
						ID       string
						Function struct{ Arguments string }
					} `json:"tool_calls"`
				}
				if json.Unmarshal(m, &v) != nil || len(v.Calls) == 0 {
					return "", ""
				}
				return v.Calls[0].ID, v.Calls[0].Function.Arguments
			},
			message: []string{"choices", "0", "message"},
			result:  `{"role":"tool","tool_call_id":%q,"content":%q}`,
		},
		"/anthropic/v1/messages": {
			frame: `{"model":"m","max_tokens":9,"tools":[{"name":"get_time","input_schema":{"type":"object"}}],"messages":[%s]}`,
			asks:  `{"role":"user","content":"What time is it?"}`,
			calls: `{"id":"m","type":"message","content":[{"type":"tool_use","id":"a%d","name":"get_time","input":{"z": 1, "city": "Oslo"},"caller":{"type":"direct"}}],"role":"assistant","stop_reason":"tool_use","usage":{"input_tokens":1,"output_tokens":1}}`,
			said:  `{"id":"m","type":"message","content":[{"type":"text","text":"Ten."}],"role":"assistant","stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":1}}`,
			use: func(m json.RawMessage) (string, string) {
				var v struct {
					Content []struct {
						ID    string
						Input json.RawMessage
					}
				}
				if json.Unmarshal(m, &v) != nil || v.Content[0].ID == "" {
					return "", ""
				}
				return v.Content[0].ID, string(v.Content[0].Input)
			},
			result: `{"role":"user","content":[{"type":"tool_result","tool_use_id":%q,"content":%q}]}`,
		},
		"/model/m/converse": {
			frame: `{"system":[{"text":"Be brief."}],"toolConfig":{"tools":[{"toolSpec":{"name":"get_time","inputSchema":{"json":{"type":"object"}}}}]},"messages":[%s]}`,
			asks:  `{"role":"user","content":[{"text":"What time is it?"}]}`,
			calls: `{"metrics":{"latencyMs":317},"output":{"message":{"role":"assistant","content":[{"toolUse":{"name":"get_time","toolUseId":"a%d","input":{"z": 1, "city": "Oslo"}}}]}},"stopReason":"tool_use"}`,
			said:  `{"metrics":{"latencyMs":317},"output":{"message":{"role":"assistant","content":[{"text":"Ten."}]}},"stopReason":"end_turn"}`,
			use: func(m json.RawMessage) (string, string) {
				var v struct {
					Content []struct {
						ToolUse struct {
							ToolUseID string
							Input     json.RawMessage
						}
					}
				}
				if json.Unmarshal(m, &v) != nil {
					return "", ""
				}
				return v.Content[0].ToolUse.ToolUseID, string(v.Content[0].ToolUse.Input)
			},
			message: []string{"output", "message"},
			result:  `{"role":"user","content":[{"toolResult":{"toolUseId":%q,"content":[{"text":%q}]}}]}`,
		},
	}
}

// run asks until the model calls nothing or an answer is an error, and returns
// every answer as it came.
func (e echo) run(t *testing.T, url, path string) (answers []string) {
	t.Helper()
	messages := e.asks
	for range 8 {
		code, kind, body := post(t, url, path, fmt.Sprintf(e.frame, messages))
		answers = append(answers, fmt.Sprint(code, kind, body))
		if code != http.StatusOK {
			return answers
		}
		message := json.RawMessage(body)
		if e.message == nil { // Anthropic's: the answer is the message
			message = json.RawMessage(`{"role":"assistant","content":` + string(part(t, message, "content")) + `}`)
		}
		for _, name := range e.message {
			message = part(t, message, name)
		}
		id, input := e.use(message)
		if id == "" {
			return answers
		}
		if e.heedless {
			input = "anything"
		}
		messages += "," + string(message) + "," + fmt.Sprintf(e.result, id, "of "+input)
	}
	t.Fatal("no end")
	return nil
}

func part(t *testing.T, v json.RawMessage, name string) json.RawMessage {
	t.Helper()
	var list []json.RawMessage
	if json.Unmarshal(v, &list) == nil {
		return list[0]
	}
	var members map[string]json.RawMessage
	if err := json.Unmarshal(v, &members); err != nil || members[name] == nil {
		t.Fatalf("no %s in %s", name, v)
	}
	return members[name]
}

// TestAForkGivesTheSameBytes: what an agent was given by a fork, replays of the
// fork and forks of it give again to the byte, because the agent sends it back
// and its tools read it. A fork of an inserted call used to be made anew.
func TestAForkGivesTheSameBytes(t *testing.T) {
	for name, patches := range map[string][]faults.Patch{
		"a call":                 {deploy(2), setAt(t, "", `"other"`, 9)},
		"two calls":              {deploy(2), deploy(2), setAt(t, "", `"other"`, 8)},
		"a call beside an edit":  {setAt(t, "/usage", `{"inputTokens":7}`, 2), deploy(2), faults.Fail("no").For(5)},
		"an edit beside a call":  {deploy(2), setAt(t, "/usage", `{"inputTokens":7}`, 2), deploy(7)},
		"a result":               {setAt(t, "", `"other"`, 4), deploy(5)},
		"a failure":              {faults.Fail("busy").For(5)},
		"a failure, with a name": {faults.Replace(json.RawMessage(`{"error":{"message":"m","name":"ConnectionFailed","status":0}}`)).For(5)},
	} {
		for path, e := range echoes() {
			t.Run(name+path, func(t *testing.T) {
				up := &oddities{}
				r := recordTo(t, up, nil)
				parent := e.run(t, r.url, path)
				file := r.end().Recorded[0]
				for i, patch := range patches {
					p := forkOf(t, file, patch, up)
					given := e.run(t, p.url, path)
					got := p.end()
					file = got.Fork.Cassette
					history := parent[:got.Served-1] // the last one taken from the tape is patched
					if d := cmp.Diff(history, given[:len(history)]); d != "" {
						t.Errorf("history of fork %d (-parent +fork):\n%s", i, d)
					}
					again := replayOf(t, false, file)
					if d := cmp.Diff(given, e.run(t, again.url, path)); d != "" {
						t.Errorf("replay of fork %d (-given +replayed):\n%s", i, d)
					}
					if got := again.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
						t.Errorf("replay of fork %d: diverged %v, left over %v", i, got.Diverged, got.LeftOver)
					}
					parent = given
				}
			})
		}
	}
}

// TestAnInsertedCallIsNotWhatDiffers: where an agent changes something beside an
// inserted call, that is what a replay names.
func TestAnInsertedCallIsNotWhatDiffers(t *testing.T) {
	const path = "/anthropic/v1/messages"
	up, e := &oddities{}, echoes()[path]
	r := recordTo(t, up, nil)
	e.run(t, r.url, path)
	p := forkOf(t, r.end().Recorded[0], deploy(2), up)
	e.run(t, p.url, path)
	again := replayOf(t, false, p.end().Fork.Cassette)
	e.result = strings.Replace(e.result, `"content":%q}`, `"content":%q,"is_error":true}`, 1)
	e.run(t, again.url, path)
	got := again.end().Diverged
	if len(got) != 1 || len(got[0].Changes) != 1 || got[0].Changes[0].Path != "/messages/2/content/0/is_error" {
		t.Errorf("diverged %v", got)
	}
}

// TestForksOfBefore: testdata/forked-before.yaml is a fork of the build that did
// not keep what the agent was given. It replays, and can be forked, as it did.
func TestForksOfBefore(t *testing.T) {
	const path, file = "/model/m/converse", "testdata/forked-before.yaml"
	e := echoes()[path]
	e.heedless = true
	for _, patch := range []faults.Patch{{}, deploy(2), deploy(7)} {
		p := replayOf(t, false, file)
		if patch.At > 0 {
			p = forkOf(t, file, patch, &oddities{})
		}
		answers := e.run(t, p.url, path)
		const want = `200{"metrics":{"latencyMs":1},"output":{"message":{"content":[{"toolUse":{"input":{"city":"Oslo","z":1},"name":"get_time","toolUseId":"a1"}}],"role":"assistant"}},"stopReason":"tool_use"}`
		if len(answers) != 3 || answers[0] != want {
			t.Errorf("fork at %d: %q", patch.At, answers)
		}
		if got := p.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
			t.Errorf("fork at %d: diverged %v, left over %v", patch.At, got.Diverged, got.LeftOver)
		}
	}
}

// TestChoicesOfBefore: testdata/choices-before*.yaml are runs with two choices,
// streamed and whole, of the build that did not tell them apart. Their events are
// what was read then; they replay as they did.
func TestChoicesOfBefore(t *testing.T) {
	for _, file := range []string{"testdata/choices-before.yaml", "testdata/choices-before-whole.yaml"} {
		got, err := engine.Replay(t.Context(), open(t, file), engine.ReplayOptions{})
		if err != nil || !got.Identical {
			t.Errorf("%s: %+v, %v", file, got.Divergence, err)
		}
	}
}
