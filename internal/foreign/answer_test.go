package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/scrub"
)

// asker is a request of each way to ask.
func askers(t testing.TB) map[string]Asked {
	t.Helper()
	out := map[string]Asked{}
	for name, c := range map[string]struct{ path, body string }{
		"converse":         {"/model/m/converse", `{"messages":[]}`},
		"converse stream":  {"/model/m/converse-stream", `{"messages":[]}`},
		"anthropic":        {"/model/m/invoke", `{"anthropic_version":"x","messages":[]}`},
		"anthropic stream": {"/model/m/invoke-with-response-stream", `{"anthropic_version":"x","messages":[]}`},
		"messages stream":  {"/anthropic/v1/messages", `{"model":"m","stream":true,"messages":[]}`},
		"openai":           {"/openai/v1/chat/completions", `{"model":"m","messages":[]}`},
		"openai stream":    {"/openai/v1/chat/completions", `{"model":"m","stream":true,"messages":[]}`},
	} {
		out[name] = read(t, c.path, c.body)
	}
	return out
}

func read(t testing.TB, path, body string) Asked {
	t.Helper()
	r, found := ParseRoute(path)
	a, err := ReadRequest(r, []byte(body))
	if err != nil || !found {
		t.Fatal(path, found, err)
	}
	return a
}

func turnOf(stop string, blocks ...string) string {
	return fmt.Sprintf(`{"output":{"message":{"content":[%s],"role":"assistant"}},"stopReason":%q,"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`, strings.Join(blocks, ","), stop)
}

// TestEncodeReadsBack: what the proxy writes for an edited turn is read as that
// turn, in every dialect.
func TestEncodeReadsBack(t *testing.T) {
	turns := map[string]string{
		"text":     turnOf("end_turn", `{"text":"hello é 🙂"}`),
		"calls":    turnOf("tool_use", `{"text":"let me see"}`, `{"toolUse":{"input":{"big":9007199254740993,"s":"x\"y"},"name":"a","toolUseId":"u1"}}`, `{"toolUse":{"input":{},"name":"b","toolUseId":"u2"}}`),
		"cut":      turnOf("max_tokens", `{"text":"hel"}`),
		"nothing":  turnOf("end_turn"),
		"filtered": turnOf("content_filtered", `{"text":"x"}`),
	}
	onlyBlocks := map[string]string{
		"thinking": turnOf("tool_use", `{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"hm\n\n"}}}`, `{"toolUse":{"input":{},"name":"a","toolUseId":"u"}}`),
		"redacted": turnOf("end_turn", `{"reasoningContent":{"redactedContent":"AAEC"}}`, `{"text":"x"}`),
	}
	for name, a := range askers(t) {
		all := map[string]string{}
		for k, v := range turns {
			all[k] = v
		}
		for k, v := range onlyBlocks {
			if a.Dialect != OpenAI { // which shows no reasoning
				all[k] = v
			}
		}
		for kind, turn := range all {
			t.Run(name+"/"+kind, func(t *testing.T) {
				e, err := Encode(a, json.RawMessage(turn))
				if err != nil {
					t.Fatal(err)
				}
				got, err := ReadAnswer(a.Dialect, e.Body)
				if err != nil {
					t.Fatalf("%v\n%s", err, e.Body)
				}
				if d := cmp.Diff(turn, string(got)); d != "" {
					t.Errorf("(-want +got)\n%s", d)
				}
			})
		}
	}
}

// TestCutAnswers: no beginning of a stream is taken for an answer.
func TestCutAnswers(t *testing.T) {
	turn := json.RawMessage(turnOf("tool_use", `{"text":"let me see"}`, `{"toolUse":{"input":{"a":1},"name":"a","toolUseId":"u1"}}`))
	for name, a := range askers(t) {
		e, err := Encode(a, turn)
		if err != nil {
			t.Fatal(err)
		}
		for cut := range len(e.Body) {
			if _, err := ReadAnswer(a.Dialect, e.Body[:cut]); err == nil && !strings.HasSuffix(string(e.Body[cut:]), "\n") && !complete(name, e.Body, cut) {
				t.Fatalf("%s: the first %d of %d bytes are taken for an answer", name, cut, len(e.Body))
			}
		}
	}
}

// complete allows what comes after the end was said: usage, a blank line.
func complete(name string, body []byte, cut int) bool {
	rest := string(body[cut:])
	return strings.Contains(name, "stream") && (name == "converse stream" && !strings.Contains(rest, "messageStop") || strings.TrimSpace(rest) == "")
}

// TestReadAnswers reads what the services send beside the plain case.
func TestReadAnswers(t *testing.T) {
	chunk := func(events ...string) string {
		var out []byte
		for _, e := range events {
			payload, _ := json.Marshal(map[string]any{"bytes": []byte(e), "p": "abc"})
			out = append(out, converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "chunk", Payload: payload})...)
		}
		return string(out)
	}
	for name, c := range map[string]struct {
		dialect    Dialect
		body, want string
	}{
		"unknown block": {Anthropic, `{"type":"message","content":[{"type":"server_tool_use","id":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2,"cache_read_input_tokens":3}}`,
			`{"output":{"message":{"content":[{"anthropic":{"id":"x","type":"server_tool_use"}}],"role":"assistant"}},"stopReason":"end_turn","usage":{"cacheReadInputTokens":3,"inputTokens":1,"outputTokens":2,"totalTokens":6}}`},
		"call without arguments": {Anthropic, chunk(`{"type":"message_start","message":{"usage":{"input_tokens":1}}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"tool_use","id":"u","name":"a","input":{}}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"tool_use"},"usage":{"output_tokens":2}}`, `{"type":"message_stop"}`),
			`{"output":{"message":{"content":[{"toolUse":{"input":{},"name":"a","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`},
		"malformed arguments": {OpenAI, `{"choices":[{"message":{"tool_calls":[{"id":"u","function":{"name":"a","arguments":"{\"x\":"}}]},"finish_reason":"tool_calls"}]}`,
			`{"investigator":{"malformedInputs":{"0":"{\"x\":"}},"output":{"message":{"content":[{"toolUse":{"input":{},"name":"a","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"tool_use","usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}`},
		"opaque":       {Opaque, `{"b":1,"a":2}`, `{"a":2,"b":1}`},
		"opaque bytes": {Opaque, "\xff", `{"bytes":"/w=="}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadAnswer(c.dialect, []byte(c.body))
			if d := cmp.Diff(c.want, string(got)); err != nil || d != "" {
				t.Errorf("%v (-want +got)\n%s", err, d)
			}
		})
	}
	var exception *converse.StreamError
	thrown := converse.EncodeFrame(converse.Frame{Kind: converse.ExceptionFrame, Type: "throttlingException", Payload: json.RawMessage(`{"message":"slow"}`)})
	for _, d := range []Dialect{Converse, Anthropic} {
		if _, err := ReadAnswer(d, thrown); !errors.As(err, &exception) || exception.Name != "ThrottlingException" {
			t.Errorf("%s: %v, expected a ThrottlingException", d, err)
		}
	}
}

func TestClean(t *testing.T) {
	const secret = "AKIAIOSFODNN7EXAMPLE"
	for name, a := range askers(t) {
		e, err := Encode(a, json.RawMessage(turnOf("end_turn", `{"text":"key `+secret+` here"}`)))
		if err != nil {
			t.Fatal(err)
		}
		clean := Clean(e.Body, scrub.Scrub)
		got, err := ReadAnswer(a.Dialect, clean)
		if err != nil || strings.Contains(string(clean), secret) || !strings.Contains(string(got), "removed") {
			t.Errorf("%s: %v\n%s", name, err, got)
		}
		if again := Clean(clean, scrub.Scrub); string(again) != string(clean) {
			t.Errorf("%s: cleaning twice changes more", name)
		}
	}
}

func FuzzReadAnswer(f *testing.F) {
	for _, a := range askers(f) {
		e, err := Encode(a, json.RawMessage(turnOf("tool_use", `{"text":"x"}`, `{"toolUse":{"input":{"a":1},"name":"a","toolUseId":"u1"}}`)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(e.Body)
	}
	asked := askers(f)
	f.Fuzz(func(t *testing.T, body []byte) {
		Clean(body, scrub.JSON)
		Spoken(body)
		for name, a := range asked {
			got, err := ReadAnswer(a.Dialect, body)
			if err != nil {
				continue
			}
			if _, err := converse.ParseTurn(Known(got)); err != nil {
				t.Errorf("%s: without what is not known it is no turn: %v", name, err)
			}
			if _, err := converse.ParseTurn(got); err != nil {
				t.Errorf("%s: read an answer that is no turn: %v", name, err)
			}
			if e, err := Encode(a, got); err != nil || len(e.Body) == 0 {
				t.Errorf("%s: encode what was read: %v", name, err)
			}
		}
	})
}
