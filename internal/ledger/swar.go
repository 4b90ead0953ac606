package ledger

import (
	"encoding/binary"
	"math/bits"
)

// Eight bytes are looked at as one number. A byte of such a number is found by
// arithmetic that sets the high bit of its place; what a carry sets too lies
// behind a place that is set rightly, so the lowest is always right.
const (
	ones  = 0x0101010101010101
	highs = 0x80 * ones
)

// marks sets the high bit of the bytes of w that equal c.
func marks(w uint64, c byte) uint64 {
	w ^= ones * uint64(c)
	return (w - ones) & ^w & highs
}

// stops sets the high bit of the bytes of w that end a run of plain text: quotes
// and backslashes, and control characters. Flipping one bit puts the quote behind
// the last control character, so that one comparison finds both.
func stops(w uint64) uint64 {
	x, y := w^0x02*ones, w^'\\'*ones
	return ((x-0x21*ones)&^x | (y-ones)&^y) & highs
}

// plainEnd returns the offset of the first quote, backslash or control character
// from pos on, and whether all before it is ASCII.
func plainEnd(b []byte, pos int) (end int, ascii bool) {
	var seen uint64
	for ; pos+8 <= len(b); pos += 8 {
		w := binary.LittleEndian.Uint64(b[pos:])
		if stop := stops(w); stop != 0 {
			n := bits.TrailingZeros64(stop)
			return pos + n/8, (seen|w&(1<<(n-7)-1))&highs == 0
		}
		seen |= w
	}
	for ; pos < len(b) && b[pos] >= 0x20 && b[pos] != '"' && b[pos] != '\\'; pos++ {
		seen |= uint64(b[pos])
	}
	return pos, seen&highs == 0
}
