package proxy

import (
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// followed gives steps to a follower that keeps so many runs open, and returns
// the cassettes.
func followed(t *testing.T, maxOpen int, steps ...step) []*recorder.Cassette {
	t.Helper()
	dir := t.TempDir()
	p, err := New(Options{
		Record: &RecordOptions{MaxOpen: maxOpen, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
			return recorder.Create(filepath.Join(dir, fmt.Sprint(n, ".yaml")), h)
		}},
		Upstream: RuleUpstream{}, NewRun: func() string { return "00" },
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range steps {
		if err := p.mode.(*recording).behind.backlog.push(s); err != nil {
			t.Fatal(err)
		}
	}
	r, err := p.Close()
	if err != nil {
		t.Fatal(err)
	}
	var out []*recorder.Cassette
	for _, path := range r.Recorded {
		c, err := recorder.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, c)
	}
	return out
}

func conversation(id int64, messages ...string) step {
	var list []string
	for i, m := range messages {
		list = append(list, fmt.Sprintf(`{"role":%q,"content":[{"text":%q}]}`, []string{"user", "assistant"}[i%2], m))
	}
	r, _ := foreign.ParseRoute("/model/m/converse")
	return step{call: id, began: &call{Asked: foreign.Asked{Route: r}, arrival: arrival{Path: r.Path, Invocation: fmt.Sprint(id), Attempt: 1, At: time.Now()}, raw: []byte(`{"messages":[` + strings.Join(list, ",") + `]}`)}}
}

func answered(id int64, text string) step {
	return step{call: id, ended: &attempt{Attempt: edge.Attempt{Code: 200, Header: map[string]string{"Content-Type": "application/json"},
		Body: fmt.Appendf(nil, `{"output":{"message":{"role":"assistant","content":[{"text":%q}]}},"stopReason":"end_turn","usage":{}}`, text)}, url: "https://x.invalid/model/m/converse"}}
}

// TestFollowsWhatHappened: a client may go on before the end of an answer was
// seen, since the last frame of a stream comes before the stream's end; and two
// conversations may begin alike.
func TestFollowsWhatHappened(t *testing.T) {
	for name, c := range map[string]struct {
		steps []step
		want  []int // interactions of each run
	}{
		"in order":           {[]step{conversation(1, "a"), answered(1, "b"), conversation(2, "a", "b", "c"), answered(2, "d")}, []int{2}},
		"before the end":     {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), answered(1, "b"), answered(2, "d")}, []int{2}},
		"another's branch":   {[]step{conversation(1, "a"), conversation(2, "a", "x", "c"), answered(2, "d"), answered(1, "b")}, []int{1, 1}},
		"two that wait":      {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), conversation(3, "a", "b", "c", "d", "e"), answered(1, "b"), answered(2, "d"), answered(3, "f")}, []int{3}},
		"never ended":        {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), answered(2, "d")}, []int{1, 1}},
		"two at once, alike": {[]step{conversation(1, "a"), conversation(2, "a"), answered(1, "b"), answered(2, "b")}, []int{1, 1}},
	} {
		t.Run(name, func(t *testing.T) {
			got := followed(t, 0, c.steps...)
			if len(got) != len(c.want) {
				t.Fatalf("%d runs, expected %d", len(got), len(c.want))
			}
			for i, run := range got {
				if run.Len() != c.want[i] {
					t.Errorf("run %d has %d interactions, expected %d", i+1, run.Len(), c.want[i])
				}
			}
		})
	}
}

// TestRunsThatWaitAreKept: where too many runs are open, one whose tools are at
// work is not the one that has to go.
func TestRunsThatWaitAreKept(t *testing.T) {
	asks := answered(1, "x")
	asks.ended.Body = []byte(`{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"u","name":"look","input":{}}}]}},"stopReason":"tool_use","usage":{}}`)
	steps := []step{conversation(1, "a"), asks}
	for id := range int64(8) {
		steps = append(steps, conversation(10+id, fmt.Sprint("another ", id)), answered(10+id, "b"))
	}
	goes := conversation(2, "a")
	goes.began.raw = []byte(`{"messages":[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"u","name":"look","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"text":"seen"}]}}]}]}`)
	got := followed(t, 3, append(steps, goes, answered(2, "c"))...)
	if len(got) != 9 || got[0].Len() != 3 {
		t.Errorf("%d runs, the first with %d interactions; expected 9 and 3", len(got), got[0].Len())
	}
}

// TestRest: the follower makes way while calls keep coming, and not for nothing.
func TestRest(t *testing.T) {
	for name, c := range map[string]struct {
		waiting int // steps
		coming  bool
		disk    int64
		want    time.Duration
	}{
		"calls keep coming":      {3, true, 1 << 20, 390 * time.Millisecond},
		"nobody asks any more":   {3, false, 1 << 20, 0},
		"nothing waits":          {0, true, 1 << 20, 0},
		"the room is nearly out": {3, true, 1, 0},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := &follower{backlog: newBacklog(1<<10, c.disk, nil), ending: make(chan struct{})}
				f.backlog.memory = max(c.disk, 1<<10)
				for n := range int64(c.waiting) {
					f.backlog.head = append(f.backlog.head, beganStep(n, "x"))
					f.backlog.bytes += 1 << 10
				}
				if f.backlog.pushed = 7; !c.coming {
					f.pushed = 7
				}
				began := time.Now()
				f.rest(10 * time.Millisecond)
				if got := time.Since(began); got != c.want {
					t.Errorf("rested for %v, expected %v", got, c.want)
				}
			})
		})
	}
}

// TestBurst: what comes much faster than it is written is recorded all the
// same, over memory and disk, and holds no secret there.
func TestBurst(t *testing.T) {
	const calls, clients = 600, 12
	p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
	}), nil)
	b := p.mode.(*recording).behind.backlog
	b.mu.Lock()
	b.memory = 1
	b.mu.Unlock()
	var spilled atomic.Int64
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			for n := range calls / clients {
				post(t, p.url, "/model/m/converse", fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":"call %d of %d"}]}]}`, n, i), RunHeader, fmt.Sprint("agent ", i))
				spilled.Store(max(spilled.Load(), b.pressure().bytes))
			}
		})
	}
	wg.Wait()
	got := p.end()
	total := 0
	for _, path := range got.Recorded {
		c := open(t, path)
		if !c.Sealed() {
			t.Errorf("%s is not sealed", path)
		}
		total += c.Len()
	}
	if total != calls || got.Calls != calls || len(got.Recorded) != clients {
		t.Errorf("%d calls in %d runs recorded of %d", total, len(got.Recorded), got.Calls)
	}
	if spilled.Load() < 8<<10 {
		t.Errorf("at most %d bytes waited: there was no burst", spilled.Load())
	}
	if names, err := filepath.Glob(filepath.Join(p.dir, ".*")); err != nil || len(names) > 0 {
		t.Errorf("%v is left over, %v", names, err)
	}
}

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
