package bedrock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/converse"
	"investigator/internal/edge"
)

const testModel = "global.anthropic.claude-sonnet-4-6"

// TestMain keeps this machine's AWS configuration out of the tests.
func TestMain(m *testing.M) {
	for _, name := range []string{bearerVariable, "AWS_PROFILE", "AWS_REGION", "AWS_DEFAULT_REGION", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL",
		"AWS_ENDPOINT_URL_BEDROCK_RUNTIME", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN", "HTTPS_PROXY", "HTTP_PROXY"} {
		_ = os.Unsetenv(name) // an environment that cannot be changed shows in the tests
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		_ = os.Setenv(name, os.DevNull)
	}
	_ = os.Setenv("AWS_EC2_METADATA_DISABLED", "true")
	os.Exit(m.Run())
}

// options are those of tests: fixed credentials and no real waiting.
func options(url string, stream bool) Options {
	return Options{
		Region: "us-east-1", EndpointURL: url, Stream: stream,
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "token"),
		Sleep:       func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	}
}

func newEdge(t testing.TB, o Options) *Edge {
	t.Helper()
	e, err := New(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

func modelCall(t testing.TB, rest string, messages ...string) edge.Call {
	t.Helper()
	r, err := converse.NewRest(json.RawMessage(rest))
	if err != nil {
		t.Fatal(err)
	}
	if len(messages) == 0 {
		messages = []string{`{"content":[{"text":"Hello"}],"role":"user"}`}
	}
	var thread *converse.Thread
	for _, m := range messages {
		thread = thread.Append(json.RawMessage(m))
	}
	req := converse.Request{Model: testModel, Messages: thread, Rest: r}
	return edge.Call{Kind: edge.Model, Seq: 2, Turn: 1, In: req.Digest(), Request: req}
}

// streamed names the two ways of asking in subtests.
func eachWay(t *testing.T, test func(t *testing.T, stream bool)) {
	t.Helper()
	for _, stream := range []bool{false, true} {
		name := "converse"
		if stream {
			name = "stream"
		}
		t.Run(name, func(t *testing.T) { test(t, stream) })
	}
}

func do(t testing.TB, e *Edge, call edge.Call) edge.Return {
	t.Helper()
	r, err := e.Do(t.Context(), call)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func hello(bedrocktest.Request) bedrocktest.Turn {
	return bedrocktest.Say(bedrocktest.Text("Hello, here I am."))
}

// TestExactRequest: the bytes on the wire are those of the request, and the
// server, which checks like Bedrock, takes them. Case 40: a schema goes as an
// object. Case 38: numbers go as they were written.
func TestExactRequest(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		s := bedrocktest.New(t, bedrocktest.Options{Script: hello})
		call := modelCall(t, `{"additionalModelRequestFields":{"i":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"s":"<&>"},
			"toolConfig":{"tools":[{"toolSpec":{"name":"f","inputSchema":{"json":{"type":"object","maximum":1e400}}}}]},
			"requestMetadata":{"b":"2","a":"1","c":"3"}}`,
			`{"content":[{"text":"<&> \u2028 é"}],"role":"user"}`,
			`{"content":[{"toolUse":{"input":{"f":1.0,"i":9007199254740993,"z":-0.0},"name":"f","toolUseId":"u"}}],"role":"assistant"}`,
			`{"content":[{"toolResult":{"content":[{"json":{"e":1e400}}],"status":"success","toolUseId":"u"}}],"role":"user"}`)
		r := do(t, newEdge(t, options(s.URL, stream)), call)
		if r.Failed {
			t.Fatalf("failed: %s", r.Body)
		}
		got := s.Requests()
		if diff := cmp.Diff(string(call.Request.Body()), string(got[0].Body)); diff != "" || len(got) != 1 {
			t.Errorf("%d requests, body (-request +wire):\n%s", len(got), diff)
		}
		if auth := got[0].Header.Get("Authorization"); !strings.HasPrefix(auth, "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/") {
			t.Errorf("not signed: %q", auth)
		}
		if coding := got[0].Header.Get("Accept-Encoding"); strings.Contains(coding, "gzip") {
			t.Errorf("accepts %q, and what is recorded would not be what came", coding)
		}
		if length := got[0].Header.Get("Content-Length"); length != fmt.Sprint(len(got[0].Body)) {
			t.Errorf("content length %s for %d bytes", length, len(got[0].Body))
		}
	})
}

// TestExactAnswer: what a model says arrives as it said it, streamed or not.
func TestExactAnswer(t *testing.T) {
	input := `{"i":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"s":"<&>"}`
	eachWay(t, func(t *testing.T, stream bool) {
		s := bedrocktest.New(t, bedrocktest.Options{Script: func(bedrocktest.Request) bedrocktest.Turn {
			return bedrocktest.Say(bedrocktest.Reasoning("why\n\n", "c2ln"), bedrocktest.Redacted([]byte{0, 255}),
				bedrocktest.Text("<&> é 🙂"), bedrocktest.ToolUse("u1", "f", input), bedrocktest.ToolUse("u2", "g", `{}`))
		}})
		r := do(t, newEdge(t, options(s.URL, stream)), modelCall(t, `{}`))
		turn, err := converse.ParseTurn(r.Body)
		if err != nil {
			t.Fatalf("%v: %s", err, r.Body)
		}
		var blocks []string
		for _, b := range turn.Blocks {
			blocks = append(blocks, string(b))
		}
		want := []string{
			`{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"why\n\n"}}}`,
			`{"reasoningContent":{"redactedContent":"AP8="}}`,
			`{"text":"<&> é 🙂"}`,
			`{"toolUse":{"input":{"e":1e400,"f":1.0,"i":9007199254740993,"s":"<&>","z":-0.0},"name":"f","toolUseId":"u1"}}`,
			`{"toolUse":{"input":{},"name":"g","toolUseId":"u2"}}`,
		}
		if diff := cmp.Diff(want, blocks); diff != "" {
			t.Errorf("blocks (-said +got):\n%s", diff)
		}
		if turn.StopReason != converse.StopToolUse || turn.Usage.Output == 0 || r.Origin != edge.Live {
			t.Errorf("stop %q, usage %+v, origin %q", turn.StopReason, turn.Usage, r.Origin)
		}
	})
}

// TestStreamAndConverseAgree: the same answer gives the same body either way.
func TestStreamAndConverseAgree(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	call := modelCall(t, `{"toolConfig":{"tools":[{"toolSpec":{"name":"get_weather","inputSchema":{"json":{}}}},{"toolSpec":{"name":"get_time","inputSchema":{"json":{}}}}]}}`)
	whole := do(t, newEdge(t, options(s.URL, false)), call)
	pieces := do(t, newEdge(t, options(s.URL, true)), call)
	if diff := cmp.Diff(string(whole.Body), string(pieces.Body)); diff != "" {
		t.Errorf("(-converse +stream):\n%s", diff)
	}
}

// TestOneBody: 1,000 calls put one body on the wire and give one answer, though
// padding and request ids differ at each, and none is lost to the SDK's race
// over the request body.
func TestOneBody(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		s := bedrocktest.New(t, bedrocktest.Options{Script: hello, FirstByteDelay: time.Nanosecond})
		e := newEdge(t, options(s.URL, stream))
		call := modelCall(t, `{"requestMetadata":{"b":"2","a":"1","c":"3","d":"4"}}`)
		bodies, answers, attempts := map[string]int{}, map[string]int{}, 0
		for range 500 {
			r := do(t, e, call)
			answers[string(r.Body)]++
			attempts += len(r.Wire.Attempts)
		}
		for _, r := range s.Requests() {
			bodies[string(r.Body)]++
		}
		if len(bodies) != 1 || len(answers) != 1 || attempts != 500 {
			t.Errorf("%d bodies, %d answers, %d attempts for 500 calls", len(bodies), len(answers), attempts)
		}
	})
}

// TestWireIsExact: the record holds the bytes that came, from which the body can
// be made again without the SDK.
func TestWireIsExact(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello})
	r := do(t, newEdge(t, options(s.URL, true)), modelCall(t, `{}`))
	a := r.Wire.Attempts[0]
	frames, rest, err := converse.DecodeFrames(a.Body)
	if err != nil || rest != 0 {
		t.Fatalf("%d bytes left over, error %v", rest, err)
	}
	body, err := converse.Assemble(frames)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(r.Body), string(body)); diff != "" {
		t.Errorf("(-returned +from the record):\n%s", diff)
	}
	if diff := cmp.Diff(map[string]string{"Content-Type": "application/vnd.amazon.eventstream"}, a.Header); diff != "" {
		t.Errorf("headers kept (-want +got):\n%s", diff)
	}
	if want := "https://bedrock-runtime.us-east-1.amazonaws.com/model/" + testModel + "/converse-stream"; r.Wire.URL != want {
		t.Errorf("url %q, expected %q", r.Wire.URL, want)
	}
	if a.Code != 200 || a.Err != "" || a.Wait != "" || a.At == "" || a.Took == "" {
		t.Errorf("attempt %+v", a)
	}
}

// TestModelInPath: ids and ARNs arrive whole (case 46), and the recorded URL is
// one that any machine would record.
func TestModelInPath(t *testing.T) {
	for _, model := range []string{
		"us.anthropic.claude-haiku-4-5-20251001-v1:0",
		"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123",
	} {
		s := bedrocktest.New(t, bedrocktest.Options{Script: hello})
		call := modelCall(t, `{}`)
		call.Request.Model = model
		r := do(t, newEdge(t, options(s.URL+"/prefix", true)), call)
		if got := s.Requests()[0]; r.Failed || got.ModelID != model {
			t.Errorf("model %q arrived as %q: %s", model, got.ModelID, r.Body)
		}
		if strings.Contains(r.Wire.URL, "127.0.0.1") || strings.Contains(r.Wire.URL, "prefix") || !strings.HasSuffix(r.Wire.URL, "/converse-stream") {
			t.Errorf("recorded %q", r.Wire.URL)
		}
	}
}

// TestCasesOnTheWire sends every streamed case over a real connection.
func TestCasesOnTheWire(t *testing.T) {
	for number, want := range map[string]string{
		"22": `"redactedContent":"AAECAwQFBgcI/w=="`, "23": `{"signature":"c2ln","text":"why not"}`, "25": `"input":{}`, "27": `"path":"🙂.txt"`,
		"28": `"malformedInputs"`, "29": `"stopReason":"max_tokens"`, "31": `"name":"IncompleteResponse"`, "32": `"name":"ThrottlingException"`, "34": `"stopReason":"shiny_stop"`,
	} {
		t.Run(number, func(t *testing.T) {
			turn := bedrocktest.Turn{Events: caseEvents(t, number)}
			s := bedrocktest.New(t, bedrocktest.Options{Script: func(bedrocktest.Request) bedrocktest.Turn { return turn }})
			r := do(t, newEdge(t, options(s.URL, true)), modelCall(t, `{}`))
			if !strings.Contains(string(r.Body), want) {
				t.Errorf("body %s, expected %s in it", r.Body, want)
			}
			if n := len(r.Wire.Attempts); r.Failed != (n == 8) || (n != 1 && n != 8) {
				t.Errorf("failed %v after %d attempts", r.Failed, n)
			}
		})
	}
}

func caseEvents(t *testing.T, number string) []bedrocktest.Event {
	t.Helper()
	files, err := filepath.Glob("../converse/testdata/cases/" + number + "-*.json")
	if err != nil || len(files) != 1 {
		t.Fatalf("case %s: %d files, error %v", number, len(files), err)
	}
	b, err := os.ReadFile(files[0])
	if err != nil {
		t.Fatal(err)
	}
	var c struct{ Input json.RawMessage }
	if err := json.Unmarshal(b, &c); err != nil {
		t.Fatal(err)
	}
	events, err := bedrocktest.ParseEvents(c.Input)
	if err != nil {
		t.Fatal(err)
	}
	return events
}

// TestStreamShowsAsItComes: a piece is shown while the server still holds the
// rest back.
func TestStreamShowsAsItComes(t *testing.T) {
	release := make(chan struct{})
	srv := serveRaw(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		flush := http.NewResponseController(w)
		_, _ = w.Write(bedrocktest.EncodeFrame("contentBlockDelta", []byte(`{"contentBlockIndex":0,"delta":{"text":"now"}}`)))
		_ = flush.Flush()
		<-release // closed by the piece being shown, or else the test hangs
		_, _ = w.Write(bedrocktest.EncodeFrame("messageStop", []byte(`{"stopReason":"end_turn"}`)))
	})
	o := options(srv, true)
	o.Watch.Text = func(string) { close(release) }
	if r := do(t, newEdge(t, o), modelCall(t, `{}`)); r.Failed || !strings.Contains(string(r.Body), `"text":"now"`) {
		t.Errorf("body %s", r.Body)
	}
}

func TestWatching(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: func(bedrocktest.Request) bedrocktest.Turn {
		return bedrocktest.Turn{Fault: "throttle-mid-stream", FaultAttempts: 1, Content: []bedrocktest.Block{
			bedrocktest.Reasoning("hm", "c2ln"), bedrocktest.Text("Let me look."), bedrocktest.ToolUse("u", "f", `{}`)}}
	}})
	var said []string
	say := func(kind string) func(string) { return func(s string) { said = append(said, kind+" "+s) } }
	e := newEdge(t, options(s.URL, true)).Watching(Watch{
		Text: say("text"), Reasoning: say("reasoning"), Tool: say("tool"),
		Discard: func() { said = append(said, "discard") },
		Wait: func(w Wait) {
			said = append(said, fmt.Sprintf("wait %s %d of %d", w.Failure.Name, w.Attempt, w.Of))
			if w.Pause <= 0 || !strings.Contains(w.String(), "ThrottlingException, waiting ") || !strings.Contains(w.String(), "(attempt 2 of 8)") {
				t.Errorf("%s", w)
			}
		},
	})
	r := do(t, e, modelCall(t, `{}`))
	void := slices.Index(said, "discard")
	if r.Failed || void < 1 || said[void+1] != "wait ThrottlingException 2 of 8" {
		t.Fatalf("said %q, body %s", said, r.Body)
	}
	again := map[string]string{}
	for _, s := range said[void+2:] {
		kind, piece, _ := strings.Cut(s, " ")
		again[kind] += piece
	}
	if diff := cmp.Diff(map[string]string{"reasoning": "hm", "text": "Let me look.", "tool": "f"}, again); diff != "" {
		t.Errorf("shown by the attempt that counts (-want +got):\n%s", diff)
	}
}

func TestCancelEndsACall(t *testing.T) {
	for _, fault := range []string{"slow-first-byte", "slow-loris"} {
		t.Run(fault, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			script := func(r bedrocktest.Request) bedrocktest.Turn { cancel(); return hello(r) }
			s := bedrocktest.New(t, bedrocktest.Options{Script: script, SlowFirstByte: time.Hour, SlowStep: time.Hour, Faults: []bedrocktest.Fault{{Name: fault}}})
			if r, err := newEdge(t, options(s.URL, true)).Do(ctx, modelCall(t, `{}`)); !errors.Is(err, context.Canceled) || r.Body != nil {
				t.Errorf("return %+v, error %v", r, err)
			}
		})
	}
	t.Run("while waiting", func(t *testing.T) {
		s := bedrocktest.New(t, bedrocktest.Options{Script: hello, Faults: []bedrocktest.Fault{{Name: "throttle"}}})
		ctx, cancel := context.WithCancel(t.Context())
		o := options(s.URL, true)
		o.Sleep = nil // wait by the clock
		o.Watch.Wait = func(Wait) { cancel() }
		if _, err := newEdge(t, o).Do(ctx, modelCall(t, `{}`)); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

func TestRefusesToolCalls(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	_, err := newEdge(t, options(s.URL, true)).Do(t.Context(), edge.Call{Kind: edge.Tool, Use: converse.ToolUse{Name: "rm"}})
	if err == nil || !strings.Contains(err.Error(), `"rm"`) || len(s.Requests()) != 0 {
		t.Errorf("error %v", err)
	}
}

// TestManyAtOnce shares one edge between runs under trouble and expects every
// call to be answered and nothing to stay behind.
func TestManyAtOnce(t *testing.T) {
	before := runtime.NumGoroutine()
	s, err := bedrocktest.Start(bedrocktest.Options{Script: hello, Faults: []bedrocktest.Fault{
		{Name: "throttle", Every: 7}, {Name: "cut", Every: 9}, {Name: "reset", Every: 11}, {Name: "error-mid-stream", Every: 13}}})
	if err != nil {
		t.Fatal(err)
	}
	e, err := New(t.Context(), options(s.URL, true))
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for i := range 100 {
		call := modelCall(t, `{}`, fmt.Sprintf(`{"content":[{"text":"question %d"}],"role":"user"}`, i))
		wg.Go(func() {
			if r, err := e.Do(context.Background(), call); err != nil || r.Failed {
				t.Errorf("question %d: %s, error %v", i, r.Body, err)
			}
		})
	}
	wg.Wait()
	e.Close()
	s.Close()
	for i := 0; runtime.NumGoroutine() > before && i < 1e6; i++ {
		runtime.Gosched() // goroutines of closed connections end on their own
	}
	if after := runtime.NumGoroutine(); after > before {
		stacks := make([]byte, 1<<16)
		t.Errorf("%d goroutines before, %d after:\n%s", before, after, stacks[:runtime.Stack(stacks, true)])
	}
}
