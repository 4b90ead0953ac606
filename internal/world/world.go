package world

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// The patterns name what the reader may open, so nothing else of the folder can
// get into the program.
//
//go:embed demo/world.json demo/alert.json demo/changes.jsonl demo/metrics demo/logs
var demoFiles embed.FS

// World is one recorded incident. It is immutable and safe for concurrent use.
type World struct {
	name    string
	meta    meta
	alert   Alert
	context json.RawMessage
	digest  string

	metrics map[string][]series // by service, each sorted by metric
	changes []change            // sorted by time
	logs    []logFile           // sorted by service
	parsed  func() error        // parses all logs, once

	tools []tool
}

// Demo opens the world that is part of the program, as [Open] does.
func Demo() (*World, error) {
	fsys, err := fs.Sub(demoFiles, "demo")
	if err != nil {
		return nil, fmt.Errorf("open demo world: %w", err)
	}
	return load(fsys, "demo")
}

// Open reads the whole world in fsys, whose root is the world's folder, and
// checks all but the lines of logs; [World.Check] does that. Errors name the
// file and, where there is one, the line. fsys is not used after Open has
// returned.
func Open(fsys fs.FS) (*World, error) {
	w, err := load(fsys, "")
	if err != nil {
		return nil, fmt.Errorf("open world: %w", err)
	}
	return w, nil
}

// OpenDir is [Open] for a folder on disk. Links inside the folder are refused,
// and nothing outside of it is ever opened.
func OpenDir(dir string) (*World, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, openDirError(dir, err)
	}
	defer root.Close()
	w, err := load(root.FS(), folderName(dir))
	if err != nil {
		return nil, fmt.Errorf("open world %q: %w", dir, err)
	}
	return w, nil
}

// layoutHint ends the errors of somebody who pointed at the wrong folder.
const layoutHint = "a world is a folder with world.json, alert.json and, as far as there are any, metrics/SERVICE.csv, logs/SERVICE.jsonl and changes.jsonl"

func openDirError(dir string, err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("open world %q: no such folder; %s", dir, layoutHint)
	}
	if info, statErr := os.Stat(dir); statErr == nil && !info.IsDir() {
		return fmt.Errorf("open world %q: not a folder; %s", dir, layoutHint)
	}
	return fmt.Errorf("open world %q: %w", dir, err)
}

// folderName is the name the model must not see; "." says nothing by itself.
func folderName(dir string) string {
	abs, err := filepath.Abs(dir)
	if err != nil {
		return ""
	}
	return strings.Trim(filepath.Base(abs), `/\.`)
}

// Name is what people call the world. It may give the answer away and is never
// shown to a model.
func (w *World) Name() string { return w.name }

// Digest is the SHA-256, in hex, of everything an investigator can see here.
// Worlds that differ only in answer.json, NOTICE.md, attribution, name or the
// compression of a log have the same digest.
func (w *World) Digest() string { return w.digest }

// Clock is the moment of the investigation, in UTC. Nothing here is newer.
func (w *World) Clock() time.Time { return w.meta.clock }

// Alert is the question and the signal that raised it.
func (w *World) Alert() Alert { return w.alert }

// Context is what a model is told at the start: alert, now, services, and title
// and summary unless they would name the world. The caller must not change it.
func (w *World) Context() json.RawMessage { return w.context }

// Check parses what Open has left to first use: every line of every log. Do it
// before a run that costs something, so that damage is not found in its middle;
// the work is not lost, as later calls use the parsed lines. A world that passes
// answers every well-formed call. Errors name the file and the line, and are the
// same each time.
func (w *World) Check() error {
	if err := w.parsed(); err != nil {
		return fmt.Errorf("check world: %w", err)
	}
	return nil
}

// load reads a world; base is its folder's name where that is known.
func load(fsys fs.FS, base string) (*World, error) {
	d, err := newFolder(fsys)
	if err != nil {
		return nil, err
	}
	w := &World{}
	var sums []file
	for _, part := range []func(*folder) ([]file, error){w.loadMeta, w.loadMetrics, w.loadChanges, w.loadLogs} {
		files, err := part(d)
		if err != nil {
			return nil, err
		}
		sums = append(sums, files...)
	}
	w.name = w.meta.Name
	if w.name == "" {
		w.name = base
	}
	w.context = w.meta.context(w.alert, base)
	w.digest = digest(sums)
	w.tools = w.buildTools()
	return w, nil
}

func digest(files []file) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%d %s %x\n", len(f.path), f.path, f.sum)
	}
	return hex.EncodeToString(h.Sum(nil))
}

func (w *World) loadMetrics(d *folder) ([]file, error) {
	files, err := d.serviceFiles("metrics", w.meta.Services, ".csv")
	if err != nil {
		return nil, err
	}
	w.metrics = make(map[string][]series, len(files))
	read := make([]file, 0, len(files))
	for _, sf := range files {
		f, err := d.read(sf.path)
		if err != nil {
			return nil, err
		}
		if w.metrics[sf.service], err = parseMetrics(f, w.meta.clock); err != nil {
			return nil, err
		}
		read = append(read, f)
	}
	return read, nil
}

func (w *World) loadChanges(d *folder) ([]file, error) {
	if !d.has("changes.jsonl") {
		return nil, nil
	}
	f, err := d.read("changes.jsonl")
	if err != nil {
		return nil, err
	}
	if w.changes, err = parseChanges(f, w.meta); err != nil {
		return nil, err
	}
	// What is summed is what is shown: `synthetic` is for people.
	return []file{newFile(f.path, encode(w.changes))}, nil
}

// loadLogs reads the log files side by side: unpacking them is most of the work
// of opening a large world.
func (w *World) loadLogs(d *folder) ([]file, error) {
	names, err := d.serviceFiles("logs", w.meta.Services, ".jsonl", ".jsonl.gz")
	if err != nil {
		return nil, err
	}
	read := make([]file, len(names))
	err = inParallel(len(names), func(i int) (err error) {
		read[i], err = d.read(names[i].path)
		return err
	})
	if err != nil {
		return nil, err
	}
	for i, sf := range names {
		w.logs = append(w.logs, newLogFile(sf.service, read[i], w.meta.clock))
		read[i] = file{path: strings.TrimSuffix(sf.path, ".gz"), sum: read[i].sum}
	}
	w.parsed = sync.OnceValue(func() error { return parseAll(w.logs) })
	return read, nil
}

// parseAll parses those logs that are not parsed yet, side by side.
func parseAll(logs []logFile) error {
	return inParallel(len(logs), func(i int) error {
		_, err := logs[i].lines()
		return err
	})
}

// inParallel calls f for 0..n-1 on as many processors as there are and returns
// the error of the lowest index, so that the same damage gives the same error.
func inParallel(n int, f func(int) error) error {
	errs := make([]error, n)
	slots := make(chan struct{}, runtime.GOMAXPROCS(0))
	var wg sync.WaitGroup
	for i := range n {
		slots <- struct{}{}
		wg.Go(func() {
			defer func() { <-slots }()
			errs[i] = f(i)
		})
	}
	wg.Wait()
	if i := slices.IndexFunc(errs, func(err error) bool { return err != nil }); i >= 0 {
		return errs[i]
	}
	return nil
}
