package engine_test

import (
	"context"
	"strings"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/scrub"
)

// A model that says a secret, over a stream whose frames it could be cut
// across: the run goes on without it, and its recording holds none of it.
func TestSecretInAModelsAnswer(t *testing.T) {
	const key = "AKIAIOSFODNN7EXAMPLE"
	body := `{"output":{"message":{"content":[{"text":"the key is ` + key + `"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
	model := edge.Func(func(context.Context, edge.Call) (edge.Return, error) {
		return edge.Return{Body: []byte(body), Origin: edge.Live, Wire: &edge.Wire{
			URL: "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse-stream",
			Attempts: []edge.Attempt{
				{Code: 429, Body: []byte(`{"message":"slow down, ` + key + `"}`)},
				{Code: 200, Body: []byte("\x00\x00frames " + key), Header: map[string]string{"Content-Type": "application/vnd.amazon.eventstream"}},
			},
		}}, nil
	})
	start, err := (loop.Start{Task: "leak", Model: "m"}).JSON()
	if err != nil {
		t.Fatal(err)
	}
	rec, err := recorder.NewMemory(recorder.Header{Run: "s", Start: start})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := engine.Live(context.Background(), start, model, nil, rec); err != nil {
		t.Fatal(err)
	}
	file := rec.Bytes()
	if strings.Contains(string(file), key) || scrub.Find(file) != "" {
		t.Errorf("the recording holds the key: %s", file)
	}
	if !strings.Contains(string(file), "removed") {
		t.Error("the recording does not say that something was removed")
	}
	if r := replayed(t, parsed(t, rec), nil); !r.Identical {
		t.Errorf("replay: %+v", r)
	}
}
