package rule_test

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/rule"
	"investigator/internal/verdict"
)

func conclusion(t *testing.T, req converse.Request) verdict.Verdict {
	t.Helper()
	turn, err := converse.ParseTurn(rule.Respond(req))
	if err != nil {
		t.Fatal(err)
	}
	if len(turn.ToolUses) != 1 || turn.ToolUses[0].Name != verdict.Tool {
		t.Fatalf("expected a verdict, found %s", turn.Message)
	}
	v, problems := verdict.Parse(turn.ToolUses[0].Input)
	if len(problems) > 0 {
		t.Fatalf("problems %q", problems)
	}
	return v
}

type finding struct{ Component, Class, Change string }

func findingOf(p played) finding {
	return finding{p.verdict.Component, p.verdict.Class, p.verdict.Change}
}

// What it concludes about recorded incidents, as it is. A wrong row would be
// left here as it is too.
func TestWorlds(t *testing.T) {
	for name, want := range map[string]finding{
		"demo":              {"checkout", "change", "v841"},
		"petshop-lambda":    {"lambdastatusupdater", "change", "dep-2113"},
		"petshop-dynamodb":  {"dynamodb-petinfo", "unknown", ""},
		"boutique-cpu":      {"currencyservice", "saturation", ""},
		"trainticket-route": {"ts-basic-service", "change", "flg-0920"},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorld(t, name)
			p := play(t, worldStart(t, w), worldEdge(w), nil)
			if d := cmp.Diff(want, findingOf(p)); d != "" {
				t.Errorf("finding (-want +got):\n%s", d)
			}
			checkRun(t, p)
		})
	}
}

// checkRun holds what every run keeps to.
func checkRun(t *testing.T, p played) {
	t.Helper()
	if p.outcome.Outcome != loop.Concluded {
		t.Errorf("outcome %s: %s", p.outcome.Outcome, p.outcome.Reason)
	}
	if p.outcome.Turns > 12 {
		t.Errorf("%d turns, expected at most 12", p.outcome.Turns)
	}
	seen := map[string]bool{}
	for _, c := range p.calls() {
		if seen[c] {
			t.Errorf("asked twice: %s", c)
		}
		seen[c] = true
	}
	checkEvidence(t, p)
	checkFigures(t, p)
}

// checkFigures looks every number and time of the verdict up in the results it
// cites: the rule model copies, it does not compute.
func checkFigures(t *testing.T, p played) {
	t.Helper()
	sources := []string{string(p.events[0].Data)}
	for _, address := range allEvidence(p.verdict) {
		if seq, _, err := verdict.ParseAddress(address); err == nil && seq <= len(p.events) {
			sources = append(sources, string(p.events[seq-1].Data))
		}
	}
	for _, f := range p.verdict.Unsupported(sources) {
		t.Errorf("%s: %s stands in no result the verdict cites", f.Member, f.Text)
	}
}

func allEvidence(v verdict.Verdict) []string {
	all := slices.Clone(v.Evidence)
	for _, r := range v.RuledOut {
		all = append(all, r.Evidence...)
	}
	return all
}

// checkEvidence resolves every address of the verdict in the run's ledger.
func checkEvidence(t *testing.T, p played) {
	t.Helper()
	for _, address := range allEvidence(p.verdict) {
		seq, pointer, err := verdict.ParseAddress(address)
		if err != nil {
			t.Error(err)
			continue
		}
		if seq > len(p.events) || p.events[seq-1].Type != ledger.ToolReturned {
			t.Errorf("%s: there is no such tool result", address)
			continue
		}
		var data struct {
			Result any `json:"result"`
		}
		if err := json.Unmarshal(p.events[seq-1].Data, &data); err != nil {
			t.Fatal(err)
		}
		if pointer != "" && !resolves(data.Result, pointer) {
			t.Errorf("%s: nothing is there", address)
		}
	}
}

func resolves(v any, pointer string) bool {
	for pointer != "" {
		var part string
		part, pointer, _ = strings.Cut(pointer[1:], "/")
		if pointer != "" {
			pointer = "/" + pointer
		}
		switch c := v.(type) {
		case map[string]any:
			v = c[part]
		case []any:
			var i int
			if json.Unmarshal([]byte(part), &i) != nil || i >= len(c) {
				return false
			}
			v = c[i]
		default:
			return false
		}
	}
	return v != nil
}

// Forks of the real worlds react: what is withheld is no longer blamed.
func TestWorldsReact(t *testing.T) {
	without := func(text string) patch {
		return func(_ int, _ edge.Call, r edge.Return) edge.Return {
			r.Body = bytes.ReplaceAll(r.Body, []byte(text), []byte("2001-01-01T00:00:00Z"))
			return r
		}
	}
	empty := func(service string) patch {
		return func(_ int, c edge.Call, r edge.Return) edge.Return {
			if c.Use.Name == "query_metrics" && bytes.Contains(c.Use.Input, []byte(`"service":"`+service+`"`)) {
				r.Body = json.RawMessage(`{"metrics":[],"note":"withheld","status":"empty"}`)
			}
			return r
		}
	}
	for name, tt := range map[string]struct {
		world string
		patch patch
		want  finding
	}{
		"the change moved away":       {"petshop-lambda", without("2023-04-12T21:13:50Z"), finding{"lambdastatusupdater", "failure", ""}},
		"the culprit's series gone":   {"petshop-dynamodb", empty("dynamodb-petinfo"), finding{"petsearch", "unknown", ""}},
		"the flag moved away":         {"trainticket-route", without("2023-01-29T09:20:30Z"), finding{"ts-train-service", "dependency", ""}},
		"the callee's series gone":    {"boutique-cpu", empty("currencyservice"), finding{"checkoutservice", "change", "dep-0510"}},
		"the alert's own series gone": {"petshop-lambda", empty("petsite"), finding{"lambdastatusupdater", "change", "dep-2113"}},
	} {
		t.Run(name, func(t *testing.T) {
			w := openWorld(t, tt.world)
			p := play(t, worldStart(t, w), worldEdge(w), tt.patch)
			if d := cmp.Diff(tt.want, findingOf(p)); d != "" {
				t.Errorf("finding (-want +got):\n%s\n%s", d, p.verdict.JSON())
			}
			checkRun(t, p)
		})
	}
}

// Whatever one tool result is replaced by, the run ends well.
func TestEveryResultDamaged(t *testing.T) {
	damages := []string{`{}`, `[]`, `null`, `""`, `"text"`, `{"error":{"message":"no"},"status":"error"}`, `{"deploys":[{}],"lines":[{}],"metrics":[{}],"services":[{}],"status":"ok"}`,
		`{"deploys":7,"lines":"x","metrics":{"a":1},"services":null}`}
	for _, name := range []string{"demo", "petshop-lambda"} {
		w := openWorld(t, name)
		start := worldStart(t, w)
		for at := 1; at <= 8; at++ {
			for _, damage := range damages {
				p := play(t, start, worldEdge(w), func(n int, _ edge.Call, r edge.Return) edge.Return {
					if n >= at {
						r.Body = json.RawMessage(damage)
					}
					return r
				})
				checkRun(t, p)
			}
		}
	}
}

func TestDeterminism(t *testing.T) {
	w := openWorld(t, "petshop-lambda")
	p := play(t, worldStart(t, w), worldEdge(w), nil)
	for _, req := range p.requests {
		want := rule.Respond(req)
		for range 1000 / len(p.requests) * 2 {
			if got := rule.Respond(req); !bytes.Equal(want, got) {
				t.Fatalf("the same request was answered with\n%s\nand with\n%s", want, got)
			}
		}
	}
}

// The response is canonical already: live and replay compare bytes.
func TestResponseIsCanonical(t *testing.T) {
	w := openWorld(t, "boutique-cpu")
	for i, req := range play(t, worldStart(t, w), worldEdge(w), nil).requests {
		got := rule.Respond(req)
		want, err := converse.Normalize(got)
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(string(want), string(got)); d != "" {
			t.Errorf("turn %d (-canonical +got):\n%s", i+1, d)
		}
	}
}

func BenchmarkRespond(b *testing.B) {
	w := openWorld(b, "demo")
	p := play(b, worldStart(b, w), worldEdge(w), dropV841)
	for i, req := range p.requests {
		b.Run("turn"+string(rune('1'+i)), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				rule.Respond(req)
			}
		})
	}
}
