package recorder

import (
	"bytes"
	"crypto/rand"
	"encoding/hex"
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
	Trim() error             // no padding stands behind what was written, now and from here on; a changedError if somebody else cut or extended it
	Truncate(size int64) error
	Close() error
}

// disk is a file of the operating system. Behind what was written stand spaces:
// to write over what the file has already needs one trip to the disk, to make
// it longer needs two.
type disk struct {
	*os.File
	size   int64 // written
	room   int64 // with the spaces
	writes int
	exact  bool // without spaces
}

const (
	padFrom = 3 // the header and a first line come before it: many runs have no more
	minPad  = 64 << 10
	maxPad  = 1 << 20
)

// Write leaves the file's name to who reports the error: it is not always the
// one the file was opened by.
func (d *disk) Write(b []byte) (int, error) {
	n, err := d.WriteAt(b, d.size)
	d.size += int64(n)
	if d.writes++; err == nil && d.writes >= padFrom && d.size > d.room && !d.exact {
		d.pad()
	}
	return n, nameless(err)
}

// pad adds spaces. Where there is no room for them the file goes on without.
func (d *disk) pad() {
	spaces := bytes.Repeat([]byte{' '}, int(min(max(d.size, minPad), maxPad)))
	n, err := d.WriteAt(spaces, d.size)
	d.room, d.exact = d.size+int64(n), err != nil
}

func (d *disk) Push(offset, size int64) { pushData(d.File, offset, size) }

func (d *disk) Sync() error { return syncData(d.File) }

func (d *disk) Trim() error {
	if err := d.unchanged(); err != nil {
		return err
	}
	d.exact = true
	if d.room <= d.size {
		return nil
	}
	return d.Truncate(d.size)
}

// unchanged looks whether the file is as long as it was left. What is written at
// its end into one that was cut would leave a gap before it.
func (d *disk) unchanged() error {
	info, err := d.File.Stat()
	if err != nil {
		return nameless(err)
	}
	if want := max(d.size, d.room); info.Size() != want {
		return &changedError{want, info.Size()}
	}
	return nil
}

func (d *disk) Truncate(size int64) error {
	err := d.File.Truncate(size)
	if err == nil {
		d.size, d.room = size, size
	}
	return nameless(err)
}

// Close takes the spaces away, unless the process is killed before.
func (d *disk) Close() error { return errors.Join(d.Trim(), d.File.Close()) }

// nameless is an error of the system without the names of files.
func nameless(err error) error {
	var opened *fs.PathError
	var linked *os.LinkError
	switch {
	case errors.As(err, &opened):
		return opened.Err
	case errors.As(err, &linked):
		return linked.Err
	}
	return err
}

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

func (m *memory) Trim() error { return nil }

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

// draft is a new file beside where it will stand. It gets its name when its
// header is on the disk, so that a recording that is killed before leaves no
// cassette that cannot be read.
type draft struct {
	disk
	name string
}

func newDraft(path string) (*draft, error) {
	var random [8]byte
	_, _ = rand.Read(random[:]) // never fails
	name := filepath.Join(filepath.Dir(path), ".investigator-"+hex.EncodeToString(random[:])+".new")
	f, err := os.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return nil, createError(path, err)
	}
	return &draft{disk{File: f}, name}, nil
}

// publish gives the file its name, which nothing has yet, and durably.
func (d *draft) publish(path string) error {
	err := os.Link(d.name, path)
	if err != nil && !errors.Is(err, fs.ErrExist) {
		err = d.rename(path)
	}
	if err != nil {
		return createError(path, err)
	}
	_ = os.Remove(d.name) // it is gone where it was renamed
	if err := syncFolder(path); err != nil {
		return errors.Join(&FileError{Verb: "create", File: path, Err: err}, os.Remove(path))
	}
	return nil
}

// rename is for file systems on which a file has one name: it takes the name
// with an empty file, which is then replaced.
func (d *draft) rename(path string) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	if err = errors.Join(f.Close(), os.Rename(d.name, path)); err != nil {
		_ = os.Remove(path)
	}
	return err
}

// discard takes the file back.
func (d *draft) discard() error {
	_ = d.Close()
	if err := os.Remove(d.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nameless(err)
	}
	return nil
}

// createError says why there is no new file at path.
func createError(path string, err error) error {
	out := &FileError{Verb: "create", File: path, Err: nameless(err)}
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
	return out
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
