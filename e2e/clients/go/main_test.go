package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/google/go-cmp/cmp"
)

const (
	askTwice = `{"output":{"message":{"role":"assistant","content":[{"text":"Let me look."},
		{"toolUse":{"toolUseId":"w1","name":"get_weather","input":{"city":"Oslo","id":9007199254740993}}},
		{"toolUse":{"toolUseId":"t1","name":"get_time","input":{"city":"Oslo"}}}]}},"stopReason":"tool_use"}`
	askOnce = `{"output":{"message":{"role":"assistant","content":[
		{"toolUse":{"toolUseId":"w2","name":"get_weather","input":{"city":"Bergen"}}}]}},"stopReason":"tool_use"}`
	final     = `{"output":{"message":{"role":"assistant","content":[{"text":"Cold "},{"text":"there.\n"}]}},"stopReason":"end_turn"}`
	unknown   = `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"x","name":"get_tide","input":{}}}]}},"stopReason":"tool_use"}`
	noMessage = `{"stopReason":"end_turn"}`
)

type exchange struct {
	status   int
	stdout   string
	stderr   string
	requests []string
}

// play runs the client against the given answers, one a request.
func play(t *testing.T, env map[string]string, answers ...string) exchange {
	t.Helper()
	var got exchange
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		// The SDK loses an answer that comes the moment its body is read.
		time.Sleep(time.Millisecond)
		mu.Lock()
		defer mu.Unlock()
		got.requests = append(got.requests, string(body))
		if n := len(got.requests); n <= len(answers) {
			fmt.Fprint(w, answers[n-1])
			return
		}
		w.Header().Set("X-Amzn-Errortype", "ConflictException:http://internal/")
		w.WriteHeader(http.StatusConflict)
		fmt.Fprint(w, `{"message":"the script\nis over"}`)
	}))
	defer server.Close()
	t.Setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", server.URL)
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "dummy", "AWS_SECRET_ACCESS_KEY": "dummy", "AWS_REGION": "us-east-1", "AWS_BEARER_TOKEN_BEDROCK": "", "AWS_CONFIG_FILE": "/dev/null", "AWS_CA_BUNDLE": ""} {
		t.Setenv(name, value)
	}
	var stdout, stderr bytes.Buffer
	got.status = run(t.Context(), func(name string) string { return env[name] }, &stdout, &stderr)
	got.stdout, got.stderr = stdout.String(), stderr.String()
	return got
}

func TestLoopAnswersEveryCall(t *testing.T) {
	got := play(t, nil, askTwice, askOnce, final)
	if got.status != 0 || got.stdout != "Cold there.\n" || got.stderr != "" || len(got.requests) != 3 {
		t.Fatalf("run: %+v", got)
	}
	want := []string{
		`[{"toolResult":{"content":[{"json":{"city":"Oslo","temp":3}}],"toolUseId":"w1"}},{"toolResult":{"content":[{"json":{"city":"Oslo","time":"10:00"}}],"toolUseId":"t1"}}]`,
		`[{"toolResult":{"content":[{"json":{"city":"Bergen","temp":7}}],"toolUseId":"w2"}}]`,
	}
	if diff := cmp.Diff(want, []string{lastContent(t, got.requests[1]), lastContent(t, got.requests[2])}); diff != "" {
		t.Errorf("tool results (-want +got):\n%s", diff)
	}
}

func TestOsloTemperatureCanBeChanged(t *testing.T) {
	got := play(t, map[string]string{"TOOL_OSLO_TEMP": "-12"}, askTwice, final)
	if content := lastContent(t, got.requests[1]); !bytes.Contains([]byte(content), []byte(`{"city":"Oslo","temp":-12}`)) {
		t.Errorf("tool results %s, expected Oslo at -12", content)
	}
	got = play(t, map[string]string{"TOOL_OSLO_TEMP": "mild"}, askTwice, final)
	if want := "ERROR 0 Error: read TOOL_OSLO_TEMP \"mild\": expected a whole number\n"; got.stderr != want || got.status != 1 {
		t.Errorf("run: exit status %d, stderr %q, expected 1 and %q", got.status, got.stderr, want)
	}
}

func TestErrorsAreOneLine(t *testing.T) {
	tests := map[string]struct {
		answers []string
		want    string
	}{
		"service":      {nil, "ERROR 409 ConflictException: the script is over\n"},
		"unknown tool": {[]string{unknown}, "ERROR 0 Error: the model asked for \"get_tide\"; there is no such tool\n"},
		"no message":   {[]string{noMessage}, "ERROR 0 Error: read answer: expected a message, found <nil>\n"},
		"no end":       {[]string{askOnce, askOnce, askOnce, askOnce, askOnce, askOnce, final}, "ERROR 0 Error: no final answer after 6 turns\n"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			got := play(t, nil, test.answers...)
			if got.status != 1 || got.stdout != "" {
				t.Errorf("run: exit status %d, stdout %q, expected 1 and nothing", got.status, got.stdout)
			}
			if diff := cmp.Diff(test.want, got.stderr); diff != "" {
				t.Errorf("stderr (-want +got):\n%s", diff)
			}
		})
	}
}

func TestAssembly(t *testing.T) {
	start := types.ToolUseBlockStart{ToolUseId: aws.String("w1"), Name: aws.String("get_weather")}
	var a assembly
	for _, event := range []types.ConverseStreamOutput{
		text0("Let me "), text0("look."),
		&types.ConverseStreamOutputMemberContentBlockStart{Value: types.ContentBlockStartEvent{
			ContentBlockIndex: aws.Int32(1), Start: &types.ContentBlockStartMemberToolUse{Value: start}}},
		input1(`{"city":`), input1(`"Oslo"}`),
	} {
		a.add(event)
	}
	if _, _, err := a.message(); err == nil {
		t.Error("message before messageStop: no error, expected one")
	}
	a.add(&types.ConverseStreamOutputMemberMessageStop{Value: types.MessageStopEvent{StopReason: types.StopReasonToolUse}})
	m, stop, err := a.message()
	if err != nil || stop != types.StopReasonToolUse || text(m) != "Let me look." || len(m.Content) != 2 {
		t.Fatalf("message: %+v, stop reason %q, error %v", m, stop, err)
	}
	data, err := m.Content[1].(*types.ContentBlockMemberToolUse).Value.Input.MarshalSmithyDocument()
	if err != nil || string(data) != `{"city":"Oslo"}` {
		t.Errorf("tool input %s, error %v", data, err)
	}
	a.add(input1("}"))
	var syntax *json.SyntaxError
	if _, _, err := a.message(); !errors.As(err, &syntax) {
		t.Errorf("message with broken input: error %v, expected a syntax error", err)
	}
}

func text0(s string) types.ConverseStreamOutput {
	return &types.ConverseStreamOutputMemberContentBlockDelta{Value: types.ContentBlockDeltaEvent{
		ContentBlockIndex: aws.Int32(0), Delta: &types.ContentBlockDeltaMemberText{Value: s}}}
}

func input1(s string) types.ConverseStreamOutput {
	return &types.ConverseStreamOutputMemberContentBlockDelta{Value: types.ContentBlockDeltaEvent{
		ContentBlockIndex: aws.Int32(1), Delta: &types.ContentBlockDeltaMemberToolUse{Value: types.ToolUseBlockDelta{Input: aws.String(s)}}}}
}

// lastContent is the content of a request's last message, with sorted keys.
func lastContent(t *testing.T, request string) string {
	t.Helper()
	var r struct{ Messages []struct{ Content any } }
	if err := json.Unmarshal([]byte(request), &r); err != nil {
		t.Fatalf("decode request %q: %v", request, err)
	}
	data, err := json.Marshal(r.Messages[len(r.Messages)-1].Content)
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}
