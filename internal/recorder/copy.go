package recorder

import (
	"bytes"
	"encoding/json"
	"fmt"

	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// CopyPrefix begins a fork: it copies every interaction of c whose events all
// come before event seq, request and response byte for byte, with the origin
// tape. run.finished counts as an event of the interaction it follows from; a
// seq after it copies the whole run and its seal. The Writer must be new and
// its run.started that of c, unless seq is 1 or 2, where nothing is copied. The
// copy is written at once and is durable when CopyPrefix returns.
func (w *Writer) CopyPrefix(c *Cassette, seq int) error {
	if err := w.ready([]ledger.Event{{Seq: w.seq + 1}}); err != nil {
		return err
	}
	if w.seq != 1 {
		return fmt.Errorf("copy prefix of %q: expected a new cassette, found one of %d events", c.name, w.seq)
	}
	events, err := c.Events()
	if err != nil {
		return fmt.Errorf("copy prefix: %w", err)
	}
	n := c.linesBefore(seq)
	if n == 0 {
		return nil
	}
	if w.header.StartSum != c.header.StartSum {
		return fmt.Errorf("copy prefix of %q: run.started: recorded %s / now %s; a history cannot be kept under another beginning", c.name, c.header.StartSum, w.header.StartSum)
	}
	next := *w
	next.countStart()
	next.known = newPlaces()
	text := make([]byte, 0, c.room(n))
	for i := range n {
		if text, err = next.splice(text, c, i, events); err != nil {
			return fmt.Errorf("copy prefix of %q: interaction %d: %w", c.name, i, err)
		}
	}
	if err := next.resumeFrom(c, n); err != nil {
		return fmt.Errorf("copy prefix of %q: %w", c.name, err)
	}
	whole := c.Sealed() && n == len(c.heads)
	if whole {
		text = next.appendSeal(text, events[len(events)-1])
	}
	if err := w.write(text, unchecked); err != nil {
		return err
	}
	w.become(next, nil)
	if whole {
		return w.Close()
	}
	return nil
}

// room is what a copy of the first n lines takes at most, with a seal.
func (c *Cassette) room(n int) int {
	size := 512
	if c.seal != nil {
		size += 2 * len(c.seal.Finished)
	}
	for _, l := range c.layout.lines[:n] {
		size += len(l) + len("\n") + len(edge.Patched)
	}
	return size
}

// linesBefore counts the interactions all of whose events come before seq.
func (c *Cassette) linesBefore(seq int) int {
	n := 0
	for n < len(c.heads) && c.heads[n].end < seq {
		n++
	}
	if n == len(c.heads) && c.Sealed() && seq <= len(c.events) {
		n-- // run.finished follows from the last one
	}
	return n
}

// fromTape is the origin of a return once it comes from a cassette. What a fork
// edited or a guard answered stays so called: no tool and no model said it.
func fromTape(recorded edge.Origin) edge.Origin {
	if recorded == edge.Patched || recorded == edge.Refused {
		return recorded
	}
	return edge.Tape
}

// splice copies one interaction with the origin it has from the tape.
func (w *Writer) splice(text []byte, c *Cassette, i int, events []ledger.Event) ([]byte, error) {
	src := c.layout.lines[i]
	origin, end, err := originSpan(src)
	if err != nil {
		return nil, err
	}
	start := len(text)
	from := fromTape(edge.Origin(src[origin:end]))
	text = append(append(append(text, src[:origin]...), from...), src[end:len(src)-sumTail]...)
	text = w.finishLine(text, start)
	h := c.heads[i]
	first := events[h.seq-1]
	data := first.Data
	if h.kind == edge.Tool {
		data = ledger.Member(data, "result")
	}
	w.known.took(i, h.kind, data)
	w.origins[string(from)]++
	w.count++
	w.seq, w.sum = h.end, c.marks[h.end-1].sum
	return text, nil
}

// originSpan finds the value of x.origin in a line.
func originSpan(src []byte) (start, end int, err error) {
	at := bytes.Index(src, []byte(`,"x":`))
	if at < 0 {
		return 0, 0, fmt.Errorf(`expected "x" after "id"`)
	}
	at += len(`,"x":`)
	stop := ledger.SkipValue(src, at)
	if stop < 0 {
		return 0, 0, fmt.Errorf(`expected an object as "x"`)
	}
	x := json.RawMessage(src[at:stop])
	value := ledger.Member(x, "origin")
	if len(value) < 2 {
		return 0, 0, fmt.Errorf("expected x.origin, found none")
	}
	start = at + offset(x, value) + 1
	return start, start + len(value) - 2, nil
}

// resumeFrom sets what the next line will build on after n interactions of c.
func (w *Writer) resumeFrom(c *Cassette, n int) error {
	lastModel := n - 1
	for lastModel >= 0 && c.heads[lastModel].kind != edge.Model {
		lastModel--
	}
	if lastModel < 0 {
		return fmt.Errorf("expected a model call before any tool call")
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	req, err := c.requestOf(lastModel)
	if err != nil {
		return err
	}
	w.base, w.baseID = req, lastModel
	w.project = c.heads[n-1].after
	return nil
}
