package proxy

import (
	"os"
	"path/filepath"

	"investigator/internal/recorder"
)

// begin makes the fork's cassette with the history up to the fork point and
// the patched event. Where it fails no cassette is left.
func (f *forking) begin(c *call) error {
	h, err := f.forkHeader()
	if err != nil {
		return err
	}
	w, err := f.o.Create(h)
	if err != nil {
		return err
	}
	if err := f.fill(w, c); err != nil {
		f.takeBack(w)
		return err
	}
	f.out.Cassette = w.Path()
	return nil
}

// forkHeader is the parent's header with the fork's lineage.
func (f *forking) forkHeader() (recorder.Header, error) {
	parent := f.o.Parent
	h := parent.Header()
	total, err := parent.EventCount()
	if err != nil {
		return h, err
	}
	sum, err := parent.LedgerSum(total)
	if err != nil {
		return h, err
	}
	patch, err := f.o.Patch.JSON()
	if err != nil {
		return h, err
	}
	mode := "halt"
	if f.o.Live {
		mode = "live"
	}
	h.Parent = &recorder.Parent{Run: h.Run, Ledger: sum.String(), File: filepath.Base(parent.Name()), At: f.o.Patch.At, Patch: patch, Mode: mode}
	h.Tool, h.Run, h.Started = f.p.o.Tool, f.p.o.NewRun(), f.p.o.Now().UTC().Format("2006-01-02T15:04:05Z")
	if f.onStart() {
		return f.startIn(h)
	}
	return h, nil
}

// fill writes the history and the patched event.
func (f *forking) fill(w *recorder.Writer, c *call) error {
	if !f.onStart() {
		if err := w.CopyPrefix(f.o.Parent, f.o.Patch.At); err != nil {
			return err
		}
	}
	if err := f.adopt(w, c); err != nil || !f.onTurn() {
		return err
	}
	return f.turn(c)
}

func (f *forking) adopt(w *recorder.Writer, c *call) error {
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	f.run = f.runs.adopt(w, "", f.before)
	return f.results(c)
}

// takeBack removes the cassette of a fork that could not begin.
func (f *forking) takeBack(w *recorder.Writer) {
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	if f.run != nil {
		f.runs.forget(f.run)
		f.run = nil
	}
	_ = w.Close() // nothing of it is wanted
	if w.Path() != "" {
		_ = os.Remove(w.Path()) // if it stays, the next attempt says so
	}
}

// breakOff gives the fork's cassette up.
func (f *forking) breakOff(err error) {
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	if !f.run.broken {
		f.runs.broke(f.run, err)
	}
}
