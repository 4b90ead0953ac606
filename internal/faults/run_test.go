package faults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// play gives the events of a run over these returns.
func play(t *testing.T, start string, returns ...edge.Return) []ledger.Event {
	t.Helper()
	s, first, err := loop.New(json.RawMessage(start))
	if err != nil {
		t.Fatal(err)
	}
	events := []ledger.Event{first}
	for _, r := range returns {
		var more []ledger.Event
		if s, more, err = s.Apply(r); err != nil {
			t.Fatal(err)
		}
		events = append(events, more...)
	}
	return events
}

func returnsA() []edge.Return {
	return []edge.Return{
		{Body: json.RawMessage(turnJSON("tool_use", callJSON("a", "query_metrics", "{}")))},
		{Body: json.RawMessage(metrics)},
		{Body: json.RawMessage(turnJSON("tool_use", callJSON("b", "list_deploys", "{}")))},
		{Body: json.RawMessage(deploys)},
		{Body: json.RawMessage(turnJSON("tool_use", callJSON("c", "report_findings", finding)))},
	}
}

// The reference experiment: v841 dropped from event 7 gives the loop the event
// that Apply promised, over an untouched history.
func TestReferenceFork(t *testing.T) {
	a := play(t, started, returnsA()...)
	if len(a) != 9 || a[6].Type != ledger.ToolReturned {
		t.Fatalf("run A has %d events, the seventh is %s", len(a), a[6].Type)
	}
	patch := Drop("/deploys/1").For(7)
	if err := patch.CheckIn(a); err != nil {
		t.Fatal(err)
	}
	out := apply(t, patch, a[6])
	b := play(t, started, append(returnsA()[:3], out.Return)...)
	if diff := cmp.Diff(out.Event, b[6]); diff != "" {
		t.Errorf("event 7 (-edited +written):\n%s", diff)
	}
	if ledger.Total(a[:6]) != ledger.Total(b[:6]) {
		t.Error("the history differs")
	}
	byFault := apply(t, Named(Default).For(7), a[6])
	if diff := cmp.Diff(out.Event, byFault.Event); diff != "" {
		t.Errorf("the default fault does something else (-drop +missing):\n%s", diff)
	}
}

// Every event that takes a patch gives the loop the event that Apply promised.
func TestLoopWritesEditedTurns(t *testing.T) {
	a := play(t, started, returnsA()...)
	for seq, patch := range map[int]Patch{
		2: mustSet(t, content+"/0/toolUse/input/service", `"cart"`), 5: Fail("gone"), 8: InsertCall("query_metrics", json.RawMessage(`{}`), json.RawMessage(`1`)),
		4: Named("stale"),
	} {
		out := apply(t, patch.For(seq), a[seq-1])
		before := map[int]int{2: 0, 4: 1, 5: 2, 8: 4}[seq]
		b := play(t, started, append(returnsA()[:before], out.Return)...)
		if diff := cmp.Diff(out.Event, b[seq-1]); diff != "" {
			t.Errorf("event %d (-edited +written):\n%s", seq, diff)
		}
	}
}

func TestCheckInHints(t *testing.T) {
	a := play(t, started, returnsA()...)
	parallel := play(t, started, edge.Return{Body: json.RawMessage(turnJSON("tool_use", callJSON("a", "query_metrics", "{}"), callJSON("b", "list_deploys", "{}")))},
		edge.Return{Body: json.RawMessage(metrics)}, edge.Return{Body: json.RawMessage(deploys)})
	unanswered := parallel[:4]
	refusedCall := play(t, strings.Replace(started, `"query_metrics"`, `"report_findings"`, 1),
		edge.Return{Body: json.RawMessage(turnJSON("tool_use", callJSON("a", "report_findings", "{}")))})
	insert := func(tool string) Patch { return InsertCall(tool, json.RawMessage(`{}`), json.RawMessage(`1`)) }
	all := "events that take a patch: 1, 2, 4, 5, 7, 8"
	tests := []struct {
		name   string
		events []ledger.Event
		patch  Patch
		kind   Kind
		text   string
		hint   string
	}{
		{"a call", a, Empty().For(6), NotPatchable, "patch event 6: tool.called follows from other events and cannot be patched", "patch the model turn 5 that made the call, or its result, event 7"},
		{"a parallel call", parallel, Empty().For(4), NotPatchable, "patch event 4: tool.called", "patch the model turn 2 that made the call, or its result, event 6"},
		{"a call without its result", unanswered, Empty().For(3), NotPatchable, "patch event 3: tool.called", "patch the model turn 2 that made the call"},
		{"the end", a, Empty().For(9), NotPatchable, "patch event 9: run.finished follows from other events and cannot be patched", "patch the model turn 8 that it follows from; " + all},
		{"a refused call", refusedCall, Empty().For(3), NotPatchable, "patch event 3: tool.refused", "patch the model turn 2 that it follows from; events that take a patch: 1, 2"},
		{"past the end", a, Empty().For(10), NotPatchable, "patch event 10: the run has 9 events and none with this number", all},
		{"no number", a, Empty(), NotPatchable, "read patch: the run has 9 events and none with this number", all},
		{"an insert at a result", a, insert("query_metrics").For(7), NotPatchable, "patch event 7: a call is inserted at a model.responded, not at tool.returned", "the model turn that asked for it is event 5"},
		{"a fault for results at the start", a, Named("missing").For(1), NotPatchable, "patch event 1: the fault missing is for tool.returned, not for run.started", all},
		{"a fault for results at a turn", a, Named("missing").For(8), NotPatchable, "patch event 8: the fault missing is for tool.returned, not for model.responded", "point the fault at such an event, or change this one with --set"},
		{"a fault for turns at a result", a, Named("cut").For(4), NotPatchable, "patch event 4: the fault cut is for model.responded, not for tool.returned", "the model turn that asked for it is event 2"},
		{"a tool the run has not", a, insert("restart").For(5), Refused, `patch event 5: the run has no tool "restart"`, "one of query_metrics, list_deploys"},
		{"what does not apply keeps its hint", a, Drop("/deploys/2").For(7), NotApplicable, `patch event 7: operation 0, remove "/deploys/2", does not apply`, `the last element is "/deploys/1"`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			err := refused(t, test.patch.CheckIn(test.events))
			if err.Kind != test.kind || !strings.HasPrefix(err.Error(), test.text) || err.Hint != test.hint {
				t.Errorf("got %s: %q, hint %q\nwant %s: %q, hint %q", err.Kind, err, err.Hint, test.kind, test.text, test.hint)
			}
		})
	}
	for _, p := range []Patch{insert("query_metrics").For(5), insert("list_deploys").For(8), Fail("x").For(2), Empty().For(4), mustSet(t, "/task", `"x"`).For(1)} {
		if err := p.CheckIn(a); err != nil {
			t.Errorf("patch at %d: %v", p.At, err)
		}
	}
	if err := Empty().For(1).CheckIn(nil); err == nil || err.(*Error).Kind != NotPatchable {
		t.Errorf("a run without events: %v", err)
	}
	if err := insert("query_metrics").For(5).CheckIn(a[4:]); refused(t, err).Kind != Refused {
		t.Errorf("events without a start: %v", err)
	}
}
