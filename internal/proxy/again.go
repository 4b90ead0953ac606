package proxy

import (
	"slices"
	"time"

	"investigator/internal/edge"
)

// inOrder adds a call behind those of its tape that were asked for before it. One
// whose client gave up and asked again may have ended behind the second.
func inOrder(list []*taped, call *taped) []*taped {
	at := len(list)
	for at > 0 && list[at-1].tape == call.tape && before(call.began, list[at-1].began) {
		at--
	}
	return slices.Insert(list, at, call)
}

// before compares two times as they are recorded. One that is not known is before
// none.
func before(a, b string) bool {
	x, err := time.Parse(time.RFC3339Nano, a)
	if err != nil {
		return false
	}
	y, err := time.Parse(time.RFC3339Nano, b)
	return err == nil && x.Before(y)
}

// retried finds the call that c is another attempt of: it gets the same answer. A
// failure that was given as often as it was recorded is over where another call
// waits for the request: an attempt that was given up may have been seen to fail
// behind the next, which is then a call of its own. Where nothing waits, a client
// that says nothing of attempts tries a failed call again, too.
func (m *replaying) retried(c *call) *taped {
	last := m.lastGiven(c)
	if last == nil {
		return nil
	}
	again := c.Invocation != "" || c.Attempt > 1
	switch {
	case !m.failed(last):
	case !m.unasked(c):
		again = true
	case last.given >= last.tries:
		again = false
	case c.Attempt == 0:
		again = true
	}
	if !again {
		return nil
	}
	return last
}

// lastGiven is the call whose answer c's client got last, nil if there is none.
func (m *replaying) lastGiven(c *call) (last *taped) {
	if c.Invocation != "" {
		if last = m.byCall[c.Invocation]; last != nil && last.key == c.key {
			return last
		}
		return nil
	}
	for _, t := range m.byKey[c.key] {
		if t.used && !t.hidden {
			last = t
		}
	}
	return last
}

// unasked reports whether a recorded call of c's meaning was not asked for yet.
func (m *replaying) unasked(c *call) bool {
	return slices.ContainsFunc(m.byKey[c.key], func(t *taped) bool { return !t.used })
}

// failed reports whether the recorded answer is one that clients try again.
func (m *replaying) failed(t *taped) bool {
	if !t.fails {
		return false
	}
	e, err := t.tape.c.Event(t.seq)
	if err != nil {
		return false
	}
	f, err := edge.ParseFailure(e.Data)
	return err == nil && retried(f)
}
