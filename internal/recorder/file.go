package recorder

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
)

// file is what a Writer needs of a file. Tests put faults here.
type file interface {
	io.Writer
	Push(offset, size int64) // what was written may go to the disk; nobody waits for it
	Sync() error             // what was written is on the disk
	Truncate(size int64) error
	Close() error
}

// disk is a file of the operating system.
type disk struct{ *os.File }

func (d disk) Push(offset, size int64) { pushData(d.File, offset, size) }

func (d disk) Sync() error { return syncData(d.File) }

// memory is a file that is none. It grows by whole parts, so that what is there
// is not copied for what comes.
type memory struct {
	parts [][]byte
	size  int
}

const minPart = 8 << 10

func (m *memory) Write(p []byte) (int, error) {
	rest := p
	if n := len(m.parts) - 1; n >= 0 {
		last := m.parts[n]
		room := min(cap(last)-len(last), len(rest))
		m.parts[n], rest = append(last, rest[:room]...), rest[room:]
	}
	if len(rest) > 0 {
		part := make([]byte, 0, max(len(rest), min(m.size, maxRoom), minPart))
		m.parts = append(m.parts, append(part, rest...))
	}
	m.size += len(p)
	return len(p), nil
}

// Bytes returns what was written, in fresh memory.
func (m *memory) Bytes() []byte { return slices.Concat(m.parts...) }

// Len returns how much was written.
func (m *memory) Len() int { return m.size }

func (m *memory) Push(offset, size int64) {}

func (m *memory) Sync() error { return nil }

func (m *memory) Truncate(size int64) error {
	for m.size > int(size) {
		n := len(m.parts) - 1
		over := min(m.size-int(size), len(m.parts[n]))
		m.size -= over
		if m.parts[n] = m.parts[n][:len(m.parts[n])-over]; len(m.parts[n]) == 0 {
			m.parts = m.parts[:n]
		}
	}
	return nil
}

func (m *memory) Close() error { return nil }

// readFile reads a plain file whole. A pipe may never have a writer, and a
// device may never end.
func readFile(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, &fs.PathError{Op: "open", Path: path, Err: syscall.EISDIR}
	case !info.Mode().IsRegular():
		return nil, ErrNotFile
	}
	return os.ReadFile(path)
}

// createFile makes a new file and never touches one that is there.
func createFile(path string) (file, error) {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
	if err == nil {
		return disk{f}, nil
	}
	out := &FileError{Verb: "create", File: path, Err: err}
	var cause *fs.PathError
	if errors.As(err, &cause) {
		out.Err = cause.Err // the path is named once
	}
	switch {
	case errors.Is(err, fs.ErrExist):
		out.Err, out.Hint = ErrExists, "recordings are never overwritten; choose another --out, or move the file away"
	case errors.Is(err, fs.ErrNotExist):
		out.Hint = "create the folder first"
	case errors.Is(err, fs.ErrPermission):
		out.Hint = "choose a folder that can be written to"
	case errors.Is(err, syscall.ENOSPC):
		out.Hint = "make room on the disk"
	case errors.Is(err, syscall.ENOTDIR):
		out.Hint = "a part of the path is a file; name a folder that exists"
	}
	return nil, out
}

// syncFolder makes a new file's name durable. Some file systems cannot; then
// there is nothing more to do.
func syncFolder(path string) error {
	d, err := os.Open(filepath.Dir(path))
	if err != nil {
		return err
	}
	defer d.Close()
	if err := d.Sync(); err != nil && !errors.Is(err, syscall.EINVAL) && !errors.Is(err, syscall.ENOTSUP) {
		return err
	}
	return nil
}
