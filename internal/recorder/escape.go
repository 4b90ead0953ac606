package recorder

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"math/bits"
	"unicode/utf8"
)

// binaryTag marks a string whose bytes are not UTF-8, in YAML's own way.
const binaryTag = `!!binary "`

// appendText appends s as a string that encoding/json and yaml.v3 read alike.
// JSON allows characters that YAML's reader refuses or folds (DEL and the C1
// controls, the line separators, the byte order mark, two noncharacters); YAML
// refuses the surrogate escapes that JSON allows. So the former are escaped and
// the latter never written. s must be valid UTF-8.
func appendText[T string | []byte](dst []byte, s T) []byte {
	dst = append(dst, '"')
	dst = appendEscaped(dst, []byte(s), true)
	return append(dst, '"')
}

// appendRaw appends JSON text as it is, except that characters YAML cannot
// take inside a string are escaped.
func appendRaw(dst []byte, canonical []byte) []byte {
	return appendEscaped(dst, canonical, false)
}

// appendEscaped copies sixteen bytes at a time and looks at them while they are
// at hand: nearly all of them stand in a string as they are.
func appendEscaped(dst, s []byte, quote bool) []byte {
	for len(s) >= 16 {
		word, next := binary.LittleEndian.Uint64(s), binary.LittleEndian.Uint64(s[8:])
		odd := oddBytes(word)
		if odd|oddBytes(next) == 0 {
			dst = binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(dst, word), next)
			s = s[16:]
			continue
		}
		dst = binary.LittleEndian.AppendUint64(dst, word)
		if odd == 0 {
			s = s[8:]
			continue
		}
		plain := bits.TrailingZeros64(odd) / 8
		dst = dst[:len(dst)-8+plain]
		if b := s[plain]; quote && (b == '"' || b == '\\') { // nearly all that are odd
			dst, s = append(dst, '\\', b), s[plain+1:]
			continue
		}
		dst, s = appendOdd(dst, s[plain:], quote)
	}
	for len(s) > 0 {
		if b := s[0]; b >= 0x20 && b < 0x7f && b != '"' && b != '\\' {
			dst, s = append(dst, b), s[1:]
			continue
		}
		dst, s = appendOdd(dst, s, quote)
	}
	return dst
}

// Words of eight bytes.
const (
	eachByte = 0x0101010101010101
	topBits  = 0x80 * eachByte
)

// oddBytes marks, by their top bits, the bytes of a word that may have to be
// escaped: controls, the quote, the backslash, DEL and what is not ASCII. The
// lowest mark is exact; those above it may be false.
func oddBytes(word uint64) uint64 {
	low := word ^ 2*eachByte // the quote becomes 0x20, a space more
	back := word ^ '\\'*eachByte
	return ((low-0x21*eachByte)&^low | (back-eachByte)&^back | word | (word + eachByte)) & topBits
}

// appendOdd appends the character at the beginning of s, which is one that
// oddBytes marks, and returns what follows it in s.
func appendOdd(dst, s []byte, quote bool) (out, rest []byte) {
	switch b := s[0]; {
	case b == '"' || b == '\\':
		if quote {
			dst = append(dst, '\\')
		}
		return append(dst, b), s[1:]
	case b < utf8.RuneSelf:
		return appendEscape(dst, rune(b)), s[1:]
	}
	if n := foreignRun(s); n > 0 {
		return append(dst, s[:n]...), s[n:]
	}
	r, size := utf8.DecodeRune(s)
	return appendEscape(dst, r), s[size:]
}

// foreignRun is how many bytes at the beginning of s are not ASCII and need no
// escape. The characters that do begin with one of three bytes.
func foreignRun(s []byte) int {
	n := 0
	for n < len(s) && s[n] >= utf8.RuneSelf {
		size := 1
		if s[n] == 0xc2 || s[n] == 0xe2 || s[n] == 0xef {
			var r rune
			if r, size = utf8.DecodeRune(s[n:]); yamlSpecial(r) {
				break
			}
		}
		n += size
	}
	return n
}

func yamlSpecial(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
}

const hexDigits = "0123456789abcdef"

// appendEscape appends the escape of a character below U+10000.
func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return append(dst, '\\', 'u', hexDigits[r>>12], hexDigits[r>>8&15], hexDigits[r>>4&15], hexDigits[r&15])
}

// appendBody appends the bytes of a body: as text when they are UTF-8, else as
// !!binary.
func appendBody(dst []byte, b []byte) []byte {
	if utf8.Valid(b) {
		return appendText(dst, b)
	}
	dst = append(dst, binaryTag...)
	dst = base64.StdEncoding.AppendEncode(dst, b)
	return append(dst, '"')
}

// body is a stored body when read: a string, or an object that stands for
// !!binary (see jsonOf).
type body []byte

// binaryMember is the member by which jsonOf hands a !!binary string on.
const binaryMember = "!!binary"

// UnmarshalJSON reads a string or the object jsonOf makes of !!binary.
func (b *body) UnmarshalJSON(text []byte) error {
	if len(text) > 0 && text[0] == '{' {
		var m map[string][]byte
		if err := json.Unmarshal(text, &m); err != nil {
			return err
		}
		*b = m[binaryMember]
		return nil
	}
	var s string
	if err := json.Unmarshal(text, &s); err != nil {
		return err
	}
	*b = []byte(s)
	return nil
}

// jsonOf turns a line into JSON: !!binary "…" outside of strings becomes an
// object. Nearly all lines hold none and are returned as they are.
func jsonOf(line []byte) []byte {
	if !bytes.Contains(line, []byte(binaryTag)) {
		return line
	}
	var out []byte
	inString, run := false, 0
	for i := 0; i < len(line); i++ {
		switch {
		case inString && line[i] == '\\':
			i++
		case line[i] == '"':
			inString = !inString
		case !inString && line[i] == '!' && bytes.HasPrefix(line[i:], []byte(binaryTag)):
			end := bytes.IndexByte(line[i+len(binaryTag):], '"')
			if end < 0 {
				return line
			}
			end += i + len(binaryTag) + 1
			out = append(append(out, line[run:i]...), `{"`+binaryMember+`":`...)
			out = append(append(out, line[i+len(binaryTag)-1:end]...), '}')
			run, i = end, end-1
		}
	}
	return append(out, line[run:]...)
}
