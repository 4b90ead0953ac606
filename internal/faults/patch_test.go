package faults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func TestShortForms(t *testing.T) {
	tests := []struct {
		name  string
		patch Patch
		doc   string
		want  string
	}{
		{"drop an element", Drop("/deploys/1"), deploys, strings.Replace(deploys, `,{"id":"v841","time":"2026-03-10T01:55:00Z"}`, "", 1)},
		{"drop a member", Drop("/window"), `{"a":1,"window":{}}`, `{"a":1}`},
		{"drop deep", Drop("/deploys/0/id"), `{"deploys":[{"id":"v1","x":1}]}`, `{"deploys":[{"x":1}]}`},
		{"drop an escaped name", Drop("/a~1b/m~0n"), `{"a/b":{"m~n":1,"o":2}}`, `{"a/b":{"o":2}}`},
		{"drop two, in order", mustJoin(t, Drop("/a/0"), Drop("/a/0")), `{"a":[1,2,3]}`, `{"a":[3]}`},
		{"set a member", mustSet(t, "/status", `"empty"`), `{"status":"ok"}`, `{"status":"empty"}`},
		{"set a new member", mustSet(t, "/note", `{"b":1,"a":2}`), `{"status":"ok"}`, `{"note":{"a":2,"b":1},"status":"ok"}`},
		{"set an element", mustSet(t, "/a/1", `null`), `{"a":[1,2]}`, `{"a":[1,null]}`},
		{"set at the end", mustSet(t, "/a/-", `3`), `{"a":[1,2]}`, `{"a":[1,2,3]}`},
		{"set a member named -", mustSet(t, "/-", `3`), `{}`, `{"-":3}`},
		{"set the whole", mustSet(t, "", `7`), `{"a":1}`, `7`},
		{"set after drop", mustJoin(t, Drop("/a/0"), mustSet(t, "/a/0", `9`)), `{"a":[1,2]}`, `{"a":[9]}`},
		{"set keeps the value's spelling", mustSet(t, "/a", `[9007199254740993,1.0,1e400,-0.0]`), `{"a":1}`, `{"a":[9007199254740993,1.0,1e400,-0.0]}`},
		{"replace", Replace(json.RawMessage(` {"b" : 1.0} `)), deploys, `{"b":1.0}`},
		{"replace by null", Replace(json.RawMessage(`null`)), deploys, `null`},
		{"empty", Empty(), `{"a":[1]}`, `{"a":[]}`},
		{"error", Fail(`said "no" <&>`), deploys, `{"error":{"message":"said \"no\" <&>"},"status":"error"}`},
		{"error without a text", Fail(""), deploys, `{"error":{"message":""},"status":"error"}`},
		{"fault", Named("duplicated"), `[1]`, `[1,1]`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := apply(t, test.patch, result(test.doc))
			if diff := cmp.Diff(test.want, resultOf(t, out.Event)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestOperations(t *testing.T) {
	tests := []struct {
		name, ops, doc, want string
	}{
		{"add before", `[{"op":"add","path":"/a/0","value":0}]`, `{"a":[1]}`, `{"a":[0,1]}`},
		{"add at the end by index", `[{"op":"add","path":"/a/1","value":2}]`, `{"a":[1]}`, `{"a":[1,2]}`},
		{"add over a member", `[{"op":"add","path":"/a","value":2}]`, `{"a":[1]}`, `{"a":2}`},
		{"add null", `[{"op":"add","path":"/b","value":null}]`, `{"a":1}`, `{"a":1,"b":null}`},
		{"replace", `[{"op":"replace","path":"/a/0","value":"<"}]`, `{"a":[1]}`, `{"a":["<"]}`},
		{"move", `[{"op":"move","from":"/a/0","path":"/a/1"}]`, `{"a":[1,2]}`, `{"a":[2,1]}`},
		{"move out", `[{"op":"move","from":"/a/0","path":"/b"}]`, `{"a":[1,2]}`, `{"a":[2],"b":1}`},
		{"copy", `[{"op":"copy","from":"/a","path":"/b"}]`, `{"a":[1]}`, `{"a":[1],"b":[1]}`},
		{"copy the whole into itself", `[{"op":"copy","from":"","path":"/b"}]`, `{"a":1}`, `{"a":1,"b":{"a":1}}`},
		{"move to the whole", `[{"op":"move","from":"/a","path":""}]`, `{"a":{"b":1}}`, `{"b":1}`},
		{"test, then remove", `[{"op":"test","path":"/a","value":{"y":1,"x":1.0}},{"op":"remove","path":"/a"}]`, `{"a":{"x":1.0,"y":1},"b":1}`, `{"b":1}`},
		{"unknown members are left unread", `[{"op":"remove","path":"/a","why":"x"}]`, `{"a":1}`, `{}`},
		{"a name with an escape", `[{"op":"remove","path":"/a\"b"}]`, `{"a\"b":1,"c":2}`, `{"c":2}`},
		{"other names with escapes stay", `[{"op":"remove","path":"/c"}]`, `{"a\"\\\n\u0001b":"\"\\\n\u0001<>&","c":2}`, `{"a\"\\\n\u0001b":"\"\\\n\u0001<>&"}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out := apply(t, Ops(json.RawMessage(test.ops)), result(test.doc))
			if diff := cmp.Diff(test.want, resultOf(t, out.Event)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// Join must not lose a "from" that is the whole document.
func TestJoinKeepsFrom(t *testing.T) {
	p := mustJoin(t, Ops(json.RawMessage(`[{"op":"copy","from":"","path":"/b"}]`)), mustSet(t, "/c", `1`))
	if got, want := resultOf(t, apply(t, p, result(`{"a":1}`)).Event), `{"a":1,"b":{"a":1},"c":1}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// What a patch leaves alone keeps its bytes, in every form that leaves any.
func TestNumbersSurvive(t *testing.T) {
	const kept = `[9007199254740993,1.0,1e400,-0.0,1E5,0.10]`
	doc := `{"kept":{"n":` + kept + `,"t":"é \u2028 <&>"},"list":[{"v":` + kept + `},1],"x":1}`
	canon, err := ledger.Canon([]byte(doc))
	if err != nil {
		t.Fatal(err)
	}
	for name, p := range map[string]Patch{
		"drop": Drop("/x"), "drop beside": Drop("/list/1"), "set": mustSet(t, "/y", "1"), "test": Ops(json.RawMessage(`[{"op":"test","path":"/kept/n/2","value":1e400},{"op":"remove","path":"/x"}]`)),
		"copy": Ops(json.RawMessage(`[{"op":"copy","from":"/kept","path":"/k"}]`)), "move": Ops(json.RawMessage(`[{"op":"move","from":"/kept","path":"/list/1"}]`)),
		"missing": Named("missing"), "duplicated": Named("duplicated"), "reordered": Named("reordered"), "truncated": Named("truncated"),
	} {
		t.Run(name, func(t *testing.T) {
			e := result(string(canon))
			if p.Fault != "" {
				e = result(`{"kept":{"n":{"deep":` + kept + `}},"list":[{"v":` + kept + `},1]}`)
				e = result(strings.Replace(resultOf(t, e), `"n":{"deep":`+kept+`}`, `"n":9007199254740993,"o":1.0,"p":1e400,"q":-0.0`, 1))
			}
			got := resultOf(t, apply(t, p, e).Event)
			if !strings.Contains(got, kept) {
				t.Errorf("%s is not in %s", kept, got)
			}
			if strings.Contains(resultOf(t, e), `-0.0}`) && !strings.Contains(got, `"n":9007199254740993,"o":1.0,"p":1e400,"q":-0.0`) {
				t.Errorf("a number was respelled: %s", got)
			}
		})
	}
	t.Run("run.started", func(t *testing.T) {
		out := apply(t, mustSet(t, "/task", `"other"`), event(ledger.RunStarted, started))
		if !strings.Contains(string(out.Event.Data), `"temperature":1.0`) {
			t.Errorf("1.0 was respelled: %s", out.Event.Data)
		}
	})
	t.Run("turn", func(t *testing.T) {
		e := responded("tool_use", textHi, callJSON("t", "now", `{"n":`+kept+`}`))
		out := apply(t, Drop("/output/message/content/0"), e)
		if !strings.Contains(string(out.Event.Data), kept) {
			t.Errorf("a number was respelled: %s", out.Event.Data)
		}
	})
}

func TestRefusals(t *testing.T) {
	const opsHint = `write them like [{"op":"remove","path":"/deploys/1"}]`
	const opHint = `write it like {"op":"replace","path":"/status","value":"empty"}`
	const insertExample = `write it like {"tool":"list_deploys","input":{"service":"cart"},"result":{"deploys":[]}}`
	ops := func(text string) Patch { return Ops(json.RawMessage(text)) }
	text := "x"
	tests := []struct {
		name  string
		patch Patch
		event ledger.Event
		kind  Kind
		what  string
		hint  string
	}{
		{"nothing", Patch{}, result(deploys), BadPatch, "expected one of ops, fault, replace, error and insert, found none", formsHint},
		{"several", Patch{Fault: "missing", Error: &text}, result(deploys), BadPatch, "expected one of ops, fault, replace, error and insert, found several", "fork the fork to edit one run twice"},
		{"ops not JSON", ops(`[{`), result(deploys), BadPatch, "expected an array of RFC 6902 operations", opsHint},
		{"ops no array", ops(`{"a":1}`), result(deploys), BadPatch, `expected an array of RFC 6902 operations, found {"a":1}`, opsHint},
		{"ops empty", ops(`[]`), result(deploys), BadPatch, `expected an array of RFC 6902 operations, found []`, opsHint},
		{"op no object", ops(`[7]`), result(deploys), BadPatch, `operation 0: expected an object with op and path, found 7`, opHint},
		{"op null", ops(`[null]`), result(deploys), BadPatch, `operation 0: expected a member "op", found null`, opHint},
		{"no path", ops(`[{"op":"remove","path":"/a"},{"op":"remove"}]`), result(deploys), BadPatch, `operation 1: expected a member "path", found {"op":"remove"}`, opHint},
		{"no value", ops(`[{"op":"add","path":"/a"}]`), result(deploys), BadPatch, `operation 0: add "/a": expected a member "value", found none`, opHint},
		{"no from", ops(`[{"op":"move","path":"/a"}]`), result(deploys), BadPatch, `operation 0: move the whole document to "/a": expected a member "from", found none`, `write it like {"from":"/deploys/1","op":"move","path":"/deploys/0"}`},
		{"unknown op", ops(`[{"op":"delete","path":"/a"}]`), result(deploys), BadPatch, `operation 0: expected an operation, found "delete"`, "one of add, remove, replace, move, copy, test, set"},
		{"no pointer", Drop("deploys/1"), result(deploys), BadPatch, `operation 0: expected a JSON pointer, found "deploys/1"`, `a pointer is "" or starts with "/", like /deploys/1`},
		{"a lone tilde", Drop("/a~b"), result(deploys), BadPatch, `operation 0: expected a JSON pointer, found "/a~b"`, `write "~0" for "~" and "~1" for "/" within a name`},
		{"bad from", ops(`[{"op":"copy","from":"a","path":"/b"}]`), result(deploys), BadPatch, `operation 0: expected a JSON pointer, found "a"`, `a pointer is "" or starts with "/", like /deploys/1`},
		{"replace no JSON", Replace(json.RawMessage(`no`)), result(deploys), BadPatch, "the document to replace with", "give JSON; a text needs its quotes"},

		{"past the end", Drop("/deploys/9"), result(deploys), NotApplicable, `operation 0, remove "/deploys/9", does not apply: "/deploys/9" names nothing: /deploys has 2 elements, 0 to 1`, `the last element is "/deploys/1"`},
		{"an index from the end", Drop("/deploys/-1"), result(deploys), NotApplicable, `operation 0, remove "/deploys/-1", does not apply: "/deploys/-1" names nothing: /deploys has 2 elements, 0 to 1`, `the last element is "/deploys/1"`},
		{"a zero before", Drop("/deploys/01"), result(deploys), NotApplicable, `operation 0, remove "/deploys/01", does not apply: "/deploys/01" names nothing: /deploys has 2 elements, 0 to 1`, `the last element is "/deploys/1"`},
		{"drop behind the end", Drop("/deploys/-"), result(deploys), NotApplicable, `operation 0, remove "/deploys/-", does not apply: "/deploys/-" names nothing: /deploys has 2 elements, 0 to 1`, `the last element is "/deploys/1"`},
		{"a pointer into the data", Drop("/result/deploys/1"), result(deploys), NotApplicable, `operation 0, remove "/result/deploys/1", does not apply: "/result/deploys/1" names nothing: the top has deploys, service, status, window`, `leave "result" out: "/deploys/1"`},
		{"a name misspelt", Drop("/deploy"), result(deploys), NotApplicable, `operation 0, remove "/deploy", does not apply: "/deploy" names nothing: the top has deploys, service, status, window`, `there is "/deploys"`},
		{"a name in another case", Drop("/Status"), result(deploys), NotApplicable, `operation 0, remove "/Status", does not apply: "/Status" names nothing: the top has deploys, service, status, window`, `there is "/status"`},
		{"no such name", Drop("/zzz"), result(`{"":1,"a":1}`), NotApplicable, `operation 0, remove "/zzz", does not apply: "/zzz" names nothing: the top has , a`, "point at something that is there, or add it with --set"},
		{"many names", Drop("/zzz"), result(`{"a":1,"b":1,"c":1,"d":1,"e":1,"f":1,"g":1,"h":1,"i":1,"j":1,"k":1,"l":1,"m":1,"n":1}`), NotApplicable, `operation 0, remove "/zzz", does not apply: "/zzz" names nothing: the top has a, b, c, d, e, f, g, h, i, j, k, l, and 2 more`, "point at something that is there, or add it with --set"},
		{"into a scalar", Drop("/service/x"), result(deploys), NotApplicable, `operation 0, remove "/service/x", does not apply: "/service/x" names nothing: /service is "checkout"`, "point at something that is there, or add it with --set"},
		{"into an empty array", Drop("/a/0"), result(`{"a":[]}`), NotApplicable, `operation 0, remove "/a/0", does not apply: "/a/0" names nothing: /a is an empty array`, "point at something that is there, or add it with --set"},
		{"into an empty object", Drop("/a/0"), result(`{"a":{}}`), NotApplicable, `operation 0, remove "/a/0", does not apply: "/a/0" names nothing: /a has no members`, "point at something that is there, or add it with --set"},
		{"the second does not apply", mustJoin(t, Drop("/deploys/1"), Drop("/deploys/1")), result(deploys), NotApplicable, `operation 1, remove "/deploys/1", does not apply: "/deploys/1" names nothing: /deploys has one element, 0`, `the last element is "/deploys/0"`},
		{"set past the end", mustSet(t, "/deploys/5", "1"), result(deploys), NotApplicable, `operation 0, set "/deploys/5", does not apply: "/deploys/5" names nothing: /deploys has 2 elements, 0 to 1`, `to add at the end point at "/deploys/-"`},
		{"set below nothing", mustSet(t, "/x/y", "1"), result(deploys), NotApplicable, `operation 0, set "/x/y", does not apply: "/x/y" names nothing: the top has deploys, service, status, window`, "point at something that is there, or add it with --set"},
		{"set within a scalar", mustSet(t, "/status/y", "1"), result(deploys), NotApplicable, `operation 0, set "/status/y", does not apply: "/status/y" names nothing: /status is "ok"`, "point at something that is there, or add it with --set"},
		{"replace nothing", ops(`[{"op":"replace","path":"/x","value":1}]`), result(`{}`), NotApplicable, `operation 0, replace "/x", does not apply: "/x" names nothing: the top has no members`, "point at something that is there, or add it with --set"},
		{"copy from nothing", ops(`[{"op":"copy","from":"/x","path":"/y"}]`), result(`{}`), NotApplicable, `operation 0, copy "/x" to "/y", does not apply: "/x" names nothing: the top has no members`, "point at something that is there, or add it with --set"},
		{"move past the end that is left", ops(`[{"op":"move","from":"/a/0","path":"/a/2"}]`), result(`{"a":[1,2]}`), NotApplicable, `operation 0, move "/a/0" to "/a/2", does not apply: "/a/2" names nothing: /a has one element, 0`, `the last element is "/a/0"`},
		{"move into itself", ops(`[{"op":"move","from":"/a","path":"/a/b"}]`), result(`{"a":{}}`), NotApplicable, `operation 0, move "/a" to "/a/b", does not apply: a value cannot be moved into itself`, "copy it instead"},
		{"the whole dropped", Drop(""), result(deploys), NotApplicable, `operation 0, remove the whole document, does not apply: the whole document cannot be removed`, "replace it instead"},
		{"an empty name", Drop("/"), result(`{"":1}`), NotApplicable, `operation 0, remove "/", does not apply: members with an empty name cannot be pointed at`, "replace the object around it"},
		{"a test that fails", ops(`[{"op":"test","path":"/a","value":1.0}]`), result(`{"a":1}`), NotApplicable, `operation 0, test "/a", does not apply: expected 1.0, found 1`, "the patch was made for another event; values are compared as they are spelled"},

		{"the same value", mustSet(t, "/deploys/1/id", `"v841"`), result(deploys), NoChange, "the patch changes nothing", "point at something else, or give another value"},
		{"the same document", Replace(json.RawMessage(`{"b":1, "a":2}`)), result(`{"a":2,"b":1}`), NoChange, "the patch changes nothing", "point at something else, or give another value"},
		{"a test alone", ops(`[{"op":"test","path":"/a","value":1}]`), result(`{"a":1}`), NoChange, "the patch changes nothing", "point at something else, or give another value"},
		{"there and back", ops(`[{"op":"move","from":"/a","path":"/b"},{"op":"move","from":"/b","path":"/a"}]`), result(`{"a":1}`), NoChange, "the patch changes nothing", "point at something else, or give another value"},

		{"tool.called", Drop("/input"), event(ledger.ToolCalled, `{}`), NotPatchable, "tool.called follows from other events and cannot be patched", "patch the model turn that made the call, or the tool.returned that answers it"},
		{"run.finished", Drop("/a"), event(ledger.RunFinished, `{}`), NotPatchable, "run.finished follows from other events and cannot be patched", "patch the last model turn, which holds the verdict, or a tool result before it"},
		{"another event", Drop("/a"), event(ledger.ContextTrimmed, `{}`), NotPatchable, "context.trimmed follows from other events and cannot be patched", "patch a tool.returned, a model.responded, or run.started"},
		{"damaged data", Drop("/a"), event(ledger.ToolReturned, `{`), NotPatchable, "its data", "verify the cassette"},
		{"data without a result", Drop("/a"), event(ledger.ToolReturned, `{"tool":"x"}`), NotPatchable, `expected the data of tool.returned with a result, found {"tool":"x"}`, "verify the cassette"},

		{"no task", mustSet(t, "/task", `" "`), event(ledger.RunStarted, started), Refused, "no run can start from the result", "a run needs a task, a model and a request"},
		{"a start that fails", Fail("x"), event(ledger.RunStarted, started), NotPatchable, "run.started is not a call and cannot fail", "set a member of it instead, like /task or /model"},
		{"what no run looks at", mustSet(t, "/modle", `"x"`), event(ledger.RunStarted, started), Refused, "run.started", "members are task, context, now, model, request, cache, effects, limits, price and prompt"},
		{"a limit misspelt", mustSet(t, "/limits/max_turn", `3`), event(ledger.RunStarted, started), Refused, "run.started", "members are task, context, now, model, request, cache, effects, limits, price and prompt"},

		{"insert without a tool", Patch{Insert: &Insert{Input: json.RawMessage(`{}`), Result: json.RawMessage(`1`)}}, responded("end_turn", textHi), BadPatch, `the inserted call: expected a tool name, found ""`, insertExample},
		{"insert without an input", Patch{Insert: &Insert{Tool: "now", Result: json.RawMessage(`1`)}}, responded("end_turn", textHi), BadPatch, `the inserted call's input: expected an object, found ""`, insertExample},
		{"insert without a result", Patch{Insert: &Insert{Tool: "now", Input: json.RawMessage(`{}`)}}, responded("end_turn", textHi), BadPatch, `the inserted call's result`, insertExample},
		{"insert with a text as input", InsertCall("now", json.RawMessage(`"x"`), json.RawMessage(`1`)), responded("end_turn", textHi), BadPatch, `the inserted call's input: expected an object, found "\"x\""`, insertExample},
		{"insert a verdict", InsertCall("report_findings", json.RawMessage(`{}`), json.RawMessage(`1`)), responded("end_turn", textHi), BadPatch, "report_findings ends a run and has no return", "edit the verdict of the last turn with --set"},
		{"insert at a result", InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`1`)), result(deploys), NotPatchable, "a call is inserted at a model.responded, not at tool.returned", "insert at the model turn before it"},
		{"insert at no turn", InsertCall("now", json.RawMessage(`{}`), json.RawMessage(`1`)), event(ledger.ModelResponded, `{}`), NotPatchable, "the recorded turn", "put a whole turn in its place with --replace"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := refused(t, test.patch.Check(test.event))
			got := Error{Kind: err.Kind, Event: err.Event, What: err.What, Hint: err.Hint}
			if diff := cmp.Diff(Error{Kind: test.kind, Event: 7, What: test.what, Hint: test.hint}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if !strings.HasPrefix(err.Error(), "patch event 7: "+test.what) {
				t.Errorf("text %q", err)
			}
		})
	}
}

func TestSetRefusesNoJSON(t *testing.T) {
	_, err := Set("/status", json.RawMessage(`empty`))
	refusal := refused(t, err)
	if refusal.Kind != BadPatch || refusal.Hint != `a text needs its quotes: /status="empty"` || !strings.HasPrefix(err.Error(), `read patch: the value for "/status": `) {
		t.Errorf("got %v, hint %q", err, refusal.Hint)
	}
	if refusal.Unwrap() == nil {
		t.Error("the cause is gone")
	}
}

func TestJoinRefusals(t *testing.T) {
	tests := []struct {
		name    string
		patches []Patch
		what    string
		hint    string
	}{
		{"none", nil, "expected a patch, found none", formsHint},
		{"a fault among operations", []Patch{Drop("/a"), Named("missing")}, "only operations (--drop, --set, a patch file) can be combined, found fault", "fork the fork to edit one run twice"},
		{"one without a form", []Patch{Drop("/a"), {}}, "expected one of ops, fault, replace, error and insert, found none", formsHint},
		{"a pointer that is none", []Patch{Drop("/a"), Drop("a")}, `operation 0: expected a JSON pointer, found "a"`, `a pointer is "" or starts with "/", like /deploys/1`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := Join(test.patches...)
			if e := refused(t, err); e.What != test.what || e.Hint != test.hint || e.Kind != BadPatch {
				t.Errorf("got %q, hint %q, kind %q", e.What, e.Hint, e.Kind)
			}
		})
	}
	p := Named("missing")
	if got := mustJoin(t, p); got.Fault != "missing" {
		t.Errorf("one patch is joined to %+v", got)
	}
}

func TestPatchJSON(t *testing.T) {
	numbers := json.RawMessage(`[9007199254740993,1.0,1e400,-0.0,"<é>"]`)
	failing := InsertCall("now", json.RawMessage(`{"a":1.0}`), numbers)
	failing.Insert.Failed = true
	noted := Drop("/a").For(3)
	noted.Note = `why "not" <here>`
	tests := map[string]struct {
		patch Patch
		want  string
	}{
		"drop":         {Drop("/deploys/1").For(7), `{"at":7,"ops":[{"op":"remove","path":"/deploys/1"}]}`},
		"set":          {mustSet(t, "/a", string(numbers)).For(7), `{"at":7,"ops":[{"op":"set","path":"/a","value":[9007199254740993,1.0,1e400,-0.0,"<é>"]}]}`},
		"set null":     {mustSet(t, "/a", "null").For(7), `{"at":7,"ops":[{"op":"set","path":"/a","value":null}]}`},
		"fault":        {Named("missing").For(7), `{"at":7,"fault":"missing"}`},
		"replace":      {Replace(numbers).For(7), `{"at":7,"replace":[9007199254740993,1.0,1e400,-0.0,"<é>"]}`},
		"replace null": {Replace(json.RawMessage("null")).For(7), `{"at":7,"replace":null}`},
		"error":        {Fail("boom").For(7), `{"at":7,"error":"boom"}`},
		"error empty":  {Fail("").For(7), `{"at":7,"error":""}`},
		"insert":       {failing.For(5), `{"at":5,"insert":{"failed":true,"input":{"a":1.0},"result":[9007199254740993,1.0,1e400,-0.0,"<é>"],"tool":"now"}}`},
		"note":         {noted, `{"at":3,"note":"why \"not\" <here>","ops":[{"op":"remove","path":"/a"}]}`},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			b, err := test.patch.JSON()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.want, string(b)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			back, err := Parse(b)
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(test.patch, back); diff != "" {
				t.Errorf("Parse (-want +got):\n%s", diff)
			}
		})
	}
	if _, err := Replace(json.RawMessage("no")).JSON(); refused(t, err).Kind != BadPatch {
		t.Error(err)
	}
}

func TestParse(t *testing.T) {
	const hint = `write RFC 6902, like [{"op":"remove","path":"/deploys/1"}], or an object like {"at":7,"fault":"missing"}`
	for text, want := range map[string]Patch{
		`[ {"path":"/a", "op":"remove"} ]`:               Drop("/a"),
		"\ufeff[{\"op\":\"remove\",\"path\":\"/a\"}]\n":  Drop("/a"),
		`{"fault":"empty"}`:                              Empty(),
		`{"at":7,"ops":[{"op":"remove","path":"/a/0"}]}`: Drop("/a/0").For(7),
	} {
		got, err := Parse([]byte(text))
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for text, want := range map[string][2]string{
		``:                            {"read patch: the patch file: canonical JSON: at byte 0", hint},
		`[`:                           {"read patch: the patch file: canonical JSON", hint},
		`7`:                           {"read patch: the patch file: json: cannot unmarshal", hint},
		`{"falut":"missing"}`:         {`read patch: the patch file: json: unknown field "falut"`, hint},
		`{"insert":{"tol":"x"}}`:      {`read patch: the patch file: json: unknown field "tol"`, hint},
		`{}`:                          {"read patch: expected one of ops, fault", formsHint},
		`{"fault":"x"}`:               {`read patch: unknown fault "x"`, "one of missing, empty, error, truncated, stale, duplicated, reordered, units, nulls, cut"},
		`[{"op":"remove"}]`:           {`read patch: operation 0: expected a member "path"`, `write it like {"op":"replace","path":"/status","value":"empty"}`},
		`{"fault":"empty","ops":[1]}`: {"read patch: expected one of ops, fault, replace, error and insert, found several", "fork the fork to edit one run twice"},
	} {
		_, err := Parse([]byte(text))
		if e := refused(t, err); !strings.HasPrefix(err.Error(), want[0]) || e.Hint != want[1] || e.Kind != BadPatch {
			t.Errorf("Parse(%s): got %q, hint %q", text, err, e.Hint)
		}
	}
}
