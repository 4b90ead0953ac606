package bedrocktest

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws/protocol/eventstream"
	"github.com/google/go-cmp/cmp"
)

type caseFile struct {
	Case  string
	Kind  string
	Input json.RawMessage
}

// readCases reads every case that has an envelope, by name.
func readCases(t *testing.T) map[string]caseFile {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/*.json")
	if err != nil || len(files) == 0 {
		t.Fatalf("glob cases: found %d, %v", len(files), err)
	}
	out := map[string]caseFile{}
	for _, f := range files {
		var c caseFile
		if err := json.Unmarshal(readFile(t, f), &c); err == nil && c.Kind != "" {
			out[c.Case] = c
		}
	}
	return out
}

func readFile(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// post sends a body with net/http and answers status, headers and body.
func post(t *testing.T, url, body string) (int, http.Header, []byte) {
	t.Helper()
	resp, err := http.Post(url, "application/json", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatalf("read answer: %v", err)
	}
	return resp.StatusCode, resp.Header, data
}

func errorMessage(t *testing.T, body []byte) string {
	t.Helper()
	var m struct{ Message string }
	if err := json.Unmarshal(body, &m); err != nil {
		t.Fatalf("decode error body %q: %v", body, err)
	}
	return m.Message
}

func TestCasesOfRequests(t *testing.T) {
	want := map[string]string{
		"01-blank-text-block":               "The text field in the ContentBlock object at messages.1.content.0 is blank. Add text to the text field, and try again.",
		"04-empty-error-toolresult":         "The content field at messages.2.content.0.toolResult cannot be empty when status value is error.",
		"07-duplicate-toolresult-ids":       "The toolResult blocks at messages.2.content contain duplicate Ids: tooluse_e1",
		"09-identical-calls-two-ids":        "Expected toolResult blocks at messages.2.content for the following Ids: tooluse_f2",
		"11-partial-block-in-parallel-turn": "Expected toolResult blocks at messages.2.content for the following Ids: t1, t3",
		"12-parallel-results-split":         "Expected toolResult blocks at messages.2.content for the following Ids: h2",
		"14-consecutive-users":              "A conversation must alternate between user and assistant roles. Make sure the conversation alternates between user and assistant roles and try again.",
		"17-no-toolconfig-on-summary":       "The toolConfig field must be defined when using toolUse and toolResult content blocks.",
		"24-toolresult-json-array":          "The format of the value at messages.2.content.0.toolResult.content.0.json is invalid. Provide a json object for the field and try again.",
		"42-tool-name-in-history": "4 validation errors detected: " +
			"Value 'ops.cluster.telemetry.get_evaluation_status_for_whole_organization_x1' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must have length less than or equal to 64; " +
			"Value 'ops.cluster.telemetry.get_evaluation_status_for_whole_organization_x1' at 'toolConfig.tools.1.member.toolSpec.name' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+; " +
			"Value at 'messages.2.member.content.1.member.toolUse.name' failed to satisfy constraint: Member must have length less than or equal to 64; " +
			"Value at 'messages.2.member.content.1.member.toolUse.name' failed to satisfy constraint: Member must satisfy regular expression pattern: [a-zA-Z0-9_-]+",
		"53-cancelled-call": "Expected toolResult blocks at messages.2.content for the following Ids: x1",
	}
	s := New(t, Options{})
	for name, c := range readCases(t) {
		if c.Kind != "converse-request" {
			continue
		}
		for _, path := range []string{"/model/x/converse", "/model/x/converse-stream"} {
			t.Run(name+path, func(t *testing.T) {
				status, header, body := post(t, s.URL+path, string(c.Input))
				if status != http.StatusBadRequest || !strings.HasPrefix(header.Get("x-amzn-ErrorType"), "ValidationException") {
					t.Errorf("status %d type %q, want 400 ValidationException", status, header.Get("x-amzn-ErrorType"))
				}
				if len(header.Get("x-amzn-RequestId")) != 36 {
					t.Errorf("request id %q is no UUID", header.Get("x-amzn-RequestId"))
				}
				if diff := cmp.Diff(want[name], errorMessage(t, body)); diff != "" {
					t.Errorf("message (-want +got):\n%s", diff)
				}
			})
		}
	}
}

// Each stream case must arrive as the pairs it is made of.
func TestCasesOfStreams(t *testing.T) {
	seen := 0
	for name, c := range readCases(t) {
		if c.Kind != "stream-events" {
			continue
		}
		seen++
		t.Run(name, func(t *testing.T) {
			events, err := ParseEvents(c.Input)
			if err != nil {
				t.Fatal(err)
			}
			s := New(t, Options{Script: Turns(Turn{Events: events})})
			_, header, body := post(t, s.URL+"/model/x/converse-stream", hello)
			if got := header.Get("Content-Type"); got != "application/vnd.amazon.eventstream" {
				t.Errorf("content type %q", got)
			}
			if diff := cmp.Diff(events, decodeFrames(t, body)); diff != "" {
				t.Errorf("events (-want +got):\n%s", diff)
			}
		})
	}
	if seen < 8 {
		t.Errorf("found %d stream cases, expected at least 8", seen)
	}
}

const hello = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`

// decodeFrames is a reader of its own kind: the SDK's decoder, which checks
// both checksums.
func decodeFrames(t *testing.T, data []byte) []Event {
	t.Helper()
	var out []Event
	d := eventstream.NewDecoder()
	for r := bytes.NewReader(data); r.Len() > 0; {
		m, err := d.Decode(r, nil)
		if err != nil {
			t.Fatalf("decode frame %d: %v", len(out), err)
		}
		e := Event{Payload: json.RawMessage(m.Payload)}
		if v := m.Headers.Get(":event-type"); v != nil {
			e.Type = v.String()
		}
		if v := m.Headers.Get(":exception-type"); v != nil {
			e.Type = "!" + v.String()
		}
		out = append(out, e)
	}
	return out
}

// Case 19: the same turn passes as it was and is refused when trimmed, in the
// order of both APIs.
func TestCaseReasoningTrimmed(t *testing.T) {
	var pair struct{ ModelTurn, Echo json.RawMessage }
	if err := json.Unmarshal(readCases(t)["19-reasoning-trimmed"].Input, &pair); err != nil {
		t.Fatal(err)
	}
	issued := converseMessages(map[string]any{"messages": []any{mustDecode(t, pair.ModelTurn)}})[0].Blocks
	s := New(t, Options{Script: Turns(Turn{Content: issued}, Say(Text("done")))})
	if status, _, body := post(t, s.URL+"/model/x/converse", hello); status != 200 {
		t.Fatalf("opening turn: %d %s", status, body)
	}
	follow := func(turn json.RawMessage) string {
		return `{"messages":[{"role":"user","content":[{"text":"hi"}]},` + string(turn) +
			`,{"role":"user","content":[{"toolResult":{"toolUseId":"l1","content":[{"text":"ok"}]}}]}],` +
			`"toolConfig":{"tools":[{"toolSpec":{"name":"now","inputSchema":{"json":{"type":"object"}}}}]}}`
	}
	if status, _, body := post(t, s.URL+"/model/x/converse", follow(pair.ModelTurn)); status != 200 {
		t.Errorf("unmodified echo: %d %s, want 200", status, body)
	}
	status, _, body := post(t, s.URL+"/model/x/converse", follow(pair.Echo))
	if got := errorMessage(t, body); status != 400 || !strings.Contains(got, "in the latest assistant message cannot be modified") || !strings.Contains(got, "messages.1.") {
		t.Errorf("trimmed echo: %d %q, want 400 cannot be modified", status, got)
	}
}

func mustDecode(t *testing.T, data []byte) any {
	t.Helper()
	v, err := decode(data)
	if err != nil {
		t.Fatal(err)
	}
	return v
}

// Cases 02 and 38: an answer given as bytes leaves as those bytes, and numbers
// of a rendered call keep their spelling.
func TestCasesOfAnswers(t *testing.T) {
	blank := readCases(t)["02-model-emits-blank-text"].Input
	numbers := readFile(t, "testdata/cases/38-big-integers.json")
	s := New(t, Options{Script: Arrivals(
		Turn{Response: &Response{Status: 200, Header: http.Header{"Content-Type": {"application/json"}}, Body: blank}},
		Turn{Response: &Response{Status: 200, Body: numbers}},
		Say(ToolUse("u1", "read_file", `{"i":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"d":1,"d":2}`)),
	)})
	for i, want := range []string{string(blank), string(numbers), `{"i":9007199254740993,"f":1.0,"e":1e400,"z":-0.0,"d":1,"d":2}`} {
		if _, _, body := post(t, s.URL+"/model/x/converse", hello); !strings.Contains(string(body), want) {
			t.Errorf("answer %d: %s\nlacks %s", i, body, want)
		}
	}
}

// Case 36: a body that holds half a surrogate pair.
func TestCaseLoneSurrogate(t *testing.T) {
	half := readFile(t, "testdata/cases/36-lone-surrogate-result.json")
	e := Validate(OpConverse, "x", half)
	if e == nil || e.Status != 400 || !strings.HasPrefix(e.Message, "The request body is not valid JSON: no low surrogate in string: line 1 column ") {
		t.Errorf("refusal %v, want no low surrogate", e)
	}
}

// Case 46: every spelling of a model id.
func TestCaseModelPaths(t *testing.T) {
	const haiku = "us.anthropic.claude-haiku-4-5-20251001-v1:0"
	const arn = "arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123"
	want := []struct {
		Op Op
		ID string
	}{{OpConverse, haiku}, {OpConverse, haiku}, {OpConverseStream, arn}, {OpConverseStream, arn}, {OpInvoke, arn}}
	s := New(t, Options{})
	lines := strings.Fields(string(readFile(t, "testdata/cases/46-arn-model-path.txt")))
	if len(lines) != len(want) {
		t.Fatalf("case has %d lines, expected %d", len(lines), len(want))
	}
	for i, path := range lines {
		body := hello
		if want[i].Op == OpInvoke {
			body = `{"anthropic_version":"bedrock-2023-05-31","max_tokens":9,"messages":[{"role":"user","content":"hi"}]}`
		}
		if status, _, answer := post(t, s.URL+path, body); status != 200 {
			t.Errorf("%s: %d %s", path, status, answer)
		}
		got := s.Requests()[i]
		if got.Op != want[i].Op || got.ModelID != want[i].ID || got.Path != path {
			t.Errorf("%s: routed to %s %q, logged as %q", path, got.Op, got.ModelID, got.Path)
		}
	}
}

// Case 47: our framing of the same events gives the same bytes.
func TestCaseFraming(t *testing.T) {
	want, err := base64.StdEncoding.DecodeString(strings.TrimSpace(string(readFile(t, "testdata/cases/47-eventstream-is-binary.txt"))))
	if err != nil {
		t.Fatal(err)
	}
	var got []byte
	for _, e := range decodeFrames(t, want) {
		got = append(got, EncodeFrame(e.Type, e.Payload)...)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("frames (-case +ours):\n%s", diff)
	}
}

// Case 50: two equal requests are answered in order, a third finds the end.
func TestCaseSameRequestTwice(t *testing.T) {
	var c struct {
		Request          json.RawMessage
		ResponsesInOrder []string
	}
	if err := json.Unmarshal(readCases(t)["50-same-request-twice"].Input, &c); err != nil {
		t.Fatal(err)
	}
	s := New(t, Options{Script: Arrivals(Say(Text(c.ResponsesInOrder[0])), Say(Text(c.ResponsesInOrder[1])))})
	for i, want := range append(c.ResponsesInOrder, "the script has 2 turns and this request is number 3") {
		if _, _, body := post(t, s.URL+"/model/x/converse", string(c.Request)); !strings.Contains(string(body), want) {
			t.Errorf("answer %d: %s lacks %q", i, body, want)
		}
		if got := s.Requests()[i].Header.Get("Content-Type"); got != "application/json" {
			t.Errorf("request %d logged without its headers", i)
		}
	}
}
