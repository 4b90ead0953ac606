package bedrocktest

import (
	"bytes"
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// sse reads the data lines of a server-sent event stream.
func sse(t *testing.T, body []byte) (data []string, names []string) {
	t.Helper()
	for block := range strings.SplitSeq(strings.TrimSuffix(string(body), "\n\n"), "\n\n") {
		for line := range strings.SplitSeq(block, "\n") {
			if d, ok := strings.CutPrefix(line, "data: "); ok {
				data = append(data, d)
			} else if n, ok := strings.CutPrefix(line, "event: "); ok {
				names = append(names, n)
			} else {
				t.Errorf("line %q is neither event nor data", line)
			}
		}
	}
	return data, names
}

const messagesBody = `{"model":"claude-haiku-4-5","max_tokens":100,"stream":%,"messages":[{"role":"user","content":"hi"}]}`

func TestMessagesRoute(t *testing.T) {
	s := New(t, Options{})
	_, _, whole := post(t, s.URL+"/anthropic/v1/messages", strings.Replace(messagesBody, "%", "false", 1))
	_, h, stream := post(t, s.URL+"/anthropic/v1/messages", strings.Replace(messagesBody, "%", "true", 1))
	if !strings.HasPrefix(h.Get("Content-Type"), "text/event-stream") {
		t.Errorf("content type %q", h.Get("Content-Type"))
	}
	data, names := sse(t, stream)
	if len(names) != len(data) || names[0] != "message_start" || names[len(names)-1] != "message_stop" {
		t.Errorf("event names %q", names)
	}
	if got, want := anthropicFromStream(t, data), anthropicFromBody(t, whole); got != want || !strings.Contains(want, "9007199254740993") {
		t.Errorf("stream %s\nbody   %s", got, want)
	}
	status, _, body := post(t, s.URL+"/anthropic/v1/messages", `{"messages":[]}`)
	if want := `{"type":"error","error":{"type":"invalid_request_error","message":"max_tokens: Field required"}}`; status != 400 || string(body) != want {
		t.Errorf("refusal: %d %s", status, body)
	}
}

const chatBody = `{"model":"openai.gpt-oss-120b-1:0","stream":%,"stream_options":{"include_usage":true},"messages":[{"role":"system","content":"be kind"},{"role":"user","content":[{"type":"text","text":"hi"}]}]}`

func TestChatRoute(t *testing.T) {
	s := New(t, Options{})
	_, _, whole := post(t, s.URL+"/openai/v1/chat/completions", strings.Replace(chatBody, "%", "false", 1))
	choice := listAt(mustDecode(t, whole), "choices")[0]
	calls := listAt(choice, "message", "tool_calls")
	if textAt(choice, "finish_reason") != "tool_calls" || len(calls) != 2 ||
		textAt(calls[1], "function", "arguments") != `{"city":"Oslo","id":9007199254740993}` {
		t.Errorf("answer %s", whole)
	}
	_, _, stream := post(t, s.URL+"/openai/v1/chat/completions", strings.Replace(chatBody, "%", "true", 1))
	data, names := sse(t, stream)
	if len(names) != 0 || data[len(data)-1] != "[DONE]" {
		t.Errorf("%d event lines, last data %q", len(names), data[len(data)-1])
	}
	text, args, finish, usage := "", map[string]string{}, "", false
	for _, d := range data[:len(data)-1] {
		root := mustDecode(t, []byte(d))
		usage = usage || mapAt(root, "usage") != nil
		for _, c := range listAt(root, "choices") {
			text += textAt(c, "delta", "content")
			finish += textAt(c, "finish_reason")
			for _, call := range listAt(c, "delta", "tool_calls") {
				n := string(valueAt(call, "index").(json.Number))
				args[n] += textAt(call, "function", "name") + textAt(call, "function", "arguments")
			}
		}
	}
	want := map[string]string{"0": `get_weather{"city":"Oslo"}`, "1": `get_time{"city":"Oslo","id":9007199254740993}`}
	if diff := cmp.Diff(want, args); diff != "" || text != textAt(choice, "message", "content") || finish != "tool_calls" || !usage {
		t.Errorf("text %q finish %q usage %v calls (-want +got):\n%s", text, finish, usage, diff)
	}
}

// The whole loop on the chat route, where results are messages of their own.
func TestToolLoopByChat(t *testing.T) {
	s := New(t, Options{})
	messages := `{"role":"user","content":"weather?"}`
	last := ""
	for range 3 {
		_, _, body := post(t, s.URL+"/v1/chat/completions", `{"model":"m","messages":[`+messages+`]}`)
		m := mapAt(listAt(mustDecode(t, body), "choices")[0], "message")
		messages += "," + string(encode(m))
		for _, c := range listAt(m, "tool_calls") {
			messages += `,{"role":"tool","tool_call_id":"` + textAt(c, "id") + `","content":"ok"}`
		}
		last = textAt(m, "content")
	}
	if last != loopTurns[2] {
		t.Errorf("ended with %q", last)
	}
	// A new question starts the loop again.
	_, _, body := post(t, s.URL+"/v1/chat/completions", `{"model":"m","messages":[`+messages+`,{"role":"user","content":"again"}]}`)
	if !strings.Contains(string(body), `"tooluse_t3c1"`) {
		t.Errorf("second question: %s", body)
	}
}

func TestErrorsInEachShape(t *testing.T) {
	for path, want := range map[string]string{
		"/model/x/converse":           `{"message":"Too many requests, please wait before trying again."}`,
		"/openai/v1/chat/completions": `{"error":{"message":"Too many requests, please wait before trying again.","type":"rate_limit_error","param":null,"code":"throttling_exception"}}`,
		"/anthropic/v1/messages":      `{"type":"error","error":{"type":"rate_limit_error","message":"Too many requests, please wait before trying again."}}`,
	} {
		s := New(t, Options{Faults: []Fault{{Name: "throttle"}}})
		status, _, body := post(t, s.URL+path, hello)
		if diff := cmp.Diff(want, string(body)); status != 429 || diff != "" {
			t.Errorf("%s: %d\n%s", path, status, diff)
		}
	}
}

func TestMidStreamErrorsOfEventStreams(t *testing.T) {
	for path, body := range map[string]string{"/openai/v1/chat/completions": chatBody, "/anthropic/v1/messages": messagesBody} {
		s := New(t, Options{Faults: []Fault{{Name: "throttle-mid-stream"}}})
		_, _, stream := post(t, s.URL+path, strings.Replace(body, "%", "true", 1))
		data, _ := sse(t, stream)
		if last := data[len(data)-1]; len(data) < 3 || !strings.Contains(last, "rate_limit_error") {
			t.Errorf("%s: %d events, last %s", path, len(data), last)
		}
	}
}

// Every kind of block, as JSON and as a stream; the stream is put together again
// by the rules of the API.
func TestBlocksOfConverse(t *testing.T) {
	turn := Turn{StopReason: "stop_sequence", Trace: json.RawMessage(`{"guardrail":{}}`), Usage: &Usage{Input: 1, Output: 2, CacheRead: 3, CacheWrite: 4, CacheWriteTTL: "1h"},
		Content: []Block{Reasoning("why\n", "c2ln"), Redacted([]byte{0, 255}), Text("héllo <&> ✓🙂"), Raw(`{"citationsContent":{"x":1}}`),
			{Kind: KindToolUse, ToolUseID: "a", Name: "n", Pieces: []string{`{"p":"\ud8`, `3d\ude42"}`}}}}
	s := New(t, Options{Script: Turns(turn)})
	_, _, body := post(t, s.URL+"/model/x/converse", hello)
	want := `{"metrics":{"latencyMs":102},"output":{"message":{"content":[` +
		`{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"why\n"}}},{"reasoningContent":{"redactedContent":"AP8="}},` +
		`{"text":"héllo <&> ✓🙂"},{"citationsContent":{"x":1}},{"toolUse":{"input":{},"name":"n","toolUseId":"a"}}],"role":"assistant"}},` +
		`"stopReason":"stop_sequence","trace":{"guardrail":{}},"usage":{"cacheDetails":[{"inputTokens":4,"ttl":"1h"}],` +
		`"cacheReadInputTokens":3,"cacheWriteInputTokens":4,"inputTokens":1,"outputTokens":2,"totalTokens":10}}`
	if diff := cmp.Diff(want, string(body)); diff != "" {
		t.Errorf("body (-want +got):\n%s", diff)
	}
	_, _, stream := post(t, s.URL+"/model/x/converse-stream", hello)
	var kinds, text, input []string
	for _, e := range decodeFrames(t, stream) {
		root := mustDecode(t, e.Payload)
		kinds = append(kinds, e.Type)
		if d := mapAt(root, "delta"); d["text"] != nil {
			text = append(text, textAt(d, "text"))
		} else if d["toolUse"] != nil {
			input = append(input, textAt(d, "toolUse", "input"))
		}
		if !bytes.Contains(e.Payload, []byte(`"p":"`)) {
			t.Errorf("%s has no padding: %s", e.Type, e.Payload)
		}
	}
	if strings.Join(text, "") != "héllo <&> ✓🙂" || len(text) < 2 {
		t.Errorf("text pieces %q", text)
	}
	if diff := cmp.Diff([]string{`{"p":"\ud8`, `3d\ude42"}`}, input); diff != "" {
		t.Errorf("input pieces (-want +got):\n%s", diff)
	}
	starts := strings.Count(strings.Join(kinds, " "), "contentBlockStart")
	if starts != 1 || kinds[0] != "messageStart" || kinds[len(kinds)-2] != "messageStop" || kinds[len(kinds)-1] != "metadata" {
		t.Errorf("%d starts (only the call has one); events %q", starts, kinds)
	}
}

func TestBlocksOfAnthropic(t *testing.T) {
	s := New(t, Options{Script: Turns(Say(Reasoning("why", "c2ln"), Redacted([]byte{0}), Raw(`{"x":1}`), Text("ok")))})
	body := `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
	_, h, answer := post(t, s.URL+"/model/x/invoke", body)
	want := `"content":[{"type":"thinking","thinking":"why","signature":"c2ln"},{"type":"redacted_thinking","data":"AA=="},{"type":"text","text":"ok"}],"stop_reason":"end_turn"`
	if !strings.Contains(string(answer), want) || h.Get("X-Amzn-Bedrock-Output-Token-Count") == "" {
		t.Errorf("answer %s", answer)
	}
	_, _, stream := post(t, s.URL+"/model/x/invoke-with-response-stream", body)
	var all strings.Builder
	for _, e := range decodeFrames(t, stream) {
		if e.Type != "chunk" {
			t.Errorf("event %s, want chunk", e.Type)
		}
		all.Write(unbase64(textAt(mustDecode(t, e.Payload), "bytes")))
	}
	for _, want := range []string{`"thinking_delta","thinking":"w"`, `"signature_delta","signature":"c2ln"`, `"content_block":{"type":"redacted_thinking","data":"AA=="}`, `"index":2,"content_block":{"type":"text","text":""}`} {
		if !strings.Contains(all.String(), want) {
			t.Errorf("stream lacks %s", want)
		}
	}
}

// A script's events go through any streaming route and are refused elsewhere.
func TestRawEventsElsewhere(t *testing.T) {
	events, err := ParseEvents([]byte(`[["message_start",{"type":"message_start"}],["!throttlingException",{"message":"slow"}]]`))
	if err != nil {
		t.Fatal(err)
	}
	s := New(t, Options{Script: Turns(Turn{Events: events})})
	_, _, body := post(t, s.URL+"/model/x/invoke-with-response-stream", `{"anthropic_version":"x","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`)
	got := decodeFrames(t, body)
	if got[0].Type != "chunk" || got[1].Type != "!throttlingException" || string(got[1].Payload) != `{"message":"slow"}` {
		t.Errorf("invoke stream %v", got)
	}
	_, _, body = post(t, s.URL+"/anthropic/v1/messages", strings.Replace(messagesBody, "%", "true", 1))
	if data, names := sse(t, body); names[1] != "error" || !strings.Contains(data[1], `"rate_limit_error","message":"slow"`) {
		t.Errorf("SSE %s", body)
	}
	if status, _, body := post(t, s.URL+"/model/x/converse", hello); status != 400 || !strings.Contains(string(body), "does not stream") {
		t.Errorf("converse: %d %s", status, body)
	}
}

// A script that is at its end, or is no JSON, says so.
func TestScriptsSayWhatIsWrong(t *testing.T) {
	s := New(t, Options{Script: Turns()})
	if _, _, body := post(t, s.URL+"/model/x/converse", hello); !strings.Contains(string(body), "the script has 0 turns and this request holds 0 assistant messages") {
		t.Errorf("end of script: %s", body)
	}
	s = New(t, Options{Script: Turns(Say(ToolUse("a", "n", "{not json")))})
	if _, _, body := post(t, s.URL+"/model/x/converse", hello); !strings.Contains(string(body), "the script's turn is not JSON") {
		t.Errorf("bad input: %s", body)
	}
	s = New(t, Options{Script: Turns(Turn{Fault: "nosuch"})})
	if _, _, body := post(t, s.URL+"/model/x/converse", hello); !strings.Contains(string(body), "unknown fault") {
		t.Errorf("bad fault: %s", body)
	}
	for _, name := range ScriptNames() {
		if _, err := LookupScript(name); err != nil {
			t.Error(err)
		}
	}
	if _, err := LookupScript("x"); err == nil {
		t.Error("unknown script was found")
	}
	for _, bad := range []string{`{}`, `[["a"]]`, `[[1,{}]]`} {
		if _, err := ParseEvents([]byte(bad)); err == nil {
			t.Errorf("ParseEvents(%s) gave no error", bad)
		}
	}
}

func TestAttemptNumbers(t *testing.T) {
	tests := []struct {
		header, value string
		arrival, want int
	}{
		{"amz-sdk-request", "attempt=2; max=3", 0, 2}, {"amz-sdk-request", "ttl=x; attempt=4", 0, 4}, {"x-stainless-retry-count", "1", 0, 2},
		{"X", "", 0, 1}, {"X", "", 2, 3}, {"amz-sdk-request", "attempt=x", 1, 2},
	}
	for _, tt := range tests {
		h := http.Header{}
		h.Set(tt.header, tt.value)
		if got := attempt(h, tt.arrival); got != tt.want {
			t.Errorf("%s: %s with arrival %d: attempt %d, want %d", tt.header, tt.value, tt.arrival, got, tt.want)
		}
	}
}
