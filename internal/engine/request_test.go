package engine_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/diff"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/ledger"
)

func requestOf(t *testing.T, model, rest string, words ...string) converse.Request {
	t.Helper()
	r, err := converse.NewRest(json.RawMessage(rest))
	if err != nil {
		t.Fatal(err)
	}
	var thread *converse.Thread
	for i, w := range words {
		role := []string{"user", "assistant"}[i%2]
		thread = thread.Append(converse.Message(role, []json.RawMessage{converse.TextBlock(w)}))
	}
	return converse.Request{Model: model, Messages: thread, Rest: r}
}

// whole compares two requests by their whole documents.
func whole(t *testing.T, a, b converse.Request) []diff.Change {
	t.Helper()
	document := func(r converse.Request) json.RawMessage {
		members, err := converse.Members(r.Body())
		if err != nil {
			t.Fatal(err)
		}
		members["modelId"] = ledger.AppendString(nil, r.Model)
		doc, err := ledger.CanonValue(members)
		if err != nil {
			t.Fatal(err)
		}
		return doc
	}
	changes, err := diff.Values(document(a), document(b))
	if err != nil {
		t.Fatal(err)
	}
	return changes
}

// TestRequestChangesLeaveOutWhatIsShared: leaving out the messages that both
// requests begin with changes nothing in what is reported.
func TestRequestChangesLeaveOutWhatIsShared(t *testing.T) {
	const rest = `{"system":[{"text":"s"}]}`
	long := []string{"a", "b", "c", "d", "e", "f", "g"}
	base := requestOf(t, "m", rest, long...)
	others := map[string]converse.Request{
		"last":           requestOf(t, "m", rest, "a", "b", "c", "d", "e", "f", "x"),
		"middle":         requestOf(t, "m", rest, "a", "b", "c", "x", "e", "f", "g"),
		"first":          requestOf(t, "m", rest, "x", "b", "c", "d", "e", "f", "g"),
		"two":            requestOf(t, "m", rest, "a", "b", "x", "d", "e", "y", "g"),
		"shorter":        requestOf(t, "m", rest, long[:5]...),
		"much shorter":   requestOf(t, "m", rest, long[:2]...),
		"longer":         requestOf(t, "m", rest, append(long, "h", "i")...),
		"nothing shared": requestOf(t, "m", rest, "x", "y"),
		"cut out":        requestOf(t, "m", rest, "a", "b", "e", "f", "g"),
		"model":          requestOf(t, "other", rest, long...),
		"rest":           requestOf(t, "m", `{"system":[{"text":"t"}]}`, long...),
		"rest and last":  requestOf(t, "m", `{"inferenceConfig":{"maxTokens":1}}`, "a", "b", "c", "d", "e", "f", "x"),
		"no rest":        requestOf(t, "m", `{}`, long...),
		"prefix of text": requestOf(t, "m", rest, "a", "b", "c", "d", "e", "f", ""),
	}
	for name, other := range others {
		t.Run(name, func(t *testing.T) {
			for _, pair := range [][2]converse.Request{{base, other}, {other, base}} {
				got := engine.RequestChanges(pair[0], pair[1])
				if d := cmp.Diff(whole(t, pair[0], pair[1]), got); d != "" || len(got) == 0 {
					t.Errorf("changes (-whole documents +ours):\n%s", d)
				}
			}
		})
	}
	if got := engine.RequestChanges(base, requestOf(t, "m", rest, long...)); got != nil {
		t.Errorf("changes between equal requests: %v", got)
	}
}

// TestFoldMakesEveryPoint: points of a run folded once fork like points folded
// each for itself, and refuse the same events with the same words.
func TestFoldMakesEveryPoint(t *testing.T) {
	c := recordRun(t)
	points, err := engine.Fold(t.Context(), c)
	if err != nil {
		t.Fatal(err)
	}
	total, err := c.EventCount()
	if err != nil {
		t.Fatal(err)
	}
	forks := 0
	for seq := range total + 2 {
		alone, errAlone := engine.At(t.Context(), c, seq)
		folded, errFolded := points.At(seq)
		if d := cmp.Diff(fmt.Sprint(errAlone), fmt.Sprint(errFolded)); d != "" {
			t.Errorf("event %d: error (-At +Fold):\n%s", seq, d)
		}
		if errAlone != nil || errFolded != nil {
			continue
		}
		forks++
		if d := cmp.Diff(futureOf(t, alone), futureOf(t, folded)); d != "" {
			t.Errorf("event %d: future (-At +Fold):\n%s", seq, d)
		}
	}
	if forks != 6 { // run.started, three turns and two results
		t.Errorf("%d events could be forked", forks)
	}
}

// futureOf is where a fork without a patch ends.
func futureOf(t *testing.T, p *engine.Point) string {
	t.Helper()
	o := liveFork(demoWorld(t))
	o.Empty = true
	out, err := p.Fork(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	snapshot, err := out.State.Snapshot()
	if err != nil {
		t.Fatal(err)
	}
	return string(snapshot)
}

// TestPointForksManyTimes: a fork leaves nothing behind in its point.
func TestPointForksManyTimes(t *testing.T) {
	point, err := engine.At(t.Context(), recordRun(t), 7)
	if err != nil {
		t.Fatal(err)
	}
	before := futureOf(t, point)
	o := liveFork(demoWorld(t))
	o.Patch = faults.Drop("/deploys/1").For(7)
	if _, err := point.Fork(t.Context(), o); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(before, futureOf(t, point)); d != "" {
		t.Errorf("future (-before a fork +after it):\n%s", d)
	}
}
