package ledger

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"errors"
	"math/bits"
	"slices"
	"strings"
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
// value, is passed over: it is for text this project canonicalised itself. Where
// one member is wanted, Member costs less.
func MemberSpans(object []byte) ([]Span, error) {
	if !isObject(object) {
		return nil, errNotObject
	}
	spans, size := make([]Span, 0, 4), 0
	for pos := 1; pos < len(object)-1; pos++ {
		keyEnd, end := memberEnds(object, pos)
		if end < 0 {
			return nil, errNotObject
		}
		spans = append(spans, Span{Start: pos, End: end, Value: object[keyEnd+1 : end]})
		pos, size = end, size+keyEnd-pos-2
	}
	setNames(spans, object, size)
	return spans, nil
}

// setNames gives the spans their names, which are parts of one string: there are
// many spans, and of most no more than the name is looked at.
func setNames(spans []Span, object []byte, size int) {
	var all strings.Builder
	all.Grow(size)
	for _, s := range spans {
		all.Write(object[s.Start+1 : s.End-len(s.Value)-2])
	}
	names := all.String()
	for i, s := range spans {
		n := s.End - s.Start - len(s.Value) - 3
		spans[i].Name, names = names[:n], names[n:]
	}
}

func isObject(b []byte) bool { return len(b) >= 2 && b[0] == '{' && b[len(b)-1] == '}' }

// memberEnds returns the end of the name that begins at pos and that of its
// value, -1 if there is no member.
func memberEnds(object []byte, pos int) (keyEnd, end int) {
	keyEnd = skipString(object, pos)
	if keyEnd < 0 || keyEnd >= len(object) || object[keyEnd] != ':' {
		return keyEnd, -1
	}
	if end = SkipValue(object, keyEnd+1); end >= len(object) {
		return keyEnd, -1
	}
	return keyEnd, end
}

// EachMember calls visit for the members of a canonical object, in order, with
// their names as they are spelled between the quotes and their values, both parts
// of object. Nothing is allocated. It fails where MemberSpans does, after it
// visited what stands before.
func EachMember(object []byte, visit func(name []byte, value json.RawMessage)) error {
	if !isObject(object) {
		return errNotObject
	}
	for pos := 1; pos < len(object)-1; pos++ {
		keyEnd, end := memberEnds(object, pos)
		if end < 0 {
			return errNotObject
		}
		visit(object[pos+1:keyEnd-1], object[keyEnd+1:end])
		pos = end
	}
	return nil
}

// Member returns the value of a canonical object's member, a part of object; nil
// if it has none of that name, which must be one without escapes, or if
// MemberSpans would give an error.
func Member(object []byte, name string) json.RawMessage {
	var found json.RawMessage
	err := EachMember(object, func(n []byte, value json.RawMessage) {
		if found == nil && string(n) == name {
			found = value
		}
	})
	if err != nil {
		return nil
	}
	return found
}

// Without returns a canonical object without the members of these names, in
// fresh memory.
func Without(object []byte, names ...string) (json.RawMessage, error) {
	if !isObject(object) {
		return nil, errNotObject
	}
	var few [8]member
	kept, size := few[:0], len("{}")
	for pos := 1; pos < len(object)-1; pos++ {
		m := member{start: pos}
		if m.colon, m.end = memberEnds(object, pos); m.end < 0 {
			return nil, errNotObject
		}
		pos = m.end
		if !slices.Contains(names, string(object[m.start+1:m.colon-1])) {
			kept, size = append(kept, m), size+m.end-m.start+len(",")
		}
	}
	out := append(make([]byte, 0, size), '{')
	for i, m := range kept {
		if i > 0 {
			out = append(out, ',')
		}
		out = append(out, object[m.start:m.end]...)
	}
	return append(out, '}'), nil
}

// Elements splits a canonical array without decoding its elements, which are
// parts of it; nil for an empty array and for anything else.
func Elements(array []byte) []json.RawMessage {
	if len(array) < 2 || array[0] != '[' || array[len(array)-1] != ']' {
		return nil
	}
	if len(array) == 2 {
		return nil
	}
	out := make([]json.RawMessage, 0, 4)
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

// skipString returns the offset after the string that starts at pos, or -1. Most
// strings are short, and their end is in the first bytes that are looked at.
func skipString(b []byte, pos int) int {
	if b[pos] != '"' {
		return -1
	}
	start := pos + 1
	for at := start; at+8 <= len(b) && at < start+24; at += 8 {
		w := binary.LittleEndian.Uint64(b[at:])
		if stop := marks(w, '"') | marks(w, '\\'); stop != 0 {
			if at += bits.TrailingZeros64(stop) / 8; b[at] == '"' {
				return at + 1
			}
			break
		}
	}
	for {
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
