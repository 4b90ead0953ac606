package world

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"path"
	"slices"
	"strings"
	"sync/atomic"
	"unicode/utf8"
)

// A world comes from anywhere, a compressed log can be a thousand times its
// size, and all of it is kept in memory.
const (
	maxFileBytes  = 64 << 20
	maxWorldBytes = 256 << 20
)

// folder reads the plain files of a world within the limits above.
type folder struct {
	fsys fs.FS
	top  map[string]fs.DirEntry
	used atomic.Int64
}

// file is one whole file: decompressed, LF line ends, valid UTF-8.
type file struct {
	path string
	data []byte
	sum  [sha256.Size]byte
}

// serviceFile is a file of one service: metrics/checkout.csv.
type serviceFile struct{ service, path string }

func newFolder(fsys fs.FS) (*folder, error) {
	entries, err := fs.ReadDir(fsys, ".")
	if err != nil {
		return nil, fmt.Errorf("read folder: %w", err)
	}
	d := &folder{fsys: fsys, top: make(map[string]fs.DirEntry, len(entries))}
	for _, e := range entries {
		d.top[e.Name()] = e
	}
	if !d.has("world.json") {
		return nil, errors.New("no world.json here; " + layoutHint)
	}
	return d, nil
}

func (d *folder) has(name string) bool { return d.top[name] != nil }

// plain refuses links, which could lead out of the folder, and pipes and
// devices, whose reading may never end.
func plain(name string, e fs.DirEntry) error {
	switch {
	case e.Type()&fs.ModeSymlink != 0:
		return fmt.Errorf("%s: a symbolic link; a world holds plain files, copy the target here", name)
	case !e.Type().IsRegular():
		return fmt.Errorf("%s: not a plain file", name)
	}
	return nil
}

// serviceFiles lists dir as files of known services, sorted by service. A
// missing dir is a world without such files.
func (d *folder) serviceFiles(dir string, services []string, suffixes ...string) ([]serviceFile, error) {
	e := d.top[dir]
	if e == nil {
		return nil, nil
	}
	if !e.IsDir() {
		return nil, fmt.Errorf("%s: expected a folder", dir)
	}
	entries, err := fs.ReadDir(d.fsys, dir)
	if err != nil {
		return nil, fmt.Errorf("read folder %s: %w", dir, err)
	}
	var files []serviceFile
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue // what desktops and editors leave behind
		}
		f, err := serviceOf(path.Join(dir, e.Name()), e, services, suffixes)
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	return sortFiles(files)
}

func serviceOf(name string, e fs.DirEntry, services, suffixes []string) (serviceFile, error) {
	if err := plain(name, e); err != nil {
		return serviceFile{}, err
	}
	for _, suffix := range suffixes {
		service, ok := strings.CutSuffix(e.Name(), suffix)
		if !ok {
			continue
		}
		if !slices.Contains(services, service) {
			return serviceFile{}, fmt.Errorf("%s: service %q is not among the services of world.json", name, service)
		}
		return serviceFile{service, name}, nil
	}
	return serviceFile{}, fmt.Errorf("%s: expected a file named SERVICE%s", name, strings.Join(suffixes, " or SERVICE"))
}

func sortFiles(files []serviceFile) ([]serviceFile, error) {
	slices.SortFunc(files, func(a, b serviceFile) int {
		return strings.Compare(a.service+"\x00"+a.path, b.service+"\x00"+b.path)
	})
	for i := 1; i < len(files); i++ {
		if files[i].service == files[i-1].service {
			return nil, fmt.Errorf("%s: %s holds the same service; keep one of them", files[i].path, files[i-1].path)
		}
	}
	return files, nil
}

// read returns a whole file. It is safe for concurrent use.
func (d *folder) read(name string) (file, error) {
	if e := d.top[name]; e != nil {
		if err := plain(name, e); err != nil {
			return file{}, err
		}
	}
	data, err := d.readAll(name)
	if err != nil {
		return file{}, fmt.Errorf("read %s: %w", name, err)
	}
	if d.used.Add(int64(len(data))) > maxWorldBytes {
		return file{}, fmt.Errorf("read %s: the world is larger than %d MB, unpacked; keep the part around the incident", name, maxWorldBytes>>20)
	}
	data = bytes.TrimPrefix(data, []byte("\ufeff"))
	if bytes.Contains(data, []byte("\r\n")) { // ReplaceAll would copy a large log for nothing
		data = bytes.ReplaceAll(data, []byte("\r\n"), []byte("\n"))
	}
	if !utf8.Valid(data) {
		data = bytes.ToValidUTF8(data, []byte("\ufffd"))
	}
	return newFile(name, data), nil
}

func newFile(name string, data []byte) file {
	return file{path: name, data: data, sum: sha256.Sum256(data)}
}

func (d *folder) readAll(name string) ([]byte, error) {
	f, err := d.fsys.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var r io.Reader = f
	if strings.HasSuffix(name, ".gz") {
		if r, err = gzip.NewReader(f); err != nil {
			return nil, fmt.Errorf("not a gzip file: %w", err)
		}
	}
	data, err := io.ReadAll(io.LimitReader(r, maxFileBytes+1))
	if err == nil && len(data) > maxFileBytes {
		err = fmt.Errorf("larger than %d MB, unpacked; keep the part around the incident", maxFileBytes>>20)
	}
	return data, err
}

// lines yields the lines that are not blank, with their numbers from 1.
func (f file) lines() iter.Seq2[int, []byte] {
	return func(yield func(int, []byte) bool) {
		n := 0
		for line := range bytes.SplitSeq(f.data, []byte("\n")) {
			n++
			line = bytes.TrimSpace(line)
			if len(line) > 0 && !yield(n, line) {
				return
			}
		}
	}
}

// errorf is an error about one line of the file.
func (f file) errorf(line int, format string, args ...any) error {
	return fmt.Errorf("%s line %d: %w", f.path, line, fmt.Errorf(format, args...))
}
