package proxy

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
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
// the order in which they were asked for, also where the client says that they are
// attempts of one call: it once gave all of these the first.
func TestGivesUpLate(t *testing.T) {
	for name, headers := range map[string][2][]string{
		"two calls":        {{"Amz-Sdk-Invocation-Id", "first"}, {"Amz-Sdk-Invocation-Id", "second"}},
		"attempts of one":  {{"Amz-Sdk-Invocation-Id", "first"}, {"Amz-Sdk-Invocation-Id", "first", "Amz-Sdk-Request", "attempt=2; max=3"}},
		"counted attempts": {{"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"}},
	} {
		t.Run(name, func(t *testing.T) { givesUpLate(t, headers) })
	}
}

func givesUpLate(t *testing.T, headers [2][]string) {
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
	first := askAs(t, p.url+path, body, headers[0]...)
	if _, err := io.ReadFull(first.Body, make([]byte, len(part))); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadAll(askAs(t, p.url+path, body, headers[1]...).Body); err != nil {
		t.Fatal(err)
	}
	first.Body.Close()
	<-left
	recorded := p.end().Recorded
	if c := open(t, recorded[0]); len(recorded) != 1 || !cmp.Equal(typesOf(t, c), []string{"run.started", "model.responded", "model.failed", "run.finished"}) {
		t.Fatalf("%v, with the events %v", recorded, typesOf(t, c))
	}
	r := replayOf(t, true, recorded...)
	if got, err := io.ReadAll(askAs(t, r.url+path, body, headers[0]...).Body); err == nil || !bytes.Equal(got, part) {
		t.Errorf("the first answer: %d bytes, %v, expected %d and that they break off", len(got), err, len(part))
	}
	if got, err := io.ReadAll(askAs(t, r.url+path, body, headers[1]...).Body); err != nil || !bytes.Equal(got, said("hello")) {
		t.Errorf("the second answer: %d bytes, %v", len(got), err)
	}
	if got := r.end(); got.LeftOver != nil || len(got.Diverged) > 0 {
		t.Errorf("%+v", got)
	}
}

// askAs sends a request and leaves its answer to be read.
func askAs(t *testing.T, url, body string, headers ...string) *http.Response {
	t.Helper()
	resp, err := http.DefaultClient.Do(request(t, url, body, append([]string{RunHeader, "one"}, headers...)...))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { resp.Body.Close() })
	return resp
}

// TestGivesUpWhileToolsWork: the same, but the second answer calls a tool, and the
// first call is seen to end before the tool's result comes. It once took the result
// from the run.
func TestGivesUpWhileToolsWork(t *testing.T) {
	const path, question = "/model/m/converse", `{"role":"user","content":[{"text":"q"}]}`
	const turn = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"u","name":"f","input":{}}}]}`
	asked := make(chan struct{})
	n := 0
	p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		answer := hello
		switch n++; n {
		case 1:
			close(asked)
			<-r.Context().Done()
			return nil, r.Context().Err()
		case 2:
			answer = `{"output":{"message":` + turn + `},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
		}
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(answer)}), nil
	}), nil)
	ctx, giveUp := context.WithCancel(t.Context())
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = http.DefaultClient.Do(request(t, p.url+path, `{"messages":[`+question+`]}`, RunHeader, "one").WithContext(ctx)) // given up below
	}()
	<-asked
	post(t, p.url, path, `{"messages":[`+question+`]}`, RunHeader, "one")
	giveUp()
	<-gone
	for deadline := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
		if _, err := os.Stat(filepath.Join(p.dir, "run-002.yaml")); err == nil {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the call that was given up has no cassette of its own")
		}
	}
	post(t, p.url, path, `{"messages":[`+question+`,`+turn+`,{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"text":"x"}]}}]}]}`, RunHeader, "one")
	got := p.end()
	want := [][]string{{"run.started", "model.responded", "tool.called", "tool.returned", "model.responded", "run.finished"}, {"run.started", "model.failed", "run.finished"}}
	var types [][]string
	for _, path := range got.Recorded {
		types = append(types, typesOf(t, open(t, path)))
	}
	if d := cmp.Diff(want, types); d != "" || len(got.Troubles) > 0 {
		t.Errorf("troubles %v, events (-want +got):\n%s", got.Troubles, d)
	}
}

// TestGivenUpFailsFirst: the same, but the first call fails while the second is asked
// for. It was recorded with the next call of the run, and took the tool's result too.
func TestGivenUpFailsFirst(t *testing.T) {
	const path, question = "/model/m/converse", `{"role":"user","content":[{"text":"q"}]}`
	const turn = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"u","name":"f","input":{}}}]}`
	eachPlace(t, func(t *testing.T, durable bool) {
		asked, failed := map[string]chan struct{}{"first": make(chan struct{}), "second": make(chan struct{})}, make(chan struct{})
		p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
			answer := hello
			switch id := r.Header.Get("Amz-Sdk-Invocation-Id"); id {
			case "first":
				close(asked[id])
				<-asked["second"]
				return response(503, "ServiceUnavailableException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"slow"}`)}), nil
			case "second":
				close(asked[id])
				<-failed
				answer = `{"output":{"message":` + turn + `},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
			}
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(answer)}), nil
		}), func(o *RecordOptions) { o.Durable = durable })
		ask := func(id, messages string) int {
			resp, err := http.DefaultClient.Do(request(t, p.url+path, `{"messages":[`+messages+`]}`, "Amz-Sdk-Invocation-Id", id, RunHeader, "one"))
			if err != nil {
				t.Error(err)
				return 0
			}
			defer resp.Body.Close()
			_, _ = io.Copy(io.Discard, resp.Body) // its status says all
			return resp.StatusCode
		}
		go func() {
			defer close(failed)
			if code := ask("first", question); code != 503 {
				t.Errorf("the first: %d", code)
			}
		}()
		<-asked["first"]
		ask("second", question)
		ask("third", question+`,`+turn+`,{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"text":"x"}]}}]}`)
		recorded := p.end().Recorded
		want := []string{"run.started", "model.failed", "model.responded", "tool.called", "tool.returned", "model.responded", "run.finished"}
		if d := cmp.Diff(want, typesOf(t, open(t, recorded[0]))); d != "" || len(recorded) != 1 {
			t.Errorf("%v, events (-want +got):\n%s", recorded, d)
		}
	})
}

// TestAsksAgainAfterAFailure: the same request that is no attempt of a call that
// failed is a call of its own, and a replay answers it as that.
func TestAsksAgainAfterAFailure(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	type asked struct {
		after time.Duration
		count string // of retries, as the client says
		tag   string
		code  int
	}
	for name, c := range map[string]struct {
		recorded, replayed []asked
		runs, calls        int
	}{
		"attempts that are not counted": {[]asked{{code: 429}, {time.Second, "", "", 429}, {time.Second, "", "", 200}}, []asked{{code: 200}}, 1, 1},
		"much later": {[]asked{{code: 429}, {time.Second, "", "", 429}, {time.Hour, "", "", 200}},
			[]asked{{code: 429}, {time.Second, "", "", 429}, {time.Second, "", "", 200}}, 1, 2},
		"counted from the start": {[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}, {time.Second, "0", "", 200}},
			[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}, {time.Second, "0", "", 200}}, 1, 2},
		"by another run": {[]asked{{0, "0", "a", 429}, {time.Second, "1", "a", 429}, {time.Second, "0", "b", 200}},
			[]asked{{0, "0", "a", 429}, {time.Second, "1", "a", 429}, {time.Second, "0", "b", 200}}, 2, 2},
		"more often than recorded": {[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}},
			[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}, {time.Second, "0", "", 429}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[time.Time]
			began := time.Now()
			now.Store(&began)
			clock := func() time.Time { return *now.Load() }
			ask := func(url string, list []asked) {
				for i, a := range list {
					later := clock().Add(a.after)
					now.Store(&later)
					headers := []string{RunHeader, a.tag}
					if a.count != "" {
						headers = append(headers, "X-Stainless-Retry-Count", a.count)
					}
					if code, _, text := post(t, url, "/model/m/converse", body, headers...); code != a.code {
						t.Errorf("call %d: %d %s, expected %d", i+1, code, text, a.code)
					}
				}
			}
			calls := 0
			dir := t.TempDir()
			p := start(t, Options{Now: clock, Record: &RecordOptions{Spool: dir, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
				return recorder.Create(filepath.Join(dir, fmt.Sprint(n, ".yaml")), h)
			}}, Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
				if calls++; calls <= 2 {
					return response(429, "ThrottlingException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"slow down"}`)}), nil
				}
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
			})})
			ask(p.url, c.recorded)
			var tapes []*recorder.Cassette
			n := 0
			for _, path := range p.end().Recorded {
				tapes = append(tapes, open(t, path))
				n += tapes[len(tapes)-1].Len()
			}
			if len(tapes) != c.runs || n != c.calls {
				t.Errorf("%d calls of %d runs, expected %d of %d", n, len(tapes), c.calls, c.runs)
			}
			r := start(t, Options{Now: clock, Replay: tapes})
			ask(r.url, c.replayed)
			if got := r.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
				t.Errorf("replay: %+v", got)
			}
		})
	}
}
