package report

import (
	"encoding/json"
	"strings"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

func TestSummary(t *testing.T) {
	for name, tt := range map[string]struct{ kind, data, want string }{
		"start":       {ledger.RunStarted, `{"task":"Why?","model":"rule","request":{}}`, "Why? (model rule)"},
		"asks":        {ledger.ModelResponded, turn(`{"text":"Looking."},{"toolUse":{"input":{"a":1},"name":"look","toolUseId":"x"}}`, "tool_use"), `asks look {"a":1} · Looking.`},
		"asks twice":  {ledger.ModelResponded, turn(`{"toolUse":{"input":{},"name":"a","toolUseId":"x"}},{"toolUse":{"input":{},"name":"b","toolUseId":"y"}}`, "tool_use"), `asks a {} · asks b {}`},
		"reports":     {ledger.ModelResponded, turn(`{"toolUse":{"input":{},"name":"report_findings","toolUseId":"x"}}`, "tool_use"), `reports its findings`},
		"stops":       {ledger.ModelResponded, turn(`{"text":" Done. "}`, "end_turn"), `stops with end_turn · Done.`},
		"call":        {ledger.ToolCalled, `{"tool":"look","input":{"a":1}}`, `look {"a":1}`},
		"refused":     {ledger.ToolRefused, `{"tool":"rm","input":{}}`, `rm {}`},
		"result":      {ledger.ToolReturned, `{"tool":"look","status":"success","result":{"status":"ok","lines":[1,2]}}`, "look → ok: 2 lines"},
		"one":         {ledger.ToolReturned, `{"tool":"look","status":"success","result":{"metrics":[1]}}`, "look → success: 1 metric"},
		"one of many": {ledger.ToolReturned, `{"tool":"look","status":"success","result":{"series":[1],"class":[1]}}`, "look → success: 1 series, 1 class"},
		"empty":       {ledger.ToolReturned, `{"tool":"look","status":"success","result":{"status":"empty","lines":[]}}`, "look → empty: 0 lines"},
		"error":       {ledger.ToolReturned, `{"tool":"look","status":"error","result":{"status":"error","error":{"message":"no such service"}}}`, "look → error: no such service"},
		"error text":  {ledger.ToolReturned, `{"tool":"look","status":"error","result":{"error":"down"}}`, "look → error: down"},
		"odd error":   {ledger.ToolReturned, `{"tool":"look","status":"error","result":{"error":7}}`, "look → error: 7"},
		"no records":  {ledger.ToolReturned, `{"tool":"look","status":"success","result":{"a":1}}`, `look → success: {"a":1}`},
		"text":        {ledger.ToolReturned, `{"tool":"look","status":"success","result":"hello"}`, `look → success: "hello"`},
		"failed":      {ledger.ModelFailed, `{"error":{"name":"ThrottlingException","message":"slow down","status":429}}`, "ThrottlingException: slow down"},
		"limit":       {ledger.RunFinished, `{"outcome":"limit","reason":"max turns","turns":1,"usage":{}}`, "limit: max turns"},
		"unknown":     {"later.event", `{"a":1}`, `{"a":1}`},
		"not ours":    {ledger.ToolReturned, `[]`, `[]`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Summary(ledger.Event{Seq: 1, Type: tt.kind, Data: json.RawMessage(tt.data)}); got != tt.want {
				t.Errorf("Summary = %q, want %q", got, tt.want)
			}
		})
	}
}

func turn(content, stop string) string {
	return `{"output":{"message":{"content":[` + content + `],"role":"assistant"}},"stopReason":"` + stop + `","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
}

// One event is one line that fits, whatever it holds.
func TestEventIsOneLine(t *testing.T) {
	long := `{"tool":"look","input":{"q":"` + strings.Repeat("日\u202e", 400) + `"}}`
	for _, origin := range []edge.Origin{"", edge.Executed, edge.Origin(strings.Repeat("\x1b", 400))} {
		got := printed(false, 100, func(p *Printer) {
			p.Event(ledger.Event{Seq: 7, Type: ledger.ToolCalled, Data: json.RawMessage(long)}, origin)
		})
		line := strings.TrimSuffix(got, "\n")
		if strings.ContainsFunc(line, unsafe) || widthOf(line) > 100 {
			t.Errorf("origin %q: %d columns: %q", origin, widthOf(line), line)
		}
	}
}

func TestHeadline(t *testing.T) {
	for want, v := range map[string]verdict.Verdict{
		"inconclusive":                                       {Confidence: "none"},
		"cart (load, confidence low)":                        {Component: "cart", Class: "load", Confidence: "low"},
		"cart (change, confidence high), change v1":          {Component: "cart", Class: "change", Confidence: "high", Change: "v1"},
		strings.Repeat("x", 79) + "… (load, confidence low)": {Component: strings.Repeat("x", 9999), Class: "load", Confidence: "low"},
	} {
		if got := Headline(v); got != want {
			t.Errorf("Headline = %q, want %q", got, want)
		}
	}
}

func TestRestsOn(t *testing.T) {
	for want, origins := range map[string]map[edge.Origin]int{
		"": nil,
		"3 from tape, 1 patched, 2 answered by the rule model, 1 executed": {edge.Tape: 3, edge.Patched: 1, edge.Rule: 2, edge.Executed: 1},
		"1 sampled live, 2 refused":                                        {edge.Live: 1, edge.Refused: 2, edge.Derived: 4},
	} {
		if got := RestsOn(origins); got != want {
			t.Errorf("RestsOn(%v) = %q, want %q", origins, got, want)
		}
	}
}

func TestTokens(t *testing.T) {
	for want, u := range map[string]converse.Usage{
		"10 in, 2 out": {Input: 10, Output: 2},
		"100 in, 2 out; cache read 75 (75 %), written 15": {Input: 10, Output: 2, CacheRead: 75, CacheWrite: 15},
	} {
		if got := Tokens(u); got != want {
			t.Errorf("Tokens = %q, want %q", got, want)
		}
	}
}
