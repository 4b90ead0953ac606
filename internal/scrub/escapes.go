package scrub

import (
	"bytes"
	"strconv"
)

// JSON is Scrub for JSON text in which plain characters may be escaped, also in
// JSON inside its texts, and inside the texts of that: a signature behind
// \\u003d is one, and so is a key in which each slash is \\/. Only a text that
// holds a secret loses its escapes, so that the rest of a conversation stays the
// same whatever comes to it. Other text than JSON may be given.
func JSON(b []byte) ([]byte, int) {
	count := 0
	for { // a mark may end what was a part of a longer word
		out, n := scrubHidden(b)
		if n == 0 {
			return b, count
		}
		b, count = out, count+n
	}
}

func scrubHidden(b []byte) ([]byte, int) {
	plain := withoutEscapes(b)
	if len(plain) == len(b) || Find(plain) == "" {
		return Scrub(b)
	}
	b, hidden := scrubTexts(b)
	b, seen := Scrub(b)
	if plain = withoutEscapes(b); Find(plain) == "" {
		return b, hidden + seen
	}
	b, n := Scrub(plain) // in several texts
	return b, hidden + seen + n
}

// scrubTexts scrubs the texts of JSON in which escapes hide a secret, a member's
// name together with its text.
func scrubTexts(b []byte) (out []byte, count int) {
	for len(b) > 0 {
		text := b[:endOfMember(b)]
		if plain := withoutEscapes(text); len(plain) < len(text) {
			if clean, n := Scrub(plain); n > 0 {
				out, count, b = append(out, clean...), count+n, b[len(text):]
				continue
			}
		}
		out, b = append(out, text...), b[len(text):]
	}
	return out, count
}

// endOfMember is endOfText for a name and its text, where b begins with such.
func endOfMember(b []byte) int {
	end := endOfText(b)
	between := b[end:]
	between = between[:endOfText(between)]
	if value := b[end+len(between):]; b[0] == '"' && len(value) > 0 && string(bytes.TrimSpace(between)) == ":" {
		return end + len(between) + endOfText(value)
	}
	return end
}

// endOfText returns the offset behind the text that b begins with, or behind what
// stands before the next one.
func endOfText(b []byte) int {
	for i := 0; i < len(b); i++ {
		switch {
		case b[0] == '"' && b[i] == '\\':
			i++
		case i > 0 && b[i] == '"' && b[0] == '"':
			return i + 1
		case i > 0 && b[i] == '"':
			return i
		}
	}
	return len(b)
}

// withoutEscapes writes the escapes of letters, digits and other plain characters
// as what they stand for, however deep. It returns b itself where there are none.
func withoutEscapes(b []byte) []byte {
	if !bytes.Contains(b, []byte(`\u00`)) && !bytes.Contains(b, []byte(`\/`)) {
		return b
	}
	out := make([]byte, 0, len(b))
	for len(b) > 0 {
		i := bytes.IndexByte(b, '\\')
		if i < 0 {
			break
		}
		out, b = append(out, b[:i]...), b[i:]
		run := 1
		for run < len(b) && b[run] == '\\' {
			run++
		}
		c, size := plainEscape(b[run:])
		if size == 0 {
			out, b = append(out, b[:run]...), b[run:]
			continue
		}
		// Each level of JSON in JSON doubles them: the lowest bit says at which
		// the character is escaped. What is before it are backslashes there.
		out = append(out, b[:run&(run-1)]...)
		out, b = append(out, c), b[run+size:]
	}
	return append(out, b...)
}

// plainEscape reads what follows the backslashes of the escape of a character
// that could stand as it is; size is 0 where it is none.
func plainEscape(b []byte) (c byte, size int) {
	if len(b) > 0 && b[0] == '/' {
		return '/', 1
	}
	if len(b) < 5 || b[0] != 'u' || b[1] != '0' || b[2] != '0' {
		return 0, 0
	}
	v, err := strconv.ParseUint(string(b[3:5]), 16, 8)
	if err != nil || v < ' ' || v > '~' || v == '"' || v == '\\' {
		return 0, 0
	}
	return byte(v), 5
}
