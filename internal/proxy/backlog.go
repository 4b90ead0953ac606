package proxy

import (
	"encoding/binary"
	"encoding/json"
	"sync"

	"investigator/internal/foreign"
)

// step is the beginning or the end of a call, as it was seen.
type step struct {
	call  int64
	began *call    // not read
	ended *attempt // nil where it began
}

func (s step) size() int {
	const beside = 1 << 10
	if s.began != nil {
		return beside + len(s.began.raw)
	}
	return beside + len(s.ended.Body)
}

// stepHead is what stands before the body of a step that is kept on the disk.
type stepHead struct {
	Call  int64
	Began *arrival
	Ended *attempt
	URL   string
}

func (s step) append(dst []byte) ([]byte, error) {
	h, body := stepHead{Call: s.call}, []byte(nil)
	if s.began != nil {
		h.Began, body = &s.began.arrival, s.began.raw
	} else {
		a := *s.ended
		h.URL, body, a.Body = a.url, a.Body, nil
		h.Ended = &a
	}
	text, err := json.Marshal(h)
	if err != nil {
		return nil, err
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(len(text)))
	return append(append(dst, text...), body...), nil
}

func parseStep(b []byte) (step, error) {
	var h stepHead
	n := binary.LittleEndian.Uint32(b)
	if err := json.Unmarshal(b[4:4+n], &h); err != nil {
		return step{}, err
	}
	s, body := step{call: h.Call, ended: h.Ended}, b[4+n:]
	if h.Began != nil {
		route, _ := foreign.ParseRoute(h.Began.Path) // it was one when the call came
		s.began = &call{Asked: foreign.Asked{Route: route}, arrival: *h.Began, raw: body}
		return s, nil
	}
	s.ended.Body, s.ended.url = body, h.URL
	return s, nil
}

// backlog is the queue of steps between the traffic and the recorder. A few
// megabytes of it are in memory and the rest is on the disk; traffic waits when
// that is full too.
type backlog struct {
	memory, disk int64 // limits in bytes

	mu      sync.Mutex
	changed *sync.Cond
	head    []step // the oldest
	bytes   int64  // in head
	rest    *spool // the newer ones; nil when the disk takes none
	text    []byte // of the last one put there
	pushed  int64  // steps, in all
	closed  bool
}

func newBacklog(memory, disk int64, rest *spool) *backlog {
	b := &backlog{memory: memory, disk: disk, rest: rest}
	b.changed = sync.NewCond(&b.mu)
	return b
}

// push adds a step. The error says that the disk takes no more steps; the step
// was added nevertheless, after those before it made room.
func (b *backlog) push(s step) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	for {
		if b.onDisk() == 0 && (len(b.head) == 0 || b.bytes < b.memory) {
			b.head, b.bytes = append(b.head, s), b.bytes+int64(s.size())
			break
		}
		if b.rest != nil && b.onDisk() < b.disk {
			if err = b.spill(s); err == nil {
				break
			}
			b.disk = 0
		}
		b.changed.Wait()
	}
	b.pushed++
	b.changed.Broadcast()
	return err
}

func (b *backlog) spill(s step) error {
	text, err := s.append(b.text[:0])
	if err != nil {
		return err
	}
	if b.text = text; cap(text) > maxKept {
		b.text = nil
	}
	return b.rest.put(text)
}

func (b *backlog) onDisk() int64 {
	if b.rest == nil {
		return 0
	}
	return b.rest.size()
}

// pop takes the oldest step. With wait it returns none only after close, when
// all were taken.
func (b *backlog) pop(wait bool) (s step, found bool, err error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for wait && len(b.head) == 0 && b.onDisk() == 0 && !b.closed {
		b.changed.Wait()
	}
	switch {
	case len(b.head) > 0:
		s, b.head[0] = b.head[0], step{}
		b.head, b.bytes = b.head[1:], b.bytes-int64(s.size())
	case b.onDisk() > 0:
		text, err := b.rest.take()
		if err == nil {
			s, err = parseStep(text)
		}
		if err != nil {
			return s, true, err
		}
	default:
		return s, false, nil
	}
	b.changed.Broadcast()
	return s, true, nil
}

// pressure is how much there is to do.
type pressure struct {
	bytes  int64   // that wait
	share  float64 // of the room for them
	pushed int64   // steps, in all
}

func (b *backlog) pressure() pressure {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := b.bytes + b.onDisk()
	return pressure{n, float64(n) / float64(b.memory+b.disk), b.pushed}
}

// close says that no step comes any more.
func (b *backlog) close() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.changed.Broadcast()
}

// bare is a call without what its client may want to keep secret.
func (c *call) bare() *call {
	out := *c
	out.header = nil
	return &out
}
