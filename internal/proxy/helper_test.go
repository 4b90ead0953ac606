package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/recorder"
)

const haiku = "us.anthropic.claude-haiku-4-5-20251001-v1:0"

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

// running is a proxy on a port.
type running struct {
	*Proxy
	t    testing.TB
	url  string
	stop func()
	dir  string
}

func start(t testing.TB, o Options) *running {
	t.Helper()
	o.Tool = "test"
	o.NewRun = func() string { return fmt.Sprintf("%016x", rand.Uint64()) } // runs of several proxies lie side by side
	p, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if p.lender != nil {
		p.lender.gone = scribble
	}
	l, err := Listen("127.0.0.1:0", false)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	served := make(chan error, 1)
	go func() { served <- Serve(ctx, l, p) }()
	r := &running{Proxy: p, t: t, url: "http://" + l.Addr().String()}
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-served; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(func() {
		r.stop()
		_, _ = p.Close() // by a test that ended without, so that nothing is written into a folder that goes
	})
	return r
}

// scribble spoils memory that was given back, so that a part of it that somebody
// held on to shows.
func scribble(m *memory) {
	for _, text := range [][]byte{m.raw, m.canon} {
		text = text[:cap(text)]
		for i := range text {
			text[i] = '#'
		}
	}
}

// end closes the proxy and returns what it saw.
func (r *running) end() Result {
	r.t.Helper()
	r.stop()
	result, err := r.Close()
	if err != nil {
		r.t.Fatal(err)
	}
	return result
}

func upstream(t testing.TB, url string) Upstream {
	t.Helper()
	b, err := NewBedrock(t.Context(), BedrockOptions{URL: url, Region: "us-east-1"})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recordTo starts a recording proxy in front of an upstream.
func recordTo(t testing.TB, up Upstream, change func(*RecordOptions)) *running {
	t.Helper()
	dir := t.TempDir()
	ro := &RecordOptions{Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
		return recorder.Create(filepath.Join(dir, fmt.Sprintf("run-%03d.yaml", n)), h)
	}}
	if change != nil {
		change(ro)
	}
	r := start(t, Options{Record: ro, Upstream: up})
	r.dir = dir
	return r
}

func open(t testing.TB, path string) *recorder.Cassette {
	t.Helper()
	c, err := recorder.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func replayOf(t testing.TB, strict bool, paths ...string) *running {
	t.Helper()
	var list []*recorder.Cassette
	for _, p := range paths {
		list = append(list, open(t, p))
	}
	return start(t, Options{Replay: list, Strict: strict})
}

// sdk is a client of the real AWS SDK that retries without waiting.
func sdk(t testing.TB, url string) *bedrockruntime.Client {
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "KEYEXAMPLE", "TOKENEXAMPLE"),
		HTTPClient:  &http.Client{Transport: transport},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = 3
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	})
}

// agent is a foreign agent's tool loop on the AWS SDK.
type agent struct {
	client   *bedrockruntime.Client
	stream   bool
	question string
	temp     int // what get_weather says
}

func (a agent) run(ctx context.Context) (string, error) {
	if a.question == "" {
		a.question = "What is the weather and time in Oslo?"
	}
	messages := []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: a.question}}}}
	for range 8 {
		turn, err := a.ask(ctx, messages)
		if err != nil {
			return "", err
		}
		messages = append(messages, turn)
		results := types.Message{Role: types.ConversationRoleUser}
		text := ""
		for _, b := range turn.Content {
			switch b := b.(type) {
			case *types.ContentBlockMemberText:
				text += b.Value
			case *types.ContentBlockMemberToolUse:
				results.Content = append(results.Content, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
					ToolUseId: b.Value.ToolUseId,
					Content:   []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberJson{Value: document.NewLazyDocument(a.tool(*b.Value.Name))}},
				}})
			}
		}
		if len(results.Content) == 0 {
			return text, nil
		}
		messages = append(messages, results)
	}
	return "", errors.New("no end")
}

func (a agent) tool(name string) map[string]any {
	if name == "get_time" {
		return map[string]any{"time": "10:00"}
	}
	return map[string]any{"temp": a.temp, "records": []any{"first", "second"}}
}

func tools() *types.ToolConfiguration {
	var specs []types.Tool
	for _, name := range []string{"get_weather", "get_time"} {
		specs = append(specs, &types.ToolMemberToolSpec{Value: types.ToolSpecification{Name: aws.String(name),
			InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(map[string]any{"type": "object"})}}})
	}
	return &types.ToolConfiguration{Tools: specs}
}

func (a agent) ask(ctx context.Context, messages []types.Message) (types.Message, error) {
	if !a.stream {
		out, err := a.client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: aws.String(haiku), Messages: messages, ToolConfig: tools()})
		if err != nil {
			return types.Message{}, err
		}
		return out.Output.(*types.ConverseOutputMemberMessage).Value, nil
	}
	out, err := a.client.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String(haiku), Messages: messages, ToolConfig: tools()})
	if err != nil {
		return types.Message{}, err
	}
	return gather(out.GetStream())
}

// gather puts a stream together.
func gather(s *bedrockruntime.ConverseStreamEventStream) (types.Message, error) {
	defer s.Close()
	m := types.Message{Role: types.ConversationRoleAssistant}
	var text, input string
	var use *types.ToolUseBlockStart
	stopped := false
	for e := range s.Events() {
		switch e := e.(type) {
		case *types.ConverseStreamOutputMemberContentBlockStart:
			if u, is := e.Value.Start.(*types.ContentBlockStartMemberToolUse); is {
				use = &u.Value
			}
		case *types.ConverseStreamOutputMemberContentBlockDelta:
			switch d := e.Value.Delta.(type) {
			case *types.ContentBlockDeltaMemberText:
				text += d.Value
			case *types.ContentBlockDeltaMemberToolUse:
				input += *d.Value.Input
			}
		case *types.ConverseStreamOutputMemberContentBlockStop:
			if use != nil {
				var v map[string]any
				if err := json.Unmarshal([]byte(input), &v); err != nil {
					return m, err
				}
				m.Content = append(m.Content, &types.ContentBlockMemberToolUse{Value: types.ToolUseBlock{Name: use.Name, ToolUseId: use.ToolUseId, Input: document.NewLazyDocument(v)}})
			} else {
				m.Content = append(m.Content, &types.ContentBlockMemberText{Value: text})
			}
			text, input, use = "", "", nil
		case *types.ConverseStreamOutputMemberMessageStop:
			stopped = true
		}
	}
	if err := s.Err(); err != nil {
		return m, err
	}
	if !stopped {
		return m, io.ErrUnexpectedEOF
	}
	return m, nil
}

func eachWay(t *testing.T, test func(t *testing.T, stream bool)) {
	t.Helper()
	t.Run("converse", func(t *testing.T) { test(t, false) })
	t.Run("stream", func(t *testing.T) { test(t, true) })
}

// recorded runs an agent against the local Bedrock behind the proxy and returns
// the cassette.
func recorded(t *testing.T, stream bool, script bedrocktest.Script, faults ...bedrocktest.Fault) string {
	t.Helper()
	s := bedrocktest.New(t, bedrocktest.Options{Script: script, Faults: faults})
	p := recordTo(t, upstream(t, s.URL), nil)
	if _, err := (agent{client: sdk(t, p.url), stream: stream, temp: 3}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	result := p.end()
	s.Close()
	if len(result.Recorded) != 1 {
		t.Fatalf("recorded %v, expected one run", result.Recorded)
	}
	return result.Recorded[0]
}

// post sends one request by hand and returns status, error type and body.
func post(t testing.TB, url, path, body string, header ...string) (int, string, string) {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(t, url+path, body, header...))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, resp.Header.Get("X-Amzn-Errortype"), string(b)
}

// request is a request with a body, and with names and values of headers in turn.
func request(t testing.TB, url, body string, header ...string) *http.Request {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Content-Type", "application/json")
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Set(header[i], header[i+1])
	}
	return r
}
