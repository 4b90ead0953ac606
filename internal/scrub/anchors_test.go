package scrub

import (
	"bytes"
	"math/rand/v2"
	"strings"
	"testing"
)

// plainly looks for every anchor by itself.
func plainly(b []byte) uint64 {
	var out uint64
	for i, r := range rules {
		for _, a := range r.anchors {
			text := b
			if a == strings.ToLower(a) {
				text = lower(b)
			}
			if bytes.Contains(text, []byte(a)) {
				out |= 1 << i
			}
		}
	}
	return out
}

func lower(b []byte) []byte {
	return bytes.Map(func(r rune) rune { // ASCII alone
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, b)
}

// TestAnchorsAreFoundInOnePass: the one pass finds what looking for each anchor
// finds, wherever it stands and in whatever case.
func TestAnchorsAreFoundInOnePass(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var anchors []string
	for _, rule := range rules {
		anchors = append(anchors, rule.anchors...)
	}
	for range 20_000 {
		var b []byte
		for range r.IntN(4) {
			a := []byte(anchors[r.IntN(len(anchors))])
			switch r.IntN(4) {
			case 0:
				a = bytes.ToUpper(a)
			case 1:
				a = a[:r.IntN(len(a)+1)]
			case 2:
				a[r.IntN(len(a))] ^= 0x20
			}
			b = append(b, a...)
			b = append(b, "a_-sS \x7f@"[:r.IntN(8)]...)
		}
		if got, want := anchored(b), plainly(b); got != want {
			t.Fatalf("%q: rules %b, want %b", b, got, want)
		}
	}
}

// TestAnchorsAreFoundAtEveryPlace: behind and before any number of bytes, among
// bytes that are themselves parts of anchors.
func TestAnchorsAreFoundAtEveryPlace(t *testing.T) {
	for i, r := range rules {
		for _, a := range r.anchors {
			for _, filler := range []string{"x", "authorizatio", "AKI", "eyJ."} {
				for before := range 30 {
					for after := range 12 {
						b := []byte(strings.Repeat(filler, 30)[:before] + a + strings.Repeat(filler, 12)[:after])
						if anchored(b)&(1<<i) == 0 {
							t.Fatalf("%q: no %s", b, r.kind)
						}
					}
				}
			}
		}
	}
}

func FuzzAnchored(f *testing.F) {
	f.Add([]byte("x authorizAuthorization: eyJ.eyJ -AKAKIA secret_key"))
	f.Fuzz(func(t *testing.T, b []byte) {
		if got, want := anchored(b), plainly(b); got != want {
			t.Fatalf("%q: rules %b, want %b", b, got, want)
		}
	})
}

func TestEveryAnchorIsLongEnough(t *testing.T) {
	for _, r := range rules {
		for _, a := range r.anchors {
			if len(a) < short {
				t.Errorf("anchor %q of %s is shorter than two pairs", a, r.kind)
			}
		}
	}
	if len(rules) > 64 {
		t.Errorf("%d rules do not fit the bits", len(rules))
	}
}

func BenchmarkFind(b *testing.B) {
	text := []byte(strings.Repeat("02:03:14 checkout payments-db pool exhausted waiting connection timeout after retry id=5e1f\n", 110))
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		if Find(text) != "" {
			b.Fatal("found a secret")
		}
	}
}
