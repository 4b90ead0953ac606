package recorder_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// walked walks a cassette of which the window holds so many bytes.
func walked(t *testing.T, b []byte, window int) (*recorder.Cassette, []recorder.Read) {
	t.Helper()
	c := parse(t, b)
	recorder.Narrow(c, window)
	var list []recorder.Read
	if err := c.Walk(func(r recorder.Read) error { list = append(list, r); return nil }); err != nil {
		t.Fatal(err)
	}
	return c, list
}

// A walk says what Events, Interaction, Request and Return say, whatever is
// held; and so does the walked cassette itself, asked in any order.
func TestWalkGivesTheRun(t *testing.T) {
	for name, o := range variants() {
		for _, window := range []int{1, 5000, 1 << 20} {
			t.Run(fmt.Sprint(name, window), func(t *testing.T) {
				run := record(t, o)
				c, list := walked(t, run.bytes, window)
				whole := parse(t, run.bytes)
				if len(list) != whole.Len() {
					t.Fatalf("%d of %d interactions", len(list), whole.Len())
				}
				for i, r := range list {
					sameRead(t, whole, i, r)
				}
				askAround(t, c, whole)
				again := 0
				if err := c.Walk(func(r recorder.Read) error { sameRead(t, whole, again, r); again++; return nil }); err != nil || again != len(list) {
					t.Errorf("walked %d again, %v", again, err)
				}
				events, err := c.Events()
				if err != nil {
					t.Fatal(err)
				}
				sameEvents(t, "after a walk", run.events, events)
				askAround(t, c, whole)
			})
		}
	}
}

func sameRead(t *testing.T, whole *recorder.Cassette, i int, r recorder.Read) {
	t.Helper()
	x, err := whole.Interaction(i)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(x, r.Interaction); d != "" {
		t.Errorf("interaction %d (-whole +walked):\n%s", i, d)
	}
	events, _ := whole.Events()
	sameEvents(t, fmt.Sprintf("interaction %d", i), events[x.First-1:x.Last], r.Events)
	ret, err := whole.Return(x.First)
	if d := cmp.Diff(ret, r.Return); d != "" || err != nil {
		t.Errorf("return %d: %v (-whole +walked):\n%s", i, err, d)
	}
	if x.Kind == edge.Model {
		sameRequest(t, whole, x.First, r.Asked)
	}
}

func sameRequest(t *testing.T, whole *recorder.Cassette, seq int, got converse.Request) {
	t.Helper()
	want, err := whole.Request(seq)
	if err != nil || got.Digest() != want.Digest() || !bytes.Equal(got.Body(), want.Body()) {
		t.Errorf("request %d: %v\n%s\nwant\n%s", seq, err, got.Body(), want.Body())
	}
}

// askAround asks a cassette for everything, in a random order.
func askAround(t *testing.T, c, whole *recorder.Cassette) {
	t.Helper()
	events, err := whole.Events()
	if err != nil {
		t.Fatal(err)
	}
	if n, err := c.EventCount(); err != nil || n != len(events) {
		t.Errorf("%d events of %d, %v", n, len(events), err)
	}
	for _, at := range rand.New(rand.NewPCG(3, 3)).Perm(len(events)) {
		seq := at + 1
		e, err := c.Event(seq)
		if err != nil {
			t.Fatal(err)
		}
		sameEvents(t, "asked around", events[at:seq], []ledger.Event{e})
		want, notOne := whole.Return(seq)
		ret, err := c.Return(seq)
		if d := cmp.Diff(want, ret); d != "" || (err == nil) != (notOne == nil) {
			t.Errorf("return %d: %v, want %v (-whole +walked):\n%s", seq, err, notOne, d)
		}
		if req, err := c.Request(seq); err == nil {
			sameRequest(t, whole, seq, req)
		} else if e.Type == ledger.ModelResponded {
			t.Errorf("request %d: %v", seq, err)
		}
		if n := recorder.Strays(c); n > 0 {
			t.Errorf("request %d: %d requests would be held for ever", seq, n)
		}
		sum, _ := c.LedgerSum(seq)
		if want, _ := whole.LedgerSum(seq); sum != want {
			t.Errorf("sum of event %d: %s, want %s", seq, sum, want)
		}
	}
}

// questions is a run of n model calls that have nothing in common but their
// first message and the other members, with answers of some size.
func questions(t *testing.T, n int) []byte {
	t.Helper()
	w, err := recorder.NewMemory(recorder.Header{Run: "r", Start: []byte(`{"task":"t","model":"m","request":{"system":[]}}`)})
	if err != nil {
		t.Fatal(err)
	}
	rest, err := converse.NewRest([]byte(`{"system":[{"text":"Be brief."}]}`))
	if err != nil {
		t.Fatal(err)
	}
	text := func(i int) []byte { return converse.TextBlock(fmt.Sprint(i, strings.Repeat("x", 2000))) }
	shared := converse.NewThread(converse.Message("user", []json.RawMessage{text(-1)}))
	for i := range n {
		req := converse.Request{Model: "m", Rest: rest, Messages: shared.Append(converse.Message("user", []json.RawMessage{text(i)}))}
		body := []byte(`{"output":{"message":{"content":[` + string(text(i)) + `],"role":"assistant"}},"stopReason":"end_turn","usage":{}}`)
		call := edge.Call{Kind: edge.Model, Seq: i + 2, Turn: i + 1, In: req.Digest(), Request: req}
		if err := w.Took(call, edge.Return{Body: body, Origin: edge.Live}, []ledger.Event{{Seq: i + 2, Type: ledger.ModelResponded, In: call.In, Data: body}}); err != nil {
			t.Fatal(err)
		}
	}
	return w.Bytes()
}

// A walked cassette of many calls holds a few of them, and a request costs the
// lines that it takes something from, wherever it stands: here its own, that of
// the shared message, which is that of the other members too.
func TestWalkHoldsLittleAndReadsLittleAgain(t *testing.T) {
	const n, line = 300, 4600
	c, list := walked(t, questions(t, n), 10*line)
	if held, requests, _ := recorder.Holding(c); held > 11 || requests > 11 {
		t.Errorf("holds %d interactions and %d requests of %d", held, requests, n)
	}
	for _, i := range []int{n / 2, 7, n - 30} {
		_, _, before := recorder.Holding(c)
		req, err := c.Request(list[i].First)
		if err != nil || req.Digest() != list[i].Asked.Digest() {
			t.Fatalf("request %d: %v", i, err)
		}
		if _, _, after := recorder.Holding(c); after-before > 2*7000 {
			t.Errorf("request %d: read %d bytes again", i, after-before)
		}
	}
}

// A walked cassette whose lines are asked for again and again holds more of them,
// so that what is read again in all stays a few times the file.
func TestWalkedCassetteHoldsWhatIsAskedFor(t *testing.T) {
	b := questions(t, 60)
	c, list := walked(t, b, 1)
	for range 20 {
		for _, r := range list {
			if _, err := c.Event(r.First); err != nil {
				t.Fatal(err)
			}
		}
	}
	if held, _, _ := recorder.Holding(c); held != len(list) {
		t.Errorf("holds %d of %d", held, len(list))
	}
}

// What a walk finds wrong, and what its caller does, ends it; and a cassette that
// was found wrong stays so.
func TestWalkEnds(t *testing.T) {
	run := record(t, variants()["odd"])
	stop := errors.New("stop")
	c := parse(t, run.bytes)
	n := 0
	if err := c.Walk(func(recorder.Read) error {
		if n++; n == 3 {
			return stop
		}
		return nil
	}); err != stop || n != 3 {
		t.Errorf("after %d: %v", n, err)
	}
	if events, err := c.Events(); err != nil || len(events) != len(run.events) {
		t.Errorf("%d events, %v", len(events), err)
	}
	files, err := filepath.Glob("testdata/museum/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no museum: %v", err)
	}
	for _, name := range files {
		sameVerdict(t, name)
	}
}

// A walk that ends early leaves nobody behind who reads on.
func TestWalkLeavesNobodyBehind(t *testing.T) {
	b := questions(t, 60)
	synctest.Test(t, func(t *testing.T) { // fails while a goroutine of it waits for ever
		stop := errors.New("stop")
		if err := parse(t, b).Walk(func(recorder.Read) error { return stop }); err != stop {
			t.Error(err)
		}
	})
}

// sameVerdict fails where a walk takes a cassette that Events and Request refuse,
// or the other way round.
func sameVerdict(t *testing.T, name string) {
	t.Helper()
	c, err := recorder.Open(name)
	if err != nil {
		return // refused at once, walked or not
	}
	whole, _ := recorder.Open(name)
	events, want := whole.Events()
	for _, e := range events {
		if e.Type == ledger.ModelResponded || e.Type == ledger.ModelFailed {
			if _, err := whole.Request(e.Seq); err != nil && want == nil {
				want = err
			}
		}
	}
	got := c.Walk(func(recorder.Read) error { return nil })
	if fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("%s: walked %v, want %v", name, got, want)
	}
	_, want = whole.Events()
	if _, err := c.Events(); fmt.Sprint(err) != fmt.Sprint(want) {
		t.Errorf("%s: events after a walk: %v, want %v", name, err, want)
	}
}
