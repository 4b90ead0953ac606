package diff

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// run builds a ledger by hand.
type run struct {
	events []ledger.Event
	turn   int
}

func (r *run) add(kind, in, data string) *run {
	canon, err := ledger.Canon([]byte(data))
	if err != nil {
		panic(err)
	}
	r.events = append(r.events, ledger.Event{Seq: len(r.events) + 1, Type: kind, In: in, Data: canon})
	return r
}

// model adds a turn that asks for tool; its In depends on all before it, as a
// real request does.
func (r *run) model(tool, input string) *run {
	r.turn++
	in := ledger.Total(r.events).String()
	return r.add(ledger.ModelResponded, in, fmt.Sprintf(`{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"t","name":%q,"input":%s}}]}},"stopReason":"tool_use"}`, tool, input))
}

// tool adds a call and its return.
func (r *run) tool(tool, input, result string) *run {
	use := converse.ToolUse{ID: fmt.Sprintf("t%d", r.turn), Name: tool, Input: json.RawMessage(input)}
	r.add(ledger.ToolCalled, "", string(loop.CalledData(r.turn, 0, use)))
	call := edge.Call{Turn: r.turn, Use: use}
	return r.add(ledger.ToolReturned, edge.ToolDigest(tool, use.Input), string(loop.ReturnedData(call, edge.Return{Body: json.RawMessage(result)})))
}

// concludes adds the verdict's turn and run.finished.
func (r *run) concludes(v verdict.Verdict) *run {
	r.model(verdict.Tool, string(v.JSON()))
	return r.add(ledger.RunFinished, "", fmt.Sprintf(`{"outcome":"verdict","turns":%d,"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0},"verdict":%s}`, r.turn, v.JSON()))
}

func (r *run) named(name string) Run {
	out := Run{Name: name, Events: r.events}
	var sum ledger.Sum
	for _, e := range r.events {
		sum = sum.Add(e)
		out.Sums = append(out.Sums, sum)
	}
	return out
}

const (
	v840 = `{"at":"18:20","id":"v840"}`
	v841 = `{"at":"01:55","id":"v841"}`
	logs = `{"service":"payments-db"}`
)

func blame(component, change string) verdict.Verdict {
	return verdict.Verdict{
		Component: component, Class: "change", Change: change, Mechanism: "m", Confidence: "high", Summary: "s",
		Evidence: []string{"E7"}, RuledOut: []verdict.RuledOut{}, Recommendation: "r",
	}
}

// started is what the runs of the reference experiment begin with: six events.
func started() *run {
	r := (&run{}).add(ledger.RunStarted, "", `{"task":"t"}`)
	r.model("query_metrics", `{}`).tool("query_metrics", `{}`, `{"p99":[1.0,9.5]}`)
	r.model("list_deploys", `{}`)
	return r
}

func runA() *run {
	return started().tool("list_deploys", `{}`, `{"deploys":[`+v840+`,`+v841+`]}`).concludes(blame("checkout", "v841"))
}

func runB() *run {
	r := started().tool("list_deploys", `{}`, `{"deploys":[`+v840+`]}`)
	return r.model("search_logs", logs).tool("search_logs", logs, `{"lines":[]}`).concludes(blame("payments-db", ""))
}

// outline is what a table states about consequences.
func outline(cs []Consequence) []string {
	out := []string{}
	for _, c := range cs {
		out = append(out, strings.TrimSpace(fmt.Sprintf("%s %d-%d %s %s", c.Kind, c.A, c.B, c.Type, c.Tool)))
	}
	return out
}

func TestReferenceExperiment(t *testing.T) {
	a, b := runA().named("a"), runB().named("b")
	if len(a.Events) != 9 || len(b.Events) != 12 {
		t.Fatalf("the runs have %d and %d events, expected 9 and 12", len(a.Events), len(b.Events))
	}
	b.Origins = func(seq int) edge.Origin {
		if seq == 7 {
			return edge.Patched
		}
		return edge.Tape
	}
	r := Ledgers(a, b)
	va, vb := blame("checkout", "v841"), blame("payments-db", "")
	want := Report{
		A:       Conclusion{Name: "a", Events: 9, Outcome: "verdict", Verdict: &va},
		B:       Conclusion{Name: "b", Events: 12, Outcome: "verdict", Verdict: &vb},
		Finding: FindingDifferent, Differences: []Difference{{"component", "checkout", "payments-db"}, {"change", "v841", ""}},
		IdenticalTo: 6,
		Divergence: &Divergence{
			Seq: 7, A: Side{Type: ledger.ToolReturned, Tool: "list_deploys"},
			B:       Side{Type: ledger.ToolReturned, Tool: "list_deploys", Origin: edge.Patched},
			Changes: []Change{change(Dropped, "/deploys/1", v841, "")},
		},
		Consequences: r.Consequences,
	}
	if d := cmp.Diff(want, r); d != "" {
		t.Errorf("report (-want +got):\n%s", d)
	}
	rows := []string{
		"only-b 0-8 model.responded", "only-b 0-9 tool.called search_logs", "only-b 0-10 tool.returned search_logs",
		"changed 8-11 model.responded", "changed 9-12 run.finished",
	}
	if d := cmp.Diff(rows, outline(r.Consequences)); d != "" {
		t.Errorf("consequences (-want +got):\n%s", d)
	}
}

func TestReportIsStableJSON(t *testing.T) {
	got := must(t, Ledgers(started().named("a"), Run{Name: "b"}))
	want := `{"a":{"name":"a","events":5,"outcome":"","verdict":null},"b":{"name":"b","events":0,"outcome":"","verdict":null},"finding":"none","differences":[],` +
		`"identical":false,"identical_to":0,"prefix":"b","divergence":null,"consequences":[` +
		`{"kind":"only-a","a":1,"type":"run.started","count":0},{"kind":"only-a","a":2,"type":"model.responded","count":0},` +
		`{"kind":"only-a","a":3,"type":"tool.called","tool":"query_metrics","count":0},{"kind":"only-a","a":4,"type":"tool.returned","tool":"query_metrics","count":0},` +
		`{"kind":"only-a","a":5,"type":"model.responded","count":0}]}`
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("JSON (-want +got):\n%s", d)
	}
}

func TestLedgers(t *testing.T) {
	type summary struct {
		Finding, Prefix string
		Identical       bool
		To, At          int
		Rows            []string
	}
	whole, cut := runA().named("a"), runA().named("b")
	cut.Events, cut.Sums = cut.Events[:5], cut.Sums[:5]
	tests := map[string]struct {
		a, b Run
		want summary
	}{
		"identical":  {whole, runA().named("b"), summary{FindingSame, "", true, 9, 0, []string{}}},
		"both empty": {Run{}, Run{}, summary{FindingNone, "", true, 0, 0, []string{}}},
		"a is empty": {Run{}, Run{Events: whole.Events[:1]}, summary{FindingNone, "a", false, 0, 0, []string{"only-b 0-1 run.started"}}},
		"b is a strict prefix": {whole, cut, summary{FindingNone, "b", false, 5, 0, []string{
			"only-a 6-0 tool.called list_deploys", "only-a 7-0 tool.returned list_deploys", "only-a 8-0 model.responded", "only-a 9-0 run.finished"}}},
		"same finding, other words": {
			started().concludes(blame("Checkout", "v841")).named("a"), started().concludes(blame("checkout", "V841")).named("b"),
			summary{FindingSame, "", false, 5, 6, []string{"changed 7-7 run.finished"}}},
		"model's input changed, answer did not": {
			(&run{}).add(ledger.RunStarted, "", `{"task":"x"}`).model("q", `{}`).named("a"),
			(&run{}).add(ledger.RunStarted, "", `{"task":"y"}`).model("q", `{}`).named("b"),
			summary{FindingNone, "", false, 0, 1, []string{"input-changed 2-2 model.responded"}}},
		"an inserted turn shifts nothing": {
			(&run{}).add(ledger.RunStarted, "", `{}`).model("q", `{}`).tool("q", `{}`, `{"n":1}`).model("r", `{}`).tool("r", `{}`, `2`).named("a"),
			(&run{}).add(ledger.RunStarted, "", `{}`).model("q", `{}`).tool("q", `{}`, `{"n":2}`).model("s", `{}`).tool("s", `{}`, `3`).model("r", `{}`).tool("r", `{}`, `2`).named("b"),
			summary{FindingNone, "", false, 3, 4, []string{
				"only-b 0-5 model.responded", "only-b 0-6 tool.called s", "only-b 0-7 tool.returned s",
				"input-changed 5-8 model.responded", "same 6-9 tool.called r", "same 7-10 tool.returned r"}}},
		"types differ at the divergence": {
			(&run{}).tool("q", `{}`, `1`).named("a"), (&run{}).add(ledger.ContextTrimmed, "", `{}`).tool("q", `{}`, `1`).named("b"),
			summary{FindingNone, "", false, 0, 1, []string{"only-b 0-1 context.trimmed", "same 1-2 tool.called q", "same 2-3 tool.returned q"}}},
	}
	for name, tt := range tests {
		for _, sums := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, sums=%v", name, sums), func(t *testing.T) {
				if !sums {
					tt.a.Sums, tt.b.Sums = nil, nil
				}
				r := Ledgers(tt.a, tt.b)
				got := summary{r.Finding, r.Prefix, r.Identical, r.IdenticalTo, 0, outline(r.Consequences)}
				if r.Divergence != nil {
					got.At = r.Divergence.Seq
				}
				if d := cmp.Diff(tt.want, got); d != "" {
					t.Errorf("report (-want +got):\n%s", d)
				}
			})
		}
	}
}

// Sums that do not belong to the events must not make unequal ledgers
// identical, nor equal ones differ.
func TestLyingSums(t *testing.T) {
	a, b := runA().named("a"), runA().named("b")
	b.Sums = make([]ledger.Sum, len(b.Sums))
	if r := Ledgers(a, b); !r.Identical {
		t.Errorf("equal ledgers with other sums: not identical, %d events shared", r.IdenticalTo)
	}
	c := runA().named("c")
	c.Events[8].Data = json.RawMessage(`{}`)
	if r := Ledgers(a, c); r.Identical || r.IdenticalTo != 8 {
		t.Errorf("an edited event under old sums: identical=%v to %d, expected 8", r.Identical, r.IdenticalTo)
	}
}

// The divergence is the first event that differs, whichever that is.
func TestDivergenceAtEveryEvent(t *testing.T) {
	for n := range runA().events {
		b := runA()
		b.events[n].In += "x"
		for _, r := range []Report{Ledgers(runA().named("a"), b.named("b")), Ledgers(Run{Events: runA().events}, Run{Events: b.events})} {
			if r.Divergence == nil || r.Divergence.Seq != n+1 || !r.Divergence.InToo || len(r.Divergence.Changes) > 0 || r.Identical {
				t.Errorf("event %d with another in: %s", n+1, must(t, r))
			}
		}
	}
}

func TestStatusBesideResult(t *testing.T) {
	a, b := (&run{}).tool("q", `{}`, `{"status":"ok"}`), (&run{}).tool("q", `{}`, `{"status":"empty"}`)
	b.events[1].Data = json.RawMessage(strings.Replace(string(b.events[1].Data), `"success"`, `"error"`, 1))
	d := Ledgers(a.named("a"), b.named("b")).Divergence
	if diff := cmp.Diff([]Change{change(Changed, "/status", `"ok"`, `"empty"`)}, d.Changes); diff != "" {
		t.Errorf("changes in the result (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]Change{change(Changed, "/status", `"success"`, `"error"`)}, d.Beside); diff != "" {
		t.Errorf("changes beside it (-want +got):\n%s", diff)
	}
}

func TestDamagedData(t *testing.T) {
	broken := func(data string) Run {
		r := runA()
		r.events[6].Data = json.RawMessage(data)
		r.events[8].Data = json.RawMessage(data)
		return r.named("broken")
	}
	for _, data := range []string{`{`, "\xff", `{"result":`, strings.Repeat("[", 20000)} {
		r := Ledgers(runA().named("a"), broken(data))
		if r.Divergence == nil || r.Divergence.Problem == "" || !strings.Contains(r.Divergence.Problem, "event 7") {
			t.Errorf("data %.20q: the divergence states no problem: %s", data, must(t, r.Divergence))
		}
		if r.B.Problem == "" || r.Finding != FindingNone {
			t.Errorf("data %.20q: problem %q, finding %q", data, r.B.Problem, r.Finding)
		}
		if last := r.Consequences[len(r.Consequences)-1]; last.Kind != DataChanged {
			t.Errorf("data %.20q: run.finished is %q, expected %q", data, last.Kind, DataChanged)
		}
	}
	r := runA()
	r.events[8].Data = json.RawMessage(`{"outcome":"verdict","verdict":{"component":7}}`)
	if c := Ledgers(r.named("a"), Run{}).A; c.Verdict != nil || !strings.Contains(c.Problem, "/component") {
		t.Errorf("a verdict of another shape: %s", must(t, c))
	}
}

// Runs too long for the table are matched by their keys alone.
func TestLongRuns(t *testing.T) {
	long := func(first string) *run {
		r := (&run{}).add(ledger.RunStarted, "", first)
		for k := range 1100 {
			r.tool("q", fmt.Sprintf(`{"k":%d}`, k), `1`)
		}
		return r
	}
	a, b := long(`1`), long(`2`)
	b.events = append(b.events[:501:501], b.events[503:]...)
	got := outline(Ledgers(a.named("a"), b.named("b")).Consequences)
	only := []string{}
	for _, row := range got {
		if !strings.HasPrefix(row, Same) {
			only = append(only, row)
		}
	}
	if d := cmp.Diff([]string{"only-a 502-0 tool.called q", "only-a 503-0 tool.returned q"}, only); d != "" {
		t.Errorf("rows that are not the same (-want +got):\n%s", d)
	}
}
