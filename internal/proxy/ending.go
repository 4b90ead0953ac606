package proxy

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"investigator/internal/edge"
	"investigator/internal/recorder"
)

// makeRoom seals the run that was idle for the longest time where too many are
// open. One whose agent will go on is given up where even more are.
func (r *runs) makeRoom() {
	for r.open.Len() > r.o.MaxOpen {
		u := r.idle(r.open.Len() > maxWaits*r.o.MaxOpen)
		if u == nil {
			return
		}
		r.end(u)
	}
}

// idle is the run that was idle for the longest time and can be ended. One that
// waits for results of tools is taken only where it has to be and no other run
// will ever do (one that is still being written will in a moment), unless its
// last call failed and was not tried again.
func (r *runs) idle(must bool) *run {
	var waits *run
	soon := false
	for e := r.open.Front(); e != nil; e = e.Next() {
		u := e.Value.(*run)
		written := len(u.queue) == 0 && !u.writing
		switch {
		case u.busy > 0 || u.project.Turn() == 0 && u.held == nil:
		case u.project.Waits() && u.held == nil:
			if waits == nil && written {
				waits = u
			}
		case written:
			return u
		default:
			soon = true
		}
	}
	if soon || !must {
		return nil
	}
	return waits
}

// end forgets a run and seals it. It is forgotten before it is waited for, so
// that no call enters it meanwhile.
func (r *runs) end(u *run) {
	r.forget(u)
	r.release(u)
	for len(u.queue) > 0 || u.writing {
		r.changed.Wait()
	}
	if !u.broken && missing(u.writer) {
		r.tell(u.writer.Path() + " was moved or removed by somebody else while it was recorded")
	}
	if finished, ends := u.project.Finished(); ends && !u.broken {
		if err := u.writer.Finish(finished); err != nil {
			r.broke(u, err)
		}
	}
	_ = u.writer.Close() // every line is on the disk already
	u.broken = true
}

func (r *runs) forget(u *run) {
	r.open.Remove(u.place)
	forget(r.bySum, u.sum, u)
	forget(r.byKey, u.key, u)
	if r.byTag[u.tag] == u {
		delete(r.byTag, u.tag)
	}
}

// close ends all runs.
func (r *runs) close(out *Result) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	for r.open.Len() > 0 {
		r.end(r.open.Front().Value.(*run))
	}
	if n := r.lost - maxTold; n > 0 {
		r.trouble = append(r.trouble, fmt.Sprintf("%d more calls are not recorded", n))
	}
	if r.untold > 0 {
		r.trouble = append(r.trouble, fmt.Sprintf("%d more troubles", r.untold))
	}
	out.Recorded, out.Troubles = r.names, r.trouble
	return troubled(r.trouble)
}

// troubled is the error of a proxy that had troubles, all of which its result
// holds; nil where it had none.
func troubled(list []string) error {
	switch n := len(list); n {
	case 0:
		return nil
	case 1:
		return errors.New(list[0])
	default:
		return fmt.Errorf("%s (and %d more)", list[0], n-1)
	}
}

// missing reports whether a cassette is not where it was made any more.
func missing(w *recorder.Writer) bool {
	_, err := os.Lstat(w.Path())
	return w.Path() != "" && errors.Is(err, fs.ErrNotExist)
}

// apart records a failure that came when its run had another answer already and
// its tools were at work: a call that its client gave up for a second one, say,
// and that was seen to end after that. In the run it would stand between calls of
// tools and their results. It gets a cassette of its own.
func (r *runs) apart(c *call, ret edge.Return) {
	if r.o.Create == nil {
		r.tell("a call failed when the run had gone on, and is on no cassette: " + clean(c.Path))
		return
	}
	u, err := r.makeAs(c, "")
	if err != nil {
		r.lose(c, err)
		return
	}
	r.project(u, c, ret)
	r.end(u)
}
