package recorder

import (
	"bytes"
	"errors"
	"testing"

	"investigator/internal/ledger"
)

// A line that does not read back as it was taken leaves no trace, even though
// it was on the disk by then, and the Writer records nothing after it.
func TestALineThatDoesNotCompareIsTakenBack(t *testing.T) {
	w, err := NewMemory(Header{Run: "r", Start: []byte(`{"model":"rule","task":"t"}`)})
	if err != nil {
		t.Fatal(err)
	}
	before := w.Bytes()
	bad := errors.New("does not compare")
	err = w.write([]byte("- junk\n"), func() error { return bad })
	var failed *WriteError
	if !errors.As(err, &failed) || !errors.Is(err, bad) || failed.Ragged || failed.Kept != 1 {
		t.Fatalf("write: %v", err)
	}
	if !bytes.Equal(w.Bytes(), before) {
		t.Errorf("the cassette holds %q", w.Bytes()[len(before):])
	}
	if err := w.ready([]ledger.Event{{Seq: 2}}); !errors.Is(err, bad) {
		t.Errorf("the writer goes on: %v", err)
	}
}
