package recorder

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"
)

// escapedSlowly is what the format says of a text, character by character.
func escapedSlowly(s string, quote bool) string {
	var b strings.Builder
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		switch {
		case r == '"' || r == '\\':
			if quote {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\r':
			b.WriteString(`\r`)
		case r == '\t':
			b.WriteString(`\t`)
		case r < 0x20 || 0x7f <= r && r <= 0x9f || strings.ContainsRune("\u2028\u2029\ufeff\ufffe\uffff", r):
			fmt.Fprintf(&b, `\u%04x`, r)
		default:
			b.WriteString(s[i : i+size])
		}
		i += size
	}
	return b.String()
}

func checkEscaped(t *testing.T, s string) {
	t.Helper()
	for _, quote := range []bool{true, false} {
		want := "before" + escapedSlowly(s, quote)
		if got := string(appendEscaped([]byte("before"), []byte(s), quote)); got != want {
			t.Fatalf("%q (quote %v) is written %q, want %q", s, quote, got, want)
		}
	}
}

// Every byte and every odd character at every place of a word, between
// neighbours of every kind.
func TestEscapesAtEveryPlace(t *testing.T) {
	odd := []string{"\u0080", "\u009f", "\u00a0", "\u00c2", "\u2027", "\u2028", "\u2029", "\u202a", "\ufefe", "\ufeff", "\uff00", "\ufffd", "\ufffe", "\uffff", "\U00010000"}
	for c := range 256 {
		odd = append(odd, string([]byte{byte(c)})) // those above 0x7f are not UTF-8 and stay
	}
	for _, around := range []string{"a", "\"", "\x7f", "\u00e9", "\x00", "!", "#", " ", "\u0080"} {
		for at := range 17 {
			for _, s := range odd {
				checkEscaped(t, strings.Repeat(around, at)+s+strings.Repeat(around, 16-at))
			}
		}
	}
}

// FuzzEscaped holds the copying of words to the character by character one.
func FuzzEscaped(f *testing.F) {
	random := rand.New(rand.NewPCG(1, 2))
	for range 20 {
		b := make([]byte, random.IntN(60))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		f.Add(b)
	}
	f.Add([]byte("plain text, \"quoted\" \\ and more of it \u2028"))
	f.Fuzz(func(t *testing.T, b []byte) { checkEscaped(t, string(b)) })
}
