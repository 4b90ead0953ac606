package faults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

const content = "/output/message/content"

const (
	unsigned = `{"reasoningContent":{"reasoningText":{"text":"hm"}}}`
	deployed = `{"toolUse":{"input":{"service":"checkout"},"name":"list_deploys","toolUseId":"t1"}}`
)

// malformed is a turn whose second block's call came with half an input.
func malformed(t *testing.T, blocks ...string) ledger.Event {
	t.Helper()
	body, err := converse.Normalize([]byte(turnJSON("tool_use", blocks...)))
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(string(body), "malformedInputs") {
		t.Fatalf("no input is malformed: %s", body)
	}
	return event(ledger.ModelResponded, string(body))
}

func TestTurnEdits(t *testing.T) {
	ops := func(text string) Patch { return Ops(json.RawMessage(text)) }
	bad := callJSON("t2", "now", `"{\"a"`)
	goneNote := func(pointer string) string {
		return "the reasoning block " + pointer + " is gone; with thinking on, Bedrock wants a turn that calls tools to begin with one"
	}
	tests := []struct {
		name    string
		event   ledger.Event
		patch   Patch
		want    string
		dropped []string
		notes   []string
	}{
		{"text beside signed reasoning", responded("tool_use", signedA, textHi, deployed), mustSet(t, content+"/1/text", `"bye"`),
			turnJSON("tool_use", signedA, `{"text":"bye"}`, deployed), nil, nil},
		{"a call beside signed reasoning", responded("tool_use", signedA, signedB, deployed), mustSet(t, content+"/2/toolUse/input/service", `"cart"`),
			turnJSON("tool_use", signedA, signedB, callJSON("t1", "list_deploys", `{"service":"cart"}`)), nil, nil},
		{"signed reasoning dropped", responded("tool_use", signedA, deployed), Drop(content + "/0"),
			turnJSON("tool_use", deployed), []string{content + "/0"}, []string{goneNote(content + "/0")}},
		{"the second of two dropped", responded("tool_use", signedA, signedB, deployed), Drop(content + "/1"),
			turnJSON("tool_use", signedA, deployed), []string{content + "/1"}, []string{goneNote(content + "/1")}},
		{"one of two equal ones dropped", responded("tool_use", signedA, signedA, deployed), Drop(content + "/0"),
			turnJSON("tool_use", signedA, deployed), []string{content + "/1"}, []string{goneNote(content + "/1")}},
		{"unsigned reasoning edited", responded("tool_use", unsigned, deployed), mustSet(t, content+"/0/reasoningContent/reasoningText/text", `"oh"`),
			turnJSON("tool_use", `{"reasoningContent":{"reasoningText":{"text":"oh"}}}`, deployed), []string{content + "/0"}, []string{goneNote(content + "/0")}},
		{"the last call dropped", responded("tool_use", textHi, deployed), Drop(content + "/1"),
			turnJSON("end_turn", textHi), nil, []string{`/stopReason was set to "end_turn", as the turn makes 0 calls`}},
		{"one of two calls dropped", responded("tool_use", deployed, callJSON("t2", "now", "{}")), Drop(content + "/0"),
			turnJSON("tool_use", callJSON("t2", "now", "{}")), nil, nil},
		{"a call added to an answer", responded("end_turn", textHi), mustSet(t, content+"/-", deployed),
			turnJSON("tool_use", textHi, deployed), nil, []string{`/stopReason was set to "tool_use", as the turn makes 1 call`}},
		{"a stop reason of one's own stays", responded("tool_use", deployed), mustSet(t, "/stopReason", `"guardrail_intervened"`),
			turnJSON("guardrail_intervened", deployed), nil, nil},
		{"durations left out", responded("end_turn", textHi), Replace(json.RawMessage(`{"metrics":{"latencyMs":5},` + turnJSON("end_turn", `{"text":"x"}`)[1:])),
			turnJSON("end_turn", `{"text":"x"}`), nil, []string{"/metrics was left out: durations are no part of a ledger"}},
		{"ids a model repeats stay", responded("tool_use", deployed, deployed), mustSet(t, content+"/1/toolUse/input/service", `"cart"`),
			turnJSON("tool_use", deployed, callJSON("t1", "list_deploys", `{"service":"cart"}`)), nil, nil},
		{"a name a model made up stays", responded("tool_use", callJSON("x y", "list.deploys", "{}"), deployed), mustSet(t, content+"/1/toolUse/input/service", `"cart"`),
			turnJSON("tool_use", callJSON("x y", "list.deploys", "{}"), callJSON("t1", "list_deploys", `{"service":"cart"}`)), nil, nil},
		{"a block of two members stays", responded("tool_use", `{"text":"a","x":1}`, deployed), mustSet(t, content+"/1/toolUse/input", `{}`),
			turnJSON("tool_use", `{"text":"a","x":1}`, callJSON("t1", "list_deploys", `{}`)), nil, nil},
		{"a blank text is repaired later", responded("tool_use", textHi, deployed), mustSet(t, content+"/0/text", `""`),
			turnJSON("tool_use", `{"text":""}`, deployed), nil, nil},
		{"an input too many moved with its call", malformed(t, textHi, bad),
			ops(`[{"op":"remove","path":"` + content + `/0"},{"op":"move","from":"/investigator/malformedInputs/1","path":"/investigator/malformedInputs/0"}]`),
			`{"investigator":{"malformedInputs":{"0":"\"{\\\"a\""}},` + turnJSON("tool_use", callJSON("t2", "now", "{}"))[1:], nil, nil},
		{"a stop for calls that never came stays", responded("tool_use", textHi), mustSet(t, content+"/0/text", `"x"`), turnJSON("tool_use", `{"text":"x"}`), nil, nil},
		{"an answer with an error beside it is an answer", responded("end_turn", textHi), mustSet(t, "/error", `{"name":"X"}`), `{"error":{"name":"X"},` + turnJSON("end_turn", textHi)[1:], nil, nil},
		{"usage edited", responded("end_turn", textHi), mustSet(t, "/usage/inputTokens", `5`),
			strings.Replace(turnJSON("end_turn", textHi), `"inputTokens":1`, `"inputTokens":5`, 1), nil, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := apply(t, test.patch, test.event)
			if diff := cmp.Diff(test.want, string(out.Event.Data)); diff != "" {
				t.Errorf("turn (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.dropped, out.Dropped); diff != "" {
				t.Errorf("dropped (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(test.notes, out.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
			if out.Event.Type != ledger.ModelResponded {
				t.Errorf("type %s", out.Event.Type)
			}
			feed(t, out.Return)
		})
	}
}

func TestTurnRefusals(t *testing.T) {
	const reasoning = "leave signed reasoning as it is, or drop the whole block"
	const callHint = `a call is like {"input":{},"name":"list_deploys","toolUseId":"t1"}`
	const blockHint = `a block is like {"text":"…"} or {"toolUse":{…}}`
	edited := func(i string) string {
		return content + "/" + i + ": a signed reasoning block was edited, moved or added; its signature would not hold"
	}
	ops := func(text string) Patch { return Ops(json.RawMessage(text)) }
	thinking := responded("tool_use", signedA, textHi, deployed)
	bad := callJSON("t2", "now", `"{\"a"`)
	tests := []struct {
		name  string
		event ledger.Event
		patch Patch
		what  string
		hint  string
	}{
		{"signed text trimmed", thinking, mustSet(t, content+"/0/reasoningContent/reasoningText/text", `"think"`), edited("0"), reasoning},
		{"a signature edited", thinking, mustSet(t, content+"/0/reasoningContent/reasoningText/signature", `"c2lo"`), edited("0"), reasoning},
		{"a signature dropped", thinking, Drop(content + "/0/reasoningContent/reasoningText/signature"), edited("0"), reasoning},
		{"signed text dropped", thinking, Drop(content + "/0/reasoningContent/reasoningText/text"), edited("0"), reasoning},
		{"redacted bytes edited", responded("tool_use", signedB, deployed), mustSet(t, content+"/0/reasoningContent/redactedContent", `"AAED"`), edited("0"), reasoning},
		{"a signed block added", responded("end_turn", textHi), ops(`[{"op":"add","path":"` + content + `/0","value":` + signedA + `}]`), edited("0"), reasoning},
		{"a signed block twice", thinking, ops(`[{"op":"copy","from":"` + content + `/0","path":"` + content + `/1"}]`), edited("1"), reasoning},
		{"an unsigned block added to signed ones", thinking, ops(`[{"op":"add","path":"` + content + `/1","value":` + unsigned + `}]`), edited("1"), reasoning},
		{"signed blocks swapped", responded("tool_use", signedA, signedB, deployed), ops(`[{"op":"move","from":"` + content + `/1","path":"` + content + `/0"}]`), edited("1"), reasoning},
		{"text before the reasoning", thinking, ops(`[{"op":"add","path":"` + content + `/0","value":{"text":"x"}}]`),
			content + `/0: expected the signed reasoning that the turn began with, found {"text":"x"}`, "put new blocks after it, or drop it too"},
		{"reasoning moved back", thinking, ops(`[{"op":"move","from":"` + content + `/0","path":"` + content + `/1"}]`),
			content + `/0: expected the signed reasoning that the turn began with, found {"text":"hi"}`, "put new blocks after it, or drop it too"},

		{"a tool name with a space", thinking, mustSet(t, content+"/2/toolUse/name", `"a b"`), content + `/2/toolUse/name: expected 1 to 64 of a-z, A-Z, 0-9, _ and -, found "a b"`, callHint},
		{"a tool name with a dot", thinking, mustSet(t, content+"/2/toolUse/name", `"a.b"`), content + `/2/toolUse/name: expected 1 to 64 of a-z, A-Z, 0-9, _ and -, found "a.b"`, callHint},
		{"no tool name", thinking, Drop(content + "/2/toolUse/name"), content + `/2/toolUse/name: expected 1 to 64 of a-z, A-Z, 0-9, _ and -, found ""`, callHint},
		{"an id of no characters", thinking, mustSet(t, content+"/2/toolUse/toolUseId", `""`), content + `/2/toolUse/toolUseId: expected 1 to 64 of a-z, A-Z, 0-9 and _.:-, found ""`, callHint},
		{"a call that is no object", thinking, mustSet(t, content+"/2/toolUse", `[]`), "the result is not a model turn", "to let the model call fail use --error TEXT"},
		{"an input that is no object", thinking, mustSet(t, content+"/2/toolUse/input", `[1]`), content + `/2/toolUse/input: expected an object, found [1]`, callHint},
		{"one id for two calls", responded("tool_use", deployed, callJSON("t2", "now", "{}")), mustSet(t, content+"/1/toolUse/toolUseId", `"t1"`), content + `/1/toolUse/toolUseId: "t1" is there twice`, "give each call of a turn its own id"},
		{"a call there twice", responded("tool_use", textHi, deployed), mustSet(t, content+"/-", deployed), content + `/2/toolUse/toolUseId: "t1" is there twice`, "give each call of a turn its own id"},
		{"a block that is no object", thinking, mustSet(t, content+"/1", `"hi"`), content + `/1: expected a content block with one member, found "hi"`, blockHint},
		{"a block of nothing", thinking, mustSet(t, content+"/1", `{}`), content + `/1: expected a content block with one member, found {}`, blockHint},
		{"a block of two members", thinking, mustSet(t, content+"/1/x", `1`), content + `/1: expected a content block with one member, found {"text":"hi","x":1}`, blockHint},

		{"a malformed call dropped", malformed(t, textHi, bad), Drop(content + "/1"),
			"/investigator/malformedInputs/1: expected a call at " + content + "/1, found none", "remove /investigator/malformedInputs/1 too, or move it to where its call is now"},
		{"another call in its place", malformed(t, textHi, bad, callJSON("t3", "now", "{}")), Drop(content + "/0"),
			`/investigator/malformedInputs/1: expected the call "t2" at ` + content + `/1, found "t3"`, "remove /investigator/malformedInputs/1 too, or move it to where its call is now"},
		{"a good input beside the bad text", malformed(t, textHi, bad), mustSet(t, content+"/1/toolUse/input", `{"a":1}`),
			content + `/1/toolUse/input: expected {} beside a text that is no input, found {"a":1}`, "remove /investigator/malformedInputs/1 too, so that the call is run"},

		{"no stop reason", thinking, Drop("/stopReason"), "the result is not a model turn", "to let the model call fail use --error TEXT"},
		{"another role", thinking, mustSet(t, "/output/message/role", `"user"`), "the result is not a model turn", "to let the model call fail use --error TEXT"},
		{"no document", thinking, Replace(json.RawMessage(`7`)), "the result is not a model turn", "to let the model call fail use --error TEXT"},
		{"a failure without a name", thinking, Replace(json.RawMessage(`{"error":{"message":"x"}}`)), `expected the failure of a model call, found {"error":{"message":"x"}}`, `like {"error":{"message":"…","name":"ThrottlingException","status":429}}`},
		{"a failure of another shape", thinking, Replace(json.RawMessage(`{"error":"x"}`)), `expected the failure of a model call, found {"error":"x"}`, `like {"error":{"message":"…","name":"ThrottlingException","status":429}}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := refused(t, test.patch.Check(test.event))
			got := Error{Kind: err.Kind, Event: err.Event, What: err.What, Hint: err.Hint}
			if diff := cmp.Diff(Error{Kind: Refused, Event: 7, What: test.what, Hint: test.hint}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A signature covers bytes: a block that canonicalises to the recorded one is
// the same, one that reads the same in other characters is not.
func TestSignedReasoningIsExact(t *testing.T) {
	e := responded("tool_use", signedA, textHi, deployed)
	same := `[{"op":"replace","path":"` + content + `/0","value":{ "reasoningContent" : {"reasoningText":{"text":"think\u0020\n","signature":"c2ln"}}}},{"op":"replace","path":"` + content + `/1/text","value":"x"}]`
	out := apply(t, Ops(json.RawMessage(same)), e)
	if !strings.Contains(string(out.Event.Data), signedA) || out.Dropped != nil {
		t.Errorf("the block is not as it was: %s, dropped %q", out.Event.Data, out.Dropped)
	}
	for _, text := range []string{`"think\n"`, `"think \n "`, `"Think \n"`, `"think\u00a0\n"`, `""`} {
		refused(t, mustSet(t, content+"/0/reasoningContent/reasoningText/text", text).Check(e))
	}
	for _, doc := range []string{
		turnJSON("tool_use", strings.Replace(signedA, "c2ln", "c2ln ", 1), deployed),
		turnJSON("tool_use", strings.Replace(signedA, `\n`, ``, 1), deployed),
	} {
		refused(t, Replace(json.RawMessage(doc)).Check(e))
	}
	out = apply(t, Replace(json.RawMessage(turnJSON("end_turn", textHi))), e)
	if diff := cmp.Diff([]string{content + "/0"}, out.Dropped); diff != "" {
		t.Errorf("dropped (-want +got):\n%s", diff)
	}
}

func TestModelFailures(t *testing.T) {
	failure := string(edge.FailureBody(edge.Failure{Name: "ThrottlingException", Message: "slow down", Status: 429}))
	tests := []struct {
		name  string
		event ledger.Event
		patch Patch
		kind  string
		want  string
	}{
		{"an answer fails", responded("end_turn", textHi), Fail("gone"), ledger.ModelFailed, `{"error":{"message":"gone","name":"ModelErrorException","status":424}}`},
		{"an answer is replaced by a failure", responded("end_turn", textHi), Replace(json.RawMessage(failure)), ledger.ModelFailed, failure},
		{"a failure gets another text", event(ledger.ModelFailed, failure), mustSet(t, "/error/message", `"no"`), ledger.ModelFailed, strings.Replace(failure, "slow down", "no", 1)},
		{"a failure is replaced by another", event(ledger.ModelFailed, failure), Replace(json.RawMessage(strings.Replace(failure, "slow down", "no", 1))), ledger.ModelFailed, strings.Replace(failure, "slow down", "no", 1)},
		{"a failure becomes an answer", event(ledger.ModelFailed, failure), Replace(json.RawMessage(turnJSON("end_turn", textHi))), ledger.ModelResponded, turnJSON("end_turn", textHi)},
		{"a failure with a status", event(ledger.ModelFailed, failure), mustSet(t, "/status", `"x"`), ledger.ModelFailed, failure[:len(failure)-1] + `,"status":"x"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := apply(t, test.patch, test.event)
			if out.Event.Type != test.kind || string(out.Event.Data) != test.want {
				t.Errorf("got %s %s\nwant %s %s", out.Event.Type, out.Event.Data, test.kind, test.want)
			}
			feed(t, out.Return)
		})
	}
}

// run.started has no return: a fork starts from the event's data.
func TestStart(t *testing.T) {
	for pointer, value := range map[string]string{
		"/task": `"other"`, "/model": `"us.amazon.nova-pro-v1:0"`, "/limits/max_turns": `3`, "/context": `{"a":1.0}`, "/now": `"2026-03-10T09:00:00Z"`,
		"/request/system": `[{"text":"be brief"}]`, "/request/toolConfig/tools/0/toolSpec/description": `"d"`,
	} {
		out := apply(t, mustSet(t, pointer, value), event(ledger.RunStarted, started))
		if diff := cmp.Diff(edge.Return{}, out.Return); diff != "" {
			t.Errorf("%s: return (-want +got):\n%s", pointer, diff)
		}
		if got, n := walk(out.Event.Data, must(tokens(pointer))); n == 0 || string(got) != value {
			t.Errorf("%s is %s, want %s", pointer, got, value)
		}
	}
	newer := strings.Replace(started, `"model"`, `"later":1,"model"`, 1)
	apply(t, mustSet(t, "/task", `"other"`), event(ledger.RunStarted, newer))
}

func must[T any](v T, err *Error) T {
	if err != nil {
		panic(err)
	}
	return v
}
