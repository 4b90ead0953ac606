package recorder_test

import (
	"context"
	"encoding/json"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
	"investigator/internal/scrub"
)

// saying is a world in which every answer and every result is the same.
type saying struct {
	answer, result json.RawMessage
	failed         bool
}

func (s saying) Do(_ context.Context, call edge.Call) (edge.Return, error) {
	switch {
	case call.Kind == edge.Tool:
		return edge.Return{Body: s.result, Failed: s.failed, Origin: edge.Executed}, nil
	case call.Turn > 3:
		return edge.Return{Body: json.RawMessage(`{"output":{"message":{"content":[{"text":"done"}],"role":"assistant"}},"stopReason":"end_turn"}`), Origin: edge.Rule}, nil
	}
	return edge.Return{Body: s.answer, Origin: edge.Rule}, nil
}

// FuzzRun: whatever a model says and a tool returns, the cassette gives back the
// events that the loop made of it, and a walk what asking gives.
func FuzzRun(f *testing.F) {
	for _, blocks := range []string{
		`{"toolUse":{"input":{"a":1.0},"name":"read","toolUseId":"u"}},{"toolUse":{"input":[1],"name":"read","toolUseId":"u"}}`,
		`{"text":" "},{"toolUse":{"input":null,"name":"re ad","toolUseId":"é","type":"x"}},{"reasoningContent":{"reasoningText":{"signature":"s","text":"t"}}}`,
		`{"toolUse":{"input":{},"name":"report_findings","toolUseId":""}},{"toolUse":{"name":"read","toolUseId":"v"}}`, `{"text":"\u2028\ufeff"}`, ``,
	} {
		for _, result := range []string{`{"rows":[1e400,"\u0085"]}`, `"\n"`, `[{"result":null}]`, `{"$content":[{"text":"a"},{"toolResult":{}}]}`, `{"error":{"name":"x"}}`} {
			f.Add([]byte(`{"output":{"message":{"content":[`+blocks+`],"role":"assistant"}},"stopReason":"tool_use"}`), []byte(result), len(result)%2 == 0, uint16(300))
		}
	}
	f.Add([]byte(`{"STOPREASON":{},"output":{"message":{"content":[{"toolUse":{"input":[1],"name":"read","toolUseId":"u"}}],"role":"assistant"}},"stopReason":"tool_use"}`), []byte(`1`), false, uint16(1))
	f.Fuzz(func(t *testing.T, answer, result []byte, failed bool, window uint16) {
		body, err := converse.Normalize(answer)
		out, bad := ledger.Canon(result)
		if err != nil || bad != nil || scrub.Find(body) != "" || scrub.Find(out) != "" {
			return
		}
		w, err := recorder.NewMemory(recordertest.Header())
		if err != nil {
			t.Fatal(err)
		}
		var run taken
		s, first, err := loop.New(recordertest.Start())
		if err != nil {
			t.Fatal(err)
		}
		run.events = append(run.events, first)
		if _, err := loop.Run(t.Context(), s, saying{body, out, failed}, sinkOf(&run, w)); err != nil {
			t.Fatal(err)
		}
		whole := parse(t, w.Bytes())
		events, err := whole.Events()
		if err != nil {
			t.Fatal(err)
		}
		sameEvents(t, "read", run.events, events)
		c, list := walked(t, w.Bytes(), int(window))
		for i, r := range list {
			sameRead(t, whole, i, r)
		}
		askAround(t, c, whole)
	})
}
