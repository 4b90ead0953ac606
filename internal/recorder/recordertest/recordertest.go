// Package recordertest makes runs of any length without a model or a world, for
// tests and benchmarks of whatever records, reads or compares them.
//
// A Script is a model that asks for one synthetic tool a turn, as many turns as
// it is told, and then reports a verdict; the tool answers with text of the
// size it is told. Both are pure functions of the call, so the same options
// give the same run, byte for byte.
package recordertest

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// Options say what a generated run looks like.
type Options struct {
	Turns    int // model turns, the last one reports
	Bytes    int // of each tool result, about
	Parallel int // tool calls a turn, 1 if zero
	// Odd adds what is rare: failing tools, text outside of ASCII, results that
	// are arrays and strings, malformed calls, blank text, repeated ids.
	Odd bool
	// Wire makes the model answer as if over a network, with a failed attempt
	// now and then.
	Wire bool
}

// Start returns the run.started data of generated runs.
func Start() json.RawMessage {
	start := loop.Start{
		Task: "Checkout p99 latency spiked overnight. Find the likely cause.", Model: "scripted", Now: "2026-01-15T08:00:00Z",
		Request: json.RawMessage(`{"inferenceConfig":{"maxTokens":4096},"system":[{"text":"You investigate incidents."}],` +
			`"toolConfig":{"tools":[{"toolSpec":{"description":"reads","inputSchema":{"json":{"type":"object"}},"name":"read"}},` +
			`{"toolSpec":{"description":"reports","inputSchema":{"json":{"type":"object"}},"name":"report_findings"}}]}}`),
	}
	data, err := start.JSON()
	if err != nil {
		panic(err) // the literal above always encodes
	}
	return data
}

// Header returns the header of generated runs.
func Header() recorder.Header {
	return recorder.Header{Tool: "investigator test", Run: "generated", Started: "2026-01-15T08:00:00Z", Start: Start()}
}

// Edge answers the calls of a generated run.
func Edge(o Options) edge.Edge {
	return edge.Split{Model: edge.Func(o.model), Tool: edge.Func(o.tool)}
}

// Generate runs o into sink and returns the state it ended in.
func Generate(o Options, sink loop.Sink) (loop.State, error) {
	s, _, err := loop.New(Start())
	if err != nil {
		return s, err
	}
	return loop.Run(context.Background(), s, Edge(o), sink)
}

// Cassette returns the bytes of a generated run's cassette.
func Cassette(o Options) ([]byte, error) {
	w, err := recorder.NewMemory(Header())
	if err != nil {
		return nil, err
	}
	_, err = Generate(o, w)
	return w.Bytes(), err
}

func (o Options) random(turn, pos int) *rand.Rand {
	return rand.New(rand.NewPCG(uint64(turn), uint64(pos)))
}

func (o Options) model(_ context.Context, call edge.Call) (edge.Return, error) {
	body, err := converse.Normalize(o.answer(call.Turn))
	r := edge.Return{Body: body, Origin: edge.Rule, At: "2026-01-15T08:00:01Z", Took: "1.5ms"}
	if o.Wire {
		r.Origin, r.Wire = edge.Live, o.wire(call.Turn, body)
	}
	return r, err
}

func (o Options) answer(turn int) []byte {
	var b bytes.Buffer
	stop := "tool_use"
	b.WriteString(`{"output":{"message":{"content":[`)
	fmt.Fprintf(&b, `{"text":%q}`, "Looking at part "+fmt.Sprint(turn)+" next.")
	if o.Odd && turn%5 == 0 {
		b.WriteString(`,{"text":" "}`)
	}
	if turn >= o.Turns {
		b.WriteString(`,{"toolUse":{"input":` + report + `,"name":"report_findings","toolUseId":"last"}}`)
	} else {
		for pos := range max(1, o.Parallel) {
			id := fmt.Sprintf("t%d-%d", turn, pos)
			if o.Odd && turn%4 == 0 {
				id = "same"
			}
			input := fmt.Sprintf(`{"part":%d,"pos":%d}`, turn, pos)
			if o.Odd && turn%6 == 0 && pos == 1 {
				input = `"cut off"`
			}
			fmt.Fprintf(&b, `,{"toolUse":{"input":%s,"name":"read","toolUseId":%q}}`, input, id)
		}
	}
	fmt.Fprintf(&b, `],"role":"assistant"}},"stopReason":%q,"usage":{"inputTokens":%d,"outputTokens":40,"totalTokens":%d}}`, stop, 100*turn, 100*turn+40)
	return b.Bytes()
}

const report = `{"component":"checkout","class":"change","mechanism":"pool too small","change":"v841","started_at":"2026-01-15T02:00:00Z",` +
	`"confidence":"high","summary":"v841 shrank the pool.","evidence":["E4"],"ruled_out":[],"recommendation":"roll back"}`

func (o Options) wire(turn int, body []byte) *edge.Wire {
	spaced := append([]byte(`{"metrics":{"latencyMs":12},`), bytes.TrimPrefix(body, []byte("{"))...)
	w := &edge.Wire{URL: "https://bedrock-runtime.us-east-1.amazonaws.com/model/scripted/converse"}
	if turn%3 == 0 {
		w.Attempts = append(w.Attempts, edge.Attempt{Code: 429, Header: map[string]string{"X-Amzn-Errortype": "ThrottlingException", "Date": "never kept"},
			Body: []byte("{\"message\":\"slow down\"}\x00\xff"), At: "2026-01-15T08:00:01Z", Took: "3ms"})
	}
	return &edge.Wire{URL: w.URL, Attempts: append(w.Attempts, edge.Attempt{Code: 200, Header: map[string]string{"content-type": "application/json"},
		Body: spaced, At: "2026-01-15T08:00:02Z", Took: "12ms", Wait: "1s"})}
}

func (o Options) tool(_ context.Context, call edge.Call) (edge.Return, error) {
	text := Prose(o.random(call.Turn, call.Pos), o.Bytes)
	r := edge.Return{Origin: edge.Executed, At: "2026-01-15T08:00:03Z", Took: "541ms"}
	var value any = map[string]any{"rows": lines(text), "part": call.Turn}
	if o.Odd {
		switch call.Turn % 5 {
		case 1:
			value = lines(text)
		case 2:
			value = text + "\u0085\u2028\ufeff\uffff\U0001F600\x7f\t\n"
		case 3:
			r.Failed = true
		}
	}
	var err error
	r.Body, err = ledger.CanonValue(value)
	return r, err
}

func lines(text string) []string { return strings.Split(text, "\n") }

// Prose returns about n bytes of log-like lines.
func Prose(r *rand.Rand, n int) string {
	words := strings.Fields("checkout payment pool exhausted waiting connection timeout after retry upstream returned error latency p99 db region shard leader elected deploy rolled config changed size reduced queue depth growing")
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "02:%02d:%02d ", r.IntN(60), r.IntN(60))
		for range 6 + r.IntN(8) {
			b.WriteString(words[r.IntN(len(words))] + " ")
		}
		fmt.Fprintf(&b, "id=%x\n", r.Uint32())
	}
	return strings.TrimSpace(b.String())
}
