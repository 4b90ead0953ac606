package converse

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

// events reads a JSON list of [type, payload] pairs; "!" begins an exception.
func events(t testing.TB, list string) []Frame {
	t.Helper()
	var pairs [][]json.RawMessage
	if err := json.Unmarshal([]byte(list), &pairs); err != nil {
		t.Fatal(err)
	}
	var frames []Frame
	for _, p := range pairs {
		f := Frame{Kind: EventFrame, Type: decodeString(p[0]), Payload: p[1]}
		if name, found := strings.CutPrefix(f.Type, "!"); found {
			f.Kind, f.Type = ExceptionFrame, name
		}
		frames = append(frames, f)
	}
	return frames
}

// caseEvents finds the events of a fault case by its number.
func caseEvents(t testing.TB, number string) []Frame {
	t.Helper()
	files, err := filepath.Glob("testdata/cases/" + number + "-*.json")
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
	return events(t, string(c.Input))
}

// answer is the canonical response that a message of these blocks makes.
func answer(stop, content, more string) string {
	b, err := ledger.Canon(fmt.Appendf(nil, `{"output":{"message":{"role":"assistant","content":[%s]}},"stopReason":%q%s}`, content, stop, more))
	if err != nil {
		panic(err)
	}
	return string(b)
}

func TestAssembleCases(t *testing.T) {
	redacted := base64.StdEncoding.EncodeToString([]byte{0, 1, 2, 3, 4, 5, 6, 7, 8, 0xff})
	call := func(id, name, input string) string {
		return fmt.Sprintf(`{"toolUse":{"toolUseId":%q,"name":%q,"input":%s}}`, id, name, input)
	}
	for _, c := range []struct{ number, want string }{
		{"22", answer("end_turn", `{"reasoningContent":{"redactedContent":"`+redacted+`"}},{"text":"ok"}`, "")},
		{"23", answer("end_turn", `{"reasoningContent":{"reasoningText":{"text":"why not","signature":"c2ln"}}},{"text":"42"}`, "")},
		{"25", answer("tool_use", call("o1", "now", `{}`), "")},
		{"27", answer("tool_use", call("p1", "read_file", `{"path":"🙂.txt"}`), "")},
		{"28", answer("tool_use", call("q1", "read_file", `{}`), `,"investigator":{"malformedInputs":{"0":"{\n\":12path\",\nx"}}`)},
		{"29", answer("max_tokens", call("r1", "read_file", `{}`),
			`,"usage":{"inputTokens":10,"outputTokens":16,"totalTokens":26},"investigator":{"malformedInputs":{"0":"{\"path\":\"/very/lo"}}`)},
		{"34", answer("shiny_stop", ``, `,"investigator":{"unknownEvents":[{"type":"shinyNewEvent","payload":{"x":1}},`+
			`{"type":"contentBlockDelta","payload":{"contentBlockIndex":0,"delta":{"shinyDelta":{"y":2}}}}]}`)},
	} {
		t.Run(c.number, func(t *testing.T) {
			got, err := Assemble(caseEvents(t, c.number))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestHalfCallIsNotACall: a call whose input is malformed or cut off is marked,
// so that the loop never runs it (cases 28 and 29).
func TestHalfCallIsNotACall(t *testing.T) {
	for number, want := range map[string]string{"28": "{\n\":12path\",\nx", "29": `{"path":"/very/lo`} {
		body, err := Assemble(caseEvents(t, number))
		if err != nil {
			t.Fatal(err)
		}
		turn, err := ParseTurn(body)
		if err != nil {
			t.Fatal(err)
		}
		if len(turn.ToolUses) != 1 || turn.ToolUses[0].Malformed != want || string(turn.ToolUses[0].Input) != `{}` {
			t.Errorf("case %s: calls %+v", number, turn.ToolUses)
		}
	}
}

func TestTruncatedStreamIsNoAnswer(t *testing.T) {
	frames := caseEvents(t, "31")
	for n := range len(frames) + 1 {
		if body, err := Assemble(frames[:n]); !errors.Is(err, ErrTruncated) || body != nil {
			t.Errorf("%d events: body %s, error %v", n, body, err)
		}
	}
}

func TestExceptionInStream(t *testing.T) {
	_, err := Assemble(caseEvents(t, "32"))
	var got *StreamError
	if !errors.As(err, &got) {
		t.Fatalf("expected a *StreamError, found %v", err)
	}
	if diff := cmp.Diff(StreamError{"ThrottlingException", "slow down", 429}, *got); diff != "" {
		t.Error(diff)
	}
	// Once broken it stays broken: no later event makes a whole answer of it.
	var a Assembler
	for _, f := range caseEvents(t, "32") {
		_, _ = a.Add(f) // the last one is the exception
	}
	_, again := a.Add(Frame{EventFrame, "messageStop", json.RawMessage(`{"stopReason":"end_turn"}`)})
	if again != err && !errors.As(again, &got) {
		t.Errorf("after the exception: %v", again)
	}
	if _, err := a.Response(); !errors.As(err, &got) {
		t.Errorf("response after the exception: %v", err)
	}
}

func TestStreamExceptionStatus(t *testing.T) {
	for kind, want := range map[string]int{
		"validationException": 400, "modelTimeoutException": 408, "modelStreamErrorException": 424, "throttlingException": 429,
		"internalServerException": 500, "serviceUnavailableException": 503, "shinyException": 0,
	} {
		if got := streamError(Frame{ExceptionFrame, kind, nil}); got.Status != want || !strings.EqualFold(got.Name, kind) {
			t.Errorf("%s: %+v, expected status %d", kind, got, want)
		}
	}
	got := streamError(Frame{ErrorFrame, "BadThing", json.RawMessage(`{"message":"m"}`)})
	if diff := cmp.Diff(&StreamError{"BadThing", "m", 0}, got); diff != "" {
		t.Error(diff)
	}
}

func TestAssembleBlocks(t *testing.T) {
	stop := `,["messageStop",{"stopReason":"end_turn"}]`
	for _, c := range []struct{ name, events, want string }{
		{"citations", `["contentBlockDelta",{"contentBlockIndex":0,"delta":{"text":"as "}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"text":"said"}}],` +
			`["contentBlockDelta",{"contentBlockIndex":0,"delta":{"citation":{"title":"t","source":"s","sourceContent":[{"text":"q"}],"location":{"web":{"url":"u"}}}}}]`,
			`{"citationsContent":{"content":[{"text":"as said"}],"citations":[{"title":"t","source":"s","sourceContent":[{"text":"q"}],"location":{"web":{"url":"u"}}}]}}`},
		{"image", `["contentBlockStart",{"contentBlockIndex":0,"start":{"image":{"format":"png"}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"image":{"source":{"bytes":"AA=="}}}}],` +
			`["contentBlockDelta",{"contentBlockIndex":0,"delta":{"image":{"source":{"bytes":"AQI="}}}}]`,
			`{"image":{"format":"png","source":{"bytes":"AAEC"}}}`},
		{"image elsewhere", `["contentBlockStart",{"contentBlockIndex":0,"start":{"image":{"format":"png"}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"image":{"source":{"s3Location":{"uri":"s3://b/k"}}}}}]`,
			`{"image":{"format":"png","source":{"s3Location":{"uri":"s3://b/k"}}}}`},
		{"image refused", `["contentBlockStart",{"contentBlockIndex":0,"start":{"image":{"format":"png"}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"image":{"error":{"message":"no"}}}}]`,
			`{"image":{"format":"png","error":{"message":"no"}}}`},
		{"tool result", `["contentBlockStart",{"contentBlockIndex":0,"start":{"toolResult":{"toolUseId":"s","status":"success","type":"web"}}}],` +
			`["contentBlockDelta",{"contentBlockIndex":0,"delta":{"toolResult":[{"text":"a"},{"text":"b"}]}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"toolResult":[{"json":{"n":1.0}},{"text":"c"}]}}]`,
			`{"toolResult":{"toolUseId":"s","status":"success","type":"web","content":[{"text":"ab"},{"json":{"n":1.0}},{"text":"c"}]}}`},
		{"server tool", `["contentBlockStart",{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"s","name":"web","type":"server_tool_use","new":1}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}]`,
			`{"toolUse":{"toolUseId":"s","name":"web","type":"server_tool_use","new":1,"input":{}}}`},
		{"signature without text", `["contentBlockDelta",{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}]`,
			`{"reasoningContent":{"reasoningText":{"signature":"s","text":""}}}`},
		{"empty text", `["contentBlockStop",{"contentBlockIndex":0}]`, `{"text":""}`},
		{"blocks out of order", `["contentBlockDelta",{"contentBlockIndex":7,"delta":{"text":"b"}}],["contentBlockDelta",{"contentBlockIndex":2,"delta":{"text":"a"}}]`, `{"text":"a"},{"text":"b"}`},
		{"interleaved", `["contentBlockDelta",{"contentBlockIndex":0,"delta":{"text":"a"}}],["contentBlockDelta",{"contentBlockIndex":1,"delta":{"text":"x"}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"text":"b"}}]`, `{"text":"ab"},{"text":"x"}`},
		{"text and reasoning in one", `["contentBlockDelta",{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"r"}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"text":"t"}}]`,
			`{"reasoningContent":{"reasoningText":{"text":"r"}}},{"text":"t"}`},
		{"exact numbers", `["contentBlockStart",{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"u","name":"f"}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{\"z\":-0.0,\"i\":9007199254740993,"}}}],` +
			`["contentBlockDelta",{"contentBlockIndex":0,"delta":{"toolUse":{"input":"\"f\":1.0,\"e\":1e400,\"s\":\"<&>\"}"}}}]`,
			`{"toolUse":{"toolUseId":"u","name":"f","input":{"e":1e400,"f":1.0,"i":9007199254740993,"s":"<&>","z":-0.0}}}`},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := Assemble(events(t, "["+c.events+stop+"]"))
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(answer("end_turn", c.want, ""), string(got)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// TestMalformedIndexCountsContent: the extension's index is that in the content,
// not the contentBlockIndex, which may have gaps.
func TestMalformedIndexCountsContent(t *testing.T) {
	body, err := Assemble(events(t, `[["contentBlockDelta",{"contentBlockIndex":3,"delta":{"text":"a"}}],
		["contentBlockStart",{"contentBlockIndex":9,"start":{"toolUse":{"toolUseId":"u","name":"f"}}}],
		["contentBlockDelta",{"contentBlockIndex":9,"delta":{"toolUse":{"input":"[1]"}}}],["messageStop",{"stopReason":"tool_use"}]]`))
	if err != nil {
		t.Fatal(err)
	}
	turn, err := ParseTurn(body)
	if err != nil {
		t.Fatal(err)
	}
	if len(turn.ToolUses) != 1 || turn.ToolUses[0].Malformed != "[1]" {
		t.Errorf("calls %+v of %s", turn.ToolUses, body)
	}
}

// TestStreamMembersAreKept: what messageStop and metadata say beside the known
// stays, durations and padding do not.
func TestStreamMembersAreKept(t *testing.T) {
	got, err := Assemble(events(t, `[["messageStart",{"role":"assistant","p":"abc"}],
		["messageStop",{"stopReason":"end_turn","additionalModelResponseFields":{"n":1.0},"p":"abcd"}],
		["metadata",{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3,"cacheReadInputTokens":4},"metrics":{"latencyMs":5},
			"trace":{"guardrail":{}},"serviceTier":{"type":"flex"},"shiny":true,"output":"no","investigator":"no","p":"ab"}]]`))
	if err != nil {
		t.Fatal(err)
	}
	want := answer("end_turn", "", `,"additionalModelResponseFields":{"n":1.0},"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3,"cacheReadInputTokens":4},
		"trace":{"guardrail":{}},"serviceTier":{"type":"flex"},"shiny":true`)
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestUnknownEventsLosePadding: padding differs between two equal answers.
func TestUnknownEventsLosePadding(t *testing.T) {
	assemble := func(pad string) string {
		b, err := Assemble(events(t, `[["shiny",{"x":1,"p":"`+pad+`"}],["messageStop",{"stopReason":"end_turn"}]]`))
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	if a, b := assemble("a"), assemble("abc"); a != b {
		t.Errorf("padding shows:\n%s\n%s", a, b)
	}
}

func TestUnreadableEvents(t *testing.T) {
	for _, c := range []struct{ events, want string }{
		{`[["contentBlockDelta",{"delta":{"text":"a"}}]]`, "event 1, contentBlockDelta: expected a contentBlockIndex"},
		{`[["messageStart",{}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"text":7}}]]`, "event 2, contentBlockDelta"},
		{`[["contentBlockDelta",{"contentBlockIndex":0,"delta":{"toolUse":{"input":"{}"}}}]]`, "never started"},
		{`[["contentBlockDelta",{"contentBlockIndex":0,"delta":{"reasoningContent":{"redactedContent":"%%"}}}]]`, "base64"},
		{`[["messageStop",[]]]`, "event 1, messageStop"},
		{`[["messageStop",{}]]`, "/stopReason: missing"},
		{`[["messageStart",{"role":"user"}],["messageStop",{"stopReason":"end_turn"}]]`, `/output/message/role: expected "assistant"`},
	} {
		body, err := Assemble(events(t, c.events))
		if err == nil || !strings.Contains(err.Error(), c.want) || body != nil {
			t.Errorf("%s: body %s, error %v, expected %q", c.events, body, err, c.want)
		}
	}
	if _, err := Assemble([]Frame{{EventFrame, "messageStop", json.RawMessage("<html>")}}); err == nil {
		t.Error("a payload that is no JSON was taken")
	}
}

// TestPieces: what a reader sees as it comes is what the answer says at last.
func TestPieces(t *testing.T) {
	var a Assembler
	var got []Piece
	for _, f := range events(t, `[["messageStart",{"role":"assistant"}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"hm"}}}],
		["contentBlockDelta",{"contentBlockIndex":0,"delta":{"reasoningContent":{"signature":"s"}}}],["contentBlockDelta",{"contentBlockIndex":1,"delta":{"text":"Look"}}],
		["contentBlockStart",{"contentBlockIndex":2,"start":{"toolUse":{"toolUseId":"u","name":"f"}}}],["contentBlockDelta",{"contentBlockIndex":2,"delta":{"toolUse":{"input":"{}"}}}]]`) {
		p, err := a.Add(f)
		if err != nil {
			t.Fatal(err)
		}
		if p.Kind != "" {
			got = append(got, p)
		}
	}
	want := []Piece{{ReasoningPiece, 0, "hm"}, {TextPiece, 1, "Look"}, {ToolPiece, 2, "f"}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if a.Stopped() {
		t.Error("stopped before messageStop")
	}
}

// FuzzAssemble: whatever a server frames, the result is an error or a canonical
// response that reads as a turn, and the same each time. The input is a JSON list
// of pairs: checksums would keep a fuzzer from the assembler.
func FuzzAssemble(f *testing.F) {
	for _, n := range []string{"22", "23", "25", "27", "28", "29", "31", "32", "34"} {
		var list [][]any
		for _, frame := range caseEvents(f, n) {
			list = append(list, []any{frame.Type, frame.Payload})
		}
		b, err := json.Marshal(list)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Add([]byte(`[["contentBlockStart",{"contentBlockIndex":0,"start":{"image":{"format":"png"}}}],["contentBlockDelta",{"contentBlockIndex":0,"delta":{"image":{"source":{"bytes":"AA=="}}}}],` +
		`["contentBlockDelta",{"contentBlockIndex":1,"delta":{"toolResult":[{"text":"a"}]}}],["contentBlockDelta",{"contentBlockIndex":2,"delta":{"citation":{"title":"t"}}}],["messageStop",{"stopReason":"x"}]]`))
	f.Fuzz(func(t *testing.T, list []byte) {
		var pairs [][]json.RawMessage
		if json.Unmarshal(list, &pairs) != nil {
			return
		}
		var frames []Frame
		for _, p := range pairs {
			if len(p) == 2 {
				frames = append(frames, Frame{EventFrame, decodeString(p[0]), p[1]})
			}
		}
		body, err := Assemble(frames)
		if err != nil {
			return
		}
		if canon, err := ledger.Canon(body); err != nil || string(canon) != string(body) {
			t.Fatalf("not canonical: %s (%v)", body, err)
		}
		if _, err := ParseTurn(body); err != nil {
			t.Fatal(err)
		}
		if again, err := Assemble(frames); err != nil || string(again) != string(body) {
			t.Fatalf("second assembly %s, first %s", again, body)
		}
	})
}

// FuzzToolInput cuts an input into deltas at any place and expects the call that
// the whole input makes.
func FuzzToolInput(f *testing.F) {
	f.Add(`{"path":"\ud83d\ude42.txt"}`, 12)
	f.Add("{\n\":12path\",\nx", 3)
	f.Fuzz(func(t *testing.T, input string, cut int) {
		input = strings.ToValidUTF8(input, "")
		if cut < 0 || cut > len(input) {
			cut = len(input) / 2
		}
		frames := events(t, `[["contentBlockStart",{"contentBlockIndex":0,"start":{"toolUse":{"toolUseId":"u","name":"f"}}}]]`)
		for _, piece := range []string{input[:cut], input[cut:]} {
			if strings.ToValidUTF8(piece, "") != piece {
				t.Skip("cut inside a character, which JSON text cannot be")
			}
			b, err := ledger.CanonValue(map[string]any{"contentBlockIndex": 0, "delta": map[string]any{"toolUse": map[string]string{"input": piece}}})
			if err != nil {
				t.Fatal(err)
			}
			frames = append(frames, Frame{EventFrame, "contentBlockDelta", b})
		}
		body, err := Assemble(append(frames, events(t, `[["messageStop",{"stopReason":"tool_use"}]]`)...))
		if err != nil {
			t.Fatal(err)
		}
		turn, err := ParseTurn(body)
		if err != nil || len(turn.ToolUses) != 1 {
			t.Fatalf("turn %+v, error %v", turn, err)
		}
		use := turn.ToolUses[0]
		canon, err := ledger.Canon([]byte(input))
		trimmed := strings.TrimSpace(input)
		switch {
		case trimmed == "" || trimmed == "null":
			if use.Malformed != "" || string(use.Input) != "{}" {
				t.Fatalf("no input gave %+v", use)
			}
		case err != nil || canon[0] != '{':
			if use.Malformed != input {
				t.Fatalf("malformed %q kept as %q", input, use.Malformed)
			}
		case string(use.Input) != string(canon) || use.Malformed != "":
			t.Fatalf("input %s, expected %s", use.Input, canon)
		}
	})
}
