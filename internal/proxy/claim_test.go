package proxy

import (
	"bytes"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
)

// room takes down how much memory a reader of the body had.
type room struct {
	io.Reader
	most int
}

func (r *room) Read(p []byte) (int, error) {
	r.most = max(r.most, len(p))
	return r.Reader.Read(p)
}

// TestClaimedBodyGetsNoMemory: what a request says of its length reserves no more
// than a little. (A hundred connections that said 26 MB, and sent little of it,
// held gigabytes.)
func TestClaimedBodyGetsNoMemory(t *testing.T) {
	p := tapedQuestion(t, Options{})
	body := &room{Reader: strings.NewReader(asking("question"))}
	r := httptest.NewRequest("POST", "http://localhost/model/m/converse", body)
	r.ContentLength = maxBody
	w := httptest.NewRecorder()
	p.ServeHTTP(w, r)
	if w.Code != 200 || body.most == 0 || body.most > 2*believed {
		t.Errorf("HTTP %d, and memory for %d bytes, expected 200 and no more than %d", w.Code, body.most, 2*believed)
	}
}

// TestReadAllGrowsWithWhatComes: a body of unknown length comes whole, and gets
// about twice the memory that it needs at most.
func TestReadAllGrowsWithWhatComes(t *testing.T) {
	for _, n := range []int{0, 1, 511, 512, 513, 100_000, 3 << 20} {
		want := bytes.Repeat([]byte("b"), n)
		got, err := readAll(nil, bytes.NewReader(want))
		if err != nil || !bytes.Equal(got, want) || cap(got) > max(1024, 5*n/2) {
			t.Errorf("%d bytes: found %d in memory for %d: %v", n, len(got), cap(got), err)
		}
	}
}
