package proxy

import (
	"fmt"
	"net/http"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
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
		"in order":            {[]step{conversation(1, "a"), answered(1, "b"), conversation(2, "a", "b", "c"), answered(2, "d")}, []int{2}},
		"before the end":      {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), answered(1, "b"), answered(2, "d")}, []int{2}},
		"another's branch":    {[]step{conversation(1, "a"), conversation(2, "a", "x", "c"), answered(2, "d"), answered(1, "b")}, []int{1, 1}},
		"two that wait":       {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), conversation(3, "a", "b", "c", "d", "e"), answered(1, "b"), answered(2, "d"), answered(3, "f")}, []int{3}},
		"never ended":         {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), answered(2, "d")}, []int{1, 1}},
		"long before the end": {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), conversation(3, "a", "b", "c", "d", "e"), answered(3, "f"), answered(2, "d"), answered(1, "b")}, []int{3}},
		"the end took long":   {[]step{conversation(1, "a"), conversation(2, "a", "b", "c"), answered(2, "d"), {call: 2}, answered(1, "b")}, []int{1, 1}},
		"two at once, alike":  {[]step{conversation(1, "a"), conversation(2, "a"), answered(1, "b"), answered(2, "b")}, []int{1, 1}},
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

// TestRunsThatBeginAlike: of several that asked the same, a conversation goes on
// in the run whose answer it holds, though others are idle or at work.
func TestRunsThatBeginAlike(t *testing.T) {
	begin := []step{conversation(1, "a"), conversation(2, "a"), conversation(3, "a"), answered(1, "b1"), answered(2, "b2")}
	for name, c := range map[string]struct {
		steps []step
		want  []string // the last answer of each run
	}{
		"idle":       {[]step{answered(3, "b3"), conversation(4, "a", "b2", "c"), answered(4, "d2"), conversation(5, "a", "b1", "c"), answered(5, "d1")}, []string{"d1", "d2", "b3"}},
		"at work":    {[]step{conversation(4, "a", "b2", "c"), answered(4, "d2"), answered(3, "b3")}, []string{"b1", "d2", "b3"}},
		"to come":    {[]step{conversation(4, "a", "b3", "c"), answered(3, "b3"), answered(4, "d3")}, []string{"b1", "b2", "d3"}},
		"from none":  {[]step{answered(3, "b3"), conversation(4, "a", "edited", "c"), answered(4, "d1")}, []string{"d1", "b2", "b3"}},
		"in doubt":   {[]step{conversation(4, "a", "edited", "c"), answered(3, "b3"), answered(4, "d1")}, []string{"d1", "b2", "b3"}},
		"other form": {[]step{answered(3, "b3"), plainly(conversation(4, "a", "b2", "c")), answered(4, "d2")}, []string{"b1", "d2", "b3"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, run := range followed(t, 0, append(slices.Clone(begin), c.steps...)...) {
				events, err := run.Events()
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, textOf(ledger.Member(ledger.Member(events[len(events)-2].Data, "output"), "message")))
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Errorf("last answers (-want +got):\n%s", d)
			}
		})
	}
}

// plainly is a conversation whose assistant speaks as in OpenAI's dialect.
func plainly(s step) step {
	s.began.raw = regexp.MustCompile(`"assistant","content":\[\{"text":("\w+")\}\]`).ReplaceAll(s.began.raw, []byte(`"assistant","content":$1`))
	return s
}

// TestAttemptsAtOnce: failures of calls that are under way at the same time in
// one run are all recorded.
func TestAttemptsAtOnce(t *testing.T) {
	named := func(s step) step { s.began.Tag = "t"; return s }
	again := func(s step, attempt int) step { s.began.Attempt, s.began.Invocation = attempt, "1"; return s }
	slow := func(id int64) step {
		return step{call: id, ended: &attempt{Attempt: edge.Attempt{Code: 429, Header: map[string]string{"X-Amzn-Errortype": fmt.Sprint("Slow", id)}}, url: "https://x.invalid/model/m/converse"}}
	}
	for name, c := range map[string]struct {
		steps []step
		want  []string
		calls int
	}{
		"two calls of a run":     {[]step{named(conversation(1, "a")), named(conversation(2, "b")), slow(1), slow(2), named(conversation(3, "c")), answered(3, "x")}, []string{"Slow1", "Slow2", `"x"`}, 3},
		"another call's failure": {[]step{named(conversation(1, "a")), named(conversation(2, "b")), slow(2), slow(1), named(conversation(2, "b")), answered(2, "x")}, []string{"Slow2", `"x"`, "Slow1"}, 3},
		"attempts that cross":    {[]step{again(conversation(1, "a"), 1), again(conversation(2, "a"), 2), slow(2), slow(1), again(conversation(3, "a"), 3), answered(3, "x")}, []string{"Slow2", "Slow1", `"x"`}, 2},
		"in order":               {[]step{again(conversation(1, "a"), 1), again(conversation(2, "a"), 2), slow(1), slow(2), again(conversation(3, "a"), 3), answered(3, "x")}, []string{"Slow1", "Slow2", `"x"`}, 1},
	} {
		t.Run(name, func(t *testing.T) {
			for _, s := range c.steps {
				if s.ended != nil {
					s.ended.url = "https://example.com/model/m/converse"
				}
			}
			got := followed(t, 0, c.steps...)
			if len(got) != 1 || got[0].Len() != c.calls {
				t.Fatalf("%d runs, the first of %d calls; expected one of %d", len(got), got[0].Len(), c.calls)
			}
			var all string
			for i := range got[0].Len() {
				x, err := got[0].Interaction(i)
				if err != nil {
					t.Fatal(err)
				}
				for _, a := range x.Attempts {
					all += fmt.Sprintf("%s %s\n", a.Header["X-Amzn-Errortype"], a.Body)
				}
			}
			rest := all
			for _, w := range c.want {
				_, after, found := strings.Cut(rest, w)
				if rest = after; !found {
					t.Errorf("no %s in its place in:\n%s", w, all)
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

// TestManyRunsWait: more runs than are kept open are kept while their tools are at
// work, up to four times as many.
func TestManyRunsWait(t *testing.T) {
	for agents, whole := range map[int]bool{8: true, 60: false} {
		var asks, goOn []step
		for i := range int64(agents) {
			ask := answered(i, "x")
			ask.ended.Body = fmt.Appendf(nil, `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"u%d","name":"look","input":{}}}]}},"stopReason":"tool_use","usage":{}}`, i)
			asks = append(asks, conversation(i, fmt.Sprint("a ", i)), ask)
			more := conversation(100+i, "a")
			more.began.raw = fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"text":"a %d"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"u%d","name":"look","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"u%d","content":[{"text":"seen"}]}}]}]}`, i, i, i)
			goOn = append(goOn, more, answered(100+i, "done"))
		}
		if got := followed(t, 2, append(asks, goOn...)...); (len(got) == agents) != whole {
			t.Errorf("%d agents: %d cassettes, each whole: expected %t", agents, len(got), whole)
		}
	}
}

// TestRunsThatFailedMakeRoom: a run whose call failed and was not tried again
// takes nobody's place for good.
func TestRunsThatFailedMakeRoom(t *testing.T) {
	dir := t.TempDir()
	p, err := New(Options{
		Record: &RecordOptions{Durable: true, MaxOpen: 3, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
			return recorder.Create(filepath.Join(dir, fmt.Sprint(n, ".yaml")), h)
		}},
		Upstream: RuleUpstream{}, NewRun: func() string { return "00" },
	})
	if err != nil {
		t.Fatal(err)
	}
	call := func(began, ended step) {
		t.Helper()
		runs := p.mode.(*recording).runs
		if err := began.began.read(); err != nil {
			t.Fatal(err)
		}
		u, retry, err := runs.begin(t.Context(), began.began)
		if err != nil {
			t.Fatal(err)
		}
		if err := runs.took(u, began.began, returnOf(began.began, *ended.ended, edge.Live), retry); err != nil {
			t.Fatal(err)
		}
	}
	for id := range int64(9) {
		fails := answered(20+id, "")
		fails.ended.Code, fails.ended.Body = 503, []byte(`{"message":"down"}`)
		call(conversation(20+id, fmt.Sprint("in vain ", id)), fails)
	}
	asks := answered(1, "x")
	asks.ended.Body = []byte(`{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"u","name":"look","input":{}}}]}},"stopReason":"tool_use","usage":{}}`)
	call(conversation(1, "a"), asks)
	for id := range int64(4) {
		call(conversation(10+id, fmt.Sprint("another ", id)), answered(10+id, "b"))
	}
	goes := conversation(2, "a")
	goes.began.raw = []byte(`{"messages":[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"toolUse":{"toolUseId":"u","name":"look","input":{}}}]},{"role":"user","content":[{"toolResult":{"toolUseId":"u","content":[{"text":"seen"}]}}]}]}`)
	call(goes, answered(2, "c"))
	r, err := p.Close()
	if err != nil || len(r.Recorded) != 14 {
		t.Fatalf("%d runs, %v; expected 14", len(r.Recorded), err)
	}
	for i, path := range r.Recorded {
		if c := open(t, path); !c.Sealed() || i == 9 && c.Len() != 3 {
			t.Errorf("%s: %d interactions, sealed %t", path, c.Len(), c.Sealed())
		}
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
