package recorder

import (
	"bytes"
	"runtime"
	"testing"
)

// TestSplit: a text that is cut in several parts at once gives the lines that
// it gives in one.
func TestSplit(t *testing.T) {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(4)) // as many parts as that
	long := bytes.Repeat([]byte("x"), 3*splitBytes)
	short := bytes.Repeat([]byte("some line\n"), splitBytes/2)
	for name, text := range map[string][]byte{
		"nothing":                 nil,
		"one newline":             []byte("\n"),
		"short lines":             short,
		"a last line without end": append(bytes.Clone(short), "tail"...),
		"one long line":           long,
		"a long line at the end":  append(bytes.Clone(short), long...),
		"a long line before":      append(append(bytes.Clone(long), '\n'), short...),
		"empty lines":             bytes.Repeat([]byte("\n"), 3*splitBytes),
	} {
		t.Run(name, func(t *testing.T) {
			want := bytes.Split(text, []byte("\n"))
			if n := len(want) - 1; len(want[n]) == 0 {
				want = want[:n] // what follows the last newline is no line
			}
			got := split(text)
			if len(got) != len(want) {
				t.Fatalf("%d lines, expected %d", len(got), len(want))
			}
			for i := range got {
				if !bytes.Equal(got[i], want[i]) {
					t.Fatalf("line %d is %.40q of %d bytes, expected %.40q of %d", i, got[i], len(got[i]), want[i], len(want[i]))
				}
			}
		})
	}
}
