package scrub

import (
	"bytes"
	"encoding/binary"
	"strings"
)

// anchor is a text that matches of a rule contain.
type anchor struct {
	text  []byte
	exact bool   // it has capitals, and matches in no other case
	rules uint64 // a bit for the rule
}

// Nearly every text that is recorded holds no anchor, so all are looked for at
// once, and at every third place alone. Of the pairs of bytes at 0, 3, 6 … one
// lies within the first four bytes of an anchor, wherever it stands; and in an
// anchor of seven bytes the next one lies within the four bytes after that. What
// a pair may be is a part of both, and a place where the two do not follow each
// other needs no closer look.
const (
	stride = 3
	short  = stride + 1   // an anchor is at least as long
	long   = 2*stride + 1 // one as long has a head and a tail
)

// part says where in anchors a pair of bytes stands.
type part byte

const (
	whole  part = 1      // in one too short for two pairs
	head   part = 1 << 1 // among the first four bytes of a long one
	tail   part = 1 << 2 // among the four after the third
	groups      = 3      // long anchors have the bits of one of three groups
	tails       = tail | tail<<2 | tail<<4
)

// follows are the parts that may follow p, three bytes later.
func (p part) follows() part { return p << 1 & tails }

// anchorTable finds the anchors that may begin at a place.
type anchorTable struct {
	pairs  *[1 << 16]part // little-endian, as they are read
	starts [1 << startBits][]anchor
}

const startBits = 8

// table is never modified.
var table = newTable(rules)

func newTable(rules []rule) *anchorTable {
	t := anchorTable{pairs: new([1 << 16]part)}
	n := 0
	for i, r := range rules {
		for _, text := range r.anchors {
			a := anchor{text: []byte(text), exact: text != strings.ToLower(text), rules: 1 << i}
			t.addPairs(a, n%groups)
			n++
			s := startOf(a.text)
			t.starts[s] = append(t.starts[s], a)
		}
	}
	return &t
}

func (t *anchorTable) addPairs(a anchor, group int) {
	parts := []part{whole}
	if len(a.text) >= long {
		parts = []part{head << (2 * group), tail << (2 * group)}
	}
	for i := range stride * len(parts) {
		for _, first := range a.spellings(i) {
			for _, second := range a.spellings(i + 1) {
				t.pairs[uint16(first)|uint16(second)<<8] |= parts[i/stride]
			}
		}
	}
}

// spellings are the bytes that may stand for the anchor's i-th.
func (a anchor) spellings(i int) []byte {
	c := a.text[i]
	if !a.exact && 'a' <= c && c <= 'z' {
		return []byte{c, c - 'a' + 'A'}
	}
	return []byte{c}
}

// startOf spreads the first four bytes of a text over the table, without regard
// to case.
func startOf(text []byte) uint32 {
	return (binary.LittleEndian.Uint32(text) | 0x20202020) * 0x9e3779b1 >> (32 - startBits)
}

// anchored returns the rules one of whose anchors stands in b, a bit for each.
func anchored(b []byte) uint64 {
	var found uint64
	pairs := table.pairs
	var last part // of the pair before the three that are read
	i := 0
	for ; i+8 <= len(b); i += 3 * stride {
		w := binary.LittleEndian.Uint64(b[i:])
		p, q, r := pairs[uint16(w)], pairs[uint16(w>>(8*stride))], pairs[uint16(w>>(16*stride))]
		if (p|q|r)&whole|last.follows()&p|p.follows()&q|q.follows()&r != 0 {
			found |= table.beginning(b, i-reach, i+2*stride)
		}
		last = r
	}
	return found | table.beginning(b, i-reach, len(b))
}

// reach is how far before the pairs that are read an anchor may begin: its head
// may be the pair before them.
const reach = 2*stride - 1

// beginning returns the rules one of whose anchors begins between two places of
// b, both included.
func (t *anchorTable) beginning(b []byte, from, to int) uint64 {
	var found uint64
	for i := max(from, 0); i <= to && i+short <= len(b); i++ {
		for _, a := range t.starts[startOf(b[i:])] {
			if a.begins(b[i:]) {
				found |= a.rules
			}
		}
	}
	return found
}

// begins reports whether b begins with the anchor.
func (a anchor) begins(b []byte) bool {
	if len(b) < len(a.text) {
		return false
	}
	b = b[:len(a.text)]
	if a.exact {
		return bytes.Equal(b, a.text)
	}
	for i, c := range b {
		if 'A' <= c && c <= 'Z' {
			c += 'a' - 'A'
		}
		if c != a.text[i] {
			return false
		}
	}
	return true
}
