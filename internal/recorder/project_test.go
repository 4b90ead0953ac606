package recorder

import (
	"bytes"
	"encoding/json"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// FuzzIsReturned holds the test of a tool.returned's data to the data itself.
func FuzzIsReturned(f *testing.F) {
	f.Add("read", `{"rows":[1]}`, 1, 0, false, uint16(3), "x")
	f.Add(`"result":`, `"text \"result\":"`, 12, 3, true, uint16(0), "")
	f.Fuzz(func(t *testing.T, name, result string, turn, pos int, failed bool, at uint16, put string) {
		call := edge.Call{Kind: edge.Tool, Turn: turn, Pos: pos, Use: converse.ToolUse{Name: name}}
		ret := edge.Return{Body: json.RawMessage(result), Failed: failed}
		data := loop.ReturnedData(call, ret)
		if !isReturned(data, call, ret) {
			t.Fatalf("%s is not taken for itself", data)
		}
		from := int(at) % len(data)
		changed := append(append(bytes.Clone(data[:from]), put...), data[from:]...)
		if got := isReturned(changed, call, ret); got != bytes.Equal(changed, data) {
			t.Fatalf("%s is taken for %s", changed, data)
		}
		changed = append(bytes.Clone(data[:from]), data[from+1:]...)
		if isReturned(changed, call, ret) {
			t.Fatalf("%s is taken for %s", changed, data)
		}
	})
}

// A call whose turn is read to have none pending is refused, whether or not the
// turn was looked into.
func TestResultsWithoutACallAreRefused(t *testing.T) {
	answer := &line{Request: request{URL: ruleURL}, Response: response{Code: 200,
		Body: body(`{"output":{"message":{"content":[{"toolUse":{"input":{},"name":"read","toolUseId":"a"}}],"role":"assistant"}},"stopReason":"tool_use"}`)}}
	result := &line{Request: request{URL: toolURL + "read"}, Response: response{Code: 200, Body: body(`{}`)}}
	for name, types := range map[string][]string{"no call": {ledger.ModelResponded}, "refused": {ledger.ModelResponded, ledger.ToolRefused}} {
		p, _, err := projector{}.use(types, make([]json.RawMessage, len(types)), answer, nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := p.use([]string{ledger.ToolReturned}, make([]json.RawMessage, 1), result, nil); err == nil {
			t.Errorf("%s: a result is taken", name)
		}
	}
	p, derived, err := projector{}.use([]string{ledger.ModelResponded, ledger.ToolCalled}, make([]json.RawMessage, 2), answer, nil)
	if err != nil || derived.data[1] == nil {
		t.Fatalf("%s, %v", derived.data, err)
	}
	if _, _, err := p.use([]string{ledger.ToolReturned}, make([]json.RawMessage, 1), result, nil); err != nil {
		t.Errorf("the result of a call: %v", err)
	}
}

// FuzzMayHoldResult holds the quick look at a message to the whole one: it
// misses no tool result.
func FuzzMayHoldResult(f *testing.F) {
	for _, s := range []string{`{"content":[{"text":"a"}],"role":"user"}`, `{"content":[{"a":1,"toolResult":{}}],"role":"user"}`, `{"content":[],"role":"user"}`,
		`{"content":[{"text":"\"toolResult\":"},{"cachePoint":{"type":"default"}}],"role":"user"}`, `{"content":[{},{"toolResult":[]}],"role":"user"}`,
		`{"content":"x","role":"user"}`, `{"content":[{"text":"a"},1,{"toolResult":{}}],"role":"user"}`, `{"a":[],"content":[{"toolResult":{}}]}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		message, err := ledger.Canon(b)
		if err != nil {
			return
		}
		if mayHoldResult(message) {
			return
		}
		for _, block := range ledger.Elements(ledger.Member(message, "content")) {
			if ledger.Member(block, "toolResult") != nil {
				t.Fatalf("a result is missed in %s", message)
			}
		}
	})
}

func TestTextHoldsNoResult(t *testing.T) {
	for text, want := range map[string]bool{
		`{"content":[{"text":"a \"toolResult\":"},{"image":{"a":[{"toolResult":1}]}}],"role":"user"}`: false,
		`{"content":[],"role":"user"}`:                                     false,
		`{"content":[{"text":"a"},{"b":1,"toolResult":{}}],"role":"user"}`: true,
	} {
		if got := mayHoldResult(json.RawMessage(text)); got != want {
			t.Errorf("%s may hold a result: %v", text, got)
		}
	}
}

// A tool that returns what the model said word for word, and a model that says
// what a tool returned, do not stand in for each other.
func TestAnswersAndResultsAreKeptApart(t *testing.T) {
	said := converse.Message("assistant", []json.RawMessage{converse.TextBlock("This is long enough to be worth a hole in the request that comes after it.")})
	response := json.RawMessage(`{"output":{"message":` + string(said) + `},"stopReason":"end_turn"}`)
	known := newPlaces()
	known.answer(0, response)
	known.result(1, said)
	for range 2 {
		if id, found := known.ofAnswer(said); !found || id != 0 {
			t.Errorf("the answer is found at %d, %v", id, found)
		}
		if at, found := known.ofResult(said); !found || at.id != 1 {
			t.Errorf("the result is found at %d, %v", at.id, found)
		}
		known.answer(2, json.RawMessage(`{"output":{"message":{"content":[],"role":"assistant"}}}`)) // the answer is not the last one any more
	}
	known.answer(3, response)
	if id, _ := known.ofAnswer(said); id != 3 {
		t.Errorf("of equal answers, that of %d is found", id)
	}
}
