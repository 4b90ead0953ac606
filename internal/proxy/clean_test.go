package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
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

// allOf is everything a cassette of one call says, without escapes.
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
	return string(withoutEscapes([]byte(text)))
}

// FuzzWithoutEscapes: JSON stays JSON that says the same.
func FuzzWithoutEscapes(f *testing.F) {
	f.Add(`{"a\u0041":"\u0022\\u0041\u005c\u00e9\u0000"}`)
	f.Add(`"\u00`)
	f.Add(`["a\/b","\\/"]`)
	f.Fuzz(func(t *testing.T, text string) {
		got := withoutEscapes([]byte(text))
		var before, after any
		if json.Unmarshal([]byte(text), &before) != nil {
			return
		}
		if err := json.Unmarshal(got, &after); err != nil || fmt.Sprint(before) != fmt.Sprint(after) {
			t.Errorf("%q became %q, %v", text, got, err)
		}
	})
}
