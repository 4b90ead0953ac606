package recorder

import (
	"bytes"
	"encoding/base64"
	"encoding/binary"
	"math/bits"
	"strconv"
	"unicode/utf8"
)

// object reads an object of the given members, in whatever order, none twice.
func (r *reading) object(members ...member) bool {
	if !r.take('{') {
		return false
	}
	seen := 0 // a bit for each member
	for first := true; !r.take('}'); first = false {
		if !first && !r.take(',') {
			return false
		}
		i := r.which(members)
		if i < 0 || seen&(1<<i) != 0 {
			return false
		}
		seen |= 1 << i
		if m := &members[i]; m.read != nil && !m.read() || m.read == nil && !r.string([]byte(m.text)) {
			return false
		}
	}
	for i := range members {
		if seen&(1<<i) == 0 && (members[i].must || members[i].text != "") {
			return false
		}
	}
	return true
}

// which reads a member's name and tells which one it is, -1 for none.
func (r *reading) which(members []member) int {
	name := r.name()
	for i := range members {
		if members[i].name == string(name) {
			return i
		}
	}
	return -1
}

// name reads the name of a member, nil where there is none.
func (r *reading) name() []byte {
	name := r.plain()
	if !r.take(':') {
		return nil
	}
	return name
}

// plain reads a string without escapes, nil where there is none.
func (r *reading) plain() []byte {
	if !r.take('"') {
		return nil
	}
	rest := r.text[r.at:]
	n := bytes.IndexByte(rest, '"')
	if n < 0 || bytes.IndexByte(rest[:n], '\\') >= 0 || controlIn(rest[:n]) >= 0 {
		return nil
	}
	r.at += n + 1
	return rest[:n]
}

// table reads an object of n members whose names are data, in the order of
// their bytes.
func (r *reading) table(n int, value func(name []byte) bool) bool {
	if !r.take('{') {
		return false
	}
	var before []byte
	for i := range n {
		if i > 0 && !r.take(',') {
			return false
		}
		name := r.name()
		if name == nil || i > 0 && bytes.Compare(before, name) >= 0 || !value(name) {
			return false
		}
		before = name
	}
	return r.take('}')
}

// array reads an array of n elements.
func (r *reading) array(n int, element func(i int) bool) bool {
	if !r.take('[') {
		return false
	}
	for i := range n {
		if i > 0 && !r.take(',') || !element(i) {
			return false
		}
	}
	return r.take(']')
}

func (r *reading) take(b byte) bool {
	if r.at >= len(r.text) || r.text[r.at] != b {
		return false
	}
	r.at++
	return true
}

// number reads an integer. What follows it is read as something else, so that a
// longer one is refused there.
func (r *reading) number(want int) bool {
	var digits [20]byte
	text := strconv.AppendInt(digits[:0], int64(want), 10)
	if !bytes.HasPrefix(r.text[r.at:], text) {
		return false
	}
	r.at += len(text)
	return true
}

// body reads a body: a string, or base64 after the mark of YAML.
func (r *reading) body(want []byte) bool {
	if !bytes.HasPrefix(r.text[r.at:], []byte(binaryTag)) {
		return r.string(want)
	}
	r.at += len(binaryTag)
	digits := r.text[r.at:]
	n := base64.StdEncoding.EncodedLen(len(want))
	if n >= len(digits) || digits[n] != '"' {
		return false
	}
	r.at += n + 1
	return decodesTo(digits[:n], want)
}

// decodesTo reports whether base64 stands for want, a piece after the other.
func decodesTo(digits, want []byte) bool {
	var piece [768]byte
	for len(digits) > 0 {
		part := digits[:min(len(digits), 1024)]
		n, err := base64.StdEncoding.Decode(piece[:], part)
		if err != nil || n != min(len(want), len(piece)) || !bytes.Equal(piece[:n], want[:n]) {
			return false
		}
		digits, want = digits[len(part):], want[n:]
	}
	return len(want) == 0
}

// string reads a string and compares what it says.
func (r *reading) string(want []byte) bool {
	if !r.take('"') {
		return false
	}
	rest := r.text[r.at:]
	for {
		n := alike(rest, want)
		rest, want = rest[n:], want[n:]
		if len(rest) == 0 {
			return false
		}
		switch b := rest[0]; {
		case b == '"':
			r.at = len(r.text) - len(rest) + 1
			return len(want) == 0
		case b == '\\':
			c, size := unescape(rest)
			var buf [utf8.UTFMax]byte
			says := utf8.AppendRune(buf[:0], c)
			if size == 0 || !bytes.HasPrefix(want, says) {
				return false
			}
			rest, want = rest[size:], want[len(says):]
		case b < 0x20 || len(want) == 0 || b != want[0]:
			return false
		default: // too near to an end for a word
			rest, want = rest[1:], want[1:]
		}
	}
}

// alike is how many bytes at the beginning of a string's text, up to an escape
// or its end, are those of want; fewer near the end of either.
func alike(text, want []byte) int {
	n := 0
	for len(text)-n >= 8 && len(want)-n >= 8 {
		word := binary.LittleEndian.Uint64(text[n:])
		odd := stops(word) | (word ^ binary.LittleEndian.Uint64(want[n:]))
		if odd != 0 {
			return n + bits.TrailingZeros64(odd)/8
		}
		n += 8
	}
	return n
}

// stops marks, by their top bits, the bytes of a word that end a run of plain
// text inside a string: controls, the quote and the backslash. The lowest mark
// is exact.
func stops(word uint64) uint64 {
	low := word ^ 2*eachByte // the quote becomes 0x20, a space more
	back := word ^ '\\'*eachByte
	return ((low-0x21*eachByte)&^low | (back-eachByte)&^back) & topBits
}
