package proxy

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"investigator/internal/diff"
	"investigator/internal/foreign"
)

func asking(text string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":%q}]}]}`, text)
}

// tapedQuestion starts a replay of one call that asks "question".
func tapedQuestion(t *testing.T, o Options) *running {
	t.Helper()
	up := upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
	})
	p := recordTo(t, up, nil)
	post(t, p.url, "/model/m/converse", asking("question"))
	o.Replay = append(o.Replay, open(t, p.end().Recorded[0]))
	return start(t, o)
}

// TestMissesAreBounded: what is kept of requests that diverge does not grow with
// their number and size. (Two hundred misses of a conversation of 4 MB held more
// than a gigabyte, and --json printed it.)
func TestMissesAreBounded(t *testing.T) {
	const large = maxDetail / 100
	var l divergences
	for n := range maxDiverged + 5 {
		text := fmt.Appendf(nil, `"miss %04d"`, n)
		if n < 120 {
			text = fmt.Appendf(nil, `"miss %04d%s"`, n, strings.Repeat("x", large))
		}
		l.add(Divergence{Event: 2, Changes: []diff.Change{{Path: "/a", Old: json.RawMessage("1"), New: text}, {Path: "/b", New: text}}})
	}
	if len(l.list) != maxDiverged || l.more != 5 {
		t.Errorf("%d divergences and %d more, expected %d and 5", len(l.list), l.more, maxDiverged)
	}
	if n := len(l.list[0].Changes[1].New); n < large {
		t.Errorf("the first divergence tells %d bytes of the request, expected all %d", n, large)
	}
	text, err := json.Marshal(l.list)
	if err != nil || len(text) > maxDetail+maxDiverged*1000 {
		t.Errorf("the divergences are %d bytes, expected not many more than %d: %v", len(text), maxDetail, err)
	}
	if brief := l.list[119].String(); !strings.Contains(brief, "miss 0119xxx") || !strings.Contains(brief, "(and 1 more)") || len(brief) > 1000 {
		t.Errorf("a divergence behind the bound: %.2000s", brief)
	}
}

// TestMissesAreCounted: those that the result does not list, too.
func TestMissesAreCounted(t *testing.T) {
	r := tapedQuestion(t, Options{})
	r.mode.(*replaying).diverged.list = make([]Divergence, maxDiverged-1)
	for _, text := range []string{"one", "two", "two", "three"} {
		if code, _, answer := post(t, r.url, "/model/m/converse", asking(text)); code != http.StatusConflict || !strings.Contains(answer, text) {
			t.Errorf("%s: %d %s", text, code, answer)
		}
	}
	got := r.end()
	if len(got.Diverged) != maxDiverged || !strings.Contains(got.Diverged[maxDiverged-1].String(), `now "one"`) || got.MoreDiverged != 2 {
		t.Errorf("%d divergences, the last %s, and %d more, expected %d and 2", len(got.Diverged), got.Diverged[len(got.Diverged)-1], got.MoreDiverged, maxDiverged)
	}
}

// TestBriefCountsWhatItLeavesOut: a divergence is told in the same line with all
// of its changes and without.
func TestBriefCountsWhatItLeavesOut(t *testing.T) {
	d := Divergence{Event: 2, Type: "model.responded", Cause: "the request differs", Changes: []diff.Change{
		{Kind: diff.Added, Path: "/a", New: json.RawMessage(`1`)}, {Path: "/b"}, {Path: "/c"},
	}}
	b := d.brief()
	if len(b.Changes) != 1 || b.More != 2 || b.String() != d.String() || !strings.Contains(b.String(), "recorded nothing / now 1 (and 2 more)") {
		t.Errorf("brief %q, expected %q with one change listed", b, d)
	}
	if again := b.brief(); again.More != 2 {
		t.Errorf("brief twice leaves out %d, expected 2", again.More)
	}
}

// TestMissHoldsUpNoCall: while a divergence is told, which a terminal can hold
// up, other calls are answered.
func TestMissHoldsUpNoCall(t *testing.T) {
	telling, told := make(chan bool), make(chan bool)
	r := tapedQuestion(t, Options{Notify: func(Note) { telling <- true; <-told }})
	missed := make(chan int)
	go func() {
		code, _, _ := post(t, r.url, "/model/m/converse", asking("another"))
		missed <- code
	}()
	<-telling
	answered := make(chan int)
	go func() {
		code, _, _ := post(t, r.url, "/model/m/converse", asking("question"))
		answered <- code
	}()
	select {
	case code := <-answered:
		if code != http.StatusOK {
			t.Errorf("HTTP %d, expected 200", code)
		}
	case <-time.After(10 * time.Second):
		t.Error("a call waits for a divergence to be told")
	}
	close(told)
	if code := <-missed; code != http.StatusConflict {
		t.Errorf("the miss: HTTP %d, expected 409", code)
	}
}
