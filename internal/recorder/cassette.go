package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path/filepath"
	"sync"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// Cassette is a recorded run, read only.
type Cassette struct {
	name   string
	header Header
	begin  loop.State
	seal   *Seal
	layout layout
	size   int

	mu      sync.Mutex
	done    bool // the seal was read
	err     error
	events  []ledger.Event
	marks   []mark    // of each event
	heads   []head    // of each interaction that was read
	after   projector // what the next interaction builds on
	rebuilt rebuilt   // requests
	budget  int64     // of bytes that may yet be rebuilt
	index   *index    // of its tapes, nil until one is made
	window  *window   // nil if it holds all of its lines
}

// mark is what is known of an event beside the ledger.
type mark struct {
	interaction int // -1 for run.started and run.finished
	origin      edge.Origin
	sum         ledger.Sum
	turn, pos   int
}

// head is what is known of an interaction once the events are projected.
type head struct {
	kind  edge.Kind
	seq   int // of its first event
	end   int // of its last event
	delta []byte
	after projector // what a next interaction builds on
	gone  bool      // its events' data, delta and after.pending were given up
	links links

	line     *line // without its bodies
	at, took string
	wired    bool // it holds what went over a network
}

// Open reads the cassette at path. It verifies every byte and decodes the
// header and the seal; everything else is decoded when asked for. Errors are
// *FileError (which wraps fs.ErrNotExist, ErrEmpty, ErrNotYAML,
// ErrNotFile, ErrNotCassette, ErrNotOurs, ErrNewer or ErrCutHeader) or *Damage.
func Open(path string) (*Cassette, error) {
	b, err := readFile(path)
	if err != nil {
		return nil, openError(path, err)
	}
	return Parse(path, b)
}

func openError(path string, err error) error {
	out := &FileError{Verb: "open", File: path, Err: err}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		out.Err = cause.Err
	}
	switch {
	case errors.Is(err, fs.ErrNotExist):
		out.Hint = "check the path; investigator ls FOLDER lists the cassettes of a folder"
	case errors.Is(err, fs.ErrPermission):
		out.Hint = "recordings may be read by the user who made them; copy it, or change its mode"
	default:
		out.Hint = "give the path of a cassette, which is a plain file"
	}
	return out
}

// Parse reads a cassette from its bytes, which must not be modified
// afterwards. name appears in errors.
func Parse(name string, b []byte) (*Cassette, error) {
	l, err := scan(b)
	if err != nil {
		return nil, named(err, name)
	}
	c := &Cassette{name: name, layout: l, size: len(b), budget: budgetOf(len(b), len(l.lines))}
	if c.header, err = decodeHeader(l.header); err != nil {
		return nil, &Damage{File: name, Line: 3, Interaction: -1, Reason: "the header: " + err.Error()}
	}
	if c.header.begun, err = begin(c.header.Start); err != nil {
		return nil, &Damage{File: name, Line: 3, Interaction: -1, Reason: "the header: " + err.Error()}
	}
	c.begin, c.header.Start = c.header.begun.state, c.header.begun.event.Data
	if now := c.header.begun.sum.String(); now != c.header.StartSum {
		return nil, &Damage{File: name, Line: 3, Interaction: -1, Reason: fmt.Sprintf("run.started: sum recorded %q / now %q", c.header.StartSum, now)}
	}
	if l.seal != nil {
		if c.seal, err = decodeSeal(l.seal, len(l.lines)); err != nil {
			return nil, &Damage{File: name, Line: firstLineNo + len(l.lines), Interaction: -1, Reason: "the seal: " + err.Error()}
		}
	}
	return c, nil
}

func named(err error, name string) error {
	switch e := err.(type) {
	case *FileError:
		e.File, e.Verb = name, "open"
	case *Damage:
		e.File = name
	}
	return err
}

func decodeSeal(text []byte, lines int) (*Seal, error) {
	var s Seal
	if err := json.Unmarshal(text, &s); err != nil {
		return nil, err
	}
	var err error
	if s.Finished, err = ledger.Canon(s.Finished); err != nil {
		return nil, err
	}
	if s.Interactions != lines {
		return nil, fmt.Errorf("interactions: recorded %d / now %d", s.Interactions, lines)
	}
	return &s, nil
}

// Name returns the path or name it was opened by.
func (c *Cassette) Name() string { return c.name }

// Base returns the base name of the file.
func (c *Cassette) Base() string { return filepath.Base(c.name) }

// Header returns the header.
func (c *Cassette) Header() Header { return c.header }

// Start returns the canonical data of run.started.
func (c *Cassette) Start() json.RawMessage { return c.header.Start }

// Begin returns the state of the run after run.started.
func (c *Cassette) Begin() loop.State { return c.begin }

// Sealed reports whether the run finished.
func (c *Cassette) Sealed() bool { return c.seal != nil }

// Seal returns the seal, nil if the run did not finish.
func (c *Cassette) Seal() *Seal { return c.seal }

// Finished returns the canonical data of run.finished, nil if the run did not
// finish.
func (c *Cassette) Finished() json.RawMessage {
	if c.seal == nil {
		return nil
	}
	return c.seal.Finished
}

// Torn says what was cut off the end, nil if nothing was.
func (c *Cassette) Torn() *Torn { return c.layout.torn }

// Len returns the number of interactions.
func (c *Cassette) Len() int { return len(c.layout.lines) }

// Events returns the run's ledger. The slice is shared and must not be
// modified. Every event was checked against the ledger sum stored beside it.
func (c *Cassette) Events() ([]ledger.Event, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.loadAll()
	return c.events, err
}

// EventCount returns the number of events.
func (c *Cassette) EventCount() (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	err := c.load()
	return len(c.events), err
}

// loadAll projects all events and holds them; c.mu is held.
func (c *Cassette) loadAll() error {
	if c.window != nil {
		c.window, c.done = nil, false
		c.events, c.marks, c.heads, c.after = nil, nil, nil, projector{}
		c.rebuilt = rebuilt{}
	}
	return c.load()
}

// load projects the events that were not yet; c.mu is held.
func (c *Cassette) load() error {
	for !c.done && c.err == nil {
		if len(c.heads) < c.Len() {
			l, err := decodeLine(c.layout.lines[len(c.heads)])
			_ = c.next(decoded{l, err}) // the error is kept
			continue
		}
		c.done = true
		if err := c.finish(); err != nil {
			c.fail(err)
		}
	}
	return c.err
}

func (c *Cassette) fail(err error) {
	c.err, c.events, c.marks, c.heads = err, nil, nil, nil
}

// start puts run.started first.
func (c *Cassette) start() {
	if len(c.events) == 0 {
		c.heads = make([]head, 0, c.Len())
		c.events = append(make([]ledger.Event, 0, c.Len()+2), c.header.begun.event)
		c.marks = append(make([]mark, 0, c.Len()+2), mark{interaction: -1, origin: startOrigin(c.header), sum: c.header.begun.sum})
	}
}

// next projects one more line; c.mu is held.
func (c *Cassette) next(d decoded) error {
	c.start()
	i, err := len(c.heads), d.err
	if err == nil {
		err = c.project(i, d.line)
	}
	if err != nil {
		c.fail(c.damage(i, err))
		return c.err
	}
	c.hold(i)
	return nil
}

// finish adds run.finished.
func (c *Cassette) finish() error {
	c.start()
	if c.seal == nil {
		return nil
	}
	last := ledger.Event{Seq: len(c.events) + 1, Type: ledger.RunFinished, Data: c.seal.Finished}
	sum := c.marks[len(c.marks)-1].sum.Add(last)
	c.events = append(c.events, last)
	c.marks = append(c.marks, mark{interaction: -1, origin: edge.Derived, sum: sum})
	if sum.String() != c.seal.Ledger || c.seal.Events != len(c.events) {
		return &Damage{File: c.name, Line: firstLineNo + c.Len(), Interaction: -1, Reason: fmt.Sprintf(
			"the seal: ledger recorded %q over %d events / now %q over %d", c.seal.Ledger, c.seal.Events, sum, len(c.events))}
	}
	return nil
}

// entries are the types of a line's events, and their data where it is given.
func (l *line) entries() (types []string, given []json.RawMessage) {
	types = make([]string, len(l.X.Events))
	given = make([]json.RawMessage, len(l.X.Events))
	for k, e := range l.X.Events {
		types[k] = e.Type
		if e.Data != nil {
			given[k] = json.RawMessage(*e.Data)
		}
	}
	return types, given
}

func (c *Cassette) project(i int, l *line) error {
	if l.X.Seq != len(c.events)+1 {
		return fmt.Errorf("expected event %d, found %d", len(c.events)+1, l.X.Seq)
	}
	types, given := l.entries()
	next, derived, err := c.after.use(types, given, l, nil)
	if err != nil {
		return err
	}
	sum := c.marks[len(c.marks)-1].sum
	for k, e := range l.X.Events {
		event := ledger.Event{Seq: len(c.events) + 1, Type: e.Type, In: e.In, Data: derived.data[k]}
		sum = sum.Add(event)
		if sum.String() != e.Sum {
			return fmt.Errorf("event %d (%s): ledger sum recorded %q / now %q", event.Seq, e.Type, e.Sum, sum)
		}
		m := mark{interaction: i, origin: edge.Derived, sum: sum, turn: derived.call.Turn}
		if k == 0 {
			m.origin, m.pos = edge.Origin(l.X.Origin), derived.call.Pos
		}
		c.events, c.marks = append(c.events, event), append(c.marks, m)
	}
	h := head{kind: l.kind(), seq: l.X.Seq, end: len(c.events), after: next, line: l.spare(), at: l.X.At, took: l.X.Took}
	if h.kind == edge.Model {
		h.delta, h.wired = l.Request.Body, l.wired()
	}
	c.heads, c.after = append(c.heads, h), next
	return nil
}

// at returns an event with its mark.
func (c *Cassette) at(seq int) (ledger.Event, mark, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, m, _, err := c.found(seq)
	if err == nil && m.interaction >= 0 {
		err = c.recall(m.interaction)
		e = c.events[seq-1]
	}
	return e, m, err
}

// markOf returns what is known of an event beside the ledger.
func (c *Cassette) markOf(seq int) (mark, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	_, m, _, err := c.found(seq)
	return m, err
}

// found returns an event, perhaps without its data, and the interaction that it
// came with; c.mu is held.
func (c *Cassette) found(seq int) (ledger.Event, mark, head, error) {
	if seq > len(c.events) || c.window == nil {
		if err := c.load(); err != nil {
			return ledger.Event{}, mark{}, head{}, err
		}
	}
	if seq < 1 || seq > len(c.events) {
		return ledger.Event{}, mark{}, head{}, fmt.Errorf("cassette %q: expected an event from 1 to %d, found %d", c.name, len(c.events), seq)
	}
	m := c.marks[seq-1]
	if m.interaction < 0 {
		return c.events[seq-1], m, head{}, nil
	}
	return c.events[seq-1], m, c.heads[m.interaction], nil
}

// Event returns one event.
func (c *Cassette) Event(seq int) (ledger.Event, error) {
	e, _, err := c.at(seq)
	return e, err
}

// Origin says where an event came from.
func (c *Cassette) Origin(seq int) (edge.Origin, error) {
	m, err := c.markOf(seq)
	return m.origin, err
}

// Origins counts the interactions by origin, and a run.started that a fork
// edited: what the run's verdict rests on.
func (c *Cassette) Origins() (map[edge.Origin]int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.load(); err != nil {
		return nil, err
	}
	out := map[edge.Origin]int{}
	if startOrigin(c.header) == edge.Patched {
		out[edge.Patched]++
	}
	for _, h := range c.heads {
		out[c.marks[h.seq-1].origin]++
	}
	return out, nil
}

// LedgerSum returns the ledger sum up to and including an event.
func (c *Cassette) LedgerSum(seq int) (ledger.Sum, error) {
	m, err := c.markOf(seq)
	return m.sum, err
}

// WriteLedger writes the ledger, one canonical event a line.
func (c *Cassette) WriteLedger(w io.Writer) error {
	events, err := c.Events()
	if err != nil {
		return err
	}
	var b bytes.Buffer
	for _, e := range events {
		b.Write(append(e.Line(), '\n'))
	}
	_, err = w.Write(b.Bytes())
	return err
}
