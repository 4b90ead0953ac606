package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock"
	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/bedrock/bedrocktest/rulescript"
	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/prompt"
	"investigator/internal/recorder"
	"investigator/internal/world"
)

const bedrockModel = "global.anthropic.claude-sonnet-4-6"

// noAWS keeps this machine's AWS configuration out of a test.
func noAWS(t *testing.T) {
	t.Helper()
	for _, name := range []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"} {
		t.Setenv(name, "")
	}
	for _, name := range []string{"AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"} {
		t.Setenv(name, os.DevNull)
	}
}

// bedrockEdge is the model edge over a local Bedrock, without real waiting.
func bedrockEdge(t *testing.T, url string, stream bool) *bedrock.Edge {
	t.Helper()
	e, err := bedrock.New(t.Context(), bedrock.Options{
		Region: "us-east-1", EndpointURL: url, Stream: stream,
		Credentials: credentials.NewStaticCredentialsProvider("AKIAIOSFODNN7SECRETX", "SECRETKEYEXAMPLE", "TOKENEXAMPLE"),
		Sleep:       func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// bedrockStart is the beginning of a run of a Bedrock model on tools.
func bedrockStart(t *testing.T, task string, context json.RawMessage, tools []prompt.Tool) json.RawMessage {
	t.Helper()
	b, err := prompt.Request(prompt.Options{Model: bedrockModel, Tools: tools})
	if err != nil {
		t.Fatal(err)
	}
	effects := map[string]string{}
	for _, tool := range tools {
		effects[tool.Name] = "read"
	}
	start, err := loop.Start{Task: task, Context: context, Model: bedrockModel, Request: b.Request, Cache: b.Cache,
		Effects: effects, Limits: loop.Limits{MaxTurns: 24}, Prompt: &b.Prompt}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return start
}

func worldTools(w *world.World) (tools []prompt.Tool) {
	for _, x := range w.Tools() {
		tools = append(tools, prompt.Tool{Name: x.Name, Description: x.Description, InputSchema: x.InputSchema})
	}
	return tools
}

// sameOverTheWire serves a cassette's recorded HTTP to the AWS SDK.
func sameOverTheWire(t *testing.T, c *recorder.Cassette, stream bool) {
	t.Helper()
	rt, err := recorder.Serve(c)
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{Model: bedrock.Wired(rt, stream)})
	if err != nil || !r.Identical {
		t.Errorf("over the wire: %+v, error %v", r.Divergence, err)
	}
}

// recordOnBedrock records one run of the rule model behind a local Bedrock.
func recordOnBedrock(t *testing.T, w *world.World, model edge.Edge) *recorder.Cassette {
	t.Helper()
	start := bedrockStart(t, task, w.Context(), worldTools(w))
	rec, err := recorder.NewMemory(recorder.Header{Run: "a", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Live(t.Context(), start, model, engine.Tools{World: w}, rec); err != nil {
		t.Fatal(err)
	}
	return parsed(t, rec)
}

// TestForkReadsItsParentsCache: the first call after the fork point repeats the
// parent's request byte for byte up to what the patch changed, cache points
// aside, so Bedrock finds it in its prompt cache.
func TestForkReadsItsParentsCache(t *testing.T) {
	noAWS(t)
	s := bedrocktest.New(t, bedrocktest.Options{Script: rulescript.Script(false)})
	model, w := bedrockEdge(t, s.URL, true), demoWorld(t)
	parent := recordOnBedrock(t, w, model)
	turns, _, err := engine.UsageByTurn(parent)
	if err != nil || len(turns) != 3 {
		t.Fatalf("%d turns, error %v", len(turns), err)
	}
	before := len(s.Requests())
	patch := faults.Patch{At: 7, Ops: json.RawMessage(`[{"op":"remove","path":"/deploys/1"}]`)}
	fork, _ := forkRun(t, parent, patch, engine.ForkOptions{Model: model, Tools: engine.Tools{World: w}})

	// What the parent's second turn sent is all in the cache.
	sent := turns[1].Usage.Input + turns[1].Usage.CacheRead + turns[1].Usage.CacheWrite
	after, _, err := engine.UsageByTurn(fork)
	if err != nil {
		t.Fatal(err)
	}
	if first := after[2]; first.Seq != 8 || !first.Paid() || first.Usage.CacheRead != sent {
		t.Errorf("the first call of the fork read %d tokens from the cache, expected the %d that the parent's turn before sent", first.Usage.CacheRead, sent)
	}
	was, now := s.Requests()[before-1].Body, s.Requests()[before].Body
	if diff := cmp.Diff(shared(t, was, 4), shared(t, now, 4)); diff != "" {
		t.Errorf("the first request of the fork begins otherwise (-parent +fork):\n%s", diff)
	}
	if bytes.Equal(was, now) {
		t.Error("the patch changed nothing")
	}
	sameOverTheWire(t, parent, true)
	if r := replayed(t, fork, nil); !r.Identical {
		t.Errorf("%+v", r.Divergence)
	}
}

// shared is what a prompt cache sees of a request: tools, system and the first
// n messages, without cache points, each as its own bytes.
func shared(t *testing.T, body []byte, n int) (parts []string) {
	t.Helper()
	var r struct {
		ToolConfig struct{ Tools []json.RawMessage }
		System     []json.RawMessage
		Messages   []struct {
			Content []json.RawMessage
			Role    string
		}
	}
	if err := json.Unmarshal(body, &r); err != nil || len(r.Messages) <= n {
		t.Fatalf("%d messages, error %v", len(r.Messages), err)
	}
	blocks := append(r.ToolConfig.Tools, r.System...)
	for _, m := range r.Messages[:n] {
		blocks = append(append(blocks, json.RawMessage(m.Role)), m.Content...)
	}
	for _, b := range blocks {
		if !bytes.HasPrefix(b, []byte(`{"cachePoint"`)) {
			parts = append(parts, string(b))
		}
	}
	return parts
}

// TestUsageOfASwappedFork: each turn belongs to the model that was in the chair,
// and only the turns after the fork point were paid for in the fork.
func TestUsageOfASwappedFork(t *testing.T) {
	noAWS(t)
	s := bedrocktest.New(t, bedrocktest.Options{Script: rulescript.Script(false)})
	model, w := bedrockEdge(t, s.URL, false), demoWorld(t)
	parent := recordOnBedrock(t, w, model)
	const other = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
	fork, _ := forkRun(t, parent, faults.Named("missing").For(7), engine.ForkOptions{Model: model, Tools: engine.Tools{World: w}, Swap: other})
	turns, _, err := engine.UsageByTurn(fork)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, u := range turns {
		got = append(got, fmt.Sprintf("%d %s %v", u.Seq, u.Model, u.Paid()))
	}
	want := []string{"2 " + bedrockModel + " false", "5 " + bedrockModel + " false", "8 " + other + " true", "11 " + other + " true"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	price := func(model string) *loop.Price {
		if model == other {
			return &loop.Price{Table: "t", Input: 1_000_000, Output: 1_000_000, CacheRead: 1_000_000, CacheWrite: 1_000_000}
		}
		return nil
	}
	cost := engine.Cost(turns, price)
	if total := turns[2].Usage.Total + turns[3].Usage.Total; cost.Micro != total || cost.Unpriced != 2 || len(cost.Tables) != 1 {
		t.Errorf("%+v, expected the %d tokens of the other model at a micro-dollar each", cost, total)
	}
	if cost := engine.Cost([]engine.TurnUsage{{Model: prompt.RuleModel}}, price); cost.Unpriced != 0 || cost.Micro != 0 {
		t.Errorf("the rule model costs %+v", cost)
	}
	sameOverTheWire(t, fork, false)
}

// TestNoCredentialOnTheCassette (case 52): what signs a request stays off it.
func TestNoCredentialOnTheCassette(t *testing.T) {
	noAWS(t)
	s := bedrocktest.New(t, bedrocktest.Options{Script: rulescript.Script(true), RequireAuth: true, Faults: []bedrocktest.Fault{{Name: "throttle", Every: 2, Times: 3}}})
	start := bedrockStart(t, task, nil, worldTools(demoWorld(t)))
	rec, err := recorder.NewMemory(recorder.Header{Run: "a", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Live(t.Context(), start, bedrockEdge(t, s.URL, true), engine.Tools{World: demoWorld(t)}, rec); err != nil {
		t.Fatal(err)
	}
	if auth := s.Requests()[0].Header; !strings.Contains(auth.Get("Authorization"), "AKIAIOSFODNN7SECRETX") || auth.Get("X-Amz-Security-Token") != "TOKENEXAMPLE" {
		t.Fatalf("the request was not signed by these credentials: %v", auth)
	}
	for _, secret := range []string{"SECRETX", "SECRETKEYEXAMPLE", "TOKENEXAMPLE", "Signature", "127.0.0.1", "AWS4-HMAC"} {
		if bytes.Contains(rec.Bytes(), []byte(secret)) {
			t.Errorf("%q is on the cassette", secret)
		}
	}
}

// turnOf reads the model's answer in an event.
func turnOf(t *testing.T, e ledger.Event) converse.Turn {
	t.Helper()
	turn, err := converse.ParseTurn(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	return turn
}
