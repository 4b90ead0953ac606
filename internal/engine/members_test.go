package engine_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// everyMember is a Converse body, without messages, that has each member of the
// API: the service's description of autumn 2026.
const everyMember = `{
	"system": [{"text":"s"}, {"guardContent":{"text":{"text":"g","qualifiers":["query"]}}}, {"cachePoint":{"type":"default","ttl":"1h"}}],
	"inferenceConfig": {"maxTokens":4096,"temperature":0.5,"topP":0.9,"stopSequences":["a","b"]},
	"toolConfig": {
		"tools": [
			{"toolSpec":{"name":"look","description":"d","inputSchema":{"json":{"type":"object","maximum":9007199254740993}},"strict":true}},
			{"systemTool":{"name":"web"}},
			{"cachePoint":{"type":"default"}}],
		"toolChoice": {"tool":{"name":"look"}}},
	"guardrailConfig": {"guardrailIdentifier":"g","guardrailVersion":"1","trace":"enabled","streamProcessingMode":"sync"},
	"additionalModelRequestFields": {"thinking":{"type":"enabled","budget_tokens":1.0},"none":null},
	"additionalModelResponseFieldPaths": ["/stop_sequence"],
	"promptVariables": {"v":{"text":"t"}},
	"requestMetadata": {"team":"x"},
	"performanceConfig": {"latency":"optimized"},
	"serviceTier": {"type":"flex"},
	"outputConfig": {"textFormat":{"type":"json_schema","structure":{"jsonSchema":{"schema":"{}","name":"n","description":"d"}}},"effort":"high"}
}`

// recordedMembers is a run whose requests have every member.
func recordedMembers(t *testing.T) *recorder.Cassette {
	t.Helper()
	start, err := loop.Start{Task: "t", Model: "m", Request: json.RawMessage(everyMember)}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorder.NewMemory(recorder.Header{Run: "members", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	answers := edge.Func(func(context.Context, edge.Call) (edge.Return, error) {
		return edge.Return{Origin: edge.Live, Body: json.RawMessage(`{"output":{"message":{"content":[{"text":"done"}],"role":"assistant"}},"stopReason":"end_turn"}`)}, nil
	})
	if _, err := engine.Live(t.Context(), start, answers, answers, rec); err != nil {
		t.Fatal(err)
	}
	return parsed(t, rec)
}

// TestEveryConverseMemberIsNamed changes, removes and adds each member that a
// Converse request can have, one at a time: replay stops at the model call and
// names that member by its pointer.
func TestEveryConverseMemberIsNamed(t *testing.T) {
	c := recordedMembers(t)
	var request map[string]any
	d := json.NewDecoder(strings.NewReader(everyMember))
	d.UseNumber()
	if err := d.Decode(&request); err != nil {
		t.Fatal(err)
	}
	leaves := 0
	walkLeaves("", "", request, func(pointer string, set func(any)) {
		leaves++
		set("changed-by-the-test")
		namesMember(t, c, request, pointer)
	}, nil)
	if leaves < 35 {
		t.Errorf("%d values were changed, expected at least 35", leaves)
	}
	for name, value := range request {
		delete(request, name)
		namesMember(t, c, request, "/"+name)
		request[name] = value
	}
	request["aMemberOfTheFuture"] = true
	namesMember(t, c, request, "/aMemberOfTheFuture")
	delete(request, "aMemberOfTheFuture")
	if r := replayOf(t, c, request); !r.Identical {
		t.Errorf("control: nothing changed and replay says %+v", r.Divergence)
	}
}

func replayOf(t *testing.T, c *recorder.Cassette, request map[string]any) engine.Replayed {
	t.Helper()
	b, err := ledger.CanonValue(request)
	if err != nil {
		t.Fatal(err)
	}
	start, err := loop.Start{Task: "t", Model: "m", Request: b}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	r, err := engine.Replay(t.Context(), c, engine.ReplayOptions{Start: start})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func namesMember(t *testing.T, c *recorder.Cassette, request map[string]any, pointer string) {
	t.Helper()
	r := replayOf(t, c, request)
	if r.Identical || r.Divergence.Seq != 2 || r.Divergence.In != "model request" {
		t.Errorf("%s changed: replay says %+v", pointer, r)
		return
	}
	if len(r.Divergence.Changes) != 1 || r.Divergence.Changes[0].Path != pointer {
		t.Errorf("%s changed: replay names %+v", pointer, r.Divergence.Changes)
	}
}
