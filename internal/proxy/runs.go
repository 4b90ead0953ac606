package proxy

import (
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// run is one agent's run being recorded. Its fields are guarded by runs.mu.
type run struct {
	n          int
	tag        string
	writer     *recorder.Writer
	project    foreign.Projector
	sum        ledger.Sum      // over the conversation of the last request
	key        ledger.Sum      // of the last request
	length     int             // messages in it
	answer     json.RawMessage // the last
	busy       int             // calls under way
	held       *held           // a failed call that may be tried again
	invocation string          // of the last call, "" if its client sends none
	place      *list.Element   // in runs.open, by use

	queue   []*batch // to be written, but for the one that is
	writing bool
	broken  bool // nothing more can be written
}

// held is a failed call, kept back because the next attempt belongs to it.
type held struct {
	c        *call
	attempts []edge.Attempt
	ret      edge.Return
	at       time.Time
}

// runs tells the runs of the traffic apart and writes them.
type runs struct {
	p       *Proxy
	o       RecordOptions
	mu      sync.Mutex
	changed *sync.Cond // a call ended, or a queue was written
	byTag   map[string]*run
	bySum   map[ledger.Sum][]*run
	byKey   map[ledger.Sum][]*run
	open    *list.List // of *run, the longest idle first
	made    int
	names   []string
	trouble []string
	untold  int         // troubles beyond maxNoted
	bytes   int         // queued in all
	lost    int         // calls that could not be recorded
	stuck   atomic.Bool // the last run could not be made
}

const (
	maxOpenRuns = 256
	maxWaits    = 4 // so many times as many runs may wait for results of tools
	maxQueued   = 16 << 20
	maxNames    = 10_000
	maxBatch    = 64 // returns written at once
	maxTold     = 20 // calls that could not be recorded
	maxNoted    = 100
)

func newRuns(p *Proxy, o RecordOptions) *runs {
	if o.MaxOpen <= 0 {
		o.MaxOpen = maxOpenRuns
	}
	r := &runs{p: p, o: o, byTag: map[string]*run{}, bySum: map[ledger.Sum][]*run{}, byKey: map[ledger.Sum][]*run{}, open: list.New()}
	r.changed = sync.NewCond(&r.mu)
	return r
}

// begin finds the run of a call, or makes it, and marks the call as under way.
// retry says that it is another attempt of the run's last call. A call that may
// build on an answer under way waits for it, but not for ever.
func (r *runs) begin(ctx context.Context, c *call) (u *run, retry bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, maxWaiting)
	defer cancel()
	stop := context.AfterFunc(ctx, r.wake) // where no other call ends meanwhile
	defer stop()
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		u, retry, err = r.enterNow(c, ctx.Err() != nil)
		if u != nil || err != nil {
			return u, retry, err
		}
		r.changed.Wait()
	}
}

// tryBegin is begin without waiting: the run is nil when the call may build on
// an answer under way, unless it is too late for that.
func (r *runs) tryBegin(c *call, late bool) (u *run, retry bool, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.enterNow(c, late)
}

// enterNow is tryBegin; r.mu is held.
func (r *runs) enterNow(c *call, late bool) (u *run, retry bool, err error) {
	u, retry, wait := r.find(c)
	if wait && !late && (u == nil || !r.o.Durable) {
		return nil, false, nil
	}
	if u == nil {
		if u, err = r.make(c); err != nil {
			return nil, false, err
		}
	}
	if !retry {
		r.release(u)
	}
	r.enter(u, c)
	return u, retry, nil
}

// settle returns when nothing is left to be written.
func (r *runs) settle() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.bytes > 0 {
		r.changed.Wait()
	}
}

func (r *runs) wake() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.changed.Broadcast()
}

// find looks for the run of a call. wait says that it may build on an answer
// which is still under way, and then u is the run to take when that does not
// come. r.mu is held.
func (r *runs) find(c *call) (u *run, retry, wait bool) {
	for _, u := range r.byKey[c.key] {
		if u.tag == c.Tag && u.retriedBy(c) {
			return u, true, false
		}
	}
	if c.Tag != "" {
		return r.byTag[c.Tag], false, false
	}
	if !sideCall(c.Route.Op) {
		u, wait = r.extended(c)
	}
	if u == nil && !wait {
		u = r.asksAgain(c)
	}
	return u, false, wait
}

// retriedBy reports whether c is another attempt of the run's last call.
func (u *run) retriedBy(c *call) bool {
	switch {
	case c.Invocation != "" && c.Invocation == u.invocation:
		return true
	case u.held == nil || u.busy > 0:
		return false
	}
	return c.Attempt > 1 || c.mayRetry(u.held.at)
}

// extended finds the run whose last request c's conversation begins with. Where
// several began alike, it is the one whose answer c goes on from; an agent that
// edits its history may go on from none.
func (r *runs) extended(c *call) (u *run, wait bool) {
	for k := len(c.sums) - 1; k > 0; k-- {
		list := r.bySum[c.sums[k-1]]
		sure := len(list) == 1 && !c.over
		owed := false
		for _, v := range list {
			answers := v.project.WaitsFor(c.results)
			switch {
			case v.tag != "" || sideRun(v):
			case v.busy > 0:
				wait = true
			case len(c.results) > 0 && v.project.Waits() && !answers:
			case sure || v.said(c, k):
				return v, false
			case answers && !owed:
				u, owed = v, true
			case u == nil && !c.over:
				u = v
			}
		}
		if u != nil || wait {
			return u, wait && !owed
		}
	}
	if len(c.results) == 0 {
		return nil, false
	}
	for e := r.open.Back(); e != nil; e = e.Prev() { // the history was edited; its calls still have their ids
		if u := e.Value.(*run); u.tag == "" && u.busy == 0 && u.project.WaitsFor(c.results) {
			return u, false
		}
	}
	return nil, false
}

// said reports whether message k of c's conversation is the run's last answer,
// going by its text, which every dialect has and clients send back as it was.
func (u *run) said(c *call, k int) bool {
	t := c.Request.Messages
	for t.Len() > k+1 {
		t = t.Parent()
	}
	text := textOf(t.Last())
	return text != "" && text == textOf(ledger.Member(ledger.Member(u.answer, "output"), "message"))
}

// textOf is the text of a message in any dialect.
func textOf(message json.RawMessage) string {
	var text string
	content := ledger.Member(message, "content")
	if json.Unmarshal(content, &text) == nil {
		return text
	}
	for _, block := range ledger.Elements(content) {
		var part string
		_ = json.Unmarshal(ledger.Member(block, "text"), &part) // a block of another kind has none
		text += part
	}
	return text
}

// asksAgain finds the run whose last request was the same and whose agent is
// not in the middle of something: it polls.
func (r *runs) asksAgain(c *call) *run {
	if sideCall(c.Route.Op) {
		for e := r.open.Back(); e != nil; e = e.Prev() {
			if u := e.Value.(*run); u.tag == "" && sideRun(u) {
				return u
			}
		}
		return nil
	}
	for _, u := range r.byKey[c.key] {
		if u.tag == "" && u.busy == 0 && !u.project.Waits() {
			return u
		}
	}
	return nil
}

// sideCall reports whether an operation is no model turn. Such calls have a run
// of their own: they may stand between a tool call and its result.
func sideCall(op foreign.Op) bool {
	return op == foreign.OpCountTokens || op == foreign.OpApplyGuardrail
}

func sideRun(u *run) bool { return u.length < 0 }

// make creates the cassette of a new run. r.mu is held.
func (r *runs) make(c *call) (*run, error) {
	h, err := foreignHeader(r.p.o, c)
	if err != nil {
		return nil, err
	}
	w, err := r.create(h)
	if r.stuck.Store(err != nil); err != nil {
		return nil, err
	}
	r.made++
	if len(r.names) < maxNames {
		r.names = append(r.names, w.Path())
	}
	return r.adopt(w, c.Tag, foreign.Projector{}), nil
}

// create makes a cassette. Where too many files are open it ends half of the runs,
// since connections are files too.
func (r *runs) create(h recorder.Header) (*recorder.Writer, error) {
	w, err := r.o.Create(r.made+1, h)
	if !errors.Is(err, syscall.EMFILE) && !errors.Is(err, syscall.ENFILE) {
		return w, err
	}
	for range (r.open.Len() + 1) / 2 {
		if u := r.idle(true); u != nil {
			r.end(u)
		}
	}
	return r.o.Create(r.made+1, h)
}

func (r *runs) adopt(w *recorder.Writer, tag string, p foreign.Projector) *run {
	u := &run{n: r.made, tag: tag, writer: w, project: p}
	u.place = r.open.PushBack(u)
	if tag != "" {
		r.byTag[tag] = u
	}
	r.makeRoom()
	return u
}

func foreignHeader(o Options, c *call) (recorder.Header, error) {
	start, err := foreign.Start(c.Asked)
	if err != nil {
		return recorder.Header{}, err
	}
	who, err := ledger.CanonValue(recorder.Foreign{Client: clean(c.Client), Tag: clean(c.Tag)})
	if err != nil {
		return recorder.Header{}, err
	}
	return recorder.Header{
		Tool: o.Tool, Run: o.NewRun(), Started: o.Now().UTC().Format(time.RFC3339), Start: start,
		Extra: map[string]json.RawMessage{recorder.ForeignMember: who},
	}, nil
}

func (r *runs) enter(u *run, c *call) {
	forget(r.bySum, u.sum, u)
	forget(r.byKey, u.key, u)
	u.sum, u.key, u.length = c.last(), c.key, len(c.sums)
	if sideCall(c.Route.Op) {
		u.length = -1
	}
	u.invocation = c.Invocation
	r.bySum[u.sum] = append(r.bySum[u.sum], u)
	r.byKey[u.key] = append(r.byKey[u.key], u)
	u.busy++
	r.open.MoveToBack(u.place)
}

func forget(m map[ledger.Sum][]*run, key ledger.Sum, u *run) {
	list := m[key]
	for i, v := range list {
		if v == u {
			list = append(list[:i:i], list[i+1:]...)
			break
		}
	}
	if len(list) == 0 {
		delete(m, key)
		return
	}
	m[key] = list
}
