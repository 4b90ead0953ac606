package recorder

import (
	"testing"

	"investigator/internal/ledger"

	"github.com/google/go-cmp/cmp"
)

// TestBytesOfBatches is TestBytesOfRecordings for what the benchmarks record:
// one by one and in batches, the bytes stay.
func TestBytesOfBatches(t *testing.T) {
	got := map[string]string{}
	for name, shape := range map[string]func() (before, list []Taken){"tool": toolReturns, "turn": modelTurns, "pair": proxyPairs} {
		before, list := shape()
		for _, batch := range []int{1, 16} {
			w, err := NewMemory(testStart(t))
			if err != nil {
				t.Fatal(err)
			}
			if err := w.TookAll(before); err != nil {
				t.Fatal(err)
			}
			for at := 0; at < len(list); at += batch {
				if err := recordBatch(w, list[at:at+batch]); err != nil {
					t.Fatal(err)
				}
			}
			if now := ledger.Digest(w.Bytes()); got[name] == "" || got[name] == now {
				got[name] = now
			} else {
				t.Errorf("%s: %s one by one, %s in batches of %d", name, got[name], now, batch)
			}
		}
	}
	want := map[string]string{
		"pair": "17b05387240be9e72b7f6e476335236e88e7abb8673a57ab2e5366c8f0bb53be",
		"tool": "62aa1e26e97b6c12a27d96883f9a6b5e9d015843dc1d16e7b2494bd81ca1cc1a",
		"turn": "5eb49018b67e8350bd0b2464d9e6558858d72acc08d9829f32fda160fb84539e",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("digests of cassettes (-before +now):\n%s", d)
	}
}
