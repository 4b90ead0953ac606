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
// their size. (A hundred misses of a conversation of 4 MB held half a gigabyte, and
// --json printed it.)
func TestMissesAreBounded(t *testing.T) {
	const large = maxDetail / 50
	var l divergences
	for n := range maxDiverged {
		text := fmt.Appendf(nil, `"miss %04d%s"`, n, strings.Repeat("x", large))
		l.add(Divergence{Event: 2, Changes: []diff.Change{{Path: "/a", Old: json.RawMessage("1"), New: text}, {Path: "/b", New: text}}})
	}
	if n := len(l.list[0].Changes[1].New); n < large {
		t.Errorf("the first divergence tells %d bytes of the request, expected all %d", n, large)
	}
	text, err := json.Marshal(l.list)
	if err != nil || len(l.list) != maxDiverged || len(text) > maxDetail+maxDiverged*1000 {
		t.Errorf("%d divergences are %d bytes, expected %d of not many more than %d: %v", len(l.list), len(text), maxDiverged, maxDetail, err)
	}
	if brief := l.list[maxDiverged-1].String(); !strings.Contains(brief, "miss 0099xxx") || !strings.Contains(brief, "(and 1 more)") || len(brief) > 1000 {
		t.Errorf("a divergence behind the bound: %.2000s", brief)
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
