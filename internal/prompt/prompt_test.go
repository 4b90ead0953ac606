package prompt

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/converse"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

const sonnet = "global.anthropic.claude-sonnet-4-6"

func worldTools() []Tool {
	return []Tool{
		{"query_metrics", "Metrics of a service.", json.RawMessage(`{"type":"object","properties":{"service":{"type":"string"},"max":{"maximum":9007199254740993,"type":"number"}}}`)},
		{"list_deploys", "Deploys.", json.RawMessage(`{"type":"object"}`)},
	}
}

// longTools are worth a cache point on every model that has them.
func longTools() []Tool {
	tools := worldTools()
	tools[0].Description = strings.Repeat("Metrics of a service. ", 1000)
	return tools
}

func build(t *testing.T, o Options) Built {
	t.Helper()
	b, err := Request(o)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestPromptsArePinned: a prompt that was released is not edited. A change makes
// a new file with the next version.
func TestPromptsArePinned(t *testing.T) {
	for name, want := range map[string]string{
		"investigator.v1.md": "cc480a09eb4e0e3d0f92b0d8a963468924d1de7d7c73ba9ebdccdebea659dae9",
		"rule.v1.md":         "1254f62734fcdd042b71cb7e8dc03ad1538eb394cfac6c2de8b3151ba2210165",
	} {
		b, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		if got := ledger.Digest(b); got != want {
			t.Errorf("%s was edited: digest %s, released as %s", name, got, want)
		}
	}
}

// TestPromptKnowsTheVerdict: the prompt speaks of members and values that
// report_findings has.
func TestPromptKnowsTheVerdict(t *testing.T) {
	schema := string(verdict.Schema())
	for _, word := range []string{"component", "change", "started_at", "confidence", "evidence", "ruled_out", "not_examined", "recommendation"} {
		if !strings.Contains(investigatorV1, "- `"+word+"`") || !strings.Contains(schema, `"`+word+`":`) {
			t.Errorf("%q is not in both prompt and schema", word)
		}
	}
	for _, level := range verdict.Confidences() {
		if !strings.Contains(investigatorV1, `"`+level+`"`) {
			t.Errorf("the prompt does not say what confidence %q means", level)
		}
	}
	if !strings.Contains(investigatorV1, "`"+verdict.Tool+"`") {
		t.Errorf("the prompt does not name %s", verdict.Tool)
	}
}

func TestRequest(t *testing.T) {
	b := build(t, Options{Model: "amazon.titan-text", Tools: worldTools(), System: "Be brief.", MaxTokens: 100, Temperature: "0.20"})
	want := `{"inferenceConfig":{"maxTokens":100,"temperature":0.20},"system":[{"text":"Be brief."}],"toolConfig":{"tools":[` +
		`{"toolSpec":{"description":"Metrics of a service.","inputSchema":{"json":{"properties":{"max":{"maximum":9007199254740993,"type":"number"},"service":{"type":"string"}},"type":"object"}},"name":"query_metrics"}},` +
		`{"toolSpec":{"description":"Deploys.","inputSchema":{"json":{"type":"object"}},"name":"list_deploys"}},` +
		`{"toolSpec":{"description":` + string(ledger.AppendString(nil, verdict.Description)) + `,"inputSchema":{"json":` + string(verdict.Schema()) + `},"name":"report_findings"}}]}}`
	if diff := cmp.Diff(want, string(b.Request)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if b.Cache != converse.CacheNone || b.Prompt.Name != "custom" || len(b.Prompt.Version) != 12 {
		t.Errorf("cache %q, prompt %+v", b.Cache, b.Prompt)
	}
}

// TestBedrockTakesIt sends what is built through the local Bedrock's rules, in a
// conversation of a few turns, for models of each kind.
func TestBedrockTakesIt(t *testing.T) {
	for _, model := range []string{sonnet, "us.anthropic.claude-opus-5", "amazon.nova-pro-v1:0", "openai.gpt-oss-120b-1:0", "meta.llama3-70b-instruct-v1:0",
		"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc"} {
		for _, cache := range []Cache{CacheAuto, CacheOff, CacheHour} {
			b, err := Request(Options{Model: model, Tools: longTools(), Cache: cache})
			if err != nil && cache == CacheHour {
				continue
			}
			if err != nil {
				t.Fatal(err)
			}
			rest, err := converse.NewRest(b.Request)
			if err != nil {
				t.Fatal(err)
			}
			thread := converse.NewThread(converse.Message("user", []json.RawMessage{converse.TextBlock("Why?")}))
			for n := range 4 {
				req := converse.Request{Model: model, Messages: thread, Rest: rest, Cache: b.Cache}
				if e := bedrocktest.Validate(bedrocktest.OpConverse, model, req.Body()); e != nil {
					t.Errorf("%s, cache %q, turn %d: %v", model, cache, n, e)
				}
				id := fmt.Sprintf("u%d", n)
				thread = thread.Append(json.RawMessage(`{"content":[{"toolUse":{"input":{},"name":"list_deploys","toolUseId":"` + id + `"}}],"role":"assistant"}`)).
					Append(converse.Message("user", []json.RawMessage{converse.ToolResult{ID: id, Result: json.RawMessage(`{}`)}.Block()}))
			}
		}
	}
}

// TestLoopTakesIt: the loop finds the tool by which the model reports.
func TestLoopTakesIt(t *testing.T) {
	for _, model := range []string{sonnet, RuleModel} {
		b := build(t, Options{Model: model, Tools: worldTools()})
		start, err := loop.Start{Task: "Why?", Model: model, Request: b.Request, Cache: b.Cache, Prompt: &b.Prompt}.JSON()
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := loop.New(start)
		if err != nil {
			t.Fatal(err)
		}
		if got := string(s.Request().Body()); !strings.Contains(got, `"name":"report_findings"`) {
			t.Errorf("%s: %s", model, got)
		}
	}
}

func TestRuleModelIsAskedBriefly(t *testing.T) {
	b := build(t, Options{Model: RuleModel, Tools: longTools(), Temperature: ""})
	if diff := cmp.Diff(Built{Cache: converse.CacheNone, Prompt: loop.Prompt{Name: "rule", Version: "1"}}, Built{Cache: b.Cache, Prompt: b.Prompt}); diff != "" {
		t.Error(diff)
	}
	text := string(b.Request)
	if strings.Contains(text, "cachePoint") || strings.Contains(text, "inferenceConfig") || !strings.HasPrefix(text, `{"system":[{"text":"Investigate the question`) {
		t.Errorf("%.200s", text)
	}
}

func TestCachePoints(t *testing.T) {
	count := func(b Built, member string) int {
		var r map[string]json.RawMessage
		if err := json.Unmarshal(b.Request, &r); err != nil {
			t.Fatal(err)
		}
		return strings.Count(string(r[member]), `"cachePoint"`)
	}
	for _, c := range []struct {
		name          string
		o             Options
		rule          converse.CacheRule
		system, tools int
	}{
		{"Claude", Options{Model: sonnet, Tools: longTools()}, converse.CacheTail, 1, 1},
		{"short tools", Options{Model: sonnet, Tools: worldTools()}, converse.CacheTail, 1, 0},
		{"all short", Options{Model: sonnet, Tools: worldTools(), System: "Hi."}, converse.CacheTail, 0, 0},
		{"high minimum", Options{Model: "us.anthropic.claude-haiku-4-5-20251001-v1:0", Tools: worldTools()}, converse.CacheTail, 0, 0},
		{"Nova has none in tools", Options{Model: "us.amazon.nova-2-lite-v1:0", Tools: longTools()}, converse.CacheTail, 1, 0},
		{"no caching", Options{Model: "openai.gpt-oss-120b-1:0", Tools: longTools()}, converse.CacheNone, 0, 0},
		{"unknown behind an ARN", Options{Model: "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc", Tools: longTools()}, converse.CacheNone, 0, 0},
		{"off", Options{Model: sonnet, Tools: longTools(), Cache: CacheOff}, converse.CacheNone, 0, 0},
		{"hour", Options{Model: sonnet, Tools: longTools(), Cache: CacheHour}, converse.CacheTail1h, 1, 1},
	} {
		b := build(t, c.o)
		if b.Cache != c.rule || count(b, "system") != c.system || count(b, "toolConfig") != c.tools {
			t.Errorf("%s: rule %q, %d points in system, %d in tools", c.name, b.Cache, count(b, "system"), count(b, "toolConfig"))
		}
		if hours := strings.Count(string(b.Request), `"ttl":"1h"`); (c.rule == converse.CacheTail1h) != (hours > 0) || hours != 0 && hours != c.system+c.tools {
			t.Errorf("%s: %d points live for an hour", c.name, hours)
		}
	}
}

func TestRequestRefuses(t *testing.T) {
	tool := func(name, description, schema string) []Tool {
		return []Tool{{name, description, json.RawMessage(schema)}}
	}
	for _, c := range []struct {
		o    Options
		want string
	}{
		{Options{Model: sonnet, System: " \n"}, "blank"},
		{Options{Model: sonnet, Tools: tool("a.b", "d", `{}`)}, `tool "a.b": expected a name`},
		{Options{Model: sonnet, Tools: tool(strings.Repeat("a", 65), "d", `{}`)}, "1 to 64"},
		{Options{Model: sonnet, Tools: tool("a", " ", `{}`)}, "description"},
		{Options{Model: sonnet, Tools: tool("a", "d", `[]`)}, "JSON object"},
		{Options{Model: sonnet, Tools: tool("a", "d", ``)}, "JSON object"},
		{Options{Model: sonnet, Tools: append(worldTools(), worldTools()...)}, `"query_metrics": there are two`},
		{Options{Model: sonnet, Tools: tool(verdict.Tool, "d", `{}`)}, `"report_findings": there are two`},
		{Options{Model: sonnet, MaxTokens: -1}, "found -1"},
		{Options{Model: sonnet, Temperature: "1.5"}, `"1.5"`},
		{Options{Model: "eu.anthropic.claude-opus-4-7", Temperature: "0"}, "does not accept it"},
		{Options{Model: "anthropic.claude-next-7", Temperature: "0"}, "does not accept it"},
		{Options{Model: "amazon.nova-pro-v1:0", Cache: CacheHour}, "for an hour"},
		{Options{Model: RuleModel, Cache: CacheHour}, "for an hour"},
		{Options{Model: sonnet, Cache: "2h"}, `found "2h"`},
	} {
		if b, err := Request(c.o); err == nil || !strings.Contains(err.Error(), c.want) || b.Request != nil {
			t.Errorf("error %v, expected %q", err, c.want)
		}
	}
}

func TestAbilities(t *testing.T) {
	for model, want := range map[string]string{
		"global.anthropic.claude-opus-5-5":        "anthropic.claude-opus-5",
		"us.anthropic.claude-opus-4-6-v1":         "anthropic.claude-opus-4-6",
		"anthropic.claude-opus-4-1-20250805-v1:0": "anthropic.claude-opus-4",
		"arn:aws:bedrock:eu-west-1:1:inference-profile/eu.anthropic.claude-haiku-4-5-20251001-v1:0": "anthropic.claude-haiku-4-5",
		"us-gov.anthropic.claude-3-5-sonnet-20240620-v1:0":                                          "anthropic.claude-3",
		"anthropic.claude-opus-50": "anthropic.claude",
		"amazon.nova-micro-v1:0":   "amazon.nova",
		"amazon.novation-v1:0":     "",
		"mistral.large":            "",
	} {
		if got := abilityOf(model); got.family != want {
			t.Errorf("%s is taken for %q, expected %q", model, got.family, want)
		}
	}
	// Every row can be reached: none stands behind a shorter one.
	for _, a := range abilities() {
		if got := abilityOf(a.family); got.family != a.family {
			t.Errorf("%q is hidden by %q", a.family, got.family)
		}
	}
}

func TestUnitDecimal(t *testing.T) {
	for s, want := range map[string]bool{
		"0": true, "1": true, "0.0": true, "0.75": true, "1.00": true,
		"": false, "1.01": false, "2": false, "-0": false, "0.": false, ".5": false, "1e-1": false, "00": false, "NaN": false,
	} {
		if unitDecimal(s) != want {
			t.Errorf("%q: %v", s, !want)
		}
	}
}
