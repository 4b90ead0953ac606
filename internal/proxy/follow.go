package proxy

import (
	"fmt"
	"sync/atomic"
	"time"

	"investigator/internal/edge"
)

// follower records what passes behind the traffic: it takes steps in the order
// in which they happened and finds their runs. While calls come faster than
// they are written it leaves the processors to the traffic, as long as the
// backlog has room.
type follower struct {
	p       *Proxy
	runs    *runs
	backlog *backlog
	open    map[int64]*following
	waiting []*following // for an answer that is under way, on which they may build
	hurry   bool         // the backlog is nearly full
	pushed  int64        // steps, when it was looked at
	ending  chan struct{}
	ended   chan struct{}
	refusal atomic.Pointer[string] // why nothing more can be recorded
}

// following is a call under way.
type following struct {
	c     *call
	run   *run // nil while it waits
	retry bool
}

const (
	maxSteps    = 64
	idleTimes   = 19 // rest for so many times as long as the work took: a twentieth of one processor
	maxRest     = 250 * time.Millisecond
	hurryAbove  = 0.75 // of the backlog's room
	hurryBelow  = 0.25
	tellBacklog = 4 << 20
)

func newFollower(p *Proxy, r *runs, b *backlog) *follower {
	f := &follower{p: p, runs: r, backlog: b, open: map[int64]*following{}, ending: make(chan struct{}), ended: make(chan struct{})}
	go f.follow()
	return f
}

func (f *follower) follow() {
	defer close(f.ended)
	for {
		began := time.Now()
		found, waited := f.batch()
		if !found {
			return
		}
		f.runs.settle()
		f.rest(time.Since(began) - waited)
	}
}

// batch takes some steps, and waits for the first.
func (f *follower) batch() (found bool, waited time.Duration) {
	began := time.Now()
	for n := range maxSteps {
		s, found, err := f.backlog.pop(n == 0)
		if n == 0 {
			waited = time.Since(began)
		}
		switch {
		case !found:
			return n > 0, waited
		case err != nil:
			f.trouble("calls that waited to be recorded are lost: " + err.Error())
		case s.began != nil:
			f.begin(s.call, s.began)
		default:
			f.end(s.call, *s.ended)
		}
	}
	return true, waited
}

// rest waits before the next batch while calls keep coming.
func (f *follower) rest(worked time.Duration) {
	now := f.backlog.pressure()
	coming := now.pushed > f.pushed
	f.pushed = now.pushed
	f.hurry = now.share > hurryAbove || f.hurry && now.share > hurryBelow
	if now.bytes == 0 || !coming || f.hurry {
		return
	}
	t := time.NewTimer(min(worked*idleTimes, maxRest))
	defer t.Stop()
	select {
	case <-t.C:
	case <-f.ending:
	}
}

func (f *follower) begin(id int64, c *call) {
	if err := c.read(); err != nil {
		f.trouble(fmt.Sprintf("a call of %s is not recorded: %v", c.Path, err))
		return
	}
	u := &following{c: c}
	f.open[id] = u
	if !f.enter(u, false) {
		f.waiting = append(f.waiting, u)
	}
}

// enter finds the run of a call, and reports whether it need not wait for it.
func (f *follower) enter(u *following, late bool) bool {
	var err error
	u.run, u.retry, err = f.runs.tryBegin(u.c, late)
	if err != nil {
		f.refuse(err)
	}
	return u.run != nil || err != nil
}

// end records a call. Those that waited may go on then.
func (f *follower) end(id int64, a attempt) {
	u := f.open[id]
	delete(f.open, id)
	if u == nil {
		return // it could not be read
	}
	if u.run == nil {
		f.enter(u, true)
	}
	if u.run != nil {
		earlier := f.runs.earlier(u.run, u.retry)
		f.runs.took(u.run, u.c, returnOf(u.c, earlier, a, f.p.origin()), u.retry)
	}
	still := f.waiting[:0]
	for _, w := range f.waiting {
		if w != u && w.run == nil && !f.enter(w, false) {
			still = append(still, w)
		}
	}
	clear(f.waiting[len(still):])
	f.waiting = still
}

// refuse notes that a run cannot be recorded, so that no further call is made
// that would leave no trace.
func (f *follower) refuse(err error) {
	text := "a run cannot be recorded: " + err.Error()
	if f.refusal.Swap(&text) == nil {
		f.trouble(text)
	}
}

func (f *follower) trouble(text string) {
	f.p.o.Notify(Note{"trouble", text})
	f.runs.note(text)
}

// close returns when all that waits is recorded.
func (f *follower) close() {
	if n := f.backlog.pressure().bytes; n > tellBacklog {
		f.p.o.Notify(Note{"recording", fmt.Sprintf("%d MB of calls are still to be written", n>>20)})
	}
	f.backlog.close()
	close(f.ending)
	<-f.ended
	for id := range f.open { // a handler that never came back
		f.end(id, attempt{Attempt: edge.Attempt{Err: brokeOff}})
	}
}
