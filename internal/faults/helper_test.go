package faults

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

const (
	deploys = `{"deploys":[{"id":"v840","time":"2026-03-09T18:20:00Z"},{"id":"v841","time":"2026-03-10T01:55:00Z"}],"service":"checkout","status":"ok","window":{"end":"2026-03-10T09:00:00Z","start":"2026-03-09T09:00:00Z"}}`
	metrics = `{"metrics":[{"metric":"p99","points":[{"t":"2026-03-10T01:00:00Z","v":182},{"t":"2026-03-10T02:00:00Z","v":2410.5}],"unit":"ms"}],"status":"ok"}`
	finding = `{"change":"v841","class":"change","component":"checkout","confidence":"high","evidence":["E7#/deploys/1"],"mechanism":"m","recommendation":"roll back","ruled_out":[],"started_at":"2026-03-10T02:00:00Z","summary":"s"}`
	started = `{"limits":{},"model":"rule","request":{"inferenceConfig":{"temperature":1.0},"toolConfig":{"tools":[{"toolSpec":{"inputSchema":{"json":{}},"name":"query_metrics"}},{"toolSpec":{"inputSchema":{"json":{}},"name":"list_deploys"}}]}},"task":"Why is checkout slow?"}`
)

const (
	signedA = `{"reasoningContent":{"reasoningText":{"signature":"c2ln","text":"think \n"}}}`
	signedB = `{"reasoningContent":{"redactedContent":"AAEC"}}`
	textHi  = `{"text":"hi"}`
)

func callJSON(id, name, input string) string {
	return `{"toolUse":{"input":` + input + `,"name":"` + name + `","toolUseId":"` + id + `"}}`
}

// turnJSON is a canonical Converse response with these blocks.
func turnJSON(stop string, blocks ...string) string {
	content := ""
	for i, b := range blocks {
		if i > 0 {
			content += ","
		}
		content += b
	}
	return `{"output":{"message":{"content":[` + content + `],"role":"assistant"}},"stopReason":"` + stop + `","usage":{"inputTokens":1}}`
}

func event(kind, data string) ledger.Event {
	return ledger.Event{Seq: 7, Type: kind, In: "in", Data: json.RawMessage(data)}
}

func result(doc string) ledger.Event {
	return event(ledger.ToolReturned, `{"pos":0,"result":`+doc+`,"status":"success","tool":"list_deploys","turn":2}`)
}

func failedResult(doc string) ledger.Event {
	return event(ledger.ToolReturned, `{"pos":0,"result":`+doc+`,"status":"error","tool":"list_deploys","turn":2}`)
}

func responded(stop string, blocks ...string) ledger.Event {
	return event(ledger.ModelResponded, turnJSON(stop, blocks...))
}

func resultOf(t *testing.T, e ledger.Event) string {
	t.Helper()
	var data struct {
		Result json.RawMessage `json:"result"`
	}
	if err := json.Unmarshal(e.Data, &data); err != nil {
		t.Fatal(err)
	}
	return string(data.Result)
}

func mustSet(t *testing.T, pointer, value string) Patch {
	t.Helper()
	p, err := Set(pointer, json.RawMessage(value))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func mustJoin(t *testing.T, patches ...Patch) Patch {
	t.Helper()
	p, err := Join(patches...)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// apply applies a patch that must be accepted, and holds what is promised of
// every accepted patch.
func apply(t *testing.T, p Patch, e ledger.Event) Edited {
	t.Helper()
	before := string(e.Data)
	out, err := p.Apply(e)
	if err != nil {
		t.Fatalf("refused: %v", err)
	}
	if string(e.Data) != before {
		t.Errorf("the event was modified: %s", e.Data)
	}
	accepted(t, e, out)
	return out
}

func accepted(t testing.TB, e ledger.Event, out Edited) {
	t.Helper()
	canon, err := ledger.Canon(out.Event.Data)
	if err != nil {
		t.Fatalf("the event is no JSON: %v", err)
	}
	if string(canon) != string(out.Event.Data) {
		t.Errorf("not canonical:\n%s", cmp.Diff(string(canon), string(out.Event.Data)))
	}
	old, err := ledger.Canon(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	if string(old) == string(canon) && out.Event.Type == e.Type {
		t.Errorf("accepted, but nothing changed: %s", old)
	}
	if out.Event.Seq != e.Seq || out.Event.In != e.In {
		t.Errorf("seq and in: got %d %q, want %d %q", out.Event.Seq, out.Event.In, e.Seq, e.In)
	}
	if _, err := ledger.ParseLine(out.Event.Line()); err != nil {
		t.Errorf("the ledger cannot hold it: %v", err)
	}
	carried(t, e, out)
	if e.Type == ledger.RunStarted {
		return
	}
	if out.Return.Origin != edge.Patched {
		t.Errorf("origin %q", out.Return.Origin)
	}
	if failed := out.Event.Type == ledger.ModelFailed; e.Type != ledger.ToolReturned && failed != out.Return.Failed {
		t.Errorf("event %s with failed=%v", out.Event.Type, out.Return.Failed)
	}
}

// carried holds that Ops alone makes the same event of the old one.
func carried(t testing.TB, e ledger.Event, out Edited) {
	t.Helper()
	again, err := Ops(out.Ops).Apply(e)
	if err != nil {
		t.Fatalf("apply Edited.Ops %s: %v", out.Ops, err)
	}
	if e.Type == ledger.ToolReturned { // whether a text is a failure is no part of it
		out.Event.Data, again.Event.Data = out.Return.Body, again.Return.Body
	}
	if diff := cmp.Diff(string(out.Event.Data), string(again.Event.Data)); diff != "" {
		t.Errorf("Edited.Ops gives another event (-patch +ops):\n%s", diff)
	}
}

// refused returns the error of a patch that must be refused.
func refused(t *testing.T, err error) *Error {
	t.Helper()
	if err == nil {
		t.Fatal("accepted")
	}
	var refusal *Error
	if !errors.As(err, &refusal) {
		t.Fatalf("expected an *Error, found %T: %v", err, err)
	}
	if refusal.Hint == "" {
		t.Errorf("no hint: %v", err)
	}
	return refusal
}

// feed gives the loop a patched model turn and returns the calls it makes next.
func feed(t *testing.T, ret edge.Return) (loop.State, []ledger.Event) {
	t.Helper()
	s, _, err := loop.New(json.RawMessage(started))
	if err != nil {
		t.Fatal(err)
	}
	next, events, err := s.Apply(ret)
	if err != nil {
		t.Fatalf("the loop does not take it: %v", err)
	}
	return next, events
}
