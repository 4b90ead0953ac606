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
// file has no name, and its key is kept in memory alone, so that requests that
// were not scrubbed yet can stand in it. It ends with the process.
type spool struct {
	file       *os.File
	seal       cipher.AEAD
	start, end int64 // of what waits
	buf        []byte
	room       func(*os.File) (free int64, known bool) // roomBeside
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
	f, err := os.CreateTemp(dir, ".investigator-*")
	if err != nil {
		return nil, fmt.Errorf("make a file for calls that wait to be recorded: %w", err)
	}
	_ = os.Remove(f.Name()) // a system that keeps it until it is closed loses it in close
	return &spool{file: f, seal: seal, room: roomBeside}, nil
}

// put appends b. What was put before stays whole when it fails.
func (s *spool) put(b []byte) error {
	if free, known := s.room(s.file); known && free < s.size()+2*int64(len(b))+diskReserve {
		return fmt.Errorf("keep a call until it is recorded: %d MB are left on the disk, which the recordings need", free>>20)
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
	diskReserve = 64 << 20 // for cassettes, beside what waits for them here
)

// take removes the oldest; the bytes are the caller's. After an error nothing
// of the queue can be read, and it is empty.
func (s *spool) take() ([]byte, error) {
	b, err := s.next()
	if err != nil {
		s.start = s.end
		err = fmt.Errorf("read a call that waited to be recorded: %w", err)
	}
	if s.start == s.end {
		if s.end > maxKept {
			_ = s.file.Truncate(0) // only room on the disk is lost
		}
		s.start, s.end = 0, 0
	}
	return b, err
}

func (s *spool) next() ([]byte, error) {
	var head [4]byte
	if _, err := s.file.ReadAt(head[:], s.start); err != nil {
		return nil, err
	}
	b := make([]byte, binary.LittleEndian.Uint32(head[:]))
	if _, err := s.file.ReadAt(b, s.start+4); err != nil {
		return nil, err
	}
	s.start += 4 + int64(len(b))
	return s.seal.Open(b[:0], nil, b, nil)
}

// size is how many bytes wait.
func (s *spool) size() int64 { return s.end - s.start }

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}
