package proxy

import (
	"slices"
	"sync"
)

// memory is where a call's texts stand: its body as it came, and its canonical
// form. Calls that are answered from a cassette leave nothing of them behind,
// so the next call gets it, which is then still in the processor's cache.
type memory struct{ raw, canon []byte }

// maxLent is how much memory is kept of one call.
const maxLent = 1 << 20

// lender hands memory from call to call. A nil lender keeps none: what it lends
// is the call's for ever.
type lender struct {
	pool sync.Pool
	gone func(*memory) // told what is given back; tests scribble over it
}

// lend returns memory for a body of about so many bytes.
func (l *lender) lend(size int) *memory {
	if l != nil {
		if m, found := l.pool.Get().(*memory); found {
			m.raw = slices.Grow(m.raw[:0], size)
			return m
		}
	}
	return &memory{raw: make([]byte, 0, size)}
}

// giveBack takes the memory of a call of which nobody holds a part any more. A
// call that is not given back keeps its own.
func (l *lender) giveBack(m *memory) {
	if l == nil || cap(m.raw)+cap(m.canon) > maxLent {
		return
	}
	if l.gone != nil {
		l.gone(m)
	}
	l.pool.Put(m)
}
