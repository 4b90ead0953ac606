package main

import (
	"os"
	"path/filepath"
	"testing"

	"investigator/internal/recorder"
)

// TestNamesInFolder: two runs of a folder whose names would be the same, which
// 24 bits of their ids allow, both get one.
func TestNamesInFolder(t *testing.T) {
	dir := t.TempDir()
	c, err := recorder.Open(filepath.Join("..", "..", "cassettes", "run_a.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	create := cassetteMaker(dir)
	made := map[string]bool{}
	for _, run := range []string{"0123456789abcdef", "0123450000000000", "012345ffffffffff"} {
		h := c.Header()
		h.Run = run
		w, err := create(1, h)
		if err != nil {
			t.Fatal(err)
		}
		made[filepath.Base(w.Path())] = true
		if err := w.Close(); err != nil {
			t.Error(err)
		}
	}
	names, err := os.ReadDir(dir)
	if err != nil || len(names) != 3 || len(made) != 3 {
		t.Errorf("made %v, found %v, %v", made, names, err)
	}
}
