package recorder_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"

	"github.com/google/go-cmp/cmp"
	vcr "gopkg.in/dnaeon/go-vcr.v3/cassette"
	vcrrecorder "gopkg.in/dnaeon/go-vcr.v3/recorder"
)

// lineOf returns the number of the line that byte i belongs to.
func lineOf(b []byte, i int) int { return bytes.Count(b[:i], []byte("\n")) + 1 }

// namedLine opens b and returns the line that is said to be wrong, 0 for none.
func namedLine(t *testing.T, b []byte) int {
	t.Helper()
	c, err := recorder.Parse("x.yaml", b)
	if err == nil {
		if c.Torn() != nil {
			return c.Torn().Line
		}
		return 0
	}
	var damage *recorder.Damage
	var file *recorder.FileError
	switch {
	case errors.As(err, &damage):
		return damage.Line
	case errors.As(err, &file):
		return max(file.Line, 1)
	}
	t.Fatalf("error of type %T: %v", err, err)
	return 0
}

// Law 6: whatever byte is changed, it is detected and its line named.
func TestEveryFlippedByteIsDetected(t *testing.T) {
	good := record(t, recordertest.Options{Turns: 3, Bytes: 40, Wire: true}).bytes
	for i := range good {
		for _, change := range []byte{0x01, 0x20, good[i] ^ '\n', good[i] ^ '"'} {
			if change == 0 {
				continue
			}
			bad := bytes.Clone(good)
			bad[i] ^= change
			want := lineOf(good, i)
			if got := namedLine(t, bad); got != want && (want > 3 || got == 0) {
				t.Fatalf("byte %d (line %d): %q became %q: line %d named", i, want, good[i], bad[i], got)
			}
		}
	}
}

// Law 6, for whole lines.
func TestEveryMovedLineIsDetected(t *testing.T) {
	good := record(t, recordertest.Options{Turns: 4, Bytes: 60}).bytes
	lines := strings.SplitAfter(strings.TrimSuffix(string(good), "\n"), "\n")
	lines[len(lines)-1] += "\n"
	for i := 4; i < len(lines); i++ {
		last := i == len(lines)-1
		edits := map[string][]string{
			"removed":  append(append([]string{}, lines[:i]...), lines[i+1:]...),
			"repeated": append(append(append([]string{}, lines[:i+1]...), lines[i]), lines[i+1:]...),
			"edited":   append(append(append([]string{}, lines[:i]...), strings.Replace(lines[i], "0", "1", 1)), lines[i+1:]...),
		}
		want := map[string]int{"removed": i + 1, "repeated": i + 2, "edited": i + 1}
		if !last {
			swapped := append([]string{}, lines...)
			swapped[i], swapped[i+1] = swapped[i+1], swapped[i]
			edits["swapped"], want["swapped"] = swapped, i+1
			if i+1 == len(lines)-1 { // the seal before the last interaction does not match either
				want["swapped"] = i + 1
			}
		}
		for name, edited := range edits {
			if name == "removed" && last {
				continue // leaves an unfinished run, see TestARemovedSealLeavesAnUnfinishedRun
			}
			if got := namedLine(t, []byte(strings.Join(edited, ""))); got != want[name] {
				t.Errorf("line %d %s: line %d named, want %d", i+1, name, got, want[name])
			}
		}
	}
}

func TestARemovedSealLeavesAnUnfinishedRun(t *testing.T) {
	run := record(t, recordertest.Options{Turns: 3, Bytes: 40})
	c := parse(t, run.bytes[:bytes.LastIndex(run.bytes, []byte("seal: "))])
	if n, err := c.EventCount(); c.Sealed() || c.Finished() != nil || err != nil || n != len(run.events)-1 {
		t.Errorf("sealed %v, %d events, error %v; want an unfinished run of %d", c.Sealed(), n, err, len(run.events)-1)
	}
}

// Law 7: cut anywhere, every whole event survives.
func TestEveryCutKeepsWholeEvents(t *testing.T) {
	run := record(t, recordertest.Options{Turns: 2, Bytes: 20, Parallel: 2, Wire: true})
	whole := parse(t, run.bytes)
	ends := []int{bytes.Index(run.bytes, []byte("\ninteractions:"))} // where each further line is whole
	for at := range run.bytes {
		if run.bytes[at] == '\n' && at > ends[0] {
			ends = append(ends, at)
		}
	}
	ends = append(ends[:1], ends[2:]...) // the line "interactions:" holds no event
	for at := range run.bytes {
		c, err := recorder.Parse("cut.yaml", run.bytes[:at])
		if at < ends[0] {
			if !errors.Is(err, recorder.ErrCutHeader) && !errors.Is(err, recorder.ErrEmpty) {
				t.Fatalf("cut at %d: %v", at, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("cut at %d: %v", at, err)
		}
		lines := 0
		for lines+1 < len(ends) && at >= ends[lines+1] {
			lines++
		}
		want := 1
		if lines == len(ends)-1 {
			want = len(run.events)
		} else if lines > 0 {
			x, err := whole.Interaction(lines - 1)
			if err != nil {
				t.Fatal(err)
			}
			want = x.Last
		}
		events, err := c.Events()
		if err != nil {
			t.Fatalf("cut at %d: %v", at, err)
		}
		sameEvents(t, fmt.Sprintf("cut at %d", at), run.events[:want], events)
	}
}

// sameEvents compares sums, and looks for the difference only if there is one.
func sameEvents(t *testing.T, where string, want, got []ledger.Event) {
	t.Helper()
	if len(want) == len(got) && ledger.Total(want) == ledger.Total(got) {
		return
	}
	t.Fatalf("%s: events (-want +got):\n%s", where, cmp.Diff(want, got))
}

// Law 10: plain go-vcr loads the file after every line, and serves it.
func TestPlainGoVCRServesIt(t *testing.T) {
	for name, o := range variants() {
		t.Run(name, func(t *testing.T) {
			b := record(t, o).bytes
			whole := parse(t, b)
			for at, n := bytes.Index(b, []byte("interactions:\n")), -1; at < len(b); n++ {
				at += bytes.IndexByte(b[at:], '\n') + 1
				checkVCR(t, whole, b[:at], min(n+1, whole.Len()))
			}
		})
	}
}

func checkVCR(t *testing.T, whole *recorder.Cassette, b []byte, n int) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "run")
	if err := os.WriteFile(file+".yaml", b, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := vcr.Load(file)
	if err != nil {
		t.Fatal(err)
	}
	if len(loaded.Interactions) != n {
		t.Fatalf("go-vcr found %d interactions, want %d", len(loaded.Interactions), n)
	}
	rec, err := vcrrecorder.NewWithOptions(&vcrrecorder.Options{CassetteName: file, Mode: vcrrecorder.ModeReplayOnly, SkipRequestLatency: true})
	if err != nil {
		t.Fatal(err)
	}
	for i := range n {
		x, err := whole.Interaction(i)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), x.Method, x.URL, bytes.NewReader(x.Request))
		if err != nil {
			t.Fatal(err)
		}
		resp, err := rec.RoundTrip(req)
		if err != nil {
			t.Fatalf("interaction %d: %v", i, err)
		}
		body, err := io.ReadAll(resp.Body)
		if err != nil || !bytes.Equal(body, x.Response) || resp.StatusCode != x.Code {
			t.Errorf("interaction %d: go-vcr serves %d %q, want %d %q", i, resp.StatusCode, body, x.Code, x.Response)
		}
		if loaded.Interactions[i].Request.Body != string(x.Request) || loaded.Interactions[i].ID != i {
			t.Errorf("interaction %d: go-vcr reads request %q as %d", i, loaded.Interactions[i].Request.Body, loaded.Interactions[i].ID)
		}
	}
}

// Laws 3 and 4: a fork's history is its parent's byte for byte, and a fork that
// changes nothing ends where its parent did.
func TestForkKeepsItsParentsHistory(t *testing.T) {
	for name, o := range variants() {
		t.Run(name, func(t *testing.T) {
			run := record(t, o)
			parent := parse(t, run.bytes)
			for seq := 1; seq <= len(run.events)+1; seq++ {
				text := fork(t, parent, o, seq)
				child := parse(t, text)
				if want := bytes.Count(run.bytes, []byte(`,"data":"`)); bytes.Count(text, []byte(`,"data":"`)) != want {
					t.Errorf("fork at %d stores what its parent projects", seq)
				}
				checkFork(t, parent, child, run, seq)
				if seq == len(run.events)/2 {
					checkFork(t, child, parse(t, fork(t, child, o, seq)), run, seq)
				}
			}
		})
	}
}

// fork copies the history before seq and records the rest of the same run.
func fork(t *testing.T, parent *recorder.Cassette, o recordertest.Options, seq int) []byte {
	t.Helper()
	h := recordertest.Header()
	h.Parent = &recorder.Parent{Run: parent.Header().Run, File: parent.Name(), At: seq, Mode: "live"}
	w, err := recorder.NewMemory(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := w.CopyPrefix(parent, seq); err != nil {
		t.Fatalf("fork at %d: %v", seq, err)
	}
	if w.Seq() >= seq && seq > 1 {
		t.Fatalf("fork at %d: %d events copied", seq, w.Seq())
	}
	_, err = recordertest.Generate(o, loop.SinkFunc(func(call edge.Call, ret edge.Return, events []ledger.Event) error {
		if events[0].Seq <= w.Seq() {
			return nil
		}
		return w.Took(call, ret, events)
	}))
	if err != nil {
		t.Fatalf("fork at %d: %v", seq, err)
	}
	return w.Bytes()
}

func checkFork(t *testing.T, parent, child *recorder.Cassette, run taken, seq int) {
	t.Helper()
	events, err := child.Events()
	if err != nil {
		t.Fatal(err)
	}
	sameEvents(t, fmt.Sprintf("fork at %d", seq), run.events, events)
	for i := range child.Len() {
		a, errA := parent.Interaction(i)
		b, errB := child.Interaction(i)
		if errA != nil || errB != nil {
			t.Fatal(errA, errB)
		}
		if copied := a.Last < seq && (i < parent.Len()-1 || seq > len(run.events)); copied {
			a.Origin = edge.Tape
		}
		if reflect.DeepEqual(a, b) {
			continue
		}
		if d := cmp.Diff(a, b); d != "" {
			t.Fatalf("fork at %d: interaction %d (-parent +fork):\n%s", seq, i, d)
		}
	}
	for i, call := range run.calls {
		ret := run.rets[i]
		if child.Len() > 0 && call.Kind == edge.Model {
			if req, err := child.Request(call.Seq); err != nil || req.Digest() != call.In {
				t.Fatalf("fork at %d: request of event %d: %v", seq, call.Seq, err)
			}
		}
		got, err := child.Return(call.Seq)
		if err != nil || !bytes.Equal(got.Body, ret.Body) {
			t.Fatalf("fork at %d: return of event %d: %s, %v", seq, call.Seq, got.Body, err)
		}
	}
}

// The file grows with what is new in it, not with the length of the
// conversation.
func TestSizeIsLinear(t *testing.T) {
	perTurn := map[int]float64{}
	for _, turns := range []int{10, 50, 400} {
		unique := len(recordertest.Start())
		w, err := recorder.NewMemory(recordertest.Header())
		if err != nil {
			t.Fatal(err)
		}
		_, err = recordertest.Generate(recordertest.Options{Turns: turns, Bytes: 10 << 10},
			loop.SinkFunc(func(call edge.Call, ret edge.Return, events []ledger.Event) error {
				unique += len(ret.Body)
				return w.Took(call, ret, events)
			}))
		if err != nil {
			t.Fatal(err)
		}
		size := len(w.Bytes())
		ratio := float64(size) / float64(unique)
		perTurn[turns] = float64(size) / float64(turns)
		t.Logf("%3d turns: %8d bytes, %.3f of what is unique", turns, size, ratio)
		if ratio > 1.3 {
			t.Errorf("%d turns: %d bytes for %d unique ones: %.3f, want at most 1.3", turns, size, unique, ratio)
		}
	}
	if growth := perTurn[400] / perTurn[50]; growth > 1.05 {
		t.Errorf("a turn of a run of 400 takes %.2f times that of one of 50", growth)
	}
}

func TestServeAnswersTheRecordedRequests(t *testing.T) {
	o := recordertest.Options{Turns: 5, Bytes: 100, Wire: true}
	run := record(t, o)
	transport, err := recorder.Serve(parse(t, run.bytes))
	if err != nil {
		t.Fatal(err)
	}
	send := func(url, body string) (*http.Response, error) {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		return transport.RoundTrip(req)
	}
	for i, call := range run.calls {
		if call.Kind != edge.Model {
			continue
		}
		attempts := run.rets[i].Wire.Attempts
		body := strings.Replace(string(call.Request.Body()), "{", "{ ", 1) // another spelling of the same JSON
		other := strings.Replace(body, "Checkout", "Cart", 1)
		if _, err := send(run.rets[i].Wire.URL, other); !notRetryable(err) {
			t.Errorf("another question: %v; want an error that is not retried", err)
		}
		resp, err := send("http://127.0.0.1:1/model/scripted/converse", body)
		if err != nil {
			t.Fatal(err)
		}
		got, err := io.ReadAll(resp.Body)
		if want := attempts[len(attempts)-1]; err != nil || !bytes.Equal(got, want.Body) || resp.StatusCode != want.Code {
			t.Errorf("event %d: served %d %q, %v", call.Seq, resp.StatusCode, got, err)
		}
		if _, err := send(run.rets[i].Wire.URL, body); !notRetryable(err) {
			t.Errorf("the same question again: %v; want an error that is not retried", err)
		}
	}
	for i, call := range run.calls[:1] {
		fresh, err := recorder.Serve(parse(t, run.bytes))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct{ method, url string }{
			{http.MethodPut, run.rets[i].Wire.URL}, {http.MethodPost, run.rets[i].Wire.URL + "-stream"}, {http.MethodPost, "https://x.invalid/"},
		} {
			req, err := http.NewRequestWithContext(t.Context(), c.method, c.url, bytes.NewReader(call.Request.Body()))
			if err != nil {
				t.Fatal(err)
			}
			if _, err := fresh.RoundTrip(req); !notRetryable(err) {
				t.Errorf("%s %s: %v; want a miss", c.method, c.url, err)
			}
		}
	}
	if _, err := send("https://tool.invalid/read", `{"part":1,"pos":0}`); !notRetryable(err) {
		t.Errorf("a tool call: %v", err)
	}
	if _, err := send("https://x.invalid/", "no json"); !notRetryable(err) {
		t.Errorf("no JSON: %v", err)
	}
}

// A recorded call that took a day is served at once.
func TestServeDoesNotWaitAsTheModelDid(t *testing.T) {
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	var sent edge.Call
	s, _, err := loop.New(recordertest.Start())
	if err != nil {
		t.Fatal(err)
	}
	slow := edge.Func(func(_ context.Context, call edge.Call) (edge.Return, error) {
		sent = call
		return edge.Return{Body: []byte(streamed), Origin: edge.Live, Took: "24h", Wire: wireOf(200, []byte(streamed), "application/json", "")}, nil
	})
	if _, err := loop.Run(t.Context(), s, slow, w); err != nil {
		t.Fatal(err)
	}
	transport, err := recorder.Serve(parse(t, w.Bytes()))
	if err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		began := time.Now()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, wireOf(0, nil, "", "").URL, bytes.NewReader(sent.Request.Body()))
		if err != nil {
			t.Fatal(err)
		}
		if _, err := transport.RoundTrip(req); err != nil || time.Since(began) != 0 {
			t.Errorf("served after %s: %v", time.Since(began), err)
		}
	})
}

func notRetryable(err error) bool {
	var u *recorder.Unmatched
	return errors.As(err, &u) && !u.RetryableError() && strings.Contains(err.Error(), fmt.Sprintf("%q", "test.yaml"))
}

func TestOpenWireReadsAnyGoVCRCassette(t *testing.T) {
	file := filepath.Join(t.TempDir(), "foreign")
	c := vcr.New(file)
	c.AddInteraction(&vcr.Interaction{Request: vcr.Request{Method: "POST", URL: "https://example.com/a", Body: "q"},
		Response: vcr.Response{Code: 200, Body: "r", Headers: http.Header{"Content-Type": {"text/plain"}}}})
	if err := c.Save(); err != nil {
		t.Fatal(err)
	}
	got, err := recorder.OpenWire(file + ".yaml")
	want := []recorder.WireInteraction{{Method: "POST", URL: "https://example.com/a", Request: []byte("q"), Code: 200,
		Header: http.Header{"Content-Type": {"text/plain"}}, Response: []byte("r")}}
	if d := cmp.Diff(want, got); d != "" || err != nil {
		t.Errorf("%s\n%v", d, err)
	}
	if _, err := recorder.Open(file + ".yaml"); !errors.Is(err, recorder.ErrNotOurs) {
		t.Errorf("Open of a foreign cassette: %v", err)
	}
	if _, err := recorder.OpenWire(file); !errors.Is(err, recorder.ErrNotCassette) {
		t.Errorf("OpenWire without .yaml: %v", err)
	}
	if _, err := recorder.OpenWire(file + "2.yaml"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("OpenWire of nothing: %v", err)
	}
}
