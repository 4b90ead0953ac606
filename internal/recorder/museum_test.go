package recorder_test

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/recorder"
)

// TestMuseum reads every cassette of testdata/museum. The table in its README
// says what happened to each file and, word for word, what a reader says of it.
// The files are never made again: they stand for those that are out there.
func TestMuseum(t *testing.T) {
	dir := filepath.Join("testdata", "museum")
	want := catalogue(t, filepath.Join(dir, "README.md"))
	files, err := filepath.Glob(filepath.Join(dir, "*.yaml"))
	if err != nil || len(files) < 30 {
		t.Fatalf("found %d exhibits (%v), want at least 30", len(files), err)
	}
	got := map[string]string{}
	for _, file := range files {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		got[filepath.Base(file)] = verdictOn(filepath.Base(file), b)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("README.md (-), the reader (+):\n%s", d)
	}
}

// catalogue reads the last column of the README's table, by file.
func catalogue(t *testing.T, file string) map[string]string {
	t.Helper()
	b, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for line := range strings.Lines(string(b)) {
		cells := strings.SplitN(strings.TrimSuffix(strings.TrimSpace(line), " |"), " | ", 3)
		if name, found := strings.CutPrefix(cells[0], "| "); found && strings.HasSuffix(name, ".yaml") && len(cells) == 3 {
			out[name] = cells[2]
		}
	}
	return out
}

// verdictOn says how far a cassette can be read.
func verdictOn(name string, b []byte) string {
	c, err := recorder.Parse(name, b)
	if err != nil {
		return err.Error()
	}
	var ledger bytes.Buffer
	if err := c.WriteLedger(&ledger); err != nil {
		return "opens; " + err.Error()
	}
	state := "sealed"
	if !c.Sealed() {
		state = "unfinished"
	}
	text := fmt.Sprintf("%d events, %s", strings.Count(ledger.String(), "\n"), state)
	if torn := c.Torn(); torn != nil {
		text += "; " + torn.Error()
	}
	return text
}
