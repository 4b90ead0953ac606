package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// A cassette whose line cannot be read although all of its sums fit was replayed
// as if it ended there. (A run of our own makes its requests itself, so that a
// replay reads none of those stored.)
func TestReplayNamesTheLineThatCannotBeRead(t *testing.T) {
	own := oneCall(t, nil)
	foreign := oneCall(t, map[string]json.RawMessage{recorder.ForeignMember: json.RawMessage(`{"client":"boto3/1","tag":"x"}`)})
	for name, text := range map[string][]byte{
		"own line":        resum(t, own, `"x":{"seq":2`, `"x":{"seq":7`),
		"foreign line":    resum(t, foreign, `"x":{"seq":2`, `"x":{"seq":7`),
		"foreign request": resum(t, foreign, `\"kept\":0`, `\"kept\":9`),
	} {
		r, err := replayText(t, text)
		var damage *recorder.Damage
		if !errors.As(err, &damage) || damage.Line != 5 {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
	for _, text := range [][]byte{own, foreign} {
		if r, err := replayText(t, text); err != nil || !r.Identical {
			t.Errorf("not altered: %+v, %v", r, err)
		}
	}
}

func replayText(t *testing.T, text []byte) (engine.Replayed, error) {
	t.Helper()
	c, err := recorder.Parse("test.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	return engine.Replay(context.Background(), c, engine.ReplayOptions{})
}

// oneCall is an unfinished recording of one model call.
func oneCall(t *testing.T, extra map[string]json.RawMessage) []byte {
	t.Helper()
	w, err := recorder.NewMemory(recorder.Header{Run: "r", Start: json.RawMessage(`{"task":"t","model":"m","request":{}}`), Extra: extra})
	if err != nil {
		t.Fatal(err)
	}
	req := converse.Request{Model: "m", Messages: converse.NewThread(converse.Message("user", []json.RawMessage{converse.TextBlock("t")}))}
	body := json.RawMessage(`{"output":{"message":{"content":[{"text":"so"}],"role":"assistant"}},"stopReason":"end_turn","usage":{}}`)
	call := edge.Call{Kind: edge.Model, Seq: 2, Turn: 1, In: req.Digest(), Request: req}
	ret := edge.Return{Body: body, Origin: edge.Live}
	if extra != nil {
		ret.Wire = &edge.Wire{URL: "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse",
			Attempts: []edge.Attempt{{Code: 200, Header: map[string]string{"Content-Type": "application/json"}, Body: body}}}
	}
	if err := w.Took(call, ret, []ledger.Event{{Seq: 2, Type: ledger.ModelResponded, In: call.In, Data: body}}); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// resum changes the one line of a recording and makes its sum fit again.
func resum(t *testing.T, text []byte, was, now string) []byte {
	t.Helper()
	start := bytes.Index(text, []byte("\n- ")) + 1
	line, _, found := bytes.Cut(text[start:], []byte(`,"sum":"`+lastSum(text)))
	if !found || bytes.Count(line, []byte(was)) != 1 {
		t.Fatalf("expected one %s in %s", was, line)
	}
	line = bytes.Replace(line, []byte(was), []byte(now), 1)
	before := sha256.Sum256(text[:start])
	sum := sha256.Sum256(append(before[:], line...))
	return append(append(bytes.Clone(text[:start]), line...), `,"sum":"`+hex.EncodeToString(sum[:])+"\"}\n"...)
}

func lastSum(text []byte) string {
	at := bytes.LastIndex(text, []byte(`,"sum":"`)) + len(`,"sum":"`)
	return string(text[at : at+64])
}
