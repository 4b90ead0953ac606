package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"slices"
	"strconv"
	"syscall"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/scrub"
)

// Writer records one run. It is a loop.Sink, and is used by one goroutine.
type Writer struct {
	path   string
	out    file
	size   int64 // of whole lines
	err    error // the first write error; nothing is written after it
	closed bool

	header  Header
	chain   [sha256.Size]byte
	sum     ledger.Sum
	seq     int
	count   int // interactions
	origins map[string]int
	json    map[string][]string // the headers of what is JSON; never modified

	project projector
	base    converse.Request // of the last model interaction
	baseID  int
	known   *places

	text  []byte // room for lines
	delta []byte // room for the stored request of one
}

// maxRoom is how much room for lines a Writer keeps from one to the next. A
// process may have hundreds of them.
const maxRoom = 128 << 10

// Create makes a new cassette at path, mode 0600, and writes its header. The
// header is on the disk when Create returns. It never opens a file that
// exists: that error wraps ErrExists.
func Create(path string, h Header) (*Writer, error) {
	p, err := prepare(h)
	if err != nil {
		return nil, fmt.Errorf("create cassette %q: %w", path, err)
	}
	if _, err := os.Lstat(path); err == nil {
		return nil, createError(path, fs.ErrExist)
	}
	f, err := newDraft(path)
	if err != nil {
		return nil, err
	}
	w := newWriter(path, f, p)
	err = w.writeHeader(p.text)
	if err == nil {
		err = f.publish(path)
	}
	if err != nil {
		return nil, errors.Join(err, f.discard())
	}
	return w, nil
}

// Creatable returns the error that Create would give for a path, as far as that
// can be known before. It leaves nothing behind.
func Creatable(path string) error {
	switch _, err := os.Lstat(path); {
	case err == nil:
		return createError(path, fs.ErrExist)
	case !errors.Is(err, fs.ErrNotExist):
		return createError(path, err)
	}
	f, err := newDraft(path)
	if err != nil {
		return err
	}
	return f.discard()
}

// NewMemory records into memory: the same bytes, no file. The error is about
// the header.
func NewMemory(h Header) (*Writer, error) {
	p, err := prepare(h)
	if err != nil {
		return nil, fmt.Errorf("create cassette: %w", err)
	}
	w := newWriter("", &memory{}, p)
	return w, w.writeHeader(p.text)
}

func newWriter(path string, f file, p prepared) *Writer {
	req := p.begin.Request()
	w := &Writer{
		path: path, out: f, header: p.header, base: req, baseID: -1,
		chain: p.chain, sum: p.sum, seq: 1,
		origins: map[string]int{}, json: jsonHeaders(), known: newPlaces(),
	}
	w.countStart()
	return w
}

// countStart counts a run.started that a fork edited: a verdict rests on it.
func (w *Writer) countStart() {
	w.origins = map[string]int{}
	if startOrigin(w.header) == edge.Patched {
		w.origins[string(edge.Patched)] = 1
	}
}

// startOrigin is the origin of event 1: patched where a fork edited it.
func startOrigin(h Header) edge.Origin {
	if h.Parent != nil && h.Parent.At == 1 {
		return edge.Patched
	}
	return edge.Derived
}

func (w *Writer) writeHeader(text []byte) error {
	n, err := w.out.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	if err == nil {
		err = w.out.Sync()
	}
	if err != nil {
		out := &FileError{Verb: "create", File: w.path, Err: err, Hint: "nothing was recorded"}
		if errors.Is(err, syscall.ENOSPC) {
			out.Hint = "make room on the disk; nothing was recorded"
		}
		return out
	}
	w.size = int64(len(text))
	return nil
}

// Path returns the file's path, "" for one in memory.
func (w *Writer) Path() string { return w.path }

// Header returns the header as it was written.
func (w *Writer) Header() Header { return w.header }

// Sum returns the ledger sum of what was recorded so far.
func (w *Writer) Sum() ledger.Sum { return w.sum }

// Seq returns the seq of the last event recorded.
func (w *Writer) Seq() int { return w.seq }

// Bytes returns a copy of the cassette so far if it is in memory, else nil.
func (w *Writer) Bytes() []byte {
	if m, ok := w.out.(*memory); ok {
		return m.Bytes()
	}
	return nil
}

// Close closes the file. A run that has not finished stays without a seal; the
// cassette is readable, and a run that has finished is closed already.
func (w *Writer) Close() error {
	if w.closed {
		return nil
	}
	w.closed = true
	return w.out.Close()
}

// Took records a return and the events that follow from it as one line, which
// is on the disk when Took returns nil. With run.finished among the events it
// seals and closes the cassette. A write that fails leaves the file at its last
// whole line where that is possible, gives a *WriteError, and the Writer
// refuses what comes after.
func (w *Writer) Took(call edge.Call, ret edge.Return, events []ledger.Event) error {
	if err := w.ready(events); err != nil {
		return err
	}
	var finished json.RawMessage
	rest := events
	if last := events[len(events)-1]; last.Type == ledger.RunFinished {
		finished, rest = last.Data, events[:len(events)-1]
	}
	if len(rest) == 0 {
		return fmt.Errorf("record event %d: run.finished follows from no return", events[0].Seq)
	}
	next, l, err := w.line(call, ret, rest)
	if err != nil {
		return fmt.Errorf("record event %d: %w", events[0].Seq, err)
	}
	text := next.finishLine(l.append(slices.Grow(w.text[:0], l.room())), 0)
	written := text
	if finished != nil {
		text = next.appendSeal(text, events[len(events)-1])
		if err := w.out.Trim(); err != nil {
			return w.takeBack(err)
		}
	}
	check := func() error {
		w.known.took(l.ID, call.Kind, ret.Body)
		return readsBack(written, l)
	}
	if err := w.write(text, check); err != nil {
		return err
	}
	w.become(next, text)
	if finished != nil {
		return w.Close()
	}
	return nil
}

// become moves w behind lines that were written. Their room is kept for the
// next ones.
func (w *Writer) become(next Writer, text []byte) {
	next.size, next.text = w.size, text[:0]
	if cap(next.text) > maxRoom {
		next.text = nil
	}
	if cap(next.delta) > maxRoom {
		next.delta = nil
	}
	*w = next
}

func (w *Writer) ready(events []ledger.Event) error {
	switch {
	case w.err != nil:
		return w.err
	case w.closed:
		return fmt.Errorf("record event %d: the cassette is closed after event %d", w.seq+1, w.seq)
	case len(events) == 0:
		return fmt.Errorf("record event %d: a return without events", w.seq+1)
	}
	for i, e := range events {
		if e.Seq != w.seq+1+i {
			return fmt.Errorf("record event %d: expected seq %d, found %d", w.seq+1, w.seq+1+i, e.Seq)
		}
	}
	return nil
}

// line makes the interaction of a return, and the Writer as it will be once
// the line is written. The origins and what later lines may refer to are noted
// once for both: a Writer whose line could not be written takes no other.
func (w *Writer) line(call edge.Call, ret edge.Return, events []ledger.Event) (Writer, *line, error) {
	next := *w
	l := &line{ID: w.count, X: aside{Seq: events[0].Seq, Origin: string(ret.Origin), At: valid(ret.At), Took: valid(ret.Took)}}
	if call.Kind == edge.Model {
		l.Request, l.Response = next.modelExchange(call, ret, l)
	} else {
		l.Request, l.Response = w.toolExchange(call, ret)
	}
	l.Response.Duration = duration(l.X.Took)
	if err := noSecrets(l, ret); err != nil {
		return next, nil, err
	}
	if err := next.addEvents(l, w.project, events); err != nil {
		return next, nil, err
	}
	next.origins[string(ret.Origin)]++
	next.count++
	next.seq += len(events)
	return next, l, nil
}

// addEvents puts the events into the line, each with its data only where the
// interaction does not give it.
func (w *Writer) addEvents(l *line, before projector, events []ledger.Event) error {
	types := make([]string, len(events))
	for i, e := range events {
		types[i] = e.Type
	}
	given := make([]json.RawMessage, len(events))
	after, derived, err := before.use(types, given, l, events)
	if err != nil {
		return err
	}
	complete := true
	l.X.Events = make([]entry, len(events))
	for i, e := range events {
		w.sum = w.sum.Add(e)
		l.X.Events[i] = entry{Type: e.Type, In: e.In, Sum: w.sum.String()}
		if !bytes.Equal(derived.data[i], e.Data) {
			text := string(e.Data)
			given[i], l.X.Events[i].Data, complete = e.Data, &text, false
		}
	}
	if !complete {
		after, _, err = before.use(types, given, l, nil)
	}
	w.project = after
	return err
}

// noSecrets refuses a line that holds what must not be kept. Secrets are
// removed at the edges; this is the second barrier.
func noSecrets(l *line, ret edge.Return) error {
	texts := [][]byte{l.Request.Body, l.Response.Body, []byte(l.Request.URL)}
	if !bytes.Equal(ret.Body, l.Response.Body) {
		texts = append(texts, ret.Body) // a stream can hold a secret in two pieces
	}
	for _, a := range l.X.Attempts {
		texts = append(texts, a.Body, []byte(a.Err))
	}
	if l.X.Last != nil {
		texts = append(texts, []byte(l.X.Last.Err))
	}
	for _, t := range texts {
		if kind := scrub.Find(t); kind != "" {
			return fmt.Errorf("the interaction with %s holds a secret (%s) and was not recorded; pass results through scrub.Scrub at the edge", l.Request.URL, kind)
		}
	}
	return nil
}

// finishLine adds the sum of the line that begins at start.
func (w *Writer) finishLine(text []byte, start int) []byte {
	h := sha256.New()
	h.Write(w.chain[:])
	h.Write(text[start:])
	h.Sum(w.chain[:0])
	text = append(text, sumMember...)
	text = hex.AppendEncode(text, w.chain[:])
	return append(text, "\"}\n"...)
}

func (w *Writer) appendSeal(text []byte, finished ledger.Event) []byte {
	w.sum, w.seq = w.sum.Add(finished), finished.Seq
	start := len(text)
	text = strconv.AppendInt(append(text, sealKey+`{"events":`...), int64(w.seq), 10)
	text = strconv.AppendInt(append(text, `,"interactions":`...), int64(w.count), 10)
	text = append(append(text, `,"ledger":"`...), w.sum.String()...)
	text = append(text, `","origins":{`...)
	for i, name := range slices.Sorted(maps.Keys(w.origins)) {
		if i > 0 {
			text = append(text, ',')
		}
		text = append(appendText(text, name), ':')
		text = strconv.AppendInt(text, int64(w.origins[name]), 10)
	}
	text = appendRaw(append(text, `},"finished":`...), finished.Data)
	h := sha256.New()
	h.Write(w.chain[:])
	h.Write(text[start:])
	text = append(text, sumMember...)
	text = hex.AppendEncode(text, h.Sum(nil))
	return append(text, "\"}\n"...)
}

// unchecked is the check of lines that were compared before.
func unchecked() error { return nil }

// write puts whole lines at the end of the file, durably, or takes back what
// it can. The check runs while the disk is at work; lines that do not pass it
// are taken back, and no return is applied before both are done.
func (w *Writer) write(text []byte, check func() error) error {
	err := w.put(text)
	if err == nil {
		w.out.Push(w.size, int64(len(text)))
		err = check()
	}
	if err == nil {
		err = w.out.Sync()
	}
	if err != nil {
		return w.takeBack(err)
	}
	w.size += int64(len(text))
	return nil
}

// put hands whole lines to the system.
func (w *Writer) put(text []byte) error {
	n, err := w.out.Write(text)
	if err == nil && n < len(text) {
		err = io.ErrShortWrite
	}
	return err
}

// takeBack leaves the file as it was before lines that could not be written, if
// it can, and says so. Nothing is written after it.
func (w *Writer) takeBack(err error) error {
	var changed *changedError
	if errors.As(err, &changed) { // it is not ours to mend
		w.err = fmt.Errorf("record event %d in %q: %w; nothing more is written into it", w.seq+1, w.path, err)
		return w.err
	}
	fail := &WriteError{File: w.path, Event: w.seq + 1, Kept: w.seq, Err: err}
	fail.Ragged = w.out.Truncate(w.size) != nil || w.out.Sync() != nil
	w.err = fail
	return fail
}
