package foreign

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
)

// framed is a ConverseStream answer of "type payload" lines.
func framed(events ...string) []byte {
	var out []byte
	for _, e := range events {
		kind, payload, _ := strings.Cut(e, " ")
		out = append(out, converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: kind, Payload: json.RawMessage(payload)})...)
	}
	return out
}

// unframed gives the lines of a stream in any framing.
func unframed(t *testing.T, a Asked, body []byte) (out []string) {
	t.Helper()
	if a.Dialect == Converse {
		frames, rest, err := converse.DecodeFrames(body)
		if err != nil || rest != 0 {
			t.Fatal(rest, err)
		}
		for _, f := range frames {
			out = append(out, fmt.Sprintf("%s %s", f.Type, canon(t, string(f.Payload))))
		}
		return out
	}
	events, _, err := eventsOf(body)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range events {
		out = append(out, string(e))
	}
	return out
}

// TestUnknownEventsAreSentAgain: what was not understood of a streamed answer
// goes out again when the answer is edited, in the block it came in.
func TestUnknownEventsAreSentAgain(t *testing.T) {
	converseEnd := []string{`messageStop {"stopReason":"end_turn"}`, `metadata {"metrics":{"latencyMs":1},"usage":{"inputTokens":3,"outputTokens":4,"totalTokens":7}}`}
	sse := func(events []string) []byte { return []byte("data: " + strings.Join(events, "\n\ndata: ") + "\n\n") }
	chunked := func(events []string) (out []byte) {
		for _, e := range events {
			out = append(out, converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "chunk", Payload: encode(map[string][]byte{"bytes": []byte(e)})})...)
		}
		return out
	}
	anthropic := []string{
		`{"message":{"content":[],"id":"msg_investigator","model":"m","role":"assistant","stop_reason":null,"stop_sequence":null,"type":"message","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":3,"output_tokens":4}},"type":"message_start"}`,
		`{"content_block":{"text":"","type":"text"},"index":0,"type":"content_block_start"}`,
		`{"delta":{"text":"old","type":"text_delta"},"index":0,"type":"content_block_delta"}`,
		`{"delta":{"citation":{"title":"t"},"type":"citations_delta"},"index":0,"type":"content_block_delta"}`,
		`{"index":0,"type":"content_block_stop"}`,
		`{"content_block":{"text":"","type":"text"},"index":1,"type":"content_block_start"}`,
		`{"delta":{"text":"two","type":"text_delta"},"index":1,"type":"content_block_delta"}`,
		`{"type":"shiny","x":1}`,
		`{"delta":{"glow":2,"type":"glow_delta"},"index":1,"type":"content_block_delta"}`,
		`{"index":1,"type":"content_block_stop"}`,
		`{"type":"last_words","x":1.0}`,
		`{"delta":{"stop_reason":"end_turn","stop_sequence":null},"type":"message_delta","usage":{"cache_creation_input_tokens":0,"cache_read_input_tokens":0,"input_tokens":3,"output_tokens":4}}`,
		`{"type":"message_stop"}`,
	}
	for name, c := range map[string]struct {
		asker  string
		events []string
		frame  func([]string) []byte
	}{
		"Converse": {"converse stream", append([]string{
			`messageStart {"role":"assistant"}`,
			`contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"old"}}`,
			`shinyNewEvent {"x":1}`,
			`contentBlockDelta {"contentBlockIndex":0,"delta":{"glow":{"n":1}}}`,
			`contentBlockStop {"contentBlockIndex":0}`,
			`contentBlockStart {"contentBlockIndex":1,"start":{"hologram":{"id":"h"}}}`,
			`contentBlockDelta {"contentBlockIndex":1,"delta":{"hologram":{"z":3}}}`,
			`contentBlockStop {"contentBlockIndex":1}`,
			`contentBlockStart {"contentBlockIndex":2,"start":{"toolUse":{"name":"a","toolUseId":"u"}}}`,
			`contentBlockDelta {"contentBlockIndex":2,"delta":{"toolUse":{"input":"{\"q\":1}"}}}`,
			`contentBlockStop {"contentBlockIndex":2}`,
			`contentBlockDelta {"contentBlockIndex":3,"delta":{"glow":{"n":2}}}`,
			`contentBlockStop {"contentBlockIndex":3}`,
			`shinyNewEvent {"x":2}`,
		}, converseEnd...), func(events []string) []byte { return framed(events...) }},
		"invoke":   {"anthropic stream", anthropic, chunked},
		"Messages": {"messages stream", anthropic, sse},
	} {
		t.Run(name, func(t *testing.T) {
			a := askers(t)[c.asker]
			body, err := ReadAnswer(a.Dialect, c.frame(c.events))
			if err != nil {
				t.Fatal(err)
			}
			edited := strings.Replace(string(body), `"text":"old"`, `"text":"new"`, 1)
			e, err := Encode(a, json.RawMessage(edited))
			if err != nil {
				t.Fatal(err)
			}
			want := strings.Split(strings.Replace(strings.Join(c.events, "\n"), `"text":"old"`, `"text":"new"`, 1), "\n")
			if d := cmp.Diff(want, unframed(t, a, e.Body)); d != "" {
				t.Errorf("sent (-want +got)\n%s", d)
			}
			again, err := ReadAnswer(a.Dialect, e.Body)
			if d := cmp.Diff(edited, string(again)); err != nil || d != "" {
				t.Errorf("read back: %v (-want +got)\n%s", err, d)
			}
		})
	}
}

// TestUnknownEventsOfAnotherShape: an edit may have removed their block, or
// left something that is no event; the answer stays one that can be read.
func TestUnknownEventsOfAnotherShape(t *testing.T) {
	asked := askers(t)
	for name, c := range map[string]struct {
		asker, unknown string
		want           []string // the events that were sent again
	}{
		"a block that is gone": {"converse stream", `{"payload":{"contentBlockIndex":7,"delta":{"glow":1}},"type":"contentBlockDelta"},{"payload":{"contentBlockIndex":9,"start":{"glow":{}}},"type":"contentBlockStart"}`,
			[]string{`contentBlockDelta {"contentBlockIndex":1,"delta":{"glow":1}}`, `contentBlockStart {"contentBlockIndex":2,"start":{"glow":{}}}`}},
		"a block that is gone, too": {"messages stream", `{"delta":{"type":"glow"},"index":7,"type":"content_block_delta"}`, []string{`{"delta":{"type":"glow"},"index":7,"type":"content_block_delta"}`}},
		"no events":                 {"converse stream", `1,null,[],{},{"type":1},{"type":"glow"},{"payload":{}},{"type":"a\nb","payload":{}},{"type":"contentBlockDelta","payload":{"glow":1,"contentBlockIndex":-1}}`, []string{`contentBlockDelta {"contentBlockIndex":-1,"glow":1}`}},
		"no events, too":            {"messages stream", `1,null,[],{},{"type":1},{"type":"a\nevent: b"},{"type":"glow"}`, []string{`{"type":"glow"}`}},
		"an index of text":          {"messages stream", `{"index":"x","type":"content_block_delta"}`, []string{`{"index":"x","type":"content_block_delta"}`}},
	} {
		t.Run(name, func(t *testing.T) {
			a := asked[c.asker]
			turn := `{"investigator":{"unknownEvents":[` + c.unknown + `]},` + turnOf("end_turn", `{"text":"x"}`)[1:]
			e, err := Encode(a, canon(t, turn))
			if err != nil {
				t.Fatal(err)
			}
			plain, err := Encode(a, json.RawMessage(turnOf("end_turn", `{"text":"x"}`)))
			if err != nil {
				t.Fatal(err)
			}
			known := map[string]bool{}
			for _, line := range unframed(t, a, plain.Body) {
				known[line] = true
			}
			var got []string
			for _, line := range unframed(t, a, e.Body) {
				if !known[line] && !strings.HasPrefix(line, "contentBlockStop") {
					got = append(got, line)
				}
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("(-want +got)\n%s", d)
			}
		})
	}
}

// FuzzUnknownEvents: whatever stands in a stream, the answer that was read of it
// is read again from what is sent for it.
func FuzzUnknownEvents(f *testing.F) {
	f.Add("shiny", `{"x":1}`, false)
	f.Add("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"x","zoom":1}}`, false)
	f.Add("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"reasoningContent":{"text":"x","zoom":1}}}`, true)
	f.Add("contentBlockDelta", `{"contentBlockIndex":4,"delta":{"toolResult":[{"text":"x"},{"zoom":1}]}}`, true)
	f.Add("contentBlockShine", `{"contentBlockIndex":4,"delta":{"zoom":1}}`, false)
	f.Add("contentBlockShine", `{"contentBlockIndex":0,"delta":{"zoom":1}}`, true)
	f.Add("contentBlockStop", `{"contentBlockIndex":4,"zoom":1}`, true)
	f.Add("contentBlockStart", `{"contentBlockIndex":1,"start":{"toolUse":{"toolUseId":"u","name":"a"},"zoom":{}}}`, false)
	f.Add("", `{"type":"content_block_delta","index":0,"delta":{"type":"zoom","text":"x"}}`, false)
	f.Add("", `{"type":"content_block_stop","index":0}`, true)
	f.Add("", `{"type":"content_block_start","index":0,"content_block":null}`, false)
	f.Add("", `{"type":"zoom","index":1e400,"delta":{"text":{}}}`, true)
	asked := askers(f)
	f.Fuzz(func(t *testing.T, kind, payload string, late bool) {
		text, more := `contentBlockDelta {"contentBlockIndex":0,"delta":{"text":"hi"}}`, kind+" "+payload
		events := []string{`messageStart {"role":"assistant"}`, more, text, `messageStop {"stopReason":"end_turn"}`}
		lines := []string{`{"type":"message_start","message":{}}`, `{"type":"content_block_start","index":0,"content_block":{"type":"text","text":""}}`, payload, `{"type":"content_block_stop","index":0}`,
			`{"type":"message_delta","delta":{"stop_reason":"end_turn"}}`, `{"type":"message_stop"}`}
		if late {
			events[1], events[2] = text, more
			lines[1], lines[2] = payload, lines[1]
		}
		if kind != "" && len(kind) < 200 && !strings.Contains(kind, " ") && json.Valid([]byte(payload)) {
			readsBack(t, asked["converse stream"], framed(events...))
		}
		if !strings.ContainsAny(payload, "\n\r") {
			readsBack(t, asked["messages stream"], []byte("data: "+strings.Join(lines, "\n\ndata: ")+"\n\n"))
		}
	})
}

func readsBack(t *testing.T, a Asked, body []byte) {
	t.Helper()
	first, err := ReadAnswer(a.Dialect, body)
	if err != nil {
		return
	}
	e, err := Encode(a, first)
	if err != nil {
		t.Fatal(err)
	}
	once, err := ReadAnswer(a.Dialect, e.Body)
	if err != nil {
		t.Fatalf("%v\nread %s\nsent %q", err, first, e.Body)
	}
	if a, b := content(t, first), content(t, once); a != b {
		t.Errorf("read %s\nsent %q\nread again %s", a, e.Body, b)
	}
}

// content is what an answer says, without the events that are unknown.
func content(t *testing.T, answer json.RawMessage) string {
	t.Helper()
	turn, err := converse.ParseTurn(answer)
	if err != nil {
		t.Fatal(err)
	}
	return fmt.Sprintf("%s %s", turn.Message, turn.StopReason)
}
