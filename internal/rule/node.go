package rule

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"math/bits"

	"investigator/internal/ledger"
)

// doc is a canonical JSON text and where every value in it stands. It is read
// once, front to back; what a conversation says is then cut out of the text, and
// most of it is never decoded.
type doc struct {
	text  []byte
	spans []span
}

// span is where a value stands. The values inside it follow it: the first is
// the span behind it, and next leads from one to its sibling.
type span struct {
	name       int32 // where a member's name begins, behind its quote; 0 for an element
	start, end int32
	next       int32 // the span behind this one's last descendant
}

// node is one value of a doc. The zero node is an absent value; every method of
// it gives nothing.
type node struct {
	doc *doc
	at  int32
}

// readNode reads a text. It is canonical; the value of any other may be absent,
// or hold less than it seems to. The text must not be modified afterwards.
func readNode(text []byte) node {
	// Every object and array that is not empty holds a value more than commas,
	// which is counted much faster than room is made again.
	values := 1 + bytes.Count(text, []byte{','}) + bytes.Count(text, []byte{'{'}) + bytes.Count(text, []byte{'['})
	d := &doc{text, make([]span, 0, values)}
	if !d.read() {
		return node{}
	}
	return node{d, 0}
}

// parseNode reads JSON that stands inside a text. The text must not be modified
// afterwards.
func parseNode(text []byte) node {
	canon, err := ledger.InCanon(text)
	if err != nil {
		return node{}
	}
	return readNode(canon)
}

// read notes a value and all in it, and reports whether it is whole.
func (d *doc) read() bool {
	open, name := int32(-1), 0
	for pos := 0; pos < len(d.text); {
		switch d.text[pos] {
		case ',':
			name, pos = 0, pos+1
			continue
		case '{', '[':
			at := d.note(name, pos, 0)
			d.spans[at].next = open // until it is closed
			open, name, pos = at, 0, pos+1
			continue
		case '}', ']':
			if open < 0 {
				return false
			}
			pos++
			s := &d.spans[open]
			open, s.next, s.end = s.next, int32(len(d.spans)), int32(pos)
		case '"':
			start := pos
			if pos = stringEnd(d.text, start); pos < len(d.text) && d.text[pos] == ':' {
				name, pos = start+1, pos+1
				continue
			}
			d.note(name, start, pos)
		default:
			start := pos
			pos = d.scalarEnd(start)
			d.note(name, start, pos)
		}
		if name = 0; open < 0 {
			return true
		}
	}
	return false
}

func (d *doc) note(name, start, end int) (at int32) {
	at = int32(len(d.spans))
	d.spans = append(d.spans, span{int32(name), int32(start), int32(end), at + 1})
	return at
}

// stringEnd returns the offset behind the string that begins at pos, eight bytes
// at a time: a conversation is mostly strings, and most of them are short.
func stringEnd(text []byte, pos int) int {
	for pos++; pos+8 <= len(text); {
		w := binary.LittleEndian.Uint64(text[pos:])
		stops := mark(w, '"') | mark(w, '\\')
		if stops == 0 {
			pos += 8
			continue
		}
		pos += bits.TrailingZeros64(stops) / 8
		if text[pos] == '"' {
			return pos + 1
		}
		pos += 2 // a backslash and what it escapes
	}
	for ; pos < len(text); pos++ {
		switch text[pos] {
		case '"':
			return pos + 1
		case '\\':
			pos++
		}
	}
	return len(text)
}

// mark sets the high bit of the first byte of w that is c, and maybe of later
// ones.
func mark(w uint64, c byte) uint64 {
	const ones, highs = 0x0101010101010101, 0x8080808080808080
	w ^= uint64(c) * ones
	return (w - ones) & ^w & highs
}

func (d *doc) scalarEnd(pos int) int {
	for pos++; pos < len(d.text); pos++ {
		switch d.text[pos] {
		case ',', '}', ']':
			return pos
		}
	}
	return pos
}

// raw returns the value as it is spelled.
func (n node) raw() []byte {
	if n.doc == nil {
		return nil
	}
	s := n.doc.spans[n.at]
	return n.doc.text[s.start:s.end]
}

// is reports whether the value begins with a byte, which tells its kind.
func (n node) is(open byte) bool {
	return n.doc != nil && n.doc.text[n.doc.spans[n.at].start] == open
}

// there reports whether the value is not absent.
func (n node) there() bool { return n.doc != nil }

// get returns the member of an object by name.
func (n node) get(name string) node {
	if !n.is('{') {
		return node{}
	}
	spans, text := n.doc.spans, n.doc.text
	for k, next := n.at+1, spans[n.at].next; k < next; k = spans[k].next {
		s := &spans[k]
		from, to := int(s.name), int(s.start)-len(`":`)
		if to-from == len(name) && from > 0 && string(text[from:to]) == name {
			return node{n.doc, k}
		}
	}
	return node{}
}

// path is get, several members deep.
func (n node) path(names ...string) node {
	for _, name := range names {
		n = n.get(name)
	}
	return n
}

// items yields the elements of an array with their indices.
func (n node) items() func(yield func(int, node) bool) {
	return func(yield func(int, node) bool) {
		if !n.is('[') {
			return
		}
		spans, i := n.doc.spans, 0
		for k, next := n.at+1, spans[n.at].next; k < next; k = spans[k].next {
			if !yield(i, node{n.doc, k}) {
				return
			}
			i++
		}
	}
}

// count returns how many elements an array has.
func (n node) count() int {
	count := 0
	for range n.items() {
		count++
	}
	return count
}

// inside returns the value of a string with its escapes, nothing for anything
// else.
func (n node) inside() []byte {
	if !n.is('"') {
		return nil
	}
	raw := n.raw()
	return raw[1:max(len(raw)-1, 1)]
}

// says reports whether the value is this string, which needs no escapes.
func (n node) says(text string) bool { return string(n.inside()) == text }

// text returns the value of a string, "" for anything else.
func (n node) text() string { return string(n.decoded()) }

// decoded is text, and may be a part of the doc.
func (n node) decoded() []byte {
	inside := n.inside()
	if bytes.IndexByte(inside, '\\') < 0 {
		return inside
	}
	if b, ok := unescape(inside); ok {
		return b
	}
	var s string
	if json.Unmarshal(n.raw(), &s) != nil {
		return nil
	}
	return []byte(s)
}

// unescape reads a string with no other escapes than those that JSON inside a
// text consists of, which is what a conversation is full of.
func unescape(rest []byte) ([]byte, bool) {
	b := make([]byte, 0, len(rest))
	for {
		at := bytes.IndexByte(rest, '\\')
		if at < 0 {
			return append(b, rest...), true
		}
		if at+1 >= len(rest) {
			return nil, false
		}
		b = append(b, rest[:at]...)
		switch c := rest[at+1]; c {
		case '"', '\\':
			b = append(b, c)
		case 'n':
			b = append(b, '\n')
		case 't':
			b = append(b, '\t')
		default:
			return nil, false
		}
		rest = rest[at+2:]
	}
}

// number returns a number as it was written, nothing for anything else.
func (n node) number() []byte {
	raw := n.raw()
	if len(raw) == 0 || raw[0] != '-' && (raw[0] < '0' || raw[0] > '9') {
		return nil
	}
	return raw
}

// strings returns the strings of an array.
func (n node) strings() []string {
	var out []string
	for _, item := range n.items() {
		if item.is('"') {
			out = append(out, item.text())
		}
	}
	return out
}
