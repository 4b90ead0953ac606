package recorder

import (
	"bytes"
	"strings"
	"testing"
)

// FuzzControlIn: words of eight bytes find what a look at each byte finds.
func FuzzControlIn(f *testing.F) {
	for _, s := range []string{"", "a", "plain text, longer than a word", "seven..\x1f", "eight...\"", "é\x7f\x80\xff and \x00", strings.Repeat("x", 15) + "\n"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		want := bytes.IndexFunc(b, func(r rune) bool { return r < 0x20 || r == '"' })
		if got := controlIn(b); got != want {
			t.Errorf("%q: found one at %d, expected %d", b, got, want)
		}
	})
}
