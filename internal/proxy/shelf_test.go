package proxy

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"

	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// shelf makes cassettes in a folder and keeps their writers.
type shelf struct {
	dir  string
	full func(open int) error // says whether there is no room for one more

	mu      sync.Mutex
	writers []*recorder.Writer
}

func (p *shelf) create(n int, h recorder.Header) (*recorder.Writer, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	open := 0
	for _, w := range p.writers {
		if c, err := recorder.Open(w.Path()); err == nil && !c.Sealed() {
			open++
		}
	}
	if p.full != nil {
		if err := p.full(open); err != nil {
			return nil, &recorder.FileError{Verb: "create", Err: err}
		}
	}
	w, err := recorder.Create(filepath.Join(p.dir, fmt.Sprint(n, ".yaml")), h)
	p.writers = append(p.writers, w)
	return w, err
}

func greeted(t *testing.T, p *shelf, durable bool) *running {
	return start(t, Options{
		Record: &RecordOptions{Spool: p.dir, Durable: durable, Create: p.create},
		Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		}),
	})
}

// greet makes a call of a run and waits until it is written.
func greet(t *testing.T, r *running, run string) {
	t.Helper()
	if code, _, text := post(t, r.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, RunHeader, run); code != 200 {
		t.Errorf("run %s: %d %s", run, code, text)
	}
	m := r.mode.(*recording)
	for ended := m.behind == nil; !ended; {
		m.runs.mu.Lock()
		u := m.runs.byTag[run]
		ended = u == nil && m.runs.stuck.Load() || u != nil && u.project.Turn() > 0 && u.busy == 0 && len(u.queue) == 0 && !u.writing
		m.runs.mu.Unlock()
	}
}

func eachPlace(t *testing.T, test func(t *testing.T, durable bool)) {
	t.Run("behind", func(t *testing.T) { test(t, false) })
	t.Run("durable", func(t *testing.T) { test(t, true) })
}

// TestBrokenRunsGoOnElsewhere: a cassette that takes no more loses one call. The
// next ones of its run stand in another.
func TestBrokenRunsGoOnElsewhere(t *testing.T) {
	eachPlace(t, func(t *testing.T, durable bool) {
		where := &shelf{dir: t.TempDir()}
		r := greeted(t, where, durable)
		greet(t, r, "a")
		greet(t, r, "b")
		if err := where.writers[0].Close(); err != nil {
			t.Fatal(err)
		}
		for range 3 {
			greet(t, r, "a")
			greet(t, r, "b")
		}
		r.stop()
		got, err := r.Close()
		if err == nil || len(got.Troubles) != 1 || !strings.Contains(got.Troubles[0], "is not recorded any further") || len(got.Recorded) != 3 {
			t.Fatalf("%q recorded, %q, %v", got.Recorded, got.Troubles, err)
		}
		for i, want := range []int{1, 4, 2} {
			if n := open(t, got.Recorded[i]).Len(); n != want {
				t.Errorf("cassette %d holds %d calls, expected %d", i+1, n, want)
			}
		}
	})
}

// TestTooManyFiles: runs that are idle give their files up for new ones.
func TestTooManyFiles(t *testing.T) {
	eachPlace(t, func(t *testing.T, durable bool) {
		where := &shelf{dir: t.TempDir(), full: func(open int) error {
			if open >= 4 {
				return syscall.EMFILE
			}
			return nil
		}}
		r := greeted(t, where, durable)
		const runs = 20
		for i := range runs {
			greet(t, r, fmt.Sprint(i))
		}
		if got := r.end(); len(got.Recorded) != runs {
			t.Errorf("%d runs recorded, expected %d", len(got.Recorded), runs)
		}
	})
}

// TestRemovedIsTold: a cassette that somebody removed is not said to be recorded
// without a word.
func TestRemovedIsTold(t *testing.T) {
	where := &shelf{dir: t.TempDir()}
	r := greeted(t, where, false)
	greet(t, r, "a")
	if err := os.Remove(where.writers[0].Path()); err != nil {
		t.Fatal(err)
	}
	greet(t, r, "a")
	r.stop()
	if _, err := r.Close(); err == nil || !strings.Contains(err.Error(), "somebody removed it") {
		t.Errorf("the end says %v", err)
	}
}
