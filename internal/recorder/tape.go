package recorder

import (
	"context"
	"fmt"
	"sync"

	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Tape is a cassette used as an edge: it answers each call with what was
// recorded for the same turn and position, if the call is the same. It may be
// used from many goroutines.
type Tape struct {
	*index
	c *Cassette

	mu   sync.Mutex
	from int // returns before this event count as used
	used map[int]bool
}

// index finds the returns of a cassette. It is made once and shared by its
// tapes.
type index struct {
	calls map[spot]int     // seq of the return
	same  map[string][]int // seqs of tool returns by their In
}

type spot struct {
	kind      edge.Kind
	turn, pos int
}

// Mismatch says that a call differs from the one recorded at its place.
type Mismatch struct {
	Seq      int
	Recorded string // digest of what went out when it was recorded
	Now      string
	Call     edge.Call
}

func (m *Mismatch) Error() string {
	return fmt.Sprintf("event %d: the %s call differs: recorded %s / now %s", m.Seq, m.Call.Kind, m.Recorded, m.Now)
}

// Missing says that nothing is recorded for a call.
type Missing struct {
	Call edge.Call
	Name string // of the cassette
}

func (m *Missing) Error() string {
	return fmt.Sprintf("event %d: cassette %q holds no %s call at turn %d, position %d", m.Call.Seq, m.Name, m.Call.Kind, m.Call.Turn, m.Call.Pos)
}

// NewTape makes a tape of c on which nothing was used yet.
func NewTape(c *Cassette) (*Tape, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.loadAll(); err != nil {
		return nil, err
	}
	if c.index == nil {
		c.index = c.makeIndex()
	}
	return &Tape{c: c, index: c.index, used: map[int]bool{}}, nil
}

func (c *Cassette) makeIndex() *index {
	x := &index{calls: map[spot]int{}, same: map[string][]int{}}
	for _, h := range c.heads {
		m, e := c.marks[h.seq-1], c.events[h.seq-1]
		x.calls[spot{h.kind, m.turn, m.pos}] = h.seq
		if e.Type == ledger.ToolReturned {
			x.same[e.In] = append(x.same[e.In], h.seq)
		}
	}
	return x
}

// Do implements edge.Edge. The origin of what it returns is tape,
// or patched or refused where it was recorded so. The error is
// a *Mismatch, a *Missing, or says that the cassette cannot be read.
func (t *Tape) Do(ctx context.Context, call edge.Call) (edge.Return, error) {
	if err := ctx.Err(); err != nil {
		return edge.Return{}, err
	}
	seq, found := t.calls[spot{call.Kind, call.Turn, call.Pos}]
	if !found {
		return edge.Return{}, &Missing{Call: call, Name: t.c.name}
	}
	e, err := t.c.Event(seq)
	if err != nil {
		return edge.Return{}, err
	}
	if e.In != call.In {
		return edge.Return{}, &Mismatch{Seq: seq, Recorded: e.In, Now: call.In, Call: call}
	}
	t.mark(seq)
	return t.answer(seq)
}

func (t *Tape) mark(seq int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.used[seq] = true
}

func (t *Tape) answer(seq int) (edge.Return, error) {
	r, err := t.c.Return(seq)
	r.Origin = fromTape(r.Origin)
	return r, err
}

// Skip marks every return before event seq as used, for a fork whose history
// was copied instead of played.
func (t *Tape) Skip(seq int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.from = max(t.from, seq)
}

// unused reports whether a return may still be used; t.mu is held.
func (t *Tape) unused(seq int) bool { return seq >= t.from && !t.used[seq] }

// Lookup returns the answer to an identical tool call, whatever its turn: the
// first one with that In that was not used yet, which is then used, or the last
// one when all were.
func (t *Tape) Lookup(in string) (edge.Return, bool) {
	seq := t.take(in)
	if seq == 0 {
		return edge.Return{}, false
	}
	r, err := t.answer(seq)
	return r, err == nil
}

func (t *Tape) take(in string) int {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, seq := range t.same[in] {
		if t.unused(seq) {
			t.used[seq] = true
			return seq
		}
	}
	if all := t.same[in]; len(all) > 0 {
		return all[len(all)-1]
	}
	return 0
}

// Left returns the seqs of the recorded returns that were not used, ascending.
func (t *Tape) Left() []int {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []int
	for _, h := range t.c.heads {
		if t.unused(h.seq) {
			out = append(out, h.seq)
		}
	}
	return out
}
