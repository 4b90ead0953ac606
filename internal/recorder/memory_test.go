package recorder

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestMemoryIsAFile writes and truncates at random, beside a plain buffer.
func TestMemoryIsAFile(t *testing.T) {
	random := rand.New(rand.NewPCG(7, 7))
	for range 200 {
		var m memory
		var want bytes.Buffer
		for range random.IntN(30) {
			p := bytes.Repeat([]byte{byte(random.Uint32())}, random.IntN(1<<random.IntN(17)))
			if n, err := m.Write(p); n != len(p) || err != nil {
				t.Fatalf("wrote %d of %d bytes, %v", n, len(p), err)
			}
			want.Write(p)
			if random.IntN(4) == 0 {
				size := random.IntN(want.Len() + 1)
				want.Truncate(size)
				if err := m.Truncate(int64(size)); err != nil {
					t.Fatal(err)
				}
			}
			if m.Len() != want.Len() {
				t.Fatalf("%d bytes, want %d", m.Len(), want.Len())
			}
		}
		if got := m.Bytes(); !bytes.Equal(got, want.Bytes()) {
			t.Fatalf("holds %d other bytes, want %d", len(got), want.Len())
		}
	}
}
