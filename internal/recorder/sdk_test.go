package recorder_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"investigator/internal/bedrock"
	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
)

const sdkModel = "global.anthropic.claude-sonnet-4-6"

// sdkHeader is the header of a run that a Bedrock model answers.
func sdkHeader(t *testing.T) recorder.Header {
	t.Helper()
	var start loop.Start
	if err := json.Unmarshal(recordertest.Start(), &start); err != nil {
		t.Fatal(err)
	}
	start.Model = sdkModel
	data, err := start.JSON()
	if err != nil {
		t.Fatal(err)
	}
	h := recordertest.Header()
	h.Start = data
	return h
}

// sdkScript thinks, asks for two things at once, and reports.
func sdkScript() bedrocktest.Script {
	report := `{"component":"checkout","class":"change","mechanism":"m","change":"v841","started_at":"","confidence":"high","summary":"s","evidence":["E5"],"ruled_out":[],"recommendation":"r"}`
	return bedrocktest.Turns(
		bedrocktest.Say(bedrocktest.Reasoning("two at once\n\n", "c2ln"), bedrocktest.Text("I look.\u2028\u0085"),
			bedrocktest.ToolUse("u1", "read", `{"part":9007199254740993}`), bedrocktest.ToolUse("u2", "read", `{"part":1.0}`)),
		bedrocktest.Say(bedrocktest.Text("Once more."), bedrocktest.ToolUse("u1", "read", `{"part":2}`)),
		bedrocktest.Say(bedrocktest.ToolUse("u3", "report_findings", report)),
	)
}

// recordSDK records a run of the AWS SDK against the local Bedrock, which
// throttles it at first.
func recordSDK(t *testing.T, stream bool) string {
	t.Helper()
	for _, name := range []string{"AWS_BEARER_TOKEN_BEDROCK", "AWS_PROFILE", "AWS_CA_BUNDLE", "AWS_ENDPOINT_URL", "AWS_ENDPOINT_URL_BEDROCK_RUNTIME"} {
		t.Setenv(name, "")
	}
	s := bedrocktest.New(t, bedrocktest.Options{Script: sdkScript(), Faults: []bedrocktest.Fault{{Name: "throttle", Times: 2}}})
	model, err := bedrock.New(t.Context(), bedrock.Options{
		Region: "us-east-1", EndpointURL: s.URL, Stream: stream, Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "secret", "token"),
		Sleep: func(ctx context.Context, _ time.Duration) error { return ctx.Err() },
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(model.Close)
	path := filepath.Join(t.TempDir(), "sdk.yaml")
	h := sdkHeader(t)
	w, err := recorder.Create(path, h)
	if err != nil {
		t.Fatal(err)
	}
	begin, _, err := loop.New(h.Start)
	if err != nil {
		t.Fatal(err)
	}
	tools := edge.Func(func(_ context.Context, call edge.Call) (edge.Return, error) {
		return edge.Return{Body: call.Use.Input, Origin: edge.Executed}, nil
	})
	end, err := loop.Run(t.Context(), begin, edge.Split{Model: model, Tool: tools}, w)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := loop.ParseOutcome(end.Finished()); err != nil || o.Outcome != loop.Concluded {
		t.Fatalf("outcome %+v, %v", o, err)
	}
	return path
}

func eachWay(t *testing.T, test func(t *testing.T, c *recorder.Cassette, stream bool)) {
	for name, stream := range map[string]bool{"converse": false, "stream": true} {
		t.Run(name, func(t *testing.T) {
			c, err := recorder.Open(recordSDK(t, stream))
			if err != nil {
				t.Fatal(err)
			}
			attempts := 0
			for i := range c.Len() {
				x, err := c.Interaction(i)
				if err != nil {
					t.Fatal(err)
				}
				attempts += max(0, len(x.Attempts)-1)
			}
			if attempts == 0 {
				t.Fatal("no attempt failed while it was recorded")
			}
			test(t, c, stream)
		})
	}
}

// What the SDK recorded, the SDK decodes to the same ledger when the cassette
// is its network.
func TestServedWireGivesTheSameLedger(t *testing.T) {
	eachWay(t, func(t *testing.T, c *recorder.Cassette, stream bool) {
		transport, err := recorder.Serve(c)
		if err != nil {
			t.Fatal(err)
		}
		tape, err := recorder.NewTape(c)
		if err != nil {
			t.Fatal(err)
		}
		want, err := c.Events()
		if err != nil {
			t.Fatal(err)
		}
		got := []ledger.Event{want[0]}
		sink := loop.SinkFunc(func(_ edge.Call, _ edge.Return, events []ledger.Event) error {
			got = append(got, events...)
			return nil
		})
		if _, err := loop.Run(t.Context(), c.Begin(), edge.Split{Model: bedrock.Wired(transport, stream), Tool: tape}, sink); err != nil {
			t.Fatal(err)
		}
		sameEvents(t, "over the wire", want, got)
	})
}

// A plain client of the SDK, with its own retries, gets the answer once and is
// then told at once that there is none: it neither retries nor waits.
func TestPlainSDKClientOverACassette(t *testing.T) {
	eachWay(t, func(t *testing.T, c *recorder.Cassette, stream bool) {
		transport, err := recorder.Serve(c)
		if err != nil {
			t.Fatal(err)
		}
		sent := &counted{next: transport}
		client := bedrockruntime.New(bedrockruntime.Options{Region: "us-east-1", HTTPClient: sent,
			Credentials: credentials.NewStaticCredentialsProvider("replay", "replay", "")})
		stop, err := ask(t, client, c, stream)
		if err != nil || stop != types.StopReasonToolUse {
			t.Errorf("stop reason %q, %v", stop, err)
		}
		_, err = ask(t, client, c, stream)
		var miss *recorder.Unmatched
		if !errors.As(err, &miss) || sent.n != 2 || !strings.Contains(miss.Path, "/model/") {
			t.Errorf("asked again: %v after %d requests, want a miss after 2", err, sent.n)
		}
	})
}

// ask sends the run's question by hand and returns the stop reason.
func ask(t *testing.T, client *bedrockruntime.Client, c *recorder.Cassette, stream bool) (types.StopReason, error) {
	t.Helper()
	req, err := c.Request(2)
	if err != nil {
		t.Fatal(err)
	}
	system, messages, tools := typed(t, req)
	inference := &types.InferenceConfiguration{MaxTokens: aws.Int32(4096)}
	if !stream {
		out, err := client.Converse(t.Context(), &bedrockruntime.ConverseInput{ModelId: &req.Model, System: system, Messages: messages, ToolConfig: tools, InferenceConfig: inference})
		if err != nil {
			return "", err
		}
		return out.StopReason, nil
	}
	out, err := client.ConverseStream(t.Context(), &bedrockruntime.ConverseStreamInput{ModelId: &req.Model, System: system, Messages: messages, ToolConfig: tools, InferenceConfig: inference})
	if err != nil {
		return "", err
	}
	events := out.GetStream()
	defer events.Close()
	var stop types.StopReason
	for e := range events.Events() {
		if end, is := e.(*types.ConverseStreamOutputMemberMessageStop); is {
			stop = end.Value.StopReason
		}
	}
	return stop, events.Err()
}

// typed is req in the types of the SDK, as a program of its own would build it.
func typed(t *testing.T, req converse.Request) (system []types.SystemContentBlock, messages []types.Message, tools *types.ToolConfiguration) {
	t.Helper()
	var body struct {
		System   []struct{ Text string }
		Messages []struct{ Content []struct{ Text string } }
		Tools    struct {
			Tools []struct {
				Spec struct{ Name, Description string } `json:"toolSpec"`
			}
		} `json:"toolConfig"`
	}
	if err := json.Unmarshal(req.Body(), &body); err != nil {
		t.Fatal(err)
	}
	for _, s := range body.System {
		system = append(system, &types.SystemContentBlockMemberText{Value: s.Text})
	}
	for _, m := range body.Messages {
		message := types.Message{Role: types.ConversationRoleUser}
		for _, b := range m.Content {
			message.Content = append(message.Content, &types.ContentBlockMemberText{Value: b.Text})
		}
		messages = append(messages, message)
	}
	tools = &types.ToolConfiguration{}
	for _, tool := range body.Tools.Tools {
		tools.Tools = append(tools.Tools, &types.ToolMemberToolSpec{Value: types.ToolSpecification{
			Name: &tool.Spec.Name, Description: &tool.Spec.Description,
			InputSchema: &types.ToolInputSchemaMemberJson{Value: document.NewLazyDocument(map[string]any{"type": "object"})},
		}})
	}
	return system, messages, tools
}

// counted is an HTTP client that counts what it is asked.
type counted struct {
	next http.RoundTripper
	n    int
}

func (c *counted) Do(r *http.Request) (*http.Response, error) {
	c.n++
	return c.next.RoundTrip(r)
}
