package bedrock

import (
	"context"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/prompt"
)

// investigation is a model that thinks, asks twice at once, and reports.
func investigation() bedrocktest.Script {
	verdict := `{"component":"payments-db","class":"saturation","mechanism":"m","change":"v841","started_at":"","confidence":"high","summary":"s","evidence":["E6"],"ruled_out":[],"recommendation":"r"}`
	return bedrocktest.Turns(
		bedrocktest.Say(bedrocktest.Reasoning("two at once\n\n", "c2ln"), bedrocktest.Redacted([]byte{1, 2, 255}), bedrocktest.Text("I look."),
			bedrocktest.ToolUse("u1", "look", `{"n":9007199254740993}`), bedrocktest.ToolUse("u2", "look", `{"n":1.0}`)),
		bedrocktest.Say(bedrocktest.Reasoning("enough", "c2ln"), bedrocktest.ToolUse("u3", "report_findings", verdict)),
	)
}

// lookAround is a tool edge that repeats its input.
func lookAround(_ context.Context, call edge.Call) (edge.Return, error) {
	return edge.Return{Body: call.Use.Input, Origin: edge.Executed}, nil
}

func investigate(t *testing.T, url string, stream bool) []ledger.Event {
	t.Helper()
	b, err := prompt.Request(prompt.Options{Model: testModel, Tools: []prompt.Tool{{Name: "look", Description: "Looks.", InputSchema: json.RawMessage(`{"type":"object"}`)}}})
	if err != nil {
		t.Fatal(err)
	}
	start, err := loop.Start{Task: "Why is checkout slow?", Model: testModel, Request: b.Request, Cache: b.Cache, Prompt: &b.Prompt}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	s, first, err := loop.New(start)
	if err != nil {
		t.Fatal(err)
	}
	events := []ledger.Event{first}
	sink := loop.SinkFunc(func(_ edge.Call, _ edge.Return, more []ledger.Event) error {
		events = append(events, more...)
		return nil
	})
	end, err := loop.Run(t.Context(), s, edge.Split{Model: newEdge(t, options(url, stream)), Tool: edge.Func(lookAround)}, sink)
	if err != nil {
		t.Fatal(err)
	}
	if o, err := loop.ParseOutcome(end.Finished()); err != nil || o.Outcome != loop.Concluded || o.Usage.Total == 0 {
		t.Fatalf("outcome %+v, error %v", o, err)
	}
	return events
}

// TestRun is a whole investigation on the local Bedrock, which refuses reasoning
// that comes back altered, calls without results and everything else its rules
// know. Trouble on the way leaves no trace in the ledger, and neither does the
// way of asking.
func TestRun(t *testing.T) {
	const noCache = 1 << 30 // an attempt that fails may still have written the cache, and the usage would show it
	quiet := bedrocktest.New(t, bedrocktest.Options{Script: investigation(), CacheMinTokens: noCache})
	want := investigate(t, quiet.URL, true)
	for i, fault := range []string{"", "throttle", "cut", "reset", "error-mid-stream", "bad-crc"} {
		eachWay(t, func(t *testing.T, stream bool) {
			o := bedrocktest.Options{Script: investigation(), CacheMinTokens: noCache, Seed: uint64(i) + 1}
			if fault != "" {
				o.Faults = []bedrocktest.Fault{{Name: fault, Every: 2, Times: 6}}
			}
			s := bedrocktest.New(t, o)
			if diff := cmp.Diff(lines(want), lines(investigate(t, s.URL, stream))); diff != "" {
				t.Errorf("with %q (-quiet +troubled):\n%s", fault, diff)
			}
		})
	}
	if len(want) != 8 {
		t.Errorf("%d events:\n%s", len(want), lines(want))
	}
}

// TestSecondTurnReadsTheCache: a turn reads from the cache all that the turn
// before it sent.
func TestSecondTurnReadsTheCache(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: investigation()})
	var usage []converse.Usage
	for _, e := range investigate(t, s.URL, true) {
		if e.Type != ledger.ModelResponded {
			continue
		}
		turn, err := converse.ParseTurn(e.Data)
		if err != nil {
			t.Fatal(err)
		}
		usage = append(usage, turn.Usage)
	}
	if len(usage) != 2 || usage[0].CacheWrite == 0 || usage[1].CacheRead != usage[0].CacheWrite {
		t.Errorf("usage by turn: %+v", usage)
	}
}

func lines(events []ledger.Event) (out []string) {
	for _, e := range events {
		out = append(out, string(e.Line()))
	}
	return out
}
