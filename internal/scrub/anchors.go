package scrub

import (
	"bytes"
	"math/bits"
	"strings"
)

// anchor is a text that matches of a rule contain.
type anchor struct {
	text  []byte
	exact bool   // it has capitals, and matches in no other case
	rules uint64 // a bit for the rule
}

// start is the beginning of an anchor, three bytes without regard to case. Every
// anchor is at least that long.
type start uint32

// follow is the start that ends in c, given the one that ended before it.
func (s start) follow(c byte) start { return (s<<8 | start(c|0x20)) & 0xffffff }

// slot spreads starts over a table small enough to stay in the cache.
func (s start) slot() uint32 { return uint32(s) * 0x9e3779b1 >> 20 }

// anchorTable finds the anchors that may begin at a place.
type anchorTable struct {
	slots   [1 << 12]uint32 // a bit for each anchor
	anchors []anchor
}

// table is never modified.
var table = newTable(rules)

func newTable(rules []rule) *anchorTable {
	var t anchorTable
	for i, r := range rules {
		for _, text := range r.anchors {
			a := anchor{text: []byte(text), exact: text != strings.ToLower(text), rules: 1 << i}
			t.slots[startOf(a.text).slot()] |= 1 << len(t.anchors)
			t.anchors = append(t.anchors, a)
		}
	}
	return &t
}

func startOf(text []byte) start {
	return start(0).follow(text[0]).follow(text[1]).follow(text[2])
}

// anchored returns the rules one of whose anchors stands in b, a bit for each.
// All anchors are looked for in one pass, since nearly every text that is
// recorded holds none.
func anchored(b []byte) uint64 {
	var found uint64
	var s start
	for i, c := range b {
		s = s.follow(c)
		if table.slots[s.slot()] != 0 && i >= 2 {
			found |= table.at(s, b[i-2:])
		}
	}
	return found
}

// at returns the rules one of whose anchors b begins with.
func (t *anchorTable) at(s start, b []byte) uint64 {
	var found uint64
	for here := t.slots[s.slot()]; here != 0; here &= here - 1 {
		if a := t.anchors[bits.TrailingZeros32(here)]; a.begins(b) {
			found |= a.rules
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
