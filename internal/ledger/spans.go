package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"unicode/utf8"
)

// Span is where one member of a canonical object stands: from Start (the
// opening quote of its name) to End (after its value). Value is the value's
// text, a part of the object.
type Span struct {
	Name       string
	Start, End int
	Value      []byte
}

// errNotObject is returned for text that is not a canonical object.
var errNotObject = errors.New("expected a canonical JSON object")

// MemberSpans finds the members of a canonical object without decoding their
// values. Text that is not a canonical object gives an error or, deep inside a
// value, is passed over: it is for text this project canonicalised itself.
func MemberSpans(object []byte) ([]Span, error) {
	if len(object) < 2 || object[0] != '{' || object[len(object)-1] != '}' {
		return nil, errNotObject
	}
	var spans []Span
	for pos := 1; pos < len(object)-1; pos++ {
		keyEnd := skipString(object, pos)
		if keyEnd < 0 || keyEnd >= len(object) || object[keyEnd] != ':' {
			return nil, errNotObject
		}
		end := SkipValue(object, keyEnd+1)
		if end < 0 || end >= len(object) {
			return nil, errNotObject
		}
		name := object[pos+1 : keyEnd-1]
		spans = append(spans, Span{Name: string(name), Start: pos, End: end, Value: object[keyEnd+1 : end]})
		pos = end
	}
	return spans, nil
}

// Elements splits a canonical array without decoding its elements, which are
// parts of it; nil for an empty array and for anything else.
func Elements(array []byte) []json.RawMessage {
	if len(array) < 2 || array[0] != '[' || array[len(array)-1] != ']' {
		return nil
	}
	var out []json.RawMessage
	for pos := 1; pos < len(array)-1; pos++ {
		end := SkipValue(array, pos)
		if end <= pos || end >= len(array) {
			return nil
		}
		out = append(out, array[pos:end])
		pos = end
	}
	return out
}

// PlainString returns the text of a canonical string in which nothing is
// escaped, which is nearly every one, and reports whether it is one.
func PlainString(value []byte) (string, bool) {
	n := len(value)
	if n < 2 || value[0] != '"' || bytes.IndexByte(value, '\\') >= 0 || bytes.IndexByte(value[1:], '"') != n-2 {
		return "", false
	}
	return string(value[1 : n-1]), utf8.Valid(value)
}

// SkipValue returns the offset after the JSON value that starts at pos, or -1.
// There must be no white space around it.
func SkipValue(b []byte, pos int) int {
	depth := 0
	for pos < len(b) {
		switch b[pos] {
		case '"':
			if pos = skipString(b, pos); pos < 0 {
				return -1
			}
		case '{', '[':
			depth++
			pos++
		case '}', ']':
			depth--
			pos++
		case ',', ':':
			if depth == 0 {
				return -1
			}
			pos++
			continue
		default:
			pos = skipScalar(b, pos)
		}
		if depth == 0 {
			return pos
		}
		if depth < 0 {
			return -1
		}
	}
	return -1
}

func skipScalar(b []byte, pos int) int {
	for pos < len(b) && b[pos] != ',' && b[pos] != '}' && b[pos] != ']' {
		pos++
	}
	return pos
}

func skipString(b []byte, pos int) int {
	if b[pos] != '"' {
		return -1
	}
	for start := pos + 1; ; {
		i := bytes.IndexByte(b[pos+1:], '"')
		if i < 0 {
			return -1
		}
		pos += 1 + i
		if !escaped(b[start:pos]) {
			return pos + 1
		}
	}
}

// escaped reports whether what follows text in a string is escaped: an odd
// number of backslashes ends it.
func escaped(text []byte) bool {
	n := len(text)
	for n > 0 && text[n-1] == '\\' {
		n--
	}
	return (len(text)-n)%2 == 1
}
