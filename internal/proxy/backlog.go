package proxy

import "sync"

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

// push adds a step, unless nobody takes any more. The error says that the disk
// takes no more steps; the step was added nevertheless, after those before it
// made room.
func (b *backlog) push(s step) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil
	}
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
	text := s.append(b.text[:0])
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

// drain returns when no step waits.
func (b *backlog) drain() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for len(b.head) > 0 || b.onDisk() > 0 {
		b.changed.Wait()
	}
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
