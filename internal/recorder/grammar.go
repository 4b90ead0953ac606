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
	text, same := r.text[r.at:], true
	for same {
		n, m := alike(text, want)
		text, want = text[n:], want[m:]
		if len(text) > 0 && text[0] == '"' {
			r.at = len(r.text) - len(text) + 1
			return len(want) == 0
		}
		n, m, same = character(text, want)
		text, want = text[n:], want[m:]
	}
	return false
}

// alike returns how far a string's text and what it is to say are alike, in
// both. It takes sixteen bytes at a time, and the two escapes that nearly all
// are; it stops at the string's end, at another escape, at a difference, and
// near the end of either.
func alike(text, want []byte) (n, m int) {
	for n+16 <= len(text) && m+16 <= len(want) {
		t, w := text[n:n+16], want[m:m+16]
		word, next := binary.LittleEndian.Uint64(t), binary.LittleEndian.Uint64(t[8:])
		odd := stops(word) | (word ^ binary.LittleEndian.Uint64(w))
		last := stops(next) | (next ^ binary.LittleEndian.Uint64(w[8:]))
		if odd|last == 0 {
			n, m = n+16, m+16
			continue
		}
		plain := bits.TrailingZeros64(odd) / 8
		if odd == 0 {
			plain = 8 + bits.TrailingZeros64(last)/8
		}
		n, m = n+plain, m+plain
		if c := want[m]; text[n] != '\\' || n+1 == len(text) || text[n+1] != c || c != '"' && c != '\\' {
			break
		}
		n, m = n+2, m+1
	}
	return n, m
}

// character compares one character of a string's text, escaped or not, with the
// next one of what it is to say, and returns how long both are.
func character(text, want []byte) (n, m int, same bool) {
	switch {
	case len(text) == 0 || len(want) == 0 || text[0] < 0x20 || text[0] == '"':
		return 0, 0, false
	case text[0] != '\\':
		return 1, 1, text[0] == want[0]
	}
	c, size := unescape(text)
	var buf [utf8.UTFMax]byte
	says := utf8.AppendRune(buf[:0], c)
	if size == 0 || !bytes.HasPrefix(want, says) {
		return 0, 0, false
	}
	return size, len(says), true
}

// stops marks, by their top bits, the bytes of a word that end a run of plain
// text inside a string: controls, the quote and the backslash. The lowest mark
// is exact.
func stops(word uint64) uint64 {
	low := word ^ 2*eachByte // the quote becomes 0x20, a space more
	back := word ^ '\\'*eachByte
	return ((low-0x21*eachByte)&^low | (back-eachByte)&^back) & topBits
}
