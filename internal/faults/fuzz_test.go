package faults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

func eventTypes() []string {
	return []string{ledger.ToolReturned, ledger.ModelResponded, ledger.ModelFailed, ledger.RunStarted, ledger.ToolCalled}
}

// FuzzPatch: no patch on no event panics; what is refused says what to do; what
// is accepted is canonical, differs from before, fits the ledger and the loop,
// and is what its Ops say.
func FuzzPatch(f *testing.F) {
	patches := []string{
		`[{"op":"remove","path":"/deploys/1"}]`, `[{"op":"set","path":"/status","value":"error"}]`, `[{"op":"copy","from":"","path":"/x"}]`,
		`[{"op":"move","from":"/output/message/content/0","path":"/output/message/content/1"}]`, `[{"op":"replace","path":"","value":1e400}]`,
		`[{"op":"test","path":"/status","value":"ok"},{"op":"add","path":"/deploys/-","value":-0.0}]`, `{"replace":{"error":{"name":"x"}}}`, `{"replace":"\ud800"}`,
		`{"error":"boom"}`, `{"insert":{"tool":"now","input":{},"result":[]}}`, `{"at":7,"fault":"missing","note":"n"}`, `[{"op":"remove","path":"/investigator/malformedInputs/1"}]`,
	}
	for _, info := range Faults() {
		patches = append(patches, `{"fault":"`+info.Name+`"}`)
	}
	events := []ledger.Event{
		result(deploys), result(metrics), result(`"text"`), failedResult(`{"status":"error"}`), event(ledger.RunStarted, started),
		responded("tool_use", signedA, textHi, callJSON("t1", "now", `{"n":1.0}`)), responded("tool_use", callJSON("c", "report_findings", finding)),
		event(ledger.ModelFailed, `{"error":{"message":"m","name":"ThrottlingException","status":429}}`),
		event(ledger.ModelResponded, `{"investigator":{"malformedInputs":{"1":"{"}},`+turnJSON("tool_use", textHi, callJSON("t", "now", "{}"))[1:]),
	}
	for _, p := range patches {
		for _, e := range events {
			for i, kind := range eventTypes() {
				if kind == e.Type {
					f.Add([]byte(p), i, []byte(e.Data))
				}
			}
		}
	}
	f.Fuzz(func(t *testing.T, text []byte, kind int, data []byte) {
		types := eventTypes()
		e := event(types[int(uint(kind)%uint(len(types)))], string(data))
		var p Patch
		if _, err := Parse(text); err != nil {
			refused(t, err)
			if json.Unmarshal(text, &p) != nil { // a patch made by hand need not parse
				return
			}
		} else {
			p, _ = Parse(text)
			roundTrip(t, p)
		}
		out, err := p.Apply(e)
		_ = p.For(7).CheckIn([]ledger.Event{event(ledger.RunStarted, started), e})
		if err != nil {
			if refused(t, err).Event != 7 {
				t.Errorf("no event in %v", err)
			}
			return
		}
		accepted(t, e, out)
		fits(t, e, out)
	})
}

func roundTrip(t *testing.T, p Patch) {
	t.Helper()
	b, err := p.JSON()
	if err != nil {
		t.Fatal(err)
	}
	back, err := Parse(b)
	if err != nil {
		t.Fatalf("%s: %v", b, err)
	}
	again, err := back.JSON()
	if err != nil || string(again) != string(b) {
		t.Errorf("the patch %s comes back as %s, %v", b, again, err)
	}
}

// fits holds that the loop takes what a patch made and writes the same event.
func fits(t *testing.T, e ledger.Event, out Edited) {
	t.Helper()
	if e.Type == ledger.RunStarted {
		if _, first, err := loop.New(out.Event.Data); err != nil || string(first.Data) != string(out.Event.Data) {
			t.Errorf("the loop starts with %s: %v", first.Data, err)
		}
		return
	}
	if e.Type == ledger.ToolReturned {
		return
	}
	_, events := feed(t, out.Return)
	if events[0].Type != out.Event.Type || string(events[0].Data) != string(out.Event.Data) {
		t.Errorf("the loop writes %s %s, want %s %s", events[0].Type, events[0].Data, out.Event.Type, out.Event.Data)
	}
}

// FuzzUndo: what a patch does not name keeps its bytes, as putting back what
// was dropped gives the document that was.
func FuzzUndo(f *testing.F) {
	f.Add([]byte(deploys), "/deploys/1")
	f.Add([]byte(metrics), "/metrics/0/points/1/v")
	f.Add([]byte(`{"a/b":[1e400,-0.0,{"\u2028":9007199254740993}],"":1}`), "/a~1b/2")
	f.Add([]byte(`[1.0,"<&>\u0000",[[]],{}]`), "/2/0")
	f.Fuzz(func(t *testing.T, doc []byte, pointer string) {
		canon, err := ledger.Canon(doc)
		if err != nil {
			return
		}
		path, bad := tokens(pointer)
		if bad != nil {
			return
		}
		old, n := walk(canon, path)
		if n < len(path) || len(path) == 0 {
			return
		}
		dropped, done, refusal := applyOps(canon, []operation{{Op: "remove", Path: pointer}})
		if refusal != nil {
			if !strings.Contains(refusal.What, "empty name") && refusal.Err == nil {
				t.Errorf("%s names a value of %s, but: %v", pointer, canon, refusal)
			}
			return
		}
		if len(done) != 1 || string(dropped) == string(canon) {
			t.Errorf("nothing was dropped: %v", done)
		}
		back, _, refusal := applyOps(dropped, []operation{{Op: "add", Path: pointer, Value: old}})
		if refusal != nil || string(back) != string(canon) {
			t.Errorf("drop and add back %q:\nbefore %s\nafter  %s\n%v", pointer, canon, back, refusal)
		}
	})
}

// FuzzCheckConversation: no message panics, and a violation names one.
func FuzzCheckConversation(f *testing.F) {
	f.Add([]byte(says("go")), []byte(asks("a")), []byte(results("a", "b")))
	f.Add([]byte(`{"role":"system"}`), []byte(`{"content":null,"role":"user"}`), []byte(`[]`))
	f.Fuzz(func(t *testing.T, a, b, c []byte) {
		thread := converse.NewThread(a, b, c)
		for _, v := range CheckConversation(thread) {
			if v.Message < 0 || v.Message > 2 || v.Text == "" || v.Rule == "" {
				t.Errorf("%+v", v)
			}
		}
	})
}

// FuzzQuick: what is read without encoding/json is what encoding/json reads.
func FuzzQuick(f *testing.F) {
	for _, seed := range []string{
		asks("a", "b"), results("a", "b"), `{"content":[{"toolUse":{"toolUseId":"s","type":"server_tool_use"}},{"text":"x"}],"role":"assistant"}`,
		`{"content":[{"toolUse":{"toolUseId":"a"}},{"ToolUse":{"toolUseId":"b"}}],"role":"assistant"}`,
		`{"content":[{"toolUse":{"ToolUseId":"b","toolUseId":"a"}}],"role":"assistant"}`,
		`{"content":null,"role":"user"}`, `{"content":[{"toolResult":null}],"role":"user"}`, `{"op":"set","path":"/a\\b","value":null}`, `{"from":"/a","op":"move","path":""}`,
		`{"pos":0,"result":[1.0],"status":"error","tool":"now","turn":2}`, `{"pos":1e2,"result":null}`, `{"Pos":1,"turn":"x"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		canon, err := ledger.Canon(text)
		if err != nil {
			return
		}
		if quick, ok := quickMessage(canon); ok {
			slow, err := decodeMessage(canon)
			if d := cmp.Diff(slow, quick, cmp.AllowUnexported(message{})); d != "" || err != nil {
				t.Errorf("message (-encoding/json +quick), %v:\n%s", err, d)
			}
		}
		agree(t, canon, func() (any, error) { return readOperation(canon) }, new(given))
		agree(t, canon, func() (any, error) { return readReturned(canon) }, new(returned))
	})
}

func agree[T any](t *testing.T, canon []byte, read func() (any, error), want *T) {
	t.Helper()
	wrong := json.Unmarshal(canon, want)
	got, err := read()
	if (err == nil) != (wrong == nil) {
		t.Errorf("read with %v, by encoding/json with %v", err, wrong)
	}
	if d := cmp.Diff(any(*want), got); d != "" && err == nil {
		t.Errorf("(-encoding/json +quick):\n%s", d)
	}
}

// FuzzCut: a removal and a replacement give what json-patch makes of them.
func FuzzCut(f *testing.F) {
	f.Add([]byte(deploys), "/deploys/0", []byte(`1e400`))
	f.Add([]byte(`{"a\n":1,"b/c":[{}],"d~":[[],2,"]"]}`), "/d~0/2", []byte(`{"z":1,"a":"\u0041"}`))
	f.Add([]byte(`{"\"":{"a":1,"b":2,"c":3}}`), "/\"/b", []byte(`"<é>"`))
	f.Fuzz(func(t *testing.T, text []byte, pointer string, value []byte) {
		doc, err := ledger.Canon(text)
		if err != nil || !json.Valid(value) {
			return
		}
		for _, o := range []operation{{Op: "remove", Path: pointer}, {Op: "replace", Path: pointer, Value: value}} {
			if o.settle(doc) != nil {
				continue
			}
			want, err := handOver(doc, o)
			if err != nil {
				continue // it refuses more than we do
			}
			got, err := applyOne(doc, o)
			if err != nil {
				t.Fatalf("%s: %v", o, err)
			}
			if d := cmp.Diff(string(want), string(got)); d != "" {
				t.Errorf("%s (-json-patch +cut):\n%s", o, d)
			}
		}
	})
}

// Nesting is bounded by the ledger: what would not fit is refused.
func TestDeepResults(t *testing.T) {
	for _, depth := range []int{9990, 9997, 9998, 9999, 10000} {
		doc := `{"a":` + strings.Repeat("[", depth-1) + strings.Repeat("]", depth-1) + `}`
		p, err := Set("/b", json.RawMessage(`1`))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range []Patch{p, Replace(json.RawMessage(doc)), Ops(json.RawMessage(`[{"op":"copy","from":"","path":"/b"}]`))} {
			e := result(doc)
			if p.Replace != nil {
				e = result(`1`)
			}
			out, err := p.Apply(e)
			if err != nil {
				refused(t, err)
				continue
			}
			if _, err := ledger.ParseLine(out.Event.Line()); err != nil {
				t.Errorf("depth %d: accepted, but the ledger cannot hold it: %v", depth, err)
			}
			if out.Return.Origin != edge.Patched {
				t.Error("origin")
			}
		}
	}
}
