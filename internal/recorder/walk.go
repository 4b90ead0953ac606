package recorder

import (
	"slices"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Read is one interaction as Walk gives it.
type Read struct {
	Interaction
	Events []ledger.Event   // as recorded; run.finished is not among them
	Asked  converse.Request // of a model call
	Return edge.Return
}

// Walk gives the interactions in order, each checked as Events and Request check
// it. A cassette that is walked before anything else was asked of it holds of
// its lines no more than was read last, and reads a line again where somebody
// asks for it later; Events still makes it hold everything.
func (c *Cassette) Walk(each func(Read) error) error {
	c.mu.Lock()
	if len(c.events) == 0 && c.err == nil && c.window == nil {
		c.window = &window{limit: windowSize}
	}
	c.mu.Unlock()
	stop := make(chan struct{})
	defer close(stop)
	lines := c.ahead(stop)
	for i := range c.Len() {
		r, err := c.read(i, <-lines)
		if err != nil {
			return err
		}
		if err := each(r); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.load()
}

// decoded is what decodeLine gives.
type decoded struct {
	line *line
	err  error
}

// ahead decodes the lines in order, a few ahead of who takes them, on a processor
// of its own where there are two.
func (c *Cassette) ahead(stop <-chan struct{}) <-chan decoded {
	out := make(chan decoded, 8)
	go func() {
		for _, text := range c.layout.lines {
			l, err := decodeLine(text)
			select {
			case out <- decoded{l, err}:
			case <-stop:
				return
			}
		}
	}()
	return out
}

func (c *Cassette) read(i int, d decoded) (Read, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.take(i, d); err != nil {
		return Read{}, err
	}
	h := c.heads[i]
	r := Read{Interaction: interactionOf(d.line, h.end), Events: slices.Clone(c.events[h.seq-1 : h.end])}
	r.Return = h.returned(r.Events[0], c.marks[h.seq-1])
	var err error
	if h.kind == edge.Model {
		if h.wired {
			r.Return.Wire = &edge.Wire{URL: r.URL, Attempts: r.Attempts}
		}
		r.Asked, err = c.requestOf(i)
	}
	return r, err
}

// take makes the cassette hold what a line says; c.mu is held.
func (c *Cassette) take(i int, d decoded) error {
	switch {
	case c.err != nil:
		return c.err
	case i == len(c.heads):
		return c.next(d)
	case d.err != nil:
		return c.damage(i, d.err)
	case c.heads[i].gone:
		return c.again(i, d.line)
	}
	return nil
}

// windowSize is how many bytes of lines are held at first.
const windowSize = 8 << 20

// window is what a cassette that is walked holds of its lines. Where lines are
// asked for again and again, it grows, so that all of them together are read
// again but a few times.
type window struct {
	held  []held // oldest first
	size  int
	limit int
	again int // bytes read again since the limit was set
}

type held struct{ id, size int }

// hold notes that what a line says is held, and gives up what was held longest;
// c.mu is held.
func (c *Cassette) hold(i int) {
	w := c.window
	if w == nil {
		return
	}
	size := len(c.layout.lines[i])
	w.held, w.size = append(w.held, held{i, size}), w.size+size
	for w.size > w.limit && len(w.held) > 1 {
		w.size -= w.held[0].size
		c.giveUp(w.held[0].id)
		w.held = w.held[1:]
	}
}

// giveUp forgets what can be read again from a line.
func (c *Cassette) giveUp(i int) {
	h := &c.heads[i]
	for k := h.seq - 1; k < h.end; k++ {
		c.events[k].Data = nil
	}
	h.gone, h.delta, h.after.pending = true, nil, nil
	c.rebuilt.drop(i)
}

// recall reads a line again if it was given up; c.mu is held.
func (c *Cassette) recall(i int) error {
	if !c.heads[i].gone {
		return nil
	}
	l, err := decodeLine(c.layout.lines[i])
	if err != nil {
		return c.damage(i, err)
	}
	w := c.window
	if w.again += len(c.layout.lines[i]); w.again > c.size {
		w.again, w.limit = 0, 2*w.limit
	}
	return c.again(i, l)
}

// again takes what a line says that was given up.
func (c *Cassette) again(i int, l *line) error {
	before, err := c.before(i)
	if err != nil {
		return err
	}
	types, given := l.entries()
	after, derived, err := before.use(types, given, l, nil)
	if err != nil {
		return c.damage(i, err)
	}
	h := &c.heads[i]
	for k, data := range derived.data {
		c.events[h.seq-1+k].Data = data
	}
	h.gone, h.after = false, after
	if h.kind == edge.Model {
		h.delta = l.Request.Body
	}
	c.hold(i)
	return nil
}

// before is the projector that a line was read with. Each result takes one of
// the calls that the turn before it left open.
func (c *Cassette) before(i int) (projector, error) {
	m := i - 1
	for m >= 0 && c.heads[m].kind != edge.Model {
		m--
	}
	if m < 0 {
		return projector{}, nil
	}
	if c.heads[i].kind == edge.Tool {
		if err := c.recall(m); err != nil {
			return projector{}, err
		}
	}
	p := c.heads[m].after
	p.pending = p.pending[min(i-1-m, len(p.pending)):]
	return p, nil
}
