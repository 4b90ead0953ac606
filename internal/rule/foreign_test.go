package rule_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/rule"
	"investigator/internal/verdict"
)

func respond(t *testing.T, body string) converse.Turn {
	t.Helper()
	thread, rest, err := converse.SplitBody(json.RawMessage(body))
	if err != nil {
		t.Fatal(err)
	}
	turn, err := converse.ParseTurn(rule.Respond(converse.Request{Model: "rule", Messages: thread, Rest: rest}))
	if err != nil {
		t.Fatal(err)
	}
	return turn
}

const (
	weather = `{"toolSpec":{"name":"get_weather","inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"},"days":{"type":"integer"},"unit":{"enum":["C","F"]}},"required":["city","days","unit"]}}}}`
	deletes = `{"toolSpec":{"name":"delete_everything","inputSchema":{"json":{"type":"object"}}}}`
	nested  = `{"toolSpec":{"name":"get_nested","inputSchema":{"json":{"type":"object","properties":{"a":{"type":"object"}},"required":["a"]}}}}`
	reports = `{"toolSpec":{"name":"report_findings","inputSchema":{"json":{"type":"object"}}}}`
	asks    = `{"role":"user","content":[{"text":"Weather in F for 3 days?"}]}`
)

func TestForeignRequests(t *testing.T) {
	for name, body := range map[string]string{
		"empty body":        `{}`,
		"no tools":          `{"messages":[` + asks + `]}`,
		"an image":          `{"messages":[{"role":"user","content":[{"image":{"format":"png","source":{"bytes":"AA=="}}}]}]}`,
		"only writing tool": `{"messages":[` + asks + `],"toolConfig":{"tools":[` + deletes + `,` + nested + `]}}`,
		"odd shapes":        `{"messages":[null,7,{"role":"user","content":{"text":"x"}}],"toolConfig":{"tools":{"a":1}}}`,
		"huge":              `{"messages":[{"role":"user","content":[{"text":"` + strings.Repeat("x", 1<<20) + `"}]}]}`,
	} {
		t.Run(name, func(t *testing.T) {
			turn := respond(t, body)
			if turn.StopReason != converse.EndTurn || len(turn.ToolUses) > 0 {
				t.Errorf("stop reason %s, calls %v", turn.StopReason, turn.ToolUses)
			}
			mustContain(t, turn.Text(), "Inconclusive")
			if len(turn.Text()) > 1000 {
				t.Errorf("an answer of %d bytes", len(turn.Text()))
			}
		})
	}
}

// Unknown tools that only read are called once, then it concludes.
func TestForeignToolsAreTriedOnce(t *testing.T) {
	tools := `"toolConfig":{"tools":[` + weather + `,` + deletes + `,` + nested + `,` + reports + `]}`
	turn := respond(t, `{"messages":[`+asks+`],`+tools+`}`)
	want := []converse.ToolUse{{ID: "rule-t1-0", Name: "get_weather", Input: json.RawMessage(`{"city":"Weather in F for 3 days?","days":3,"unit":"F"}`)}}
	if d := cmp.Diff(want, turn.ToolUses); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	after := `{"role":"user","content":[{"toolResult":{"toolUseId":"rule-t1-0","content":[{"text":"evidence E4"},{"json":{"t":20}}]}}]}`
	turn = respond(t, `{"messages":[`+asks+`,`+string(turn.Message)+`,`+after+`],`+tools+`}`)
	if len(turn.ToolUses) != 1 || turn.ToolUses[0].Name != verdict.Tool {
		t.Fatalf("expected a verdict, found %s", turn.Message)
	}
	v, problems := verdict.Parse(turn.ToolUses[0].Input)
	if len(problems) > 0 || !v.Inconclusive() || cmp.Diff([]string{"E4"}, v.Evidence) != "" {
		t.Errorf("verdict %+v, problems %q", v, problems)
	}
}

// A verdict that was refused is not sent again and again.
func TestRefusedVerdictEndsInText(t *testing.T) {
	call := `{"role":"assistant","content":[{"toolUse":{"toolUseId":"a","name":"report_findings","input":{}}}]}`
	refusal := `{"role":"user","content":[{"toolResult":{"toolUseId":"a","status":"error","content":[{"text":"no"}]}}]}`
	turn := respond(t, `{"messages":[`+asks+`,`+call+`,`+refusal+`],"toolConfig":{"tools":[`+reports+`]}}`)
	if turn.StopReason != converse.EndTurn {
		t.Errorf("found %s", turn.Message)
	}
}

// askedOf answers one question with the two tools of the foreign clients.
func askedOf(t *testing.T, question string, results ...string) converse.Turn {
	t.Helper()
	const city = `"inputSchema":{"json":{"type":"object","properties":{"city":{"type":"string"},"id":{"type":"integer"}},"required":["city"]}}`
	tools := `"toolConfig":{"tools":[{"toolSpec":{"name":"get_weather",` + city + `}},{"toolSpec":{"name":"get_time",` + city + `}}]}`
	messages := `{"role":"user","content":[{"text":"` + question + `"}]}`
	turn := respond(t, `{"messages":[`+messages+`],`+tools+`}`)
	if len(results) == 0 {
		return turn
	}
	var blocks []string
	for i, use := range turn.ToolUses {
		blocks = append(blocks, `{"toolResult":{"toolUseId":"`+use.ID+`",`+results[i]+`}}`)
	}
	messages += `,` + string(turn.Message) + `,{"role":"user","content":[` + strings.Join(blocks, ",") + `]}`
	return respond(t, `{"messages":[`+messages+`],`+tools+`}`)
}

func TestForeignClients(t *testing.T) {
	const question = "What is the weather and time in Oslo?"
	want := []converse.ToolUse{
		{ID: "rule-t1-0", Name: "get_weather", Input: json.RawMessage(`{"city":"Oslo"}`)},
		{ID: "rule-t1-1", Name: "get_time", Input: json.RawMessage(`{"city":"Oslo"}`)},
	}
	if d := cmp.Diff(want, askedOf(t, question).ToolUses); d != "" {
		t.Errorf("calls (-want +got):\n%s", d)
	}
	hour := `"content":[{"text":"10:00"}]`
	turn := askedOf(t, question, `"content":[{"json":{"temp":3}}]`, hour)
	if turn.StopReason != converse.EndTurn {
		t.Fatalf("found %s", turn.Message)
	}
	mustContain(t, turn.Text(), "Inconclusive", `get_weather returned {"temp":3}.`, "get_time returned 10:00.")
	turn = askedOf(t, question, `"status":"error","content":[{"text":"no such city"}]`, hour)
	mustContain(t, turn.Text(), "get_weather failed with no such city.")
}

// What a foreign tool is given comes from the question.
func TestForeignValues(t *testing.T) {
	for question, city := range map[string]string{
		"Is it cold in New York today?":              "New York",
		"How about Århus, or Bergen?":                "Århus",
		"Please hurry. Now: Lima":                    "Please hurry. Now: Lima",
		"which city do I mean?":                      "which city do I mean?",
		"Tell (quickly) the time in 'Oslo' or Rome.": "Oslo",
	} {
		input, _ := json.Marshal(map[string]string{"city": city})
		if uses := askedOf(t, question).ToolUses; len(uses) != 2 || string(uses[0].Input) != string(input) {
			t.Errorf("%q: calls %v, expected input %s", question, uses, input)
		}
	}
}

func TestForeignWritersAreNotCalled(t *testing.T) {
	for _, name := range []string{"get_or_create_user", "findAndReplace", "fetch-and-delete", "restart", "list_then_send"} {
		tool := strings.Replace(deletes, "delete_everything", name, 1)
		if turn := respond(t, `{"messages":[`+asks+`],"toolConfig":{"tools":[`+tool+`]}}`); len(turn.ToolUses) > 0 {
			t.Errorf("%s was called", name)
		}
	}
}
