package report

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/diff"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/verdict"
)

var update = flag.Bool("update", false, "write testdata/*.golden anew")

// hostile is what a model, a tool or a stranger's cassette may say.
const hostile = "\x1b[2Jgone \u202etrap\u202c\nverdict: forged"

// TestGoldens compares what is printed with testdata/NAME.golden. Look at the
// files: they are what a person in an incident review reads.
func TestGoldens(t *testing.T) {
	for name, print := range map[string]func(t *testing.T, p *Printer){
		"diff":           func(t *testing.T, p *Printer) { printDiff(t, p, "run_a", "run_b") },
		"diff_identical": func(t *testing.T, p *Printer) { printDiff(t, p, "run_a", "run_a") },
		"diff_strangers": func(t *testing.T, p *Printer) { printDiff(t, p, "run_a", "petshop-lambda") },
		"diff_prefix":    func(t *testing.T, p *Printer) { a, b := prefixes(t); p.Diff(diff.Ledgers(a, b), a, b) },
		"diff_hostile":   func(t *testing.T, p *Printer) { a, b := hostiles(); p.Diff(diff.Ledgers(a, b), a, b) },
		"diff_foreign":   func(t *testing.T, p *Printer) { a, b := foreigners(); p.Diff(diff.Ledgers(a, b), a, b) },
		"halt":           func(_ *testing.T, p *Printer) { p.Halted(haltView()) },
		"halt_many":      func(_ *testing.T, p *Printer) { p.Halted(haltMany()) },
		"halt_ends": func(_ *testing.T, p *Printer) {
			p.Halted(HaltView{Parent: "a.yaml", At: 8, Type: "model.responded", Patch: "replaced", Cassette: "b.yaml"})
		},
		"halt_new_call": func(_ *testing.T, p *Printer) {
			p.Halted(HaltView{Parent: "a.yaml", At: 8, Type: "model.responded", Patch: "replaced", Seq: 11, Model: "rule", Next: "investigator fork a.yaml"})
		},
		"replay":          func(_ *testing.T, p *Printer) { replays(p) },
		"replay_diverged": func(_ *testing.T, p *Printer) { divergences(p) },
		"verdict":         func(_ *testing.T, p *Printer) { p.Verdict(fullVerdict()) },
		"outcome":         func(_ *testing.T, p *Printer) { outcomes(t, p) },
		"usage":           func(_ *testing.T, p *Printer) { usages(p) },
	} {
		t.Run(name, func(t *testing.T) {
			got := printed(false, 100, func(p *Printer) { print(t, p) })
			if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && unsafe(r) }) {
				t.Errorf("unsafe text was printed: %q", got)
			}
			if coloured := printed(true, 100, func(p *Printer) { print(t, p) }); uncoloured(coloured) != got {
				t.Errorf("the text with colours is another one:\n%s", cmp.Diff(got, uncoloured(coloured)))
			}
			golden(t, name, got)
		})
	}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name+".golden")
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o666); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v; go test -update makes it", err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-), printed (+):\n%s", file, d)
	}
}

func uncoloured(s string) string {
	for _, style := range []Style{"0", Bold, Dim, Red, Green, Yellow, Cyan} {
		s = strings.ReplaceAll(s, "\x1b["+string(style)+"m", "")
	}
	return s
}

func repositoryRun(t *testing.T, name string) diff.Run {
	t.Helper()
	c, err := recorder.Open(filepath.Join("..", "..", "cassettes", name+".yaml"))
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	return diff.Run{Name: name, Events: events, Origins: func(seq int) edge.Origin {
		o, _ := c.Origin(seq) // seq is one of events
		return o
	}}
}

func printDiff(t *testing.T, p *Printer, nameA, nameB string) {
	a, b := repositoryRun(t, nameA), repositoryRun(t, nameB)
	p.Diff(diff.Ledgers(a, b), a, b)
}

func prefixes(t *testing.T) (a, b diff.Run) {
	a, b = repositoryRun(t, "run_a"), repositoryRun(t, "run_a")
	a.Events, a.Name = a.Events[:4], "cut"
	return a, b
}

// hostiles are two runs of strangers.
func hostiles() (a, b diff.Run) {
	make := func(component string) diff.Run {
		result, _ := json.Marshal(map[string]any{"tool": hostile, "status": "ok", "result": map[string]any{hostile: component}})
		v := fullVerdict()
		v.Component, v.Summary = component, hostile
		input, _ := json.Marshal(v)
		finished, _ := json.Marshal(loop.Outcome{Outcome: loop.Concluded, Verdict: input})
		return diff.Run{
			Name: hostile + ".yaml", Origins: func(int) edge.Origin { return edge.Origin(hostile) },
			Events: []ledger.Event{{Seq: 1, Type: ledger.ToolReturned, Data: result}, {Seq: 2, Type: ledger.RunFinished, Data: finished}},
		}
	}
	return make(hostile), make(strings.Repeat("x", 500))
}

// foreigners are two runs of an agent that gives no verdict: what it said is all
// that can be compared, and was left out once.
func foreigners() (a, b diff.Run) {
	make := func(name, text string) diff.Run {
		finished, _ := json.Marshal(loop.Outcome{Outcome: "untyped", Reason: "a foreign agent reports no typed verdict", Text: text})
		result, _ := json.Marshal(map[string]any{"tool": "get_weather", "status": "success", "result": map[string]any{"said": text}})
		return diff.Run{
			Name: name, Origins: func(int) edge.Origin { return edge.Live },
			Events: []ledger.Event{{Seq: 1, Type: ledger.ToolReturned, Data: result}, {Seq: 2, Type: ledger.RunFinished, Data: finished}},
		}
	}
	return make("agent.yaml", "It is 3 degrees in Oslo.\nTake a coat."), make("fork.yaml", "It is 30 degrees in Oslo. "+hostile)
}

func haltView() HaltView {
	return HaltView{
		Parent: hostile, At: 7, Type: "tool.returned", Patch: "fault missing", Notes: []string{"the call counts as failed now"},
		Seq: 8, Recorded: 8, Model: "rule", Tokens: 2361,
		Cassette: "cassettes/a-fork7.yaml", Next: "investigator fork --at 7 --mode live a.yaml",
		Changes: []diff.Change{
			{Kind: diff.Dropped, Path: "/messages/4/deploys/1", Old: json.RawMessage(`{"id":"v841","summary":"` + strings.Repeat("long ", 40) + `"}`)},
			{Kind: diff.Added, Path: "/messages/4/error", New: json.RawMessage(`{"message":"timed out"}`)},
			{Kind: diff.Changed, Path: "", Old: json.RawMessage(`"ok"`), New: json.RawMessage(`"error"`)},
			{Kind: diff.Truncated, Path: "/lines", Old: json.RawMessage(`[1,2,3,4,5,6]`), New: json.RawMessage(`[1]`)},
			{Kind: diff.Truncated, Path: "/text", Old: json.RawMessage(`"abcdef"`), New: json.RawMessage(`"abc"`)},
			{Kind: diff.Changed, Path: "/" + strings.Repeat(hostile, 20), Old: json.RawMessage(`1`), New: json.RawMessage(`2`)},
		},
	}
}

func haltMany() HaltView {
	v := HaltView{Parent: "a.yaml", At: 1, Type: "run.started", Patch: "replaced", Seq: 2, Recorded: 2, Model: "m", Tokens: 1, Cost: "at most $0.01"}
	for range maxChanges + 3 {
		v.Changes = append(v.Changes, diff.Change{Kind: diff.Added, Path: "/x", New: json.RawMessage(`1`)})
	}
	return v
}

func replays(p *Printer) {
	const sum = "3efaa1e4aaaaaaaa"
	for _, r := range []engine.Replayed{
		{Identical: true, Events: 9, Ledger: sum, ModelTurns: 3, Executed: 2},
		{Identical: true, Events: 2, Ledger: sum, ModelTurns: 1, Executed: 1, FromTape: 1, Refused: 1},
		{Identical: true, Events: 9, Ledger: sum, ModelTurns: 3, FromTape: 2},
		{Identical: true, Events: 6, Ledger: sum, ModelTurns: 2, FromTape: 1, Unfinished: true},
	} {
		p.Replayed(r, "the world is not at hand")
	}
}

func divergences(p *Printer) {
	for _, d := range []engine.Divergence{
		{Seq: 4, Type: "tool.returned", Problem: "different", In: "event data", Cause: "the tool's output",
			Changes: []diff.Change{{Kind: diff.Changed, Path: "/result/status", Old: json.RawMessage(`"ok"`), New: json.RawMessage(`"empty"`)}}},
		{Seq: 9, Type: "run.finished", Problem: "missing", In: "event", Recorded: json.RawMessage(`{"outcome":"verdict"}`)},
		{Seq: 10, Type: "tool.called", Problem: "extra", In: "event", Now: json.RawMessage(`{"tool":"look"}`), Cause: "code"},
	} {
		p.Replayed(engine.Replayed{Divergence: &d}, "")
	}
}

func fullVerdict() verdict.Verdict {
	return verdict.Verdict{
		Component: "cart", Class: "change", Change: "v1", Confidence: "high", StartedAt: "2026-03-10T02:00:00Z",
		Mechanism: "The pool is too small.", Summary: "Cart waits.\nIt began at two, an hour after the deploy; the queue grew until the deploy was taken back, and has been empty since.",
		Evidence: []string{"E4#/metrics/0/points/16", "E7#/deploys/1"}, Recommendation: "Take v1 back.",
		RuledOut:    []verdict.RuledOut{{Hypothesis: "load", Reason: "the request rate did not change"}},
		NotExamined: []string{hostile, strings.Repeat("z", 150)},
	}
}

func outcomes(t *testing.T, p *Printer) {
	v, err := json.Marshal(fullVerdict())
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []loop.Outcome{
		{Outcome: loop.Concluded, Verdict: v, Dropped: 2},
		{Outcome: loop.Limit, Reason: "max turns reached: 1 of 1"},
		{Outcome: loop.Failed, Reason: hostile, Text: hostile},
		{Outcome: loop.Concluded, Verdict: json.RawMessage(`{"component":7}`)},
	} {
		p.Outcome(o)
		p.Blank()
	}
	p.Flags([]string{"the summary says 42, which no cited result holds"})
}

func usages(p *Printer) {
	u := converse.Usage{Input: 1200, Output: 300, CacheRead: 3600, CacheWrite: 400}
	p.Usage(UsageView{})
	p.Usage(UsageView{Total: u, Cost: "$0.0123"})
	p.Usage(UsageView{Total: u})
	p.UsageTable(UsageView{Turns: []TurnView{{Seq: 2, Model: "rule", Origin: "rule", Usage: u}}, Total: u})
	p.UsageTable(UsageView{
		Turns: []TurnView{{Seq: 2, Model: "rule", Origin: "rule", Usage: converse.Usage{Input: 10, Output: 2}}, {Seq: 5, Model: hostile, Origin: "live", Usage: u, Cost: "$0.0123"}},
		Total: u, Cost: "$0.0123", Paid: "$0.0100",
	})
}
