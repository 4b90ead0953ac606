package recorder

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
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
	dst = appendEscaped(dst, s, true)
	return append(dst, '"')
}

// appendRaw appends JSON text as it is, except that characters YAML cannot
// take inside a string are escaped.
func appendRaw(dst []byte, canonical []byte) []byte {
	return appendEscaped(dst, canonical, false)
}

func appendEscaped[T string | []byte](dst []byte, s T, quote bool) []byte {
	run := 0
	for i := 0; i < len(s); {
		b := s[i]
		if b >= 0x20 && b < 0x7f && (!quote || b != '"' && b != '\\') {
			i++
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		if b >= utf8.RuneSelf && !yamlSpecial(r) {
			i += size
			continue
		}
		dst = appendEscape(append(dst, s[run:i]...), r)
		i += size
		run = i
	}
	return append(dst, s[run:]...)
}

func yamlSpecial(r rune) bool {
	return r >= 0x7f && r <= 0x9f || r == 0x2028 || r == 0x2029 || r == 0xfeff || r == 0xfffe || r == 0xffff
}

func appendEscape(dst []byte, r rune) []byte {
	switch r {
	case '"', '\\':
		return append(dst, '\\', byte(r))
	case '\n':
		return append(dst, '\\', 'n')
	case '\r':
		return append(dst, '\\', 'r')
	case '\t':
		return append(dst, '\\', 't')
	}
	return fmt.Appendf(dst, `\u%04x`, r)
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
