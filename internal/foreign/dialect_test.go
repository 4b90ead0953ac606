package foreign

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// TestReadRequest reads one conversation in all dialects.
func TestReadRequest(t *testing.T) {
	type summary struct {
		Dialect  Dialect
		Stream   bool
		Model    string
		Messages int
		Question string
		Rest     string
	}
	for name, c := range map[string]struct {
		path, body string
		want       summary
	}{
		"Converse": {"/model/m%3A0/converse", `{"system":[{"text":"s"}],"messages":[{"role":"user","content":[{"text":"q"}]}]}`,
			summary{Converse, false, "m:0", 1, "q", `{"system":[{"text":"s"}]}`}},
		"ConverseStream": {"/model/m/converse-stream", `{"messages":[{"role":"user","content":[{"text":"q"}]}],"toolConfig":{}}`,
			summary{Converse, true, "m", 1, "q", `{"toolConfig":{}}`}},
		"invoke": {"/model/m/invoke", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":1,"messages":[{"role":"user","content":"q"}]}`,
			summary{Anthropic, false, "m", 1, "q", `{"anthropic_version":"bedrock-2023-05-31","max_tokens":1}`}},
		"invoke stream": {"/model/m/invoke-with-response-stream", `{"anthropic_version":"2026-10-21","messages":[]}`,
			summary{Anthropic, true, "m", 0, "", `{"anthropic_version":"2026-10-21"}`}},
		"another model's invoke": {"/model/m/invoke", `{"inputText":"q"}`, summary{Opaque, false, "m", 0, "", `{"inputText":"q"}`}},
		"Messages": {"/anthropic/v1/messages", `{"model":"claude","stream":true,"messages":[{"role":"user","content":[{"type":"text","text":"q"}]}]}`,
			summary{Anthropic, true, "claude", 1, "q", `{"model":"claude","stream":true}`}},
		"OpenAI": {"/openai/v1/chat/completions", `{"model":"gpt","stream":false,"messages":[{"role":"system","content":"s"},{"role":"user","content":"q"}]}`,
			summary{OpenAI, false, "gpt", 2, "q", `{"model":"gpt","stream":false}`}},
		"guardrail":      {"/guardrail/g/version/1/apply", `{"content":[],"source":"INPUT"}`, summary{Opaque, false, "ApplyGuardrail", 0, "", `{"content":[],"source":"INPUT"}`}},
		"counted tokens": {"/model/m/count-tokens", `{"input":{"converse":{"messages":[]}}}`, summary{Opaque, false, "m", 0, "", `{"input":{"converse":{"messages":[]}}}`}},
		"messages alone": {"/model/m/converse", `{"messages":[]}`, summary{Converse, false, "m", 0, "", `{}`}},
		"messages last":  {"/model/m/converse", `{"a":1,"messages":[]}`, summary{Converse, false, "m", 0, "", `{"a":1}`}},
		"repeated list":  {"/model/m/converse", `{"messages":[1,2,3],"messages":[{"role":"user","content":"q"}]}`, summary{Converse, false, "m", 1, "q", `{}`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := read(t, c.path, c.body)
			got := summary{a.Dialect, a.Stream, a.Request.Model, a.Request.Messages.Len(), a.Question(), string(a.Request.Rest.JSON())}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
			again := FromRequest(a.Route, a.Request)
			if again.Dialect != a.Dialect || again.Stream != a.Stream {
				t.Errorf("from its recorded request %s, %v", again.Dialect, again.Stream)
			}
		})
	}
}

// TestMalformedRequests: what is no request says what it is.
func TestMalformedRequests(t *testing.T) {
	for body, want := range map[string]string{
		``:                    "read request body",
		`{`:                   "read request body",
		`[]`:                  "expected an object, found",
		`"x"`:                 "expected an object, found",
		`{"messages":{}}`:     "/messages: expected an array, found",
		`{"messages":"text"}`: "/messages: expected an array, found",
		`{"messages":null}`:   "/messages: expected an array, found",
		"{\"a\":1}{":          "read request body",
		"\x00\x00\x00\x10":    "read request body",
	} {
		if _, err := ReadRequest(Route{Op: OpConverse, Model: "m"}, []byte(body)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", body, err, want)
		}
	}
}

// TestOddMessages: a message of any shape is kept, and none makes a reader fall.
func TestOddMessages(t *testing.T) {
	for _, message := range []string{`1`, `null`, `"x"`, `[]`, `{}`, `{"role":1}`, `{"role":"user"}`, `{"role":"user","content":null}`, `{"role":"user","content":{}}`, `{"role":"user","content":[1,null,[]]}`,
		`{"role":"user","content":[{"toolResult":1},{"toolResult":{}},{"type":"tool_result"}]}`, `{"role":"tool"}`, `{"role":"tool","content":[1]}`} {
		for _, where := range []struct{ path, more string }{{"/model/m/converse", ""}, {"/model/m/invoke", `,"anthropic_version":"x"`}, {"/openai/v1/chat/completions", ""}} {
			a := read(t, where.path, `{"messages":[`+message+`]`+where.more+`}`)
			if got := string(a.Request.Messages.Last()); got != string(canon(t, message)) {
				t.Errorf("%s became %s", message, got)
			}
			for _, r := range a.Results() {
				a.SetResult(r, json.RawMessage(`"x"`), true)
				a.SetResult(r, nil, false)
			}
			a.SetResult(Result{Message: 7, Block: 7}, json.RawMessage(`"x"`), false)
			a.SetResult(Result{Block: 7}, json.RawMessage(`"x"`), false)
			a.SetQuestion("q")
			if _, err := Start(a); err != nil {
				t.Errorf("%s: %v", message, err)
			}
		}
	}
}

// TestCases reads the turns that clients are known to send back changed.
func TestCases(t *testing.T) {
	for name, c := range map[string]struct {
		turn, echo string
		same       bool
	}{
		"02 blank text kept":    {`[{"reasoningContent":{"reasoningText":{"text":"need the file"}}},{"text":""},{"toolUse":{"toolUseId":"tooluse_b1","name":"read_file","input":{"path":"b"}}}]`, "", true},
		"02 blank text dropped": {`[{"reasoningContent":{"reasoningText":{"text":"need the file"}}},{"text":""},{"toolUse":{"toolUseId":"tooluse_b1","name":"read_file","input":{"path":"b"}}}]`, `[{"reasoningContent":{"reasoningText":{"text":"need the file"}}},{"toolUse":{"toolUseId":"tooluse_b1","name":"read_file","input":{"path":"b"}}}]`, true},
		"19 reasoning trimmed":  {`[{"reasoningContent":{"reasoningText":{"text":"step one\n\n","signature":"c2ln"}}}]`, `[{"reasoningContent":{"reasoningText":{"text":"step one","signature":"c2ln"}}}]`, false},
		"36 lone surrogate":     {`[{"toolResult":{"toolUseId":"u","content":[{"text":"status: \ud83d"}]}}]`, "[{\"toolResult\":{\"toolUseId\":\"u\",\"content\":[{\"text\":\"status: \ufffd\"}]}}]", true},
		"38 rounded":            {`[{"toolUse":{"toolUseId":"u1","name":"read_file","input":{"i":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"d":1,"d":2}}}]`, `[{"toolUse":{"toolUseId":"u1","name":"read_file","input":{"i":9007199254740992,"f":1,"e":null,"z":0,"d":2}}}]`, true},
		"38 first of two keys":  {`[{"toolUse":{"toolUseId":"u1","name":"read_file","input":{"d":1,"d":2}}}]`, `[{"toolUse":{"toolUseId":"u1","name":"read_file","input":{"d":1}}}]`, false},
		"42 name in history":    {`[{"toolUse":{"toolUseId":"u1","name":"fs.read","input":{}}}]`, `[{"toolUse":{"toolUseId":"u1","name":"fs_read","input":{}}}]`, false},
	} {
		t.Run(name, func(t *testing.T) {
			if c.echo == "" {
				c.echo = c.turn
			}
			body := `{"messages":[` + question + `,{"role":"assistant","content":%s}]}`
			a, b := read(t, "/model/m/converse", fmt.Sprintf(body, c.turn)), read(t, "/model/m/converse", fmt.Sprintf(body, c.echo))
			if changes, same := CompareRequests(a, b); same != c.same {
				t.Errorf("same %v by %v, expected %v", same, changes, c.same)
			}
		})
	}
}

// TestOddModelAnswers reads what services send beside the plain case, without
// loss and without taking one thing for another.
func TestOddModelAnswers(t *testing.T) {
	sse := func(events ...string) string { return "data: " + strings.Join(events, "\n\ndata: ") + "\n\n" }
	start, stop := `{"type":"message_start","message":{"usage":{"input_tokens":1}}}`, `{"type":"message_stop"}`
	delta := `{"type":"message_delta","delta":{"stop_reason":"end_turn"},"usage":{"output_tokens":2}}`
	chat := func(message, finish string) string {
		return `{"choices":[{"index":0,"message":` + message + `,"finish_reason":` + finish + `}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`
	}
	with12 := func(stop string, blocks ...string) string {
		return strings.NewReplacer(`"inputTokens":3,"outputTokens":4,"totalTokens":7`, `"inputTokens":1,"outputTokens":2,"totalTokens":3`).Replace(turnOf(stop, blocks...))
	}
	for name, c := range map[string]struct {
		dialect    Dialect
		body, want string
	}{
		"a tool that the server runs": {Anthropic, sse(start, `{"type":"content_block_start","index":0,"content_block":{"type":"server_tool_use","id":"s","name":"web_search","input":{}}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"input_json_delta","partial_json":"{\"q\":1}"}}`, `{"type":"content_block_stop","index":0}`, delta, stop),
			with12("end_turn", `{"anthropic":{"id":"s","input":{"q":1},"name":"web_search","type":"server_tool_use"}}`)},
		"citations": {Anthropic, sse(start, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"as said"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"citations_delta","citation":{"title":"t"}}}`, `{"type":"content_block_stop","index":0}`, delta, stop),
			strings.Replace(with12("end_turn", `{"text":"as said"}`), `{`, `{"investigator":{"unknownEvents":[{"delta":{"citation":{"title":"t"},"type":"citations_delta"},"index":0,"type":"content_block_delta"}]},`, 1)},
		"events without meaning": {Anthropic, ": comment\n\nevent: ping\r\ndata: {\"type\":\"ping\"}\r\n\r\n" + sse(start, delta, stop), with12("end_turn")},
		"a later delta without reason": {Anthropic, sse(start, delta, `{"type":"message_delta","delta":{"stop_reason":null},"usage":{"output_tokens":2}}`, stop),
			with12("end_turn")},
		"a new event": {Anthropic, sse(start, `{"type":"shiny","x":1}`, delta, stop), strings.Replace(with12("end_turn"), `{`, `{"investigator":{"unknownEvents":[{"type":"shiny","x":1}]},`, 1)},
		"an end of no block": {Anthropic, sse(start, `{"type":"content_block_stop","index":0}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"content_block_stop","index":0}`, delta, stop), with12("end_turn", `{"text":"x"}`)},
		"a piece of no block": {Anthropic, sse(start, `{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"x"}}`, delta, stop),
			strings.Replace(with12("end_turn"), `{`, `{"investigator":{"unknownEvents":[{"delta":{"text":"x","type":"text_delta"},"index":0,"type":"content_block_delta"}]},`, 1)},
		"null for a block": {Anthropic, `{"type":"message","content":[null,{"type":"text","text":"x"}],"stop_reason":"end_turn","usage":{"input_tokens":1,"output_tokens":2}}`, with12("end_turn", `{"text":"x"}`)},
		"refusal":          {OpenAI, chat(`{"content":null,"refusal":"no"}`, `"stop"`), with12("end_turn", `{"text":"no"}`)},
		"parallel calls, interleaved": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":""}},{"index":1,"id":"b","function":{"name":"g","arguments":"{\"y\""}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"{\"x\":1"}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":1,"function":{"arguments":":2}"}},{"index":0,"function":{"arguments":"}"}}]}}]}`,
			`{"choices":[{"delta":{},"finish_reason":"tool_calls"}]}`, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `[DONE]`),
			with12("tool_use", `{"toolUse":{"input":{"x":1},"name":"f","toolUseId":"a"}}`, `{"toolUse":{"input":{"y":2},"name":"g","toolUseId":"b"}}`)},
		"calls counted from one": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
			with12("tool_use", `{"toolUse":{"input":{},"name":"f","toolUseId":"a"}}`)},
		"parallel calls without an index": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":""}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"{\"x\":1"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"}"}},{"id":"b","function":{"name":"f","arguments":"{\"y\":"}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"function":{"arguments":"2}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"id":"c","function":{"name":"g","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
			with12("tool_use", `{"toolUse":{"input":{"x":1},"name":"f","toolUseId":"a"}}`, `{"toolUse":{"input":{"y":2},"name":"f","toolUseId":"b"}}`, `{"toolUse":{"input":{},"name":"g","toolUseId":"c"}}`)},
		"an id in every piece": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{"}},{"id":"b","function":{"name":"g","arguments":"{"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"id":"a","function":{"arguments":"\"x\":1}"}},{"id":"b","function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
			with12("tool_use", `{"toolUse":{"input":{"x":1},"name":"f","toolUseId":"a"}}`, `{"toolUse":{"input":{},"name":"g","toolUseId":"b"}}`)},
		"one index for all calls": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{\"x\":1}"}}]}}]}`, `{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"b","function":{"name":"g","arguments":"{"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
			with12("tool_use", `{"toolUse":{"input":{"x":1},"name":"f","toolUseId":"a"}}`, `{"toolUse":{"input":{},"name":"g","toolUseId":"b"}}`)},
		"another id in every piece": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a2","function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
			with12("tool_use", `{"toolUse":{"input":{},"name":"f","toolUseId":"a2"}}`)},
		"several choices": {OpenAI, sse(`{"choices":[{"index":0,"delta":{"content":"f"}}]}`, `{"choices":[{"index":1,"delta":{"content":"s"}}]}`, `{"choices":[{"index":1,"delta":{"content":"econd"}},{"index":0,"delta":{"content":"irst"}}]}`,
			`{"choices":[{"index":1,"delta":{},"finish_reason":"length"}]}`, `{"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}`, `{"choices":[],"usage":{"prompt_tokens":1,"completion_tokens":2}}`, `[DONE]`),
			with12("end_turn", `{"text":"first"}`)},
		"calls out of order": {OpenAI, sse(`{"choices":[{"delta":{"tool_calls":[{"index":1,"id":"b","function":{"name":"g","arguments":"{}"}}]}}]}`,
			`{"choices":[{"delta":{"tool_calls":[{"index":0,"id":"a","function":{"name":"f","arguments":"{}"}}]},"finish_reason":"tool_calls"}],"usage":{"prompt_tokens":1,"completion_tokens":2}}`),
			with12("tool_use", `{"toolUse":{"input":{},"name":"f","toolUseId":"a"}}`, `{"toolUse":{"input":{},"name":"g","toolUseId":"b"}}`)},
		"whole calls without an index": {OpenAI, chat(`{"tool_calls":[{"id":"a","function":{"name":"f","arguments":"{}"}},{"id":"a","function":{"name":"g","arguments":"{}"}}]}`, `"tool_calls"`),
			with12("tool_use", `{"toolUse":{"input":{},"name":"f","toolUseId":"a"}}`, `{"toolUse":{"input":{},"name":"g","toolUseId":"a"}}`)},
		"cached tokens": {OpenAI, `{"choices":[{"message":{"content":"x"},"finish_reason":"stop"}],"usage":{"prompt_tokens":10,"completion_tokens":2,"prompt_tokens_details":{"cached_tokens":8}}}`,
			`{"output":{"message":{"content":[{"text":"x"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"cacheReadInputTokens":8,"inputTokens":2,"outputTokens":2,"totalTokens":12}}`},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadAnswer(c.dialect, []byte(c.body))
			if d := cmp.Diff(c.want, string(got)); err != nil || d != "" {
				t.Errorf("%v (-want +got)\n%s", err, d)
			}
		})
	}
}

// TestUnreadableAnswers: an error says what is wrong, and a cut is told from
// damage and from what the service says itself.
func TestUnreadableAnswers(t *testing.T) {
	frame := converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "chunk", Payload: json.RawMessage(`{"bytes":"e30="}`)})
	flipped := append([]byte{}, frame...)
	flipped[len(flipped)-6] ^= 1 // case 47
	notJSON := converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "chunk", Payload: json.RawMessage(`{"bytes":"/w=="}`)})
	for name, c := range map[string]struct {
		dialect Dialect
		body    string
		is      error
		want    string
	}{
		"empty":              {Anthropic, "", ErrCut, ""},
		"blank":              {OpenAI, " \n", ErrCut, ""},
		"no end":             {Anthropic, "data: {\"type\":\"message_start\"}\n\n", ErrCut, ""},
		"no finish reason":   {OpenAI, "data: {\"choices\":[{\"delta\":{\"content\":\"x\"}}]}\n\ndata: [DONE]\n\n", ErrCut, ""},
		"half a frame":       {Anthropic, string(frame[:20]), ErrCut, ""},
		"half a frame, too":  {Converse, string(frame[:20]), ErrCut, ""},
		"flipped bit":        {Anthropic, string(flipped), nil, "checksum"},
		"flipped bit, too":   {Converse, string(flipped), nil, "checksum"},
		"chunk of no JSON":   {Anthropic, string(notJSON), nil, "chunk 1"},
		"event of no JSON":   {OpenAI, "data: {\n\n", nil, "event 1"},
		"another object":     {Anthropic, `{"inputTokens":1}`, nil, "expected an Anthropic message"},
		"web page":           {Converse, "<html>", nil, ""},
		"OpenAI's error":     {OpenAI, "data: {\"error\":{\"type\":\"overloaded\",\"message\":\"later\"}}\n\n", nil, "later"},
		"Anthropic's error":  {Anthropic, "data: {\"type\":\"error\",\"error\":{\"type\":\"overloaded_error\",\"message\":\"later\"}}\n\n", nil, "later"},
		"Converse cut short": {Converse, string(converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "messageStart", Payload: json.RawMessage(`{"role":"assistant"}`)})), converse.ErrTruncated, ""},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := ReadAnswer(c.dialect, []byte(c.body))
			if err == nil || c.is != nil && !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%s, %v, expected %v %q", got, err, c.is, c.want)
			}
		})
	}
}

// TestEncodeKeepsAll: every kind of block and member survives being framed
// again, in the dialect that knows it.
func TestEncodeKeepsAll(t *testing.T) {
	asked := askers(t)
	for name, turn := range map[string]string{
		"server tool": turnOf("end_turn", `{"toolUse":{"input":{"q":1},"name":"web","toolUseId":"s","type":"server_tool_use"}}`, `{"toolResult":{"content":[{"text":"a"},{"json":{"n":1.0}}],"status":"success","toolUseId":"s"}}`, `{"text":"x"}`),
		"citations":   turnOf("end_turn", `{"citationsContent":{"citations":[{"title":"t"},{"title":"u"}],"content":[{"text":"as said"}]}}`),
		"image":       turnOf("end_turn", `{"image":{"format":"png","source":{"bytes":"AAEC"}}}`),
		"signature":   turnOf("end_turn", `{"reasoningContent":{"reasoningText":{"signature":"s","text":""}}}`, `{"text":"x"}`),
		"blank text":  turnOf("end_turn", `{"text":""}`, `{"text":" "}`),
		"malformed":   `{"investigator":{"malformedInputs":{"0":"{\"x\":"}},` + turnOf("tool_use", `{"toolUse":{"input":{},"name":"a","toolUseId":"u"}}`)[1:],
		"members":     `{"additionalModelResponseFields":{"a":1},"output":{"message":{"content":[{"text":"x"}],"role":"assistant"}},"performanceConfig":{"latency":"standard"},"serviceTier":{"type":"flex"},"stopReason":"stop_sequence","trace":{"guardrail":{}},"usage":{"cacheDetails":[{"inputTokens":1,"ttl":"1h"}],"cacheWriteInputTokens":1,"inputTokens":3,"outputTokens":4,"totalTokens":8}}`,
	} {
		for _, dialect := range []string{"converse", "converse stream"} {
			e, err := Encode(asked[dialect], json.RawMessage(turn))
			if err != nil {
				t.Fatal(err)
			}
			if name == "malformed" && dialect == "converse" {
				continue // Converse has no place for an input that is no JSON
			}
			got, err := ReadAnswer(Converse, e.Body)
			if d := cmp.Diff(turn, string(got)); err != nil || d != "" {
				t.Errorf("%s, %s: %v (-want +got)\n%s", name, dialect, err, d)
			}
		}
	}
	malformed := `{"investigator":{"malformedInputs":{"0":"{\"x\":"}},` + turnOf("tool_use", `{"toolUse":{"input":{},"name":"a","toolUseId":"u"}}`)[1:]
	server := turnOf("end_turn", `{"anthropic":{"id":"s","input":{"q":1},"name":"web","type":"server_tool_use"}}`, `{"text":"x"}`)
	for name, turn := range map[string]string{"openai": malformed, "openai stream": malformed, "anthropic stream": malformed, "messages stream": server, "anthropic": server} {
		e, err := Encode(asked[name], json.RawMessage(turn))
		if err != nil {
			t.Fatal(err)
		}
		got, err := ReadAnswer(asked[name].Dialect, e.Body)
		if d := cmp.Diff(turn, string(got)); err != nil || d != "" {
			t.Errorf("%s: %v (-want +got)\n%s", name, err, d)
		}
	}
	if _, err := Encode(asked["converse"], json.RawMessage(`{}`)); err == nil {
		t.Error("what is no turn was encoded")
	}
}

// TestEncodeFailure: every dialect's client finds the message where it looks.
func TestEncodeFailure(t *testing.T) {
	for name, want := range map[string]string{
		"converse":        `{"message":"slow"}`,
		"anthropic":       `{"message":"slow"}`,
		"messages stream": `{"error":{"message":"slow","type":"ThrottlingException"},"type":"error"}`,
		"openai":          `{"error":{"code":"ThrottlingException","message":"slow","type":"ThrottlingException"}}`,
	} {
		if got := EncodeFailure(askers(t)[name], "ThrottlingException", "slow"); string(got.Body) != want || got.ContentType != "application/json" {
			t.Errorf("%s: %s %s", name, got.ContentType, got.Body)
		}
	}
}

// FuzzEncodeReadsBack: a turn that was read once is the same after it was
// written and read again; and streamed it is the same as whole, if its input is
// in the one spelling that whole answers are read in. A null is no input.
func FuzzEncodeReadsBack(f *testing.F) {
	f.Add("hello\n", `{"a":1.0}`, "u1", "a", "tool_use")
	f.Add("", `{"x":`, "", "", "end_turn")
	f.Add("x", `[1]`, "u", "a", "tool_use")
	f.Add("\"\\é🙂\x00", `[1]`, "x y", "näme", "shiny_stop")
	asked := askers(f)
	f.Fuzz(func(t *testing.T, text, input, id, name, stop string) {
		canonical := turnOf("end_turn", encodeText(text), `{"reasoningContent":{"reasoningText":{"signature":"s","text":`+string(encode(text))+`}}}`)
		read := map[string]string{}
		for kind, a := range asked {
			wire := Asked{Route: a.Route, Dialect: a.Dialect, Request: a.Request, Stream: a.Stream}
			turn := json.RawMessage(canonical)
			if made := callTurn(text, input, id, name, stop); made != nil && stop != "" {
				turn = made
			}
			first, err := Encode(wire, turn)
			if err != nil {
				t.Fatal(err)
			}
			once, err := ReadAnswer(a.Dialect, first.Body)
			if err != nil {
				t.Fatalf("%s: %v\n%s", kind, err, first.Body)
			}
			read[kind] = string(once)
			second, err := Encode(wire, once)
			if err != nil {
				t.Fatal(err)
			}
			twice, err := ReadAnswer(a.Dialect, second.Body)
			if err != nil || string(once) != string(twice) {
				t.Fatalf("%s: %v (-once +twice)\n%s", kind, err, cmp.Diff(string(once), string(twice)))
			}
		}
		for _, dialect := range []string{"converse", "anthropic", "openai"} {
			if read[dialect] != read[dialect+" stream"] && ledger.IsCanon([]byte(input)) && input != "null" {
				t.Errorf("%s (-whole +stream)\n%s", dialect, cmp.Diff(read[dialect], read[dialect+" stream"]))
			}
		}
	})
}

func encodeText(text string) string { return string(encode(object{"text": text})) }

// callTurn is a turn that calls a tool, as the readers of Anthropic and OpenAI
// make one.
func callTurn(text, input, id, name, stop string) json.RawMessage {
	a := answer{stop: stop}
	a.text(text)
	a.call(id, name, input)
	body, err := a.response()
	if err != nil {
		return nil
	}
	return body
}

// TestProjectedRun takes a run of parallel calls with a result missing, and
// retries that fail before an answer comes.
func TestProjectedRun(t *testing.T) {
	first := read(t, "/model/m/converse", `{"messages":[`+question+`]}`)
	turn := turnOf("tool_use", `{"toolUse":{"input":{},"name":"a","toolUseId":"x"}}`, `{"toolUse":{"input":{"n":1},"name":"b","toolUseId":"y"}}`, `{"toolUse":{"input":{},"name":"web","toolUseId":"s","type":"server_tool_use"}}`)
	failure := edge.Return{Failed: true, Body: edge.FailureBody(edge.Failure{Name: "ThrottlingException", Message: "slow"})}
	second := read(t, "/model/m/converse", `{"messages":[`+question+`,{"role":"assistant","content":[{"text":"x"}]},{"role":"user","content":[{"toolResult":{"toolUseId":"z","content":[]}},{"toolResult":{"toolUseId":"y","status":"error","content":[{"text":"no such file"}]}}]}]}`)

	var p Projector
	var got []string
	note := func(events ...ledger.Event) {
		for _, e := range events {
			got = append(got, fmt.Sprintf("E%d %s", e.Seq, e.Type))
		}
	}
	if _, ends := p.Finished(); ends {
		t.Error("a run without an answer finishes")
	}
	p, taken := p.Answer(first.Request, failure)
	note(taken.Events...)
	p, taken = p.Answer(first.Request, edge.Return{Body: json.RawMessage(turn)})
	note(taken.Events...)
	before := p
	p, answered := p.Results(second)
	for _, a := range answered {
		note(a.Events...)
		if !a.Return.Failed || string(a.Return.Body) != `"no such file"` || a.Call.Turn != 2 || a.Call.Pos != 1 {
			t.Errorf("%+v", a)
		}
		patched := a.WithReturn(edge.Return{Body: json.RawMessage(`"found"`), Origin: edge.Patched})
		if string(member(patched.Events[0].Data, "result")) != `"found"` || patched.Call.Seq != a.Call.Seq {
			t.Errorf("patched %s", patched.Events[0].Data)
		}
	}
	if p.Waits() || !before.Waits() || before.Seq() == p.Seq() {
		t.Error("taking results must end the waiting, in the next value alone")
	}
	p, taken = p.Answer(second.Request, edge.Return{Body: json.RawMessage(`{"outputs":[]}`)})
	note(taken.Events...)
	finished, _ := p.Finished()
	note(finished)
	want := []string{"E2 model.failed", "E3 model.responded", "E4 tool.called", "E5 tool.called", "E6 tool.returned", "E7 model.responded", "E8 run.finished"}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("events (-want +got)\n%s", d)
	}
	if p.Turn() != 3 || p.Seq() != 7 {
		t.Errorf("turn %d, seq %d", p.Turn(), p.Seq())
	}
}

// TestResultsOfManyMessages: OpenAI sends one message a result, and only what
// follows the model's last message is new.
func TestResultsOfManyMessages(t *testing.T) {
	a := read(t, "/openai/v1/chat/completions", `{"model":"m","messages":[{"role":"user","content":"q"},{"role":"tool","tool_call_id":"old","content":"x"},{"role":"assistant","content":null},
		{"role":"tool","tool_call_id":"a","content":"1"},{"role":"tool","tool_call_id":"b","content":[{"type":"text","text":"2"}]},{"role":"user","content":"go on"}]}`)
	var got []string
	for _, r := range a.Results() {
		got = append(got, fmt.Sprintf("%s %s %d/%d", r.ID, r.Body, r.Message, r.Block))
	}
	if d := cmp.Diff([]string{`a "1" 3/0`, `b "2" 4/0`}, got); d != "" {
		t.Errorf("(-want +got)\n%s", d)
	}
	edited := a.SetResult(a.Results()[1], json.RawMessage(`{"b":9007199254740993}`), false)
	if got := string(edited.Request.Messages.Messages()[4]); got != `{"content":[{"text":"{\"b\":9007199254740993}","type":"text"}],"role":"tool","tool_call_id":"b"}` {
		t.Error(got)
	}
}

// TestPrompt: what leads a conversation is its prompt where a message can be one;
// what says so later is a turn like any other.
func TestPrompt(t *testing.T) {
	const asks, system, developer = `{"content":"q","role":"user"}`, `{"content":"s","role":"system"}`, `{"content":"d","role":"developer"}`
	for messages, want := range map[string]int{
		"": 0, asks: 0, system: 1, system + "," + developer + "," + asks: 2, asks + "," + system: 0, `7,` + system: 0,
	} {
		a, err := ReadRequest(Route{Op: OpChatCompletions}, []byte(`{"messages":[`+messages+`]}`))
		if err != nil {
			t.Fatal(err)
		}
		prompt, rest := a.Prompt()
		if len(prompt) != want || len(prompt)+len(rest) != a.Request.Messages.Len() {
			t.Errorf("%s: %d of prompt, %d others", messages, len(prompt), len(rest))
		}
	}
}
