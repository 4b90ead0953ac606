package proxy

import (
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/faults"
	"investigator/internal/recorder"
)

// failingFork is a fork of a recorded run whose cassette cannot be made for some
// times.
func failingFork(t *testing.T, patch faults.Patch, up Upstream, times int, out string) *running {
	t.Helper()
	path := recorded(t, false, bedrocktest.ToolLoop())
	return start(t, Options{Upstream: up, Fork: &ForkOptions{Parent: open(t, path), Patch: patch, Live: up != nil,
		Create: func(h recorder.Header) (*recorder.Writer, error) {
			if times--; times >= 0 {
				return nil, errors.New("there is no room")
			}
			return recorder.Create(out, h)
		}}})
}

// forkPatches are patches of each kind.
func forkPatches(t *testing.T) map[string]faults.Patch {
	t.Helper()
	set := func(at int, pointer, value string) faults.Patch {
		p, err := faults.Set(pointer, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		return p.For(at)
	}
	return map[string]faults.Patch{
		"start":     set(1, "/task", `"Another question"`),
		"result":    faults.Drop("/records/1").For(5),
		"turn":      set(7, "/output/message/content/0/toolUse/input/city", `"Tromsø"`),
		"insertion": deploy(7),
		"last turn": deploy(10),
	}
}

// TestForkCannotBegin: a fork without a cassette refuses each attempt alike, asks
// nobody, ends when it is told to, and fails. It once held its locks for ever
// after the second attempt, or served a patched turn of which no record was.
func TestForkCannotBegin(t *testing.T) {
	for name, patch := range forkPatches(t) {
		for _, live := range []bool{true, false} {
			s := bedrocktest.New(t, bedrocktest.Options{})
			var up Upstream
			if live {
				up = upstream(t, s.URL)
			}
			p := failingFork(t, patch, up, 1000, "")
			// The SDK tries three times.
			if text, err := (agent{client: sdk(t, p.url), temp: 3}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "there is no room") {
				t.Errorf("%s: %q, %v", name, text, err)
			}
			p.stop()
			got, err := p.Close()
			if err == nil || !strings.Contains(err.Error(), "there is no room") || strings.Contains(err.Error(), "never came") {
				t.Errorf("%s: error %v", name, err)
			}
			if len(got.Troubles) != 1 || got.Fork.Reached || got.Fork.Cassette != "" || len(got.Diverged) > 0 || len(s.Requests()) > 0 {
				t.Errorf("%s: %+v %+v, %d requests", name, got, got.Fork, len(s.Requests()))
			}
		}
	}
}

// TestForkBeginsLate: the next attempt makes the fork where the first could not.
func TestForkBeginsLate(t *testing.T) {
	for name, patch := range forkPatches(t) {
		s := bedrocktest.New(t, bedrocktest.Options{})
		p := failingFork(t, patch, upstream(t, s.URL), 1, filepath.Join(t.TempDir(), "fork.yaml"))
		if text, err := (agent{client: sdk(t, p.url), temp: 3}).run(t.Context()); err != nil {
			t.Errorf("%s: %q, %v", name, text, err)
		}
		p.stop()
		got, err := p.Close()
		if err == nil || len(got.Troubles) != 1 || !got.Fork.Reached || len(got.Diverged) > 0 {
			t.Fatalf("%s: %+v, %v", name, got, err)
		}
		checkFork(t, p.o.Fork.Parent, open(t, got.Fork.Cassette), patch.At, patch)
	}
}

// TestForkLeavesNothing: a cassette that was made and could not be filled is
// taken back, so that the next attempt can make it.
func TestForkLeavesNothing(t *testing.T) {
	out := filepath.Join(t.TempDir(), "fork.yaml")
	s := bedrocktest.New(t, bedrocktest.Options{})
	path := recorded(t, false, bedrocktest.ToolLoop())
	ended := false
	p := start(t, Options{Upstream: upstream(t, s.URL), Fork: &ForkOptions{Parent: open(t, path), Patch: faults.Drop("/records/1").For(5), Live: true,
		Create: func(h recorder.Header) (*recorder.Writer, error) {
			w, err := recorder.Create(out, h)
			if err == nil && !ended {
				ended = true
				err = w.Close() // what is written now is refused
			}
			return w, err
		}}})
	if text, err := (agent{client: sdk(t, p.url), temp: 3}).run(t.Context()); err != nil {
		t.Fatal(text, err)
	}
	p.stop()
	if got, err := p.Close(); err == nil || len(got.Troubles) != 1 || got.Fork.Cassette != out {
		t.Fatalf("%+v, %v", got, err)
	}
	if list, err := os.ReadDir(filepath.Dir(out)); err != nil || len(list) != 1 {
		t.Error(list, err)
	}
}

// watched is an upstream that says when it is asked.
type watched struct {
	Upstream
	asked func()
}

func (u watched) Do(r *http.Request, body []byte) (*http.Response, error) {
	u.asked()
	return u.Upstream.Do(r, body)
}

// TestForkTakesNoMore: once the fork's cassette cannot be written, calls are
// refused before they cost anything.
func TestForkTakesNoMore(t *testing.T) {
	out := filepath.Join(t.TempDir(), "fork.yaml")
	s := bedrocktest.New(t, bedrocktest.Options{})
	path := recorded(t, false, bedrocktest.ToolLoop())
	var made *recorder.Writer
	full := func() { _ = made.Close() }
	p := start(t, Options{Upstream: watched{upstream(t, s.URL), full}, Fork: &ForkOptions{Parent: open(t, path), Patch: faults.Drop("/records/1").For(5), Live: true,
		Create: func(h recorder.Header) (w *recorder.Writer, err error) {
			made, err = recorder.Create(out, h)
			return made, err
		}}})
	if _, err := (agent{client: sdk(t, p.url), temp: 3}).run(t.Context()); err == nil || !strings.Contains(err.Error(), "takes no more") {
		t.Error(err)
	}
	p.stop()
	got, err := p.Close()
	if err == nil || len(got.Troubles) != 2 || len(s.Requests()) != 1 {
		t.Errorf("%q, %v, %d requests", got.Troubles, err, len(s.Requests()))
	}
}
