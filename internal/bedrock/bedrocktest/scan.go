package bedrocktest

import (
	"encoding/base64"
	"maps"
	"slices"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
)

// loneSurrogate finds an escaped surrogate that is not one of a pair. The
// decoder would silently turn it into U+FFFD.
func loneSurrogate(body []byte) (int, bool) {
	for i := 0; i < len(body); i++ {
		if body[i] != '\\' {
			continue
		}
		r, ok := escapedRune(body, i)
		if !ok {
			i++ // another escape: skip the byte it escapes
			continue
		}
		if !utf16.IsSurrogate(r) {
			i += 5
			continue
		}
		low, ok := escapedRune(body, i+6)
		if !ok || utf16.DecodeRune(r, low) == utf8.RuneError {
			return i, true
		}
		i += 11
	}
	return 0, false
}

// escapedRune reads \uXXXX at i.
func escapedRune(body []byte, i int) (rune, bool) {
	if i+6 > len(body) || body[i] != '\\' || body[i+1] != 'u' {
		return 0, false
	}
	n, err := strconv.ParseUint(string(body[i+2:i+6]), 16, 16)
	return rune(n), err == nil
}

func badUTF8(body []byte) (int, bool) {
	for i := 0; i < len(body); {
		r, size := utf8.DecodeRune(body[i:])
		if r == utf8.RuneError && size <= 1 {
			return i, true
		}
		i += size
	}
	return 0, false
}

func sortedKeys(m map[string]any) []string { return slices.Sorted(maps.Keys(m)) }

func lookup(v any, name string) (any, bool) {
	m, _ := v.(map[string]any)
	got, ok := m[name]
	return got, ok
}

// unbase64 answers what could be decoded; redacted content is compared, not read.
func unbase64(s string) []byte {
	b, err := base64.StdEncoding.DecodeString(s)
	if err != nil {
		return []byte(s)
	}
	return b
}
