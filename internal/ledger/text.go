package ledger

import (
	"bytes"
	"unicode/utf16"
	"unicode/utf8"
)

// str reads one string. Runs of plain bytes, which are nearly everything, are
// leapt over.
func (c *canoniser) str() error {
	c.pos++
	for {
		start := c.pos
		end, ascii := plainEnd(c.src, start)
		c.pos = end
		if !ascii && !utf8.Valid(c.src[start:end]) {
			c.repair(start, end)
		}
		switch {
		case end >= len(c.src):
			return c.fail("the end of a string")
		case c.src[end] == '"':
			c.pos++
			return nil
		case c.src[end] != '\\':
			return c.fail("an escaped control character")
		}
		if err := c.escape(); err != nil {
			return err
		}
	}
}

// repair replaces what is no UTF-8 in a part of a string.
func (c *canoniser) repair(start, end int) {
	for c.pos = start; c.pos < end; {
		r, size := utf8.DecodeRune(c.src[c.pos:end])
		c.pos += size
		if r == utf8.RuneError && size == 1 {
			c.write(c.pos-1, []byte("\uFFFD")...)
		}
	}
}

func plain(b byte) bool { return b >= 0x20 && b < utf8.RuneSelf && b != '"' && b != '\\' }

// escape reads one escape, most of which are canonical.
func (c *canoniser) escape() error {
	c.escapes++
	c.pos++
	switch c.peek() {
	case '"', '\\', 'b', 'f', 'n', 'r', 't':
		c.pos++
	case '/':
		c.pos++
		c.write(c.pos-2, '/')
	case 'u':
		return c.unicode()
	default:
		return c.fail("an escape")
	}
	return nil
}

// unicode reads an escape from its u on, and the second half of a surrogate
// pair where one follows. A half alone becomes U+FFFD.
func (c *canoniser) unicode() error {
	start := c.pos - 1
	c.pos++
	r, ok := hex4(c.src, c.pos)
	if !ok {
		return c.fail("four hex digits")
	}
	c.pos += 4
	if utf16.IsSurrogate(r) {
		low, ok := rune(0), false
		if bytes.HasPrefix(c.src[c.pos:], []byte(`\u`)) {
			low, ok = hex4(c.src, c.pos+2)
		}
		r = utf16.DecodeRune(r, low)
		if ok && r != utf8.RuneError {
			c.pos += 6
		}
	}
	var buf [6]byte
	if text := appendRune(buf[:0], r); !bytes.Equal(text, c.src[start:c.pos]) {
		c.write(start, text...)
	}
	return nil
}

func hex4(b []byte, at int) (rune, bool) {
	if at+4 > len(b) {
		return 0, false
	}
	var r rune
	for _, d := range b[at : at+4] {
		switch {
		case '0' <= d && d <= '9':
			r = r<<4 | rune(d-'0')
		case 'a' <= d && d <= 'f':
			r = r<<4 | rune(d-'a'+10)
		case 'A' <= d && d <= 'F':
			r = r<<4 | rune(d-'A'+10)
		default:
			return 0, false
		}
	}
	return r, true
}

const hexDigits = "0123456789abcdef"

// appendRune appends r as it stands inside a canonical string.
func appendRune(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\b':
		return append(dst, '\\', 'b')
	case '\f':
		return append(dst, '\\', 'f')
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	if r < 0x20 {
		return append(dst, '\\', 'u', '0', '0', hexDigits[r>>4], hexDigits[r&15])
	}
	return utf8.AppendRune(dst, r)
}

// AppendString appends s as a canonical JSON string. Bytes that are not UTF-8
// become U+FFFD.
func AppendString(dst []byte, s string) []byte {
	dst = append(dst, '"')
	run := 0
	for i := 0; i < len(s); {
		if plain(s[i]) {
			i++
			continue
		}
		dst = append(dst, s[run:i]...)
		r, size := utf8.DecodeRuneInString(s[i:])
		dst = appendRune(dst, r)
		i += size
		run = i
	}
	return append(append(dst, s[run:]...), '"')
}
