package proxy

import (
	"errors"
	"fmt"
	"maps"
	"runtime/debug"
	"slices"
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
}

// following is a call under way.
type following struct {
	id    int64
	c     *call
	run   *run // nil while it waits
	retry bool
	ended *attempt // while it waits and is over
	err   error    // why there is no run
}

const (
	maxSteps    = 64
	idleTimes   = 39 // rest for so many times as long as the work took: a fortieth of one processor
	maxRest     = 500 * time.Millisecond
	hurryAbove  = 0.75 // of the backlog's room
	hurryBelow  = 0.25
	maxTail     = time.Second // between the last frame of a stream and its end
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
		default:
			f.step(s)
		}
	}
	return true, waited
}

// step takes a step. A fault of this program that shows with one call must not
// end the traffic of others.
func (f *follower) step(s step) {
	err := contained(func() error {
		switch {
		case s.began != nil:
			f.begin(s.call, s.began)
		case s.ended != nil:
			f.end(s.call, *s.ended)
		default:
			f.giveUp(s.call)
		}
		return nil
	})
	if err != nil {
		f.waiting = slices.DeleteFunc(f.waiting, func(w *following) bool { return w.id == s.call })
		delete(f.open, s.call)
		f.trouble("a call is not recorded: " + err.Error())
	}
}

// contained turns a panic into an error.
func contained(do func() error) (err error) {
	defer func() {
		if fault := recover(); fault != nil {
			err = fmt.Errorf("%w: %v\n%s", errFault, fault, debug.Stack())
		}
	}()
	return do()
}

var errFault = errors.New("a fault of investigator, please report it")

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
	u := &following{id: id, c: c}
	f.open[id] = u
	if !f.enter(u, false) {
		f.waiting = append(f.waiting, u)
	}
}

// enter finds the run of a call, and reports whether it need not wait for it.
// There may be none: then it is tried again when the call ends.
func (f *follower) enter(u *following, late bool) bool {
	u.run, u.retry, u.err = f.runs.tryBegin(u.c, late)
	return u.run != nil || u.err != nil
}

// end records a call. One whose run is not known yet is recorded with the end
// of the answer that it builds on, or after a while.
func (f *follower) end(id int64, a attempt) {
	u := f.open[id]
	switch {
	case u == nil: // it could not be read
	case u.run == nil && slices.Contains(f.waiting, u):
		u.ended, u.c.over = &a, true
		time.AfterFunc(maxTail, func() { _ = f.backlog.push(step{call: id}) }) // a full disk is told of by others
	default:
		delete(f.open, id)
		if u.run == nil {
			f.enter(u, true)
		}
		f.took(u, a)
		f.goOn()
	}
}

func (f *follower) took(u *following, a attempt) {
	if u.run == nil {
		f.runs.mu.Lock()
		defer f.runs.mu.Unlock()
		f.runs.lose(u.c, u.err)
		return
	}
	_ = f.runs.took(u.run, u.c, returnOf(u.c, a, f.p.origin()), u.retry) // a call for which there is no run is lost, and was told of
}

// goOn lets calls find their runs that waited for an answer.
func (f *follower) goOn() {
	for again := true; again; {
		again = false
		for _, u := range slices.Clone(f.waiting) {
			if f.enter(u, false) {
				again = f.found(u) || again
			}
		}
	}
}

// found takes a call off those that wait, and records it if it is over.
func (f *follower) found(u *following) (over bool) {
	f.waiting = slices.DeleteFunc(f.waiting, func(w *following) bool { return w == u })
	if u.ended == nil {
		return false
	}
	delete(f.open, u.id)
	f.took(u, *u.ended)
	return true
}

// giveUp makes a run of its own for a call that is over and has waited long
// enough for another's end.
func (f *follower) giveUp(id int64) {
	if u := f.open[id]; u != nil && u.ended != nil {
		f.enter(u, true)
		f.found(u)
		f.goOn()
	}
}

func (f *follower) trouble(text string) {
	text = clean(text)
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
	for _, id := range slices.Sorted(maps.Keys(f.open)) {
		if u := f.open[id]; u != nil && u.ended == nil { // a handler that never came back
			f.end(id, attempt{Attempt: edge.Attempt{Err: brokeOff}, url: f.p.o.Upstream.Place(u.c.Path)})
		}
		f.giveUp(id)
	}
}
