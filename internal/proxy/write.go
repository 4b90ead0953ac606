package proxy

import (
	"errors"
	"fmt"
	"slices"

	"investigator/internal/edge"
	"investigator/internal/recorder"
)

// batch is returns of a run that are written at once.
type batch struct {
	list []recorder.Taken
	size int           // in bytes, about
	done chan struct{} // closed when they are on the disk, or never will be
	err  error         // why they never will be, once done is closed
}

// maxTries is in how many cassettes a durable call is tried: where one takes no
// more, its run goes on in another.
const maxTries = 2

// took takes the return of a call. It returns when the record waits to be
// written, or, if the run is durable, when it is on the disk. The error says
// that a durable call is on no cassette.
func (r *runs) took(u *run, c *call, ret edge.Return, retry bool) error {
	for try := 1; ; try++ {
		b, err := r.take(u, c, ret, retry)
		if err != nil || b == nil || !r.o.Durable {
			return err
		}
		<-b.done
		if b.err == nil || try == maxTries || r.o.Create == nil {
			return b.err
		}
	}
}

// take is took without waiting for the disk. The batch is nil if nothing is to
// be written yet. The error says that there is no run for the call.
func (r *runs) take(u *run, c *call, ret edge.Return, retry bool) (*batch, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if u.broken {
		var err error
		if u, err = r.instead(c); err != nil {
			return nil, err
		}
		retry = false
	}
	u.busy--
	if h := u.held; retry && h != nil && h.c.key == c.key { // it may be another call's, made at the same time
		ret.Wire.Attempts = slices.Concat(h.attempts, ret.Wire.Attempts)
		u.held = nil
	}
	var b *batch
	if ret.Failed && mayRetry(ret) {
		r.release(u) // of another call of the run, at the same time
		u.held = &held{c: c, attempts: ret.Wire.Attempts, ret: ret, at: c.ended(ret)}
	} else {
		b = r.project(u, c, ret)
	}
	r.changed.Broadcast()
	for r.bytes > maxQueued {
		r.changed.Wait()
	}
	return b, nil
}

// instead finds a run for a call whose own broke while it was under way.
func (r *runs) instead(c *call) (*run, error) {
	if r.o.Create == nil {
		return nil, errors.New("its cassette takes no more")
	}
	u, _, err := r.enterNow(c, true)
	if err != nil {
		r.lose(c, err)
	}
	return u, err
}

// lose tells of a call that is not recorded, and counts those after many.
func (r *runs) lose(c *call, err error) {
	if r.lost++; r.lost > maxTold {
		return
	}
	r.tell(clean(fmt.Sprintf("a run cannot be recorded, with a call of %s: %v", c.Path, err)))
}

func mayRetry(ret edge.Return) bool {
	f, err := edge.ParseFailure(ret.Body)
	return err == nil && retried(f)
}

// release records a failed call that was not tried again.
func (r *runs) release(u *run) {
	if h := u.held; h != nil {
		u.held = nil
		r.project(u, h.c, h.ret)
	}
}

// project derives the events of a call and queues them.
func (r *runs) project(u *run, c *call, ret edge.Return) *batch {
	next, answered := u.project.Results(c.Asked)
	var list []recorder.Taken
	for _, a := range answered {
		list = append(list, recorder.Taken(a.Taken))
	}
	next, taken := next.Answer(c.Request, ret)
	u.project, u.answer = next, ret.Body
	return r.enqueue(u, append(list, recorder.Taken(taken)), len(c.raw)+len(ret.Body))
}

// enqueue adds returns to the batch that is written next.
func (r *runs) enqueue(u *run, list []recorder.Taken, size int) *batch {
	if u.broken {
		return nil
	}
	if n := len(u.queue); n == 0 || len(u.queue[n-1].list) >= maxBatch {
		u.queue = append(u.queue, &batch{done: make(chan struct{})})
	}
	b := u.queue[len(u.queue)-1]
	b.list, b.size = append(b.list, list...), b.size+size
	r.bytes += size
	if !u.writing {
		u.writing = true
		go r.write(u)
	}
	return b
}

// write writes a run's queue until it is empty: what gathers while one write is
// on its way to the disk goes with the next.
func (r *runs) write(u *run) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(u.queue) > 0 {
		b := u.queue[0]
		u.queue = u.queue[1:]
		r.mu.Unlock()
		err := contained(func() error { return u.writer.TookAll(b.list) })
		r.mu.Lock()
		if err != nil {
			r.broke(u, err)
		}
		r.dismiss(b, err)
	}
	u.writing = false
	r.changed.Broadcast()
}

// dismiss lets go who waits for a batch that is on the disk, or is not because
// of err.
func (r *runs) dismiss(b *batch, err error) {
	b.err = err
	r.bytes -= b.size
	close(b.done)
	r.changed.Broadcast()
}

// broke gives a run up. Its next call begins another, if one can be made.
func (r *runs) broke(u *run, err error) {
	r.forget(u)
	r.stuck.Store(true)
	_ = u.writer.Close() // whole lines are on the disk
	for _, b := range u.queue {
		r.dismiss(b, err)
	}
	u.broken, u.queue = true, nil
	r.tell(fmt.Sprintf("%s is not recorded any further: %v", u.writer.Path(), err))
}

// tell tells of a trouble now and in the result. r.mu is held.
func (r *runs) tell(text string) {
	r.keep(text)
	r.p.o.Notify(Note{"trouble", text})
}

// note keeps what the result has to say.
func (r *runs) note(trouble string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.keep(trouble)
}

// keep is note with r.mu held. Of very many troubles it counts the later ones,
// and reports false.
func (r *runs) keep(trouble string) bool {
	if len(r.trouble) >= maxNoted {
		r.untold++
		return false
	}
	r.trouble = append(r.trouble, trouble)
	return true
}

// noteOnce keeps what the result has to say, if it was not said already and is
// not one of too many.
func (r *runs) noteOnce(trouble string) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if slices.Contains(r.trouble, trouble) {
		return false
	}
	return r.keep(trouble)
}
