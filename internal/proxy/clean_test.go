package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// frameOf is a frame of ConverseStream.
func frameOf(kind, payload string) []byte {
	return converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: kind, Payload: json.RawMessage(payload)})
}

// said is a whole ConverseStream answer, one frame a text.
func said(texts ...string) []byte {
	out := frameOf("messageStart", `{"role":"assistant"}`)
	for _, t := range texts {
		out = append(out, frameOf("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":`+quoted(t)+`}}`)...)
	}
	out = append(out, frameOf("contentBlockStop", `{"contentBlockIndex":0}`)...)
	out = append(out, frameOf("messageStop", `{"stopReason":"end_turn"}`)...)
	return append(out, frameOf("metadata", `{"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2},"metrics":{"latencyMs":1}}`)...)
}

// framed is an answer in frames whose length nobody knows.
func framed(body io.Reader) *http.Response {
	return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}, Body: io.NopCloser(body), ContentLength: -1}
}

type failing struct{}

func (failing) Read([]byte) (int, error) { return 0, io.ErrUnexpectedEOF }

func cut(body []byte) *http.Response { return framed(io.MultiReader(bytes.NewReader(body), failing{})) }

// TestNoSecretIsKept: wherever the world puts a secret, however it is escaped or
// cut, neither the record nor a note holds it, and the run is recorded.
func TestNoSecretIsKept(t *testing.T) {
	const key, escaped = "AKIAIOSFODNN7EXAMPLE", `\u0041KIAIOSFODNN7EXAMPLE`
	const body = `{"messages":[{"role":"user","content":[{"text":"TEXT"}]}]}`
	whole := func(text string) *http.Response {
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(strings.Replace(hello, "hello", text, 1))})
	}
	failed := func(name, kind, text string) *http.Response {
		return response(400, name, foreign.Encoded{ContentType: kind, Body: []byte(text)})
	}
	damaged := said("x", "the key "+key+" x")
	damaged[len(damaged)-1] ^= 1
	inside := said("x", "the key "+key+strings.Repeat(" x", 20))
	inside = inside[:bytes.Index(inside, []byte(key))+len(key)+4]
	split := said("the key AKIAIOSF", "ODNN7EXAMPLE it is")
	chunk, err := json.Marshal(map[string][]byte{"bytes": []byte(`{"delta":{"text":"the key AKIAIOSF"}}`)})
	if err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		text, tag, client string
		answer            *http.Response
	}{
		"request":                    {text: key, answer: whole("x")},
		"request, escaped":           {text: escaped, answer: whole("x")},
		"tag":                        {tag: key, answer: whole("x")},
		"client":                     {client: key + " x", answer: whole("x")},
		"answer":                     {answer: whole(key)},
		"answer, escaped":            {answer: whole(escaped)},
		"failure":                    {answer: failed("E", "application/json", `{"message":"bad `+key+`"}`)},
		"failure, escaped":           {answer: failed("E", "application/json", `{"message":"bad `+escaped+`"}`)},
		"failure, escaped slash":     {answer: failed("E", "application/json", `{"message":"bad aws_secret_access_key=ODNN7EXAMPLE\/`+strings.Repeat("a", 27)+`"}`)},
		"answer with empty headers":  {answer: whole(`x-api-key:\ntraceparent: ` + key)},
		"request with empty headers": {text: `X-Amz-Credential=\u001b[0m ` + key, answer: whole("x")},
		"failure's name":             {answer: failed(key, "application/json", `{}`)},
		"content type":               {answer: failed("E", "text/html; x="+key, `{}`)},
		"page":                       {answer: failed("E", "text/html", `<p>`+key)},
		"stream":                     {answer: framed(bytes.NewReader(said("a", "b "+key+" c")))},
		"stream in pieces":           {answer: framed(bytes.NewReader(split))},
		"stream in pieces, cut":      {answer: cut(split[:bytes.Index(split, []byte("it is"))+7])},
		"stream in chunks, cut":      {answer: cut(append(frameOf("chunk", string(chunk)), frameOf("contentBlockDelta", `{"delta":{"text":"ODNN7EXAMPLE"}}`)...))},
		"events, cut":                {answer: cut([]byte("data: {\"text\":\"" + escaped + "\"}\n\ndata: {\"te"))},
		"stream cut inside a frame":  {answer: cut(inside)},
		"stream with wrong checksum": {answer: framed(bytes.NewReader(damaged))},
		"stream with something else": {answer: framed(bytes.NewReader(append(said("x"), "\x00\x00\x00\x01 and then "+key+" "...)))},
	} {
		t.Run(name, func(t *testing.T) {
			var mu sync.Mutex
			var notes []string
			dir := t.TempDir()
			p := start(t, Options{
				Record: &RecordOptions{Spool: dir, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
					return recorder.Create(filepath.Join(dir, fmt.Sprint(n, ".yaml")), h)
				}},
				Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) { return c.answer, nil }),
				Notify: func(n Note) {
					mu.Lock()
					defer mu.Unlock()
					notes = append(notes, n.Text)
				},
			})
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/model/m/converse-stream", strings.NewReader(strings.Replace(body, "TEXT", c.text, 1)))
			if err != nil {
				t.Fatal(err)
			}
			r.Header.Set(RunHeader, c.tag)
			r.Header.Set("User-Agent", c.client)
			if resp, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, resp.Body) // some break off
				resp.Body.Close()
			}
			got := p.end()
			if len(got.Recorded) != 1 || len(notes) > 0 {
				t.Fatalf("recorded %q, notes %q", got.Recorded, notes)
			}
			if kept := allOf(t, got.Recorded[0]); strings.Contains(kept, "AKIAIOSF") || strings.Contains(kept, "ODNN7EXAMPLE") {
				t.Errorf("kept: %s", kept)
			}
		})
	}
}

// allOf is everything a cassette of one call says.
func allOf(t *testing.T, path string) string {
	t.Helper()
	c := open(t, path)
	x, err := c.Interaction(0)
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	text := fmt.Sprintf("%+v %s %s %q", c.Header(), x.Request, x.Response, x.Header)
	for _, a := range x.Attempts {
		text += fmt.Sprintf(" %q %s %q", a.Header, a.Body, a.Err)
	}
	for _, e := range events {
		text += string(e.Data)
	}
	return text
}

// TestNoSecretOfAResultIsKept: a tool may print JSON in which escapes hide a
// secret. It is removed from the request and from the event that is read from it,
// and the run goes on.
func TestNoSecretOfAResultIsKept(t *testing.T) {
	const calls = `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"u1","name":"f","input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
	for name, printed := range map[string]string{
		"a sign":   `{"url":"https://b.s3.amazonaws.com/k?X-Amz-Signature\u003dabcdef0123456789"}`,
		"slashes":  `{"SecretAccessKey":"wJalrXUtnFEMI\/K7MDENG\/bPxRfiCYEXAMPLEKEY"}`,
		"a letter": `{"id":"\u0041KIAIOSFODNN7EXAMPLE"}`,
		"deeper":   `{"body":"{\"id\":\"\\u0041KIAIOSFODNN7EXAMPLE\"}"}`,
	} {
		t.Run(name, func(t *testing.T) {
			p := recordTo(t, upstreamFunc(func(_ *http.Request, body []byte) (*http.Response, error) {
				answer := hello
				if !bytes.Contains(body, []byte("toolResult")) {
					answer = calls
				}
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(answer)}), nil
			}), nil)
			messages := `{"role":"user","content":[{"text":"hi"}]}`
			for _, more := range []string{
				`,{"role":"assistant","content":[{"toolUse":{"toolUseId":"u1","name":"f","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"u1","content":[{"text":` + quoted(printed) + `}]}}]}`,
				`,{"role":"assistant","content":[{"text":"hello"}]},{"role":"user","content":[{"text":"and?"}]}`,
				"",
			} {
				post(t, p.url, "/model/m/converse", `{"messages":[`+messages+`]}`)
				messages += more
			}
			got := p.end().Recorded
			if len(got) != 1 {
				t.Fatalf("recorded %q, expected one run", got)
			}
			if kinds := strings.Join(typesOf(t, open(t, got[0])), " "); kinds != "run.started model.responded tool.called tool.returned model.responded model.responded run.finished" {
				t.Errorf("events: %s", kinds)
			}
			text, err := os.ReadFile(got[0])
			if err != nil {
				t.Fatal(err)
			}
			for _, part := range []string{"abcdef0123456789", "K7MDENG", "KIAIOSF"} {
				if bytes.Contains(text, []byte(part)) {
					t.Errorf("kept %s: %s", part, text)
				}
			}
		})
	}
}

// TestNoSecretBesideTheAnswerIsKept: a stream tells more than the answer that is
// read from it, in pieces too.
func TestNoSecretBesideTheAnswerIsKept(t *testing.T) {
	openAI := func(deltas ...string) (out string) {
		for _, d := range deltas {
			out += `data: {"id":"c","choices":[` + d + `]}` + "\n\n"
		}
		return out + `data: {"id":"c","choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n"
	}
	const said = `{"index":0,"delta":{"content":"ok"},"finish_reason":null}`
	anthropic := func(kind, one, two string) (out string) {
		for _, e := range []string{
			`{"type":"message_start","message":{"usage":{"input_tokens":1,"output_tokens":1}}}`,
			`{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"text_delta","text":"ok"}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"` + kind + `","said":` + quoted(one) + `}}`,
			`{"type":"content_block_delta","index":0,"delta":{"type":"` + kind + `","said":` + quoted(two) + `}}`,
			`{"type":"content_block_stop","index":0}`, `{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`,
		} {
			out += "data: " + e + "\n\n"
		}
		return out
	}
	const one, two = "the key AKIAIOSF", "ODNN7EXAMPLE it is"
	for name, c := range map[string]struct {
		path, stream string
		kept         bool // to the byte, as there is no secret
	}{
		"thoughts": {"/openai/v1/chat/completions", openAI(`{"index":0,"delta":{"reasoning_content":"`+one+`"}}`, `{"index":0,"delta":{"reasoning_content":"`+two+`"}}`, said), false},
		"another choice": {"/openai/v1/chat/completions", openAI(`{"index":1,"delta":{"content":"`+one+`"}},{"index":0,"delta":{"content":"x"}}`,
			`{"index":0,"delta":{"content":"y"}},{"index":1,"delta":{"content":"`+two+`"}}`, said), false},
		"an unknown delta": {"/anthropic/v1/messages", anthropic("some_delta", one, two), false},
		"an unknown delta of Converse": {"/model/m/converse-stream", string(slices.Concat(
			frameOf("messageStart", `{"role":"assistant"}`),
			frameOf("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"ok"}}`),
			frameOf("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"some":{"said":"`+one+`"}}}`),
			frameOf("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"some":{"said":"`+two+`"}}}`),
			frameOf("contentBlockStop", `{"contentBlockIndex":0}`),
			frameOf("messageStop", `{"stopReason":"end_turn"}`),
			frameOf("metadata", `{"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`))), false},
		"a whole one":           {"/openai/v1/chat/completions", openAI(`{"index":0,"delta":{"reasoning":"`+one+two+`"}}`, said), false},
		"thoughts of no secret": {"/openai/v1/chat/completions", openAI(`{"index":0,"delta":{"reasoning":"the key"}}`, `{"index":0,"delta":{"reasoning":" it is"}}`, said), true},
	} {
		t.Run(name, func(t *testing.T) {
			p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
				return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"text/event-stream"}}, Body: io.NopCloser(strings.NewReader(c.stream)), ContentLength: -1}, nil
			}), nil)
			if _, _, text := post(t, p.url, c.path, `{"model":"m","stream":true,"messages":[{"role":"user","content":"hi"}]}`); text != c.stream {
				t.Errorf("the client got %s", text)
			}
			got := p.end().Recorded[0]
			if kept := allOf(t, got); strings.Contains(kept, "AKIAIOSF") || strings.Contains(kept, "ODNN7EXAMPLE") {
				t.Errorf("kept: %s", kept)
			}
			x, err := open(t, got).Interaction(0)
			if err != nil || (string(x.Response) == c.stream) != c.kept || !strings.Contains(string(x.Response), "ok") {
				t.Errorf("recorded %s, %v", x.Response, err)
			}
		})
	}
}
