package rule_test

import (
	"bytes"
	"context"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

const referenceTask = "Checkout p99 latency spiked overnight. Find the likely cause."

// Results of a small world, written out, so that the reference experiment does
// not rest on package world.
const (
	seriesResult = `{"metrics":[{"metric":"latency_p99","points":[{"t":"2026-03-09T23:00:00Z","v":187},{"t":"2026-03-10T00:00:00Z","v":184},{"t":"2026-03-10T01:00:00Z","v":182},{"t":"2026-03-10T02:00:00Z","v":2410},{"t":"2026-03-10T03:00:00Z","v":2264}],"unit":"ms"}],"service":"checkout","status":"ok"}`
	v840         = `{"id":"v840","kind":"deploy","service":"checkout","summary":"texts","time":"2026-03-09T18:20:00Z"}`
	v841         = `{"id":"v841","kind":"deploy","service":"checkout","summary":"config change: payments-db pool size 50 → 10","time":"2026-03-10T01:55:00Z"}`
	logsResult   = `{"lines":[{"level":"warn","message":"waited 2.1 s for a payments-db connection","service":"checkout","time":"2026-03-10T02:03:44.092Z"},{"level":"error","message":"connection pool exhausted: 10 of 10 connections in use, 37 requests waiting","service":"payments-db","time":"2026-03-10T02:03:14Z"}],"status":"ok"}`
)

func deploysResult(records ...string) string {
	return `{"deploys":[` + strings.Join(records, ",") + `],"service":"checkout","status":"ok"}`
}

// canned answers each tool with one text; a text "error: …" is a failure. Only
// checkout has metrics.
type canned map[string]string

func (c canned) Do(_ context.Context, call edge.Call) (edge.Return, error) {
	text := c[call.Use.Name]
	if call.Use.Name == "query_metrics" && !bytes.Contains(call.Use.Input, []byte(`"checkout"`)) {
		text = `{"metrics":[],"status":"empty"}`
	}
	if message, failed := strings.CutPrefix(text, "error: "); failed {
		body, _ := ledger.CanonValue(map[string]any{"error": map[string]string{"message": message}, "status": "error"})
		return edge.Return{Body: body, Failed: true}, nil
	}
	return edge.Return{Body: json.RawMessage(text)}, nil
}

func reference() canned {
	return canned{"query_metrics": seriesResult, "list_deploys": deploysResult(v840, v841), "search_logs": logsResult}
}

func cannedStart(t testing.TB) loop.Start {
	schema := json.RawMessage(`{"type":"object"}`)
	return loop.Start{
		Task: referenceTask, Model: "rule",
		Context: json.RawMessage(`{"alert":{"service":"checkout","signal":"latency_p99","started_at":"2026-03-10T02:00:00Z","threshold":500,"value":2410},"now":"2026-03-10T09:00:00Z","services":["checkout","payments-db"]}`),
		Request: requestOf(t, toolSpec{"query_metrics", "", schema}, toolSpec{"list_deploys", "", schema}, toolSpec{"search_logs", "", schema}, findings()),
		Limits:  loop.Limits{MaxTurns: 30},
	}
}

func types(p played) []string {
	var out []string
	for _, e := range p.events {
		out = append(out, e.Type)
	}
	return out
}

func runAShape() []string {
	return []string{
		ledger.RunStarted,
		ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned,
		ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned,
		ledger.ModelResponded, ledger.RunFinished,
	}
}

func runBShape() []string {
	return []string{
		ledger.RunStarted,
		ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned,
		ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned,
		ledger.ModelResponded, ledger.ToolCalled, ledger.ToolReturned,
		ledger.ModelResponded, ledger.RunFinished,
	}
}

func checkRunA(t *testing.T, p played) {
	t.Helper()
	if d := cmp.Diff(runAShape(), types(p)); d != "" {
		t.Fatalf("events (-want +got):\n%s", d)
	}
	wantCalls := []string{
		`query_metrics {"metric":"latency_p99","service":"checkout","window":"24h"}`,
		`list_deploys {"service":"checkout"}`,
	}
	if d := cmp.Diff(wantCalls, p.calls()); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	v := p.verdict
	if v.Component != "checkout" || v.Class != "change" || v.Change != "v841" || v.StartedAt != "2026-03-10T02:00:00Z" || v.Confidence != "high" {
		t.Errorf("verdict: %+v", v)
	}
	mustContain(t, v.Mechanism, "payments-db pool size 50 → 10", "2026-03-10T01:55:00Z")
	mustContain(t, v.Recommendation, "Roll back v841")
	if v.Evidence[len(v.Evidence)-1] != "E7#/deploys/1" {
		t.Errorf("evidence %q does not end with the blamed record", v.Evidence)
	}
}

func checkRunB(t *testing.T, p played) {
	t.Helper()
	if d := cmp.Diff(runBShape(), types(p)); d != "" {
		t.Fatalf("events (-want +got):\n%s", d)
	}
	if calls := p.calls(); !strings.HasPrefix(calls[2], "search_logs ") {
		t.Errorf("third call: %s", calls[2])
	}
	v := p.verdict
	if v.Component != "payments-db" || v.Class != "saturation" || v.Change != "" || v.StartedAt != "2026-03-10T02:03:14Z" {
		t.Errorf("verdict: %+v", v)
	}
	mustContain(t, v.Summary, "2026-03-10T02:03:14Z", "connection pool exhausted", "outside the deploy pipeline")
	mustContain(t, v.Recommendation, "the database team", "Escalate")
}

func mustContain(t *testing.T, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		if !strings.Contains(text, part) {
			t.Errorf("%q does not contain %q", text, part)
		}
	}
}

func dropV841(_ int, c edge.Call, r edge.Return) edge.Return {
	if c.Seq == 7 {
		record := v841
		if !bytes.Contains(r.Body, []byte(record)) {
			record = `{"id":"v841","kind":"deploy","service":"checkout","summary":"config change: payments-db pool size 50 → 10","time":"2026-03-10T01:55:00Z"}`
		}
		r.Body = bytes.Replace(r.Body, []byte(","+record), nil, 1)
	}
	return r
}

func TestReferenceExperiment(t *testing.T) {
	t.Run("written-out world", func(t *testing.T) {
		a := play(t, cannedStart(t), reference(), nil)
		b := play(t, cannedStart(t), reference(), dropV841)
		checkRun(t, a)
		checkRun(t, b)
		checkRunA(t, a)
		checkRunB(t, b)
	})
	t.Run("demo world", func(t *testing.T) {
		w := openWorld(t, "demo")
		if w.Alert().Task != referenceTask {
			t.Fatalf("task of the demo world: %q", w.Alert().Task)
		}
		checkRunA(t, play(t, worldStart(t, w), worldEdge(w), nil))
		checkRunB(t, play(t, worldStart(t, w), worldEdge(w), dropV841))
	})
}

// reaction is what one change of the reference's results must lead to.
type reaction struct {
	change    canned
	component string
	class     string
	calls     []string // the tools in order
	missing   string   // in not_examined
	ruledOut  string   // in a reason
}

func (want reaction) check(t *testing.T) {
	tools := reference()
	for tool, text := range want.change {
		tools[tool] = text
	}
	p := play(t, cannedStart(t), tools, nil)
	if d := cmp.Diff(want.calls, called(p)); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	if p.verdict.Component != want.component || p.verdict.Class != want.class {
		t.Errorf("verdict: component %q class %q, expected %q %q", p.verdict.Component, p.verdict.Class, want.component, want.class)
	}
	mustContain(t, strings.Join(p.verdict.NotExamined, "\n"), want.missing)
	mustContain(t, reasons(p.verdict), want.ruledOut)
	checkRun(t, p)
}

// called lists the tools of a run's calls in order.
func called(p played) []string {
	var out []string
	for _, c := range p.calls() {
		tool, _, _ := strings.Cut(c, " ")
		out = append(out, tool)
	}
	return out
}

// What a patch of the measurements changes must change the path, and in a way
// that makes sense.
func TestReactsToMeasurements(t *testing.T) {
	normal := strings.NewReplacer("2410", "190", "2264", "191").Replace(seriesResult)
	const emptySeries = `{"metrics":[],"note":"no samples in this window","status":"empty"}`
	for name, want := range map[string]reaction{
		"as it is": {component: "checkout", class: "change", calls: []string{"query_metrics", "list_deploys"}, ruledOut: "long before"},
		"metrics fail: asked once more, then the alert's word": {
			change: canned{"query_metrics": "error: backend down"}, component: "checkout", class: "change",
			calls: []string{"query_metrics", "query_metrics", "list_deploys"}, missing: "backend down",
		},
		"series withheld": {
			change: canned{"query_metrics": emptySeries}, component: "checkout", class: "change",
			calls: []string{"query_metrics", "query_metrics", "list_deploys"}, missing: "no samples in this window",
		},
		"metrics replaced by prose": {
			change: canned{"query_metrics": `"all is well"`}, component: "checkout", class: "change",
			calls: []string{"query_metrics", "query_metrics", "list_deploys"}, missing: "all is well",
		},
		"no spike in the series: no change is blamed": {
			change: canned{"query_metrics": normal}, component: "payments-db", class: "saturation",
			calls: []string{"query_metrics", "search_logs"},
		},
		"no spike and no logs": {
			change: canned{"query_metrics": normal, "search_logs": `{"lines":[],"note":"nothing","status":"empty"}`},
			class:  "unknown", calls: []string{"query_metrics", "search_logs"}, missing: "nothing",
		},
	} {
		t.Run(name, want.check)
	}
}

// So must a patch of changes and logs.
func TestReactsToChangesAndLogs(t *testing.T) {
	later := strings.Replace(v841, "01:55", "02:30", 1)
	for name, want := range map[string]reaction{
		"deploys fail: asked once more, then named": {
			change: canned{"list_deploys": "error: forbidden"}, component: "payments-db", class: "saturation",
			calls: []string{"query_metrics", "list_deploys", "list_deploys", "search_logs"}, missing: "the changes of checkout: forbidden",
		},
		"change after the onset": {
			change: canned{"list_deploys": deploysResult(v840, later)}, component: "payments-db", class: "saturation",
			calls: []string{"query_metrics", "list_deploys", "search_logs"}, ruledOut: "after the symptom had begun",
		},
		"deploys truncated": {
			change:    canned{"list_deploys": `{"deploys":[` + v840 + `],"note":"the newest of many","status":"truncated"}`},
			component: "payments-db", class: "saturation",
			calls: []string{"query_metrics", "list_deploys", "search_logs"}, missing: "the newest of many",
		},
		"nothing anywhere": {
			change: canned{"list_deploys": deploysResult(), "search_logs": `{"lines":[],"status":"ok"}`}, class: "unknown",
			calls: []string{"query_metrics", "list_deploys", "search_logs", "query_metrics"}, missing: "the call graph: there is no tool list_services",
		},
		"logs fail twice": {
			change: canned{"list_deploys": deploysResult(), "search_logs": "error: index closed"}, class: "unknown",
			calls: []string{"query_metrics", "list_deploys", "search_logs", "search_logs", "query_metrics"}, missing: "the logs: index closed",
		},
		"a line that accuses another service": {
			change: canned{"list_deploys": deploysResult(v840), "search_logs": `{"lines":[{"level":"error","message":"order not placed: no payments-db connection within 3 s","service":"checkout","time":"2026-03-10T02:04:17.658Z"}],"status":"ok"}`},
			class:  "dependency", component: "payments-db", calls: []string{"query_metrics", "list_deploys", "search_logs"},
		},
	} {
		t.Run(name, want.check)
	}
}

// A list that is cut short does not prove that there was no change.
func TestPartOfTheChangesProvesNothing(t *testing.T) {
	tools := reference()
	tools["list_deploys"] = deploysResult(v840)
	mustContain(t, play(t, cannedStart(t), tools, nil).verdict.Summary, "outside the deploy pipeline")
	tools["list_deploys"] = strings.Replace(deploysResult(v840), `"status":"ok"`, `"note":"1 of 9","status":"truncated"`, 1)
	v := play(t, cannedStart(t), tools, nil).verdict
	if strings.Contains(v.Summary+v.Recommendation, "outside the deploy pipeline") {
		t.Errorf("a part of the changes was taken for all of them: %s", v.Summary)
	}
	mustContain(t, strings.Join(v.NotExamined, "\n"), "a part of the changes: 1 of 9")
}

// Without one of the tools it goes on with the others and says what it missed;
// without report_findings it says its conclusion.
func TestMissingTools(t *testing.T) {
	for missing, want := range map[string]struct {
		calls     []string
		component string
		note      string
	}{
		"query_metrics":   {[]string{"list_deploys"}, "checkout", "there is no tool query_metrics"},
		"list_deploys":    {[]string{"query_metrics", "search_logs"}, "payments-db", "there is no tool list_deploys"},
		"search_logs":     {[]string{"query_metrics", "list_deploys"}, "checkout", ""},
		"report_findings": {[]string{"query_metrics", "list_deploys"}, "", ""},
	} {
		t.Run(missing, func(t *testing.T) {
			start, specs := cannedStart(t), []toolSpec{}
			for _, name := range []string{"query_metrics", "list_deploys", "search_logs"} {
				specs = append(specs, toolSpec{name, "", json.RawMessage(`{"type":"object"}`)})
			}
			specs = slices.DeleteFunc(append(specs, findings()), func(s toolSpec) bool { return s.name == missing })
			start.Request = requestOf(t, specs...)
			p := play(t, start, reference(), nil)
			if d := cmp.Diff(want.calls, called(p)); d != "" {
				t.Errorf("calls (-want +got):\n%s", d)
			}
			if missing == verdict.Tool {
				mustContain(t, p.outcome.Text, "v841", "Roll back")
				return
			}
			checkRun(t, p)
			if p.verdict.Component != want.component {
				t.Errorf("component %q, expected %q", p.verdict.Component, want.component)
			}
			mustContain(t, strings.Join(p.verdict.NotExamined, "\n"), want.note)
		})
	}
}

func reasons(v verdict.Verdict) string {
	var all []string
	for _, r := range v.RuledOut {
		all = append(all, r.Reason)
	}
	return strings.Join(all, "\n")
}

// A record that a fork inserts as a call of its own counts like any other.
func TestInsertedRecordCounts(t *testing.T) {
	tools := reference()
	tools["list_deploys"] = deploysResult(v840)
	p := play(t, cannedStart(t), tools, nil)
	last := p.requests[len(p.requests)-1]
	use := json.RawMessage(`{"content":[{"toolUse":{"input":{"window":"9h"},"name":"list_deploys","toolUseId":"x1"}}],"role":"assistant"}`)
	result := json.RawMessage(`{"content":[{"toolResult":{"content":[{"text":"evidence E99"},{"json":` + deploysResult(v841) + `}],"status":"success","toolUseId":"x1"}}],"role":"user"}`)
	last.Messages = last.Messages.Append(use).Append(result)
	v := conclusion(t, last)
	if v.Change != "v841" || v.Evidence[len(v.Evidence)-1] != "E99#/deploys/0" {
		t.Errorf("verdict: %+v", v)
	}
}
