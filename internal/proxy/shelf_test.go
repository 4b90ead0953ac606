package proxy

import (
	"bytes"
	"fmt"
	"io"
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
	if m := r.mode.(*recording); m.behind != nil {
		m.push(step{call: -1}) // taken when what came before was followed
		m.behind.backlog.drain()
		m.runs.settle()
	}
}

func eachPlace(t *testing.T, test func(t *testing.T, durable bool)) {
	t.Run("behind", func(t *testing.T) { test(t, false) })
	t.Run("durable", func(t *testing.T) { test(t, true) })
}

// TestBrokenRunsGoOnElsewhere: a cassette that takes no more loses one call, and
// none where calls are durable. The next ones of its run stand in another.
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
		want := []int{1, 4, 2}
		if durable {
			want[2] = 3
		}
		for i, want := range want {
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

// TestTamperingIsTold: a cassette that somebody removed, moved or changed is not
// said to be recorded without a word.
func TestTamperingIsTold(t *testing.T) {
	for name, c := range map[string]struct {
		do   func(path string) error
		want string
	}{
		"removed": {os.Remove, "was moved or removed by somebody else"},
		"moved":   {func(path string) error { return os.Rename(path, path+".old") }, "was moved or removed by somebody else"},
		"cut":     {func(path string) error { return os.Truncate(path, 100) }, "somebody else changed the file: expected"},
		"longer":  {func(path string) error { return os.Truncate(path, 1<<20) }, "somebody else changed the file: expected"},
		"nothing": {func(string) error { return nil }, ""},
	} {
		for _, more := range []bool{false, true} { // calls come after it
			eachPlace(t, func(t *testing.T, durable bool) {
				where := &shelf{dir: t.TempDir()}
				r := greeted(t, where, durable)
				greet(t, r, "a")
				path := where.writers[0].Path()
				if err := c.do(path); err != nil {
					t.Fatal(err)
				}
				if more {
					greet(t, r, "a")
				}
				r.stop()
				_, err := r.Close()
				if got := fmt.Sprint(err); c.want == "" && err != nil || !strings.Contains(got, c.want) || c.want != "" && !strings.Contains(got, path) {
					t.Errorf("%s, calls after it %t: the end says %v", name, more, err)
				}
			})
		}
	}
}

// TestDurableOrNotAtAll: a durable answer that no cassette takes is not passed on
// whole, streamed or not. The error says why.
func TestDurableOrNotAtAll(t *testing.T) {
	for name, c := range map[string]struct {
		length int64
		path   string
		body   []byte
	}{
		"whole":     {int64(len(hello)), "/model/m/converse", []byte(hello)},
		"in pieces": {-1, "/model/m/converse", []byte(hello)},
		"in frames": {-1, "/model/m/converse-stream", said("hello")},
	} {
		t.Run(name, func(t *testing.T) {
			where := &shelf{dir: t.TempDir()}
			calls := 0
			r := start(t, Options{
				Record: &RecordOptions{Spool: where.dir, Durable: true, Create: where.create},
				Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
					if calls++; calls == 2 { // the disk fills while the model thinks
						where.full = func(int) error { return syscall.ENOSPC }
						if err := where.writers[0].Close(); err != nil {
							t.Error(err)
						}
					}
					resp := response(200, "", foreign.Encoded{ContentType: "application/json", Body: c.body})
					resp.ContentLength = c.length
					return resp, nil
				}),
			})
			const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
			if code, _, text := post(t, r.url, c.path, body, RunHeader, "a"); code != 200 || text != string(c.body) {
				t.Fatalf("the first call: %d %s", code, text)
			}
			resp, err := http.DefaultClient.Do(request(t, r.url+c.path, body, RunHeader, "a"))
			if err != nil {
				t.Fatal(err)
			}
			defer resp.Body.Close()
			text, err := io.ReadAll(resp.Body)
			if c.length < 0 && (err == nil || bytes.Contains(text, []byte("metadata"))) {
				t.Errorf("an answer in pieces came to its end: %s", text)
			}
			if c.length >= 0 && (resp.StatusCode != 500 || !strings.Contains(string(text), "cannot be recorded: create cassette")) {
				t.Errorf("%d %s", resp.StatusCode, text)
			}
			r.stop()
			got, err := r.Close()
			if err == nil || len(got.Troubles) != 2 {
				t.Errorf("%q, %v: expected to be told of the cassette and of the call", got.Troubles, err)
			}
			if n := open(t, got.Recorded[0]).Len(); n != 1 {
				t.Errorf("%d calls recorded, expected the one that was passed on", n)
			}
		})
	}
}
