package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/engine"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

func typesOf(t *testing.T, c *recorder.Cassette) []string {
	t.Helper()
	events, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, e := range events {
		out = append(out, e.Type)
	}
	return out
}

// TestRecordThenReplay is the whole way with the real AWS SDK: record, stop the
// upstream, replay, and verify what was written.
func TestRecordThenReplay(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		c := open(t, path)
		want := []string{ledger.RunStarted, ledger.ModelResponded, ledger.ToolCalled, ledger.ToolCalled, ledger.ToolReturned, ledger.ToolReturned,
			ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned, ledger.ModelResponded, ledger.RunFinished}
		if d := cmp.Diff(want, typesOf(t, c)); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		r, err := engine.Replay(t.Context(), c, engine.ReplayOptions{})
		if err != nil || !r.Identical || r.ModelTurns != 3 {
			t.Errorf("verify: %+v, %v", r, err)
		}
		p := replayOf(t, false, path)
		text, err := agent{client: sdk(t, p.url), stream: stream, temp: 3}.run(t.Context())
		if err != nil || !strings.Contains(text, "given 3 results") {
			t.Errorf("replayed agent said %q, %v", text, err)
		}
		if got := p.end(); got.Served != 3 || len(got.Diverged)+len(got.LeftOver) > 0 {
			t.Errorf("replay: %+v", got)
		}
	})
}

// TestChangedToolResultIsNamed: the event, the pointer and both values stand in
// the error that the SDK shows, which asks only once.
func TestChangedToolResultIsNamed(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		p := replayOf(t, false, path)
		_, err := agent{client: sdk(t, p.url), stream: stream, temp: 9}.run(t.Context())
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != "ConflictException" {
			t.Fatalf("error %v, expected a ConflictException", err)
		}
		for _, want := range []string{"event 5 (tool.returned get_weather)", "/messages/2/content/0/toolResult/content/0/json/temp", "recorded 3 / now 9"} {
			if !strings.Contains(api.ErrorMessage(), want) {
				t.Errorf("message %q lacks %q", api.ErrorMessage(), want)
			}
		}
		got := p.end()
		if len(got.Diverged) != 1 || len(got.LeftOver) != 2 || got.Calls != 2 {
			t.Errorf("%d calls, diverged %v, left over %v; expected 2 calls, 1 and 2", got.Calls, got.Diverged, got.LeftOver)
		}
	})
}

// TestEveryChangedMemberIsCaught changes one thing at a time.
func TestEveryChangedMemberIsCaught(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}],"system":[{"text":"Be brief."}],"inferenceConfig":{"temperature":0},"toolConfig":{"tools":[{"toolSpec":{"name":"a","description":"b","inputSchema":{"json":{"type":"object"}}}}]}}`
	s := bedrocktest.New(t, bedrocktest.Options{Script: func(bedrocktest.Request) bedrocktest.Turn { return bedrocktest.Say(bedrocktest.Text("yes")) }})
	p := recordTo(t, upstream(t, s.URL), nil)
	if code, _, text := post(t, p.url, "/model/m.one/converse", body); code != 200 {
		t.Fatal(code, text)
	}
	path := p.end().Recorded[0]
	for name, c := range map[string]struct{ path, old, new, want string }{
		"prompt":      {"m.one/converse", "Be brief.", "Be long.", "the prompt changed: /system/0/text"},
		"question":    {"m.one/converse", `"hi"`, `"ho"`, "the conversation changed: /messages/0/content/0/text"},
		"description": {"m.one/converse", `"b"`, `"c"`, "a tool definition changed: /toolConfig/tools/0/toolSpec/description"},
		"temperature": {"m.one/converse", `"temperature":0`, `"temperature":0.5`, "an inference setting changed: /inferenceConfig/temperature"},
		"model":       {"m.two/converse", "hi", "hi", `another model id: /modelId: recorded "m.one" / now "m.two"`},
		"operation":   {"m.one/converse-stream", "hi", "hi", "another operation: recorded Converse / now ConverseStream"},
		"a new field": {"m.one/converse", `"inferenceConfig"`, `"performanceConfig":{"latency":"optimized"},"inferenceConfig"`, "/performanceConfig"},
	} {
		t.Run(name, func(t *testing.T) {
			r := replayOf(t, false, path)
			code, kind, text := post(t, r.url, "/model/"+c.path, strings.ReplaceAll(body, c.old, c.new))
			if code != http.StatusConflict || kind != "ConflictException" || !strings.Contains(text, strings.ReplaceAll(c.want, `"`, `\"`)) {
				t.Errorf("%d %s %s, expected 409 with %q", code, kind, text, c.want)
			}
		})
	}
}

// TestManyDivergences: of an agent that went astray for days the first requests are
// told and the others counted.
func TestManyDivergences(t *testing.T) {
	r := replayOf(t, false, recorded(t, false, bedrocktest.ToolLoop()))
	const requests = maxDiverged + 7
	for i := range requests {
		if code, _, _ := post(t, r.url, "/model/m/converse", fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":"hi %d"}]}]}`, i)); code != 409 {
			t.Errorf("request %d: %d", i+1, code)
		}
	}
	got := r.end().Diverged
	if n := len(got); n != maxDiverged+1 || got[n-1].Cause != "7 more requests diverged" {
		t.Errorf("%d divergences, the last: %s", n, got[n-1].Cause)
	}
}

// TestTolerated: what honest clients change is served, counted by name, and
// refused by --strict.
func TestTolerated(t *testing.T) {
	const question = `{"role":"user","content":[{"text":"hi"}]}`
	const before = `{"messages":[` + question + `,{"role":"assistant","content":[{"text":""},{"toolUse":{"toolUseId":"u","name":"a","input":{"i":9007199254740993}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"text":"x"}]}}]}],"toolConfig":{"tools":[{"toolSpec":{"name":"a","inputSchema":{"json":{"type":"object"}}}}]}}`
	now := strings.NewReplacer(`9007199254740993`, `9007199254740992`, `{"text":""},`, ``, `"content":[{"text":"x"}]`, `"status":"success","content":[{"text":"x"}]`,
		`"toolConfig":{`, `"inferenceConfig":{},"additionalModelResponseFieldPaths":["/delta"],"toolConfig":{"toolChoice":{"auto":{}},`, question, `{"role":"user","content":[{"text":"hi"},{"cachePoint":{"type":"default"}}]}`).Replace(before)
	up := upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
	})
	p := recordTo(t, up, nil)
	post(t, p.url, "/model/m/converse", before)
	path := p.end().Recorded[0]
	r := replayOf(t, false, path)
	if code, _, text := post(t, r.url, "/model/m/converse", now); code != 200 {
		t.Errorf("%d %s", code, text)
	}
	want := map[foreign.Change]int{foreign.RoundedNumbers: 1, foreign.BlankText: 1, foreign.SuccessStatus: 1, foreign.EmptyMembers: 1, foreign.ResponsePaths: 1, foreign.AutoToolChoice: 1, foreign.CachePoints: 1}
	if d := cmp.Diff(want, r.end().Tolerated); d != "" {
		t.Errorf("tolerated (-want +got):\n%s", d)
	}
	r = replayOf(t, true, path)
	if code, _, text := post(t, r.url, "/model/m/converse", now); code != http.StatusConflict {
		t.Errorf("strict: %d %s", code, text)
	}
}

const hello = `{"output":{"message":{"role":"assistant","content":[{"text":"hello"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`

// upstreamFunc is an upstream by hand.
type upstreamFunc func(*http.Request, []byte) (*http.Response, error)

func (f upstreamFunc) Do(r *http.Request, body []byte) (*http.Response, error) { return f(r, body) }
func (upstreamFunc) Place(path string) string                                  { return "https://example.com" + path }

// TestFailuresAreReplayed: an error that stayed is served as it was.
func TestFailuresAreReplayed(t *testing.T) {
	for _, fault := range []string{"throttle", "access-denied", "html-502", "reset"} {
		t.Run(fault, func(t *testing.T) {
			if !slices.Contains(bedrocktest.FaultNames(), fault) {
				t.Fatalf("no fault %q among %v", fault, bedrocktest.FaultNames())
			}
			s := bedrocktest.New(t, bedrocktest.Options{Faults: []bedrocktest.Fault{{Name: fault}}})
			p := recordTo(t, upstream(t, s.URL), nil)
			const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
			code, kind, text := post(t, p.url, "/model/m/converse", body)
			r := replayOf(t, false, p.end().Recorded[0])
			code2, kind2, text2 := post(t, r.url, "/model/m/converse", body)
			if d := cmp.Diff([]any{code, kind, text}, []any{code2, kind2, text2}); d != "" || code == 200 {
				t.Errorf("status %d; replay (-recorded +now):\n%s", code, d)
			}
		})
	}
}

// TestClientGoesAway: a client that leaves in the middle of a stream is
// recorded as such, and what came until then is served again.
func TestClientGoesAway(t *testing.T) {
	frame := foreignFrame(t)
	up := upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		pr, pw := io.Pipe()
		go func() {
			_, _ = pw.Write(frame)
			<-r.Context().Done()
			pw.CloseWithError(r.Context().Err())
		}()
		return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {"application/vnd.amazon.eventstream"}}, Body: pr, ContentLength: -1}, nil
	})
	p := recordTo(t, up, nil)
	ctx, cancel := context.WithCancel(t.Context())
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	r, _ := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/model/m/converse-stream", strings.NewReader(body))
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, len(frame))); err != nil {
		t.Fatal("the first frame did not come at once:", err)
	}
	cancel()
	resp.Body.Close()
	c := open(t, p.end().Recorded[0])
	x, err := c.Interaction(0)
	if err != nil || x.Attempts[0].Err != clientGone || !bytes.Equal(x.Response, frame) {
		t.Fatalf("recorded %+v, %v", x, err)
	}
	q := replayOf(t, false, c.Name())
	resp, err = http.Post(q.url+"/model/m/converse-stream", "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	got, err := io.ReadAll(resp.Body)
	if err == nil || !bytes.Equal(got, frame) {
		t.Errorf("replay gave %d bytes and error %v, expected %d and a broken connection", len(got), err, len(frame))
	}
}

func foreignFrame(t *testing.T) []byte {
	t.Helper()
	a, err := foreign.ReadRequest(foreign.Route{Op: foreign.OpConverseStream, Model: "m"}, []byte(`{"messages":[]}`))
	if err != nil {
		t.Fatal(err)
	}
	e, err := foreign.Encode(a, []byte(`{"output":{"message":{"content":[{"text":"hello"}],"role":"assistant"}},"stopReason":"end_turn","usage":{}}`))
	if err != nil {
		t.Fatal(err)
	}
	return e.Body[:100]
}

// TestHTTP2: cleartext HTTP/2 with prior knowledge, as the AWS SDK for
// JavaScript speaks it, on the same port.
func TestHTTP2(t *testing.T) {
	p := recordTo(t, RuleUpstream{}, nil)
	protocols := new(http.Protocols)
	protocols.SetUnencryptedHTTP2(true)
	transport := &http.Transport{Protocols: protocols}
	defer transport.CloseIdleConnections()
	resp, err := (&http.Client{Transport: transport}).Post(p.url+"/model/m/converse-stream", "application/json", strings.NewReader(`{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.ProtoMajor != 2 || resp.StatusCode != 200 || len(body) == 0 {
		t.Errorf("%s %d, %d bytes, %v", resp.Proto, resp.StatusCode, len(body), err)
	}
}

// TestModelIDsInThePath is case 46: the upstream gets the client's own
// escaping, and all spellings of a model are one model on tape.
func TestModelIDsInThePath(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, r.URL.EscapedPath())
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
	}), nil)
	spellings := []string{
		"/model/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123/converse",
		"/model/arn:aws:bedrock:us-east-1:123456789012:application-inference-profile%2Fabc123/converse",
		"/model/arn%3Aaws%3Abedrock%3Aus-east-1%3A123456789012%3Aapplication-inference-profile%2Fabc123/converse",
	}
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	for _, s := range spellings {
		post(t, p.url, s, body)
	}
	if d := cmp.Diff(spellings, seen); d != "" {
		t.Errorf("upstream paths (-want +got):\n%s", d)
	}
	r := replayOf(t, false, p.end().Recorded...)
	for i := range spellings {
		if code, _, text := post(t, r.url, spellings[len(spellings)-1-i], body); code != 200 {
			t.Errorf("%s: %d %s", spellings[i], code, text)
		}
	}
}

// TestSecretsStayOffTheDisk is case 52.
func TestSecretsStayOffTheDisk(t *testing.T) {
	const leaky = `{"output":{"message":{"role":"assistant","content":[{"text":"url https://b.s3.amazonaws.com/k?X-Amz-Credential=AKIDEXAMPLE%2F20260101&X-Amz-Signature=00ff"}]}},"stopReason":"end_turn","usage":{}}`
	p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		if strings.Contains(r.Header.Get("Authorization"), "Signature=00") || r.Header.Get("X-Amz-Security-Token") != "" {
			t.Error("the client's signature or session was sent on")
		}
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(leaky)}), nil
	}), nil)
	_, _, text := post(t, p.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"see X-Amz-Signature=00ff and AKIAIOSFODNN7EXAMPLE"}]}],"system":[{"text":"Authorization: Bearer TOKENEXAMPLE0123456789abcdef"}]}`,
		"Authorization", "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20260101/us-east-1/bedrock/aws4_request, SignedHeaders=host, Signature=00", "X-Amz-Security-Token", "TOKENEXAMPLE", "X-Api-Key", "KEYEXAMPLE")
	if !strings.Contains(text, "Signature=00ff") {
		t.Error("the client did not get the answer as it came")
	}
	p.end()
	files, err := filepath.Glob(filepath.Join(p.dir, "*"))
	if err != nil || len(files) != 1 {
		t.Fatal(files, err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, secret := range []string{"TOKENEXAMPLE", "KEYEXAMPLE", "Signature=00", "AKIAIOSFODNN7", "AKIDEXAMPLE"} {
		if bytes.Contains(b, []byte(secret)) {
			t.Errorf("%q is on the disk: %s", secret, b)
		}
	}
}

// TestSigning: with credentials of its own the proxy signs for the upstream's
// host; the client's dummy keys go nowhere.
func TestSigning(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDPROXY")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	s := bedrocktest.New(t, bedrocktest.Options{RequireAuth: true})
	p := recordTo(t, upstream(t, s.URL), nil)
	if _, err := (agent{client: sdk(t, p.url), temp: 3}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Requests() {
		if auth := r.Header.Get("Authorization"); !strings.Contains(auth, "Credential=AKIDPROXY/") || !strings.Contains(auth, "/us-east-1/bedrock/") || r.Header.Get("X-Amz-Security-Token") != "" {
			t.Errorf("authorization %q, session token %q", auth, r.Header.Get("X-Amz-Security-Token"))
		}
	}
}

// TestUnwelcome: what a web page, another machine or an unknown operation sends
// is refused by name.
func TestUnwelcome(t *testing.T) {
	p := recordTo(t, RuleUpstream{}, nil)
	for name, c := range map[string]struct {
		path, body string
		header     []string
		code       int
		want       string
	}{
		"web page":  {"/model/m/converse", "{}", []string{"Origin", "https://example.com"}, 403, "web pages"},
		"operation": {"/model/m/invoke-with-bidirectional-stream", "{}", nil, 404, "UnknownOperation"},
		"responses": {"/openai/v1/responses", "{}", nil, 404, "UnknownOperation"},
		"no JSON":   {"/model/m/converse", "{", nil, 400, "read request body"},
		"no object": {"/model/m/converse", "[]", nil, 400, "expected an object"},
		"messages":  {"/model/m/converse", `{"messages":{}}`, nil, 400, "/messages: expected an array"},
	} {
		t.Run(name, func(t *testing.T) {
			code, kind, text := post(t, p.url, c.path, c.body, c.header...)
			if code != c.code || !strings.Contains(kind+text, c.want) {
				t.Errorf("%d %s %s, expected %d with %q", code, kind, text, c.code, c.want)
			}
		})
	}
	if _, err := Listen("0.0.0.0:0", false); err == nil {
		t.Error("listened on every address without being told to")
	}
	q := start(t, Options{Record: &RecordOptions{Create: func(int, recorder.Header) (*recorder.Writer, error) { return nil, errors.New("no") }}, Upstream: RuleUpstream{}, Token: "open sesame"})
	if code, _, _ := post(t, q.url, "/model/m/converse", `{"messages":[]}`); code != 403 {
		t.Errorf("without the token: %d", code)
	}
	if code, _, _ := post(t, q.url, "/model/m/converse", `{"messages":[]}`, "Authorization", "AWS4-HMAC-SHA256 Credential=open sesame/20260101/x"); code == 403 {
		t.Error("the token as access key id was refused")
	}
}

// TestOtherDoors: what is no Converse turn is passed, recorded and replayed too.
func TestOtherDoors(t *testing.T) {
	const claude = `{"anthropic_version":"bedrock-2023-05-31","max_tokens":10,"messages":[{"role":"user","content":"hi"}]}`
	for name, c := range map[string]struct{ path, body string }{
		"invoke":           {"/model/anthropic.claude-3/invoke", claude},
		"invoke stream":    {"/model/anthropic.claude-3/invoke-with-response-stream", claude},
		"messages":         {"/anthropic/v1/messages", strings.Replace(claude, `{`, `{"model":"anthropic.claude-3",`, 1)},
		"messages stream":  {"/anthropic/v1/messages", strings.Replace(claude, `{`, `{"model":"anthropic.claude-3","stream":true,`, 1)},
		"chat":             {"/openai/v1/chat/completions", `{"model":"openai.gpt-oss","messages":[{"role":"user","content":"hi"}]}`},
		"chat stream":      {"/openai/v1/chat/completions", `{"model":"openai.gpt-oss","stream":true,"messages":[{"role":"user","content":"hi"}]}`},
		"count tokens":     {"/model/anthropic.claude-3/count-tokens", `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"hi"}]}]}}}`},
		"apply guardrail":  {"/guardrail/abc/version/1/apply", `{"source":"INPUT","content":[{"text":{"text":"hi"}}]}`},
		"unknown envelope": {"/model/meta.llama/invoke", `{"prompt":"hi"}`},
	} {
		t.Run(name, func(t *testing.T) {
			s := bedrocktest.New(t, bedrocktest.Options{Script: func(bedrocktest.Request) bedrocktest.Turn { return bedrocktest.Say(bedrocktest.Text("hello")) }})
			p := recordTo(t, upstream(t, s.URL), nil)
			code, _, text := post(t, p.url, c.path, c.body)
			path := p.end().Recorded[0]
			s.Close()
			r := replayOf(t, false, path)
			code2, _, text2 := post(t, r.url, c.path, c.body)
			if code != code2 || text != text2 {
				t.Errorf("recorded %d %q / now %d %q", code, text, code2, text2)
			}
			if v, err := engine.Replay(t.Context(), open(t, path), engine.ReplayOptions{}); err != nil || !v.Identical {
				t.Errorf("verify: %+v, %v", v, err)
			}
			if got := r.end(); got.Served != 1 || len(got.LeftOver) > 0 {
				t.Errorf("%+v", got)
			}
		})
	}
}

// forked runs an agent behind a fork of a cassette.
// TestRuleUpstream: the AWS SDK talks to the rule model, whole and streamed.
func TestRuleUpstream(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		p := recordTo(t, RuleUpstream{}, nil)
		if text, err := (agent{client: sdk(t, p.url), stream: stream, temp: 3}).run(t.Context()); err != nil || text == "" {
			t.Errorf("%q, %v", text, err)
		}
		path := p.end().Recorded[0]
		r := replayOf(t, false, path)
		if _, err := (agent{client: sdk(t, r.url), stream: stream, temp: 3}).run(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

func TestUpstreamURLs(t *testing.T) {
	for url, want := range map[string]string{"http://example.com": "http is for loopback", "ftp://x": "expected an http", "": "no AWS region"} {
		if _, err := NewBedrock(t.Context(), BedrockOptions{URL: url}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, expected %q", url, err, want)
		}
	}
	b := upstream(t, "").(*Bedrock)
	if got := b.Place("/model/m/converse") + " " + b.Place(messages); got != "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse https://bedrock-mantle.us-east-1.api.aws/anthropic/v1/messages" {
		t.Error(got)
	}
}

const messages = "/anthropic/v1/messages"
