package proxy

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// TestFailsAndIsAskedLater: an agent whose client says nothing of attempts asks
// again long after a failure. Replay once gave it the failure for ever.
func TestFailsAndIsAskedLater(t *testing.T) {
	var codes []int // of the upstream, in turn
	var clock atomic.Int64
	now := func() time.Time { return time.Now().Add(time.Duration(clock.Load())) }
	file := filepath.Join(t.TempDir(), "a.yaml")
	p := start(t, Options{Now: now, Record: &RecordOptions{Durable: true, Create: func(_ int, h recorder.Header) (*recorder.Writer, error) { return recorder.Create(file, h) }},
		Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
			code := codes[0]
			if codes = codes[1:]; code != 200 {
				return response(code, "InternalServerException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"down"}`)}), nil
			}
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		})})
	codes = []int{500, 500, 200}
	ask := func(url string) int {
		code, _, _ := post(t, url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"a"}]}]}`, RunHeader, "one")
		return code
	}
	recorded := []int{ask(p.url), ask(p.url)} // two attempts of one call
	clock.Store(int64(2 * retryWindow))
	recorded = append(recorded, ask(p.url))
	p.end()
	r := replayOf(t, true, file)
	if got := []int{ask(r.url), ask(r.url), ask(r.url)}; !cmp.Equal(recorded, got) {
		t.Errorf("recorded %v, replayed %v", recorded, got)
	}
	if got := r.end(); got.LeftOver != nil || len(got.Diverged) > 0 {
		t.Errorf("%+v", got)
	}
}

// TestGivesUpLate: a client that gives a streamed call up and asks again at once may
// be seen to leave after it has its second answer. A replay gives the two answers in
// the order in which they were asked for.
func TestGivesUpLate(t *testing.T) {
	const path = "/model/m/converse-stream"
	part := said("hello")[:100]
	left := make(chan struct{})
	stalls := true
	p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		if !stalls {
			return framed(bytes.NewReader(said("hello"))), nil
		}
		stalls = false
		pr, pw := io.Pipe()
		go func() {
			_, _ = pw.Write(part) // a reader that is gone shows below
			<-r.Context().Done()
			pw.CloseWithError(r.Context().Err())
			close(left)
		}()
		return framed(pr), nil
	}), nil)
	body := `{"messages":[{"role":"user","content":[{"text":"q"}]}]}`
	first := askAs(t, p.url+path, body, "first")
	if _, err := io.ReadFull(first.Body, make([]byte, len(part))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(askAs(t, p.url+path, body, "second").Body); err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	<-left
	recorded := p.end().Recorded
	if c := open(t, recorded[0]); len(recorded) != 1 || !cmp.Equal(typesOf(t, c), []string{"run.started", "model.responded", "model.failed", "run.finished"}) {
		t.Fatalf("%v, with the events %v", recorded, typesOf(t, c))
	}
	r := replayOf(t, true, recorded...)
	if got, err := io.ReadAll(askAs(t, r.url+path, body, "first").Body); err == nil || !bytes.Equal(got, part) {
		t.Errorf("the first answer: %d bytes, %v, expected %d and that they break off", len(got), err, len(part))
	}
	if got, err := io.ReadAll(askAs(t, r.url+path, body, "second").Body); err != nil || !bytes.Equal(got, said("hello")) {
		t.Errorf("the second answer: %d bytes, %v", len(got), err)
	}
	if got := r.end(); got.LeftOver != nil || len(got.Diverged) > 0 {
		t.Errorf("%+v", got)
	}
}

// askAs sends a request and leaves its answer to be read.
func askAs(t *testing.T, url, body, invocation string) *http.Response {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(t, url, body, "Amz-Sdk-Invocation-Id", invocation, RunHeader, "one"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}
