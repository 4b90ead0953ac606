package proxy

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"investigator/internal/foreign"
)

// TestMemoryIsLentAgain: answered calls hand their memory on, and what the
// result tells of a refused one does not stand in it. (Every replay of these
// tests runs with memory that is scribbled over when it is given back.)
func TestMemoryIsLentAgain(t *testing.T) {
	up := upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
	})
	ask := func(n int) string {
		return fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":"question %02d"}]}]}`, n)
	}
	p := recordTo(t, up, nil)
	for n := range 20 {
		post(t, p.url, "/run/one/model/m/converse", ask(n))
	}
	r := replayOf(t, false, p.end().Recorded[0])
	spoil, given := r.lender.gone, 0
	r.lender.gone = func(m *memory) {
		spoil(m)
		given++
	}
	if code, _, text := post(t, r.url, "/model/m/converse", ask(77)); code != http.StatusConflict {
		t.Fatalf("%d %s", code, text)
	}
	for n := range 20 {
		if code, _, text := post(t, r.url, "/model/m/converse", ask(n)); code != 200 || text != hello {
			t.Errorf("question %d: %d %s", n, code, text)
		}
	}
	got := r.end()
	if given != 20 {
		t.Errorf("memory was given back %d times, expected after each of 20 answers and no refusal", given)
	}
	if len(got.Diverged) != 1 || !strings.Contains(got.Diverged[0].String(), `now "question 77"`) {
		t.Errorf("diverged %v", got.Diverged)
	}
}

// TestLender: memory goes from call to call, but not what is very large, and
// nothing without a lender.
func TestLender(t *testing.T) {
	l := new(lender)
	m := l.lend(10)
	m.raw = append(m.raw, "secret of one"...)
	l.giveBack(m)
	next := l.lend(1000)
	if len(next.raw) != 0 || cap(next.raw) < 1000 {
		t.Errorf("lent %d bytes of %d, expected none of 1000 or more", len(next.raw), cap(next.raw))
	}
	kept := 0
	l.gone = func(*memory) { kept++ }
	if l.giveBack(&memory{raw: make([]byte, maxLent), canon: make([]byte, 1)}); kept != 0 {
		t.Error("more than maxLent was kept of a call")
	}
	if l.giveBack(&memory{raw: make([]byte, maxLent)}); kept != 1 {
		t.Error("maxLent was not kept")
	}
	var none *lender
	none.giveBack(none.lend(5))
}
