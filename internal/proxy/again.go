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

// retried finds the call that c is another attempt of: it gets the same answer.
// Where the client does not count, so many attempts of a failed call are one as
// were recorded; where nothing else waits for the request, all of them are.
func (m *replaying) retried(c *call) *taped {
	if c.Invocation != "" {
		if t := m.byCall[c.Invocation]; t != nil && t.key == c.key {
			return t
		}
		return nil
	}
	var last *taped
	more := false
	for _, t := range m.byKey[c.key] {
		if more = more || !t.used; t.used && !t.hidden {
			last = t
		}
	}
	if last != nil && (c.Attempt > 1 || m.failed(last) && (!more || c.Attempt == 0 && last.given < last.tries)) {
		return last
	}
	return nil
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
