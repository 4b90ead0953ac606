package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"

	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// TestNothingGoesUnrecorded: once a run cannot be recorded, calls are refused
// before they cost anything, and the end says so.
func TestNothingGoesUnrecorded(t *testing.T) {
	var asked atomic.Int64
	noted := make(chan struct{}, 16)
	p := start(t, Options{
		Record: &RecordOptions{Create: func(int, recorder.Header) (*recorder.Writer, error) { return nil, errors.New("the disk is full") }, Spool: t.TempDir()},
		Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
			asked.Add(1)
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		}),
		Notify: func(n Note) {
			if n.Kind == "trouble" {
				noted <- struct{}{}
			}
		},
	})
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	post(t, p.url, "/model/m/converse", body)
	<-noted
	if code, _, text := post(t, p.url, "/model/m/converse", body); code != 500 || !strings.Contains(text, "the disk is full") || asked.Load() != 1 {
		t.Errorf("%d %s after %d calls upstream", code, text, asked.Load())
	}
	p.stop()
	if _, err := p.Close(); err == nil || !strings.Contains(err.Error(), "the disk is full") {
		t.Errorf("the end says %v", err)
	}
}

// TestRecordsAgain: a run that could not be made keeps no other from being
// recorded, before or after.
func TestRecordsAgain(t *testing.T) {
	dir := t.TempDir()
	var full atomic.Bool
	p := start(t, Options{
		Record: &RecordOptions{Spool: dir, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
			if full.Load() {
				return nil, errors.New("the disk is full")
			}
			return recorder.Create(filepath.Join(dir, fmt.Sprint(n, ".yaml")), h)
		}},
		Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		}),
	})
	for _, c := range []struct {
		run  string
		full bool
		want int
	}{{"a", false, 200}, {"b", true, 200}, {"c", true, 500}, {"a", true, 200}, {"c", true, 500}, {"c", false, 200}, {"d", false, 200}} {
		full.Store(c.full)
		if code, _, text := post(t, p.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, RunHeader, c.run); code != c.want {
			t.Errorf("run %s, disk full %v: %d %s", c.run, c.full, code, text)
		}
		behind := p.mode.(*recording).behind
		for behind.backlog.drain(); c.run == "b" && !behind.runs.stuck.Load(); { // it was found out behind the traffic
			runtime.Gosched()
		}
	}
	p.stop()
	got, err := p.Close()
	if err == nil || len(got.Troubles) != 2 || got.Troubles[1] != "calls refused, because no run could be made for them: 2" || len(got.Recorded) != 3 {
		t.Fatalf("%q recorded, %q, %v", got.Recorded, got.Troubles, err)
	}
	for i, want := range []int{2, 1, 1} {
		if n := open(t, got.Recorded[i]).Len(); n != want {
			t.Errorf("run %d has %d interactions, expected %d", i+1, n, want)
		}
	}
}

// TestUpstreamPanics: a call that the upstream breaks off is recorded as such,
// and its run goes on.
func TestUpstreamPanics(t *testing.T) {
	for _, durable := range []bool{false, true} {
		t.Run(fmt.Sprintf("durable %t", durable), func(t *testing.T) {
			n := 0
			p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
				if n++; n == 1 {
					panic(http.ErrAbortHandler) // which net/http does not log
				}
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
			}), func(o *RecordOptions) { o.Durable = durable })
			const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
			r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, p.url+"/model/m/converse", strings.NewReader(body))
			if err != nil {
				t.Fatal(err)
			}
			r.GetBody = nil // one attempt
			if resp, err := http.DefaultClient.Do(r); err == nil {
				resp.Body.Close()
				t.Errorf("status %d of a call that broke off", resp.StatusCode)
			}
			post(t, p.url, "/model/m/converse", body)
			got := p.end()
			if len(got.Recorded) != 1 {
				t.Fatalf("%v, expected one run", got.Recorded)
			}
			c := open(t, got.Recorded[0])
			x, err := c.Interaction(0)
			if err != nil || len(x.Attempts) != 2 || x.Attempts[0].Err != brokeOff || x.Attempts[1].Code != 200 || !c.Sealed() {
				t.Errorf("%+v, sealed %t, %v", x.Attempts, c.Sealed(), err)
			}
		})
	}
}

// TestUnreadableIsTold: a call that only the upstream found to be no request is
// not recorded, and the end says which.
func TestUnreadableIsTold(t *testing.T) {
	p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
		return response(400, "ValidationException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"no"}`)}), nil
	}), nil)
	if code, _, _ := post(t, p.url, "/model/m/converse", `{"messages":{}}`); code != 400 {
		t.Errorf("status %d", code)
	}
	p.stop()
	if r, err := p.Close(); err == nil || len(r.Troubles) != 1 || !strings.Contains(r.Troubles[0], "/messages: expected an array") {
		t.Errorf("%q, %v", r.Troubles, err)
	}
}

// TestFaultsAreContained: a fault of our own that shows with one call costs that
// call, is told of, and ends neither the traffic nor other runs.
func TestFaultsAreContained(t *testing.T) {
	shelf := &shelf{dir: t.TempDir()}
	first := true
	p := start(t, Options{
		Record: &RecordOptions{Spool: shelf.dir, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
			if first {
				first = false
				panic("a fault")
			}
			return shelf.create(n, h)
		}},
		Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		}),
	})
	for _, run := range []string{"one", "two"} {
		if code, _, text := post(t, p.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, RunHeader, run); code != 200 {
			t.Errorf("run %s: %d %s", run, code, text)
		}
	}
	got, err := p.Close()
	if err == nil || !strings.Contains(err.Error(), errFault.Error()) || !strings.Contains(err.Error(), "a fault\n") {
		t.Errorf("error %v, expected it to tell of the fault", err)
	}
	if len(got.Recorded) != 1 || len(got.Troubles) != 1 {
		t.Fatalf("%d runs, %d troubles, expected one of each", len(got.Recorded), len(got.Troubles))
	}
	if c := open(t, got.Recorded[0]); !c.Sealed() || c.Len() != 1 {
		t.Errorf("the other run: %d interactions, sealed %t", c.Len(), c.Sealed())
	}
}

// TestStatusThatAnswersNothing: an upstream that switches protocols or gives a
// status that is none is a failure like one that cannot be reached.
func TestStatusThatAnswersNothing(t *testing.T) {
	for _, status := range []int{99, 101, 150} {
		eachPlace(t, func(t *testing.T, durable bool) {
			p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
				r := response(status, "", foreign.Encoded{})
				r.ContentLength = -1
				return r, nil
			}), func(o *RecordOptions) { o.Durable = durable })
			code, _, text := post(t, p.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`)
			if want := fmt.Sprintf("status %d answers no call", status); code != 503 || !strings.Contains(text, want) {
				t.Errorf("%d %s, expected 503 and %q", code, text, want)
			}
			c := open(t, p.end().Recorded[0])
			if e, err := c.Event(2); err != nil || e.Type != ledger.ModelFailed {
				t.Errorf("event 2 is %s, error %v", e.Type, err)
			}
		})
	}
}
