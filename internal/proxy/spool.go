package proxy

import (
	"crypto/aes"
	"crypto/cipher"
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"os"
)

// spool is a queue of byte strings on the disk. Nobody else can read it: its
// files have no names, and its key is kept in memory alone, so that requests that
// were not scrubbed yet can stand in it. It ends with the process.
type spool struct {
	stretch           // that is written to
	full    []stretch // that come before it
	dir     string
	most    int64 // bytes of a stretch, about
	seal    cipher.AEAD
	buf     []byte
	room    func(*os.File) (free int64, known bool) // roomBeside
}

// stretch is a file of a spool. It goes when all of it was taken, so that a queue
// which is never empty takes little more of the disk than what waits in it.
type stretch struct {
	file       *os.File
	start, end int64 // of what waits
}

func newStretch(dir string) (stretch, error) {
	f, err := os.CreateTemp(dir, ".investigator-*")
	if err != nil {
		return stretch{}, fmt.Errorf("make a file for calls that wait to be recorded: %w", err)
	}
	_ = os.Remove(f.Name()) // a system that keeps it until it is closed loses it in close
	return stretch{file: f}, nil
}

func (p stretch) close() {
	_ = p.file.Close()
	_ = os.Remove(p.file.Name())
}

// newSpool makes a spool in a folder that exists.
func newSpool(dir string) (*spool, error) {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // never fails
	block, err := aes.NewCipher(key)
	if err != nil {
		return nil, err
	}
	seal, err := cipher.NewGCMWithRandomNonce(block)
	if err != nil {
		return nil, err
	}
	first, err := newStretch(dir)
	if err != nil {
		return nil, err
	}
	return &spool{stretch: first, dir: dir, most: maxStretch, seal: seal, room: roomBeside}, nil
}

// put appends b. What was put before stays whole when it fails.
func (s *spool) put(b []byte) error {
	if free, known := s.room(s.file); known && free < s.size()+2*int64(len(b))+diskReserve {
		return fmt.Errorf("keep a call until it is recorded: %d MB are left on the disk, which the recordings need", free>>20)
	}
	if s.end >= s.most {
		if next, err := newStretch(s.dir); err == nil { // without one the old one grows, which is only room on the disk
			s.full, s.stretch = append(s.full, s.stretch), next
		}
	}
	s.buf = s.seal.Seal(append(s.buf[:0], 0, 0, 0, 0), nil, b, nil)
	binary.LittleEndian.PutUint32(s.buf, uint32(len(s.buf)-4))
	if _, err := s.file.WriteAt(s.buf, s.end); err != nil {
		return fmt.Errorf("keep a call until it is recorded: %w", err)
	}
	s.end += int64(len(s.buf))
	if cap(s.buf) > maxKept {
		s.buf = nil
	}
	return nil
}

const (
	maxKept     = 1 << 20  // bounds the buffer between two calls
	maxStretch  = 64 << 20 // a sixteenth of what may wait
	diskReserve = 64 << 20 // for cassettes, beside what waits for them here
)

// take removes the oldest; the bytes are the caller's. After an error nothing
// of the queue can be read, and it is empty.
func (s *spool) take() ([]byte, error) {
	from := &s.stretch
	if len(s.full) > 0 {
		from = &s.full[0]
	}
	b, err := s.next(from)
	if err != nil {
		for i := range s.full {
			s.full[i].start = s.full[i].end
		}
		s.start = s.end
		err = fmt.Errorf("read a call that waited to be recorded: %w", err)
	}
	for len(s.full) > 0 && s.full[0].start == s.full[0].end {
		s.full[0].close()
		s.full = s.full[1:]
	}
	if s.start == s.end {
		if s.end > maxKept {
			_ = s.file.Truncate(0) // only room on the disk is lost
		}
		s.start, s.end = 0, 0
	}
	return b, err
}

func (s *spool) next(from *stretch) ([]byte, error) {
	var head [4]byte
	if _, err := from.file.ReadAt(head[:], from.start); err != nil {
		return nil, err
	}
	b := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := from.file.ReadAt(b, from.start+4); err != nil {
		return nil, err
	}
	from.start += 4 + int64(len(b))
	return s.seal.Open(b[:0], nil, b, nil)
}

// size is how many bytes wait.
func (s *spool) size() int64 {
	n := s.end - s.start
	for _, p := range s.full {
		n += p.end - p.start
	}
	return n
}

func (s *spool) close() {
	for _, p := range append(s.full, s.stretch) {
		p.close()
	}
}
