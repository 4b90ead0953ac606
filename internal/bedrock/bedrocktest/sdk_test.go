package bedrocktest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
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
	"github.com/aws/smithy-go"
	"github.com/google/go-cmp/cmp"
)

const haiku = "us.anthropic.claude-haiku-4-5-20251001-v1:0"

// sdk is a client of the real AWS SDK on its own connections.
func sdk(t *testing.T, s *Server, attempts int) *bedrockruntime.Client {
	t.Helper()
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	return bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(s.URL),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "token"),
		HTTPClient:  &http.Client{Transport: transport},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts = attempts
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	})
}

func sdkTools() *types.ToolConfiguration {
	var specs []types.Tool
	for _, name := range []string{"get_weather", "get_time"} {
		specs = append(specs, &types.ToolMemberToolSpec{Value: types.ToolSpecification{Name: aws.String(name),
			InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(map[string]any{"type": "object"})}}})
	}
	return &types.ToolConfiguration{Tools: specs}
}

func sdkAsk(text string) []types.Message {
	return []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: text}}}}
}

// answerTools gives a result to every call of a turn.
func answerTools(turn types.Message) types.Message {
	out := types.Message{Role: types.ConversationRoleUser}
	for _, b := range turn.Content {
		if u, ok := b.(*types.ContentBlockMemberToolUse); ok {
			out.Content = append(out.Content, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
				ToolUseId: u.Value.ToolUseId, Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: "ok"}}}})
		}
	}
	return out
}

// describe is a turn in one line, so that both ways of asking can be compared.
func describe(t *testing.T, m types.Message) string {
	t.Helper()
	var parts []string
	for _, b := range m.Content {
		switch b := b.(type) {
		case *types.ContentBlockMemberText:
			parts = append(parts, b.Value)
		case *types.ContentBlockMemberToolUse:
			input, err := b.Value.Input.MarshalSmithyDocument()
			if err != nil {
				t.Fatal(err)
			}
			parts = append(parts, fmt.Sprintf("%s %s%s", *b.Value.ToolUseId, *b.Value.Name, input))
		}
	}
	return strings.Join(parts, " | ")
}

var loopTurns = []string{
	`I will look up the weather and the time in Oslo. | tooluse_t0c0 get_weather{"city":"Oslo"} | tooluse_t0c1 get_time{"city":"Oslo","id":9007199254740993}`,
	`tooluse_t1c0 get_weather{"city":"Bergen"}`,
	`Done: I asked three times and was given 3 results.`,
}

func TestToolLoopByConverse(t *testing.T) {
	s := New(t, Options{})
	c := sdk(t, s, 1)
	messages := sdkAsk("Weather and time in Oslo?")
	var turns []string
	for range loopTurns {
		out, err := c.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String(haiku), Messages: messages, ToolConfig: sdkTools()})
		if err != nil {
			t.Fatal(err)
		}
		turn := out.Output.(*types.ConverseOutputMemberMessage).Value
		turns = append(turns, describe(t, turn))
		if out.StopReason != types.StopReasonToolUse {
			if *out.Usage.TotalTokens != *out.Usage.InputTokens+*out.Usage.OutputTokens || *out.Usage.OutputTokens == 0 {
				t.Errorf("usage does not add up: %+v", out.Usage)
			}
			break
		}
		messages = append(messages, turn, answerTools(turn))
	}
	if diff := cmp.Diff(loopTurns, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	if r := s.Requests()[0]; r.ModelID != haiku || r.Proto != "HTTP/1.1" || !strings.Contains(r.Path, "%3A0/") {
		t.Errorf("logged %s %s %q", r.ModelID, r.Proto, r.Path)
	}
}

// gathered is a stream put together again.
type gathered struct {
	message types.Message
	deltas  int
	stop    types.StopReason
	usage   *types.TokenUsage
}

func gather(ctx context.Context, c *bedrockruntime.Client, messages []types.Message) (gathered, error) {
	var g gathered
	out, err := c.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: aws.String(haiku), Messages: messages, ToolConfig: sdkTools()})
	if err != nil {
		return g, err
	}
	stream := out.GetStream()
	defer stream.Close()
	g.message.Role = types.ConversationRoleAssistant
	var text, input strings.Builder
	var use *types.ToolUseBlock
	for e := range stream.Events() {
		switch e := e.(type) {
		case *types.ConverseStreamOutputMemberContentBlockStart:
			start := e.Value.Start.(*types.ContentBlockStartMemberToolUse).Value
			use = &types.ToolUseBlock{ToolUseId: start.ToolUseId, Name: start.Name}
		case *types.ConverseStreamOutputMemberContentBlockDelta:
			g.deltas++
			switch d := e.Value.Delta.(type) {
			case *types.ContentBlockDeltaMemberText:
				text.WriteString(d.Value)
			case *types.ContentBlockDeltaMemberToolUse:
				input.WriteString(*d.Value.Input)
			}
		case *types.ConverseStreamOutputMemberContentBlockStop:
			if use != nil {
				d := json.NewDecoder(strings.NewReader(input.String()))
				d.UseNumber()
				var v map[string]any
				if err := d.Decode(&v); err != nil {
					return g, err
				}
				if n, ok := v["id"].(json.Number); ok {
					i, _ := n.Int64()
					v["id"] = i
				}
				use.Input = document.NewLazyDocument(v)
				g.message.Content = append(g.message.Content, &types.ContentBlockMemberToolUse{Value: *use})
			} else {
				g.message.Content = append(g.message.Content, &types.ContentBlockMemberText{Value: text.String()})
			}
			use = nil
			text.Reset()
			input.Reset()
		case *types.ConverseStreamOutputMemberMessageStop:
			g.stop = e.Value.StopReason
		case *types.ConverseStreamOutputMemberMetadata:
			g.usage = e.Value.Usage
		}
	}
	return g, stream.Err()
}

func streamLoop(ctx context.Context, t *testing.T, c *bedrockruntime.Client) ([]string, error) {
	messages := sdkAsk("Weather and time in Oslo?")
	var turns []string
	for range loopTurns {
		g, err := gather(ctx, c, messages)
		if err != nil {
			return turns, err
		}
		turns = append(turns, describe(t, g.message))
		if g.usage == nil || g.deltas <= len(g.message.Content) {
			return turns, fmt.Errorf("usage %v, %d deltas for %d blocks", g.usage, g.deltas, len(g.message.Content))
		}
		if g.stop != types.StopReasonToolUse {
			break
		}
		messages = append(messages, g.message, answerTools(g.message))
	}
	return turns, nil
}

// Many clients at once share one script, and no call is lost.
func TestToolLoopByConverseStream(t *testing.T) {
	s := New(t, Options{})
	var wg sync.WaitGroup
	for range 40 {
		c := sdk(t, s, 1)
		wg.Go(func() {
			turns, err := streamLoop(t.Context(), t, c)
			if err != nil {
				t.Error(err)
			}
			if diff := cmp.Diff(loopTurns, turns); diff != "" {
				t.Errorf("turns (-want +got):\n%s", diff)
			}
		})
	}
	wg.Wait()
	if n := len(s.Requests()); n != 120 {
		t.Errorf("saw %d requests, want 40 × 3", n)
	}
}

// One request in ten meets each trouble that the SDK retries.
func TestRetriesHealInjectedFaults(t *testing.T) {
	s := New(t, Options{Seed: 7, Faults: []Fault{{Name: "throttle", Every: 10}, {Name: "503", Every: 10}, {Name: "reset", Every: 10}}})
	c := sdk(t, s, 8)
	for i := range 60 {
		out, err := c.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("x"), Messages: sdkAsk(fmt.Sprint("question ", i))})
		if err != nil {
			t.Fatalf("call %d: %v", i, err)
		}
		if out.StopReason != types.StopReasonToolUse {
			t.Errorf("call %d ended with %s", i, out.StopReason)
		}
	}
	hit := map[string]int{}
	for _, r := range s.Requests() {
		hit[r.Fault]++
	}
	if hit["throttle"] == 0 || hit["503"] == 0 || hit["reset"] == 0 || hit[""] != 60 {
		t.Errorf("faults that happened: %v; want some of each and 60 good answers", hit)
	}
}

func TestSDKSeesErrorsByName(t *testing.T) {
	tests := []struct {
		fault, code string
		status      int
	}{
		{"throttle", "ThrottlingException", 429}, {"500", "InternalServerException", 500}, {"503", "ServiceUnavailableException", 503},
		{"model-not-ready", "ModelNotReadyException", 429}, {"model-timeout", "ModelTimeoutException", 408},
		{"model-error", "ModelErrorException", 424}, {"access-denied", "AccessDeniedException", 403},
		{"expired-token", "ExpiredTokenException", 403}, {"unknown-model", "ValidationException", 400},
		{"throttle-mid-stream", "ThrottlingException", 429},
	}
	for _, tt := range tests {
		t.Run(tt.fault, func(t *testing.T) {
			s := New(t, Options{Faults: []Fault{{Name: tt.fault}}})
			_, err := sdk(t, s, 1).Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("x"), Messages: sdkAsk("hi")})
			var api smithy.APIError
			if !errors.As(err, &api) || api.ErrorCode() != tt.code || api.ErrorMessage() == "" {
				t.Errorf("error %v, want %s with a text", err, tt.code)
			}
			if r := s.Requests()[0]; r.Status != tt.status || r.Fault == "" {
				t.Errorf("logged status %d fault %q", r.Status, r.Fault)
			}
		})
	}
}

func TestSDKSeesStreamExceptions(t *testing.T) {
	for fault, want := range map[string]string{
		"throttle-mid-stream": "ThrottlingException", "error-mid-stream": "InternalServerException", "model-error-mid-stream": "ModelStreamErrorException",
	} {
		s := New(t, Options{Faults: []Fault{{Name: fault}}})
		g, err := gather(t.Context(), sdk(t, s, 3), sdkAsk("hi"))
		var api smithy.APIError
		if !errors.As(err, &api) || api.ErrorCode() != want {
			t.Errorf("%s: error %v, want %s", fault, err, want)
		}
		if g.deltas == 0 || g.stop != "" {
			t.Errorf("%s: %d deltas and stop %q, want a part of an answer", fault, g.deltas, g.stop)
		}
		if n := len(s.Requests()); n != 1 {
			t.Errorf("%s: %d requests, want 1: a broken stream is not retried", fault, n)
		}
	}
}

// What the SDK does not notice, a caller must: these streams lack messageStop.
func TestBrokenStreams(t *testing.T) {
	for fault, noticed := range map[string]bool{"cut": false, "cut-in-frame": false, "bad-crc": true, "reset-mid-stream": true} {
		s := New(t, Options{Faults: []Fault{{Name: fault}}})
		g, err := gather(t.Context(), sdk(t, s, 1), sdkAsk("hi"))
		if (err != nil) != noticed {
			t.Errorf("%s: error %v, expected one: %v", fault, err, noticed)
		}
		if g.deltas == 0 || g.stop != "" {
			t.Errorf("%s: %d deltas and stop %q, want a part of an answer", fault, g.deltas, g.stop)
		}
	}
}

func TestFaultOfATurnByAttempt(t *testing.T) {
	s := New(t, Options{Script: Turns(Turn{Content: []Block{Text("at last")}, Fault: "500", FaultAttempts: 2})})
	out, err := sdk(t, s, 3).Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: aws.String("x"), Messages: sdkAsk("hi")})
	if err != nil {
		t.Fatal(err)
	}
	if got := describe(t, out.Output.(*types.ConverseOutputMemberMessage).Value); got != "at last" {
		t.Errorf("answer %q", got)
	}
	var faults []string
	for _, r := range s.Requests() {
		faults = append(faults, r.Fault+" "+r.Header.Get("amz-sdk-request"))
	}
	want := []string{"500 attempt=1; max=3", "500 attempt=2; max=3", " attempt=3; max=3"}
	if diff := cmp.Diff(want, faults); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

func TestSDKOtherOperations(t *testing.T) {
	s := New(t, Options{Blocked: []string{"secret"}})
	c := sdk(t, s, 1)
	count, err := c.CountTokens(t.Context(), &bedrockruntime.CountTokensInput{ModelId: aws.String("x"),
		Input: &types.CountTokensInputMemberConverse{Value: types.ConverseTokensRequest{Messages: sdkAsk("hello")}}})
	if err != nil || *count.InputTokens < 2 {
		t.Errorf("count tokens: %+v, %v", count, err)
	}
	guard, err := c.ApplyGuardrail(t.Context(), &bedrockruntime.ApplyGuardrailInput{
		GuardrailIdentifier: aws.String("abc"), GuardrailVersion: aws.String("1"), Source: types.GuardrailContentSourceInput,
		Content: []types.GuardrailContentBlock{&types.GuardrailContentBlockMemberText{Value: types.GuardrailTextBlock{Text: aws.String("a secret")}}}})
	if err != nil || guard.Action != types.GuardrailActionGuardrailIntervened || len(guard.Outputs) != 1 {
		t.Errorf("apply guardrail: %+v, %v", guard, err)
	}
	body := []byte(`{"anthropic_version":"bedrock-2023-05-31","max_tokens":99,"messages":[{"role":"user","content":"hi"}]}`)
	invoked, err := c.InvokeModel(t.Context(), &bedrockruntime.InvokeModelInput{ModelId: aws.String(haiku), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	stream, err := c.InvokeModelWithResponseStream(t.Context(), &bedrockruntime.InvokeModelWithResponseStreamInput{ModelId: aws.String(haiku), Body: body})
	if err != nil {
		t.Fatal(err)
	}
	defer stream.GetStream().Close()
	var events []string
	for e := range stream.GetStream().Events() {
		events = append(events, string(e.(*types.ResponseStreamMemberChunk).Value.Bytes))
	}
	if err := stream.GetStream().Err(); err != nil {
		t.Error(err)
	}
	if got := anthropicFromStream(t, events); got != anthropicFromBody(t, invoked.Body) {
		t.Errorf("stream and body differ:\n%s\n%s", got, anthropicFromBody(t, invoked.Body))
	}
	if last := events[len(events)-1]; !strings.Contains(last, `"amazon-bedrock-invocationMetrics":{"inputTokenCount":`) {
		t.Errorf("last event %s has no metrics", last)
	}
}

// anthropicFromBody is an Anthropic answer in one line.
func anthropicFromBody(t *testing.T, body []byte) string {
	t.Helper()
	var parts []string
	root := mustDecode(t, body)
	for _, b := range listAt(root, "content") {
		parts = append(parts, textAt(b, "type")+" "+textAt(b, "text")+textAt(b, "name")+string(encode(valueAt(b, "input"))))
	}
	return strings.Join(parts, " | ") + " " + textAt(root, "stop_reason")
}

// anthropicFromStream puts the same line together from events.
func anthropicFromStream(t *testing.T, events []string) string {
	t.Helper()
	var parts []string
	var line, input, stop string
	for _, e := range events {
		root := mustDecode(t, []byte(e))
		switch textAt(root, "type") {
		case "content_block_start":
			b := mapAt(root, "content_block")
			line, input = textAt(b, "type")+" "+textAt(b, "name"), ""
		case "content_block_delta":
			line += textAt(root, "delta", "text")
			input += textAt(root, "delta", "partial_json")
		case "content_block_stop":
			if input == "" {
				input = "null"
			}
			parts = append(parts, line+string(encode(mustDecode(t, []byte(input)))))
		case "message_delta":
			stop = textAt(root, "delta", "stop_reason")
		}
	}
	return strings.Join(parts, " | ") + " " + stop
}
