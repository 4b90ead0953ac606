package recorder_test

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	vcr "gopkg.in/dnaeon/go-vcr.v3/cassette"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

// interrupted records a run up to its n-th return into a file and gives the
// recorder, the events and what the file holds then.
func interrupted(t *testing.T, n int) (w *recorder.Writer, events []ledger.Event, text []byte) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "run.yaml")
	w, err := recorder.Create(path, recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.Close() })
	killed := errors.New("killed")
	_, err = recordertest.Generate(recordertest.Options{Turns: 20}, loop.SinkFunc(func(call edge.Call, ret edge.Return, more []ledger.Event) error {
		if n--; n < 0 {
			return killed
		}
		events = append(events, more...)
		return w.Took(call, ret, more)
	}))
	if !errors.Is(err, killed) {
		t.Fatal(err)
	}
	if text, err = os.ReadFile(path); err != nil {
		t.Fatal(err)
	}
	return w, events, text
}

// readsAs expects a cassette of these events after run.started.
func readsAs(t *testing.T, text []byte, events []ledger.Event, torn bool) {
	t.Helper()
	c, err := recorder.Parse("run.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	got, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(events, got[1:]); d != "" {
		t.Errorf("events (-recorded +read):\n%s", d)
	}
	if (c.Torn() != nil) != torn || c.Sealed() {
		t.Errorf("torn: %v, sealed %t", c.Torn(), c.Sealed())
	}
}

// TestPaddingOfAKilledRun: what a kill leaves behind the last line is nothing,
// to us and to go-vcr.
func TestPaddingOfAKilledRun(t *testing.T) {
	_, events, text := interrupted(t, 9)
	if !bytes.HasSuffix(text, []byte(strings.Repeat(" ", 100))) {
		t.Fatalf("no padding stands behind %d bytes", len(text))
	}
	readsAs(t, text, events, false)
	name := filepath.Join(t.TempDir(), "killed")
	if err := os.WriteFile(name+".yaml", text, 0o600); err != nil {
		t.Fatal(err)
	}
	loaded, err := vcr.Load(name)
	if err != nil || len(loaded.Interactions) != 9 {
		t.Errorf("go-vcr loads %d interactions, %v", len(loaded.Interactions), err)
	}
}

// TestPowerCut: of the line that was being written any sectors may have reached
// the disk and others not. Everything before it is whole.
func TestPowerCut(t *testing.T) {
	_, before, _ := interrupted(t, 8)
	_, _, text := interrupted(t, 9)
	end := len(bytes.TrimRight(text, " "))
	start := bytes.LastIndexByte(text[:end-1], '\n') + 1
	const sector = 512
	var sectors []int
	for at := start / sector * sector; at < end; at += sector {
		sectors = append(sectors, at)
	}
	if len(sectors) < 3 {
		t.Fatalf("the last line stands in %d sectors", len(sectors))
	}
	for lost := 1; lost < 1<<min(len(sectors), 8); lost++ {
		b := bytes.Clone(text)
		for i, at := range sectors {
			if lost&(1<<min(i, 7)) != 0 {
				copy(b[max(at, start):min(at+sector, end)], strings.Repeat(" ", sector))
			}
		}
		readsAs(t, b, before, lost != 1<<min(len(sectors), 8)-1)
	}
}

// TestPaddingHidesNoDamage: only the last line of a run that was killed may be
// wrong, and nothing stands behind a seal.
func TestPaddingHidesNoDamage(t *testing.T) {
	_, _, text := interrupted(t, 9)
	lines := bytes.SplitAfter(text, []byte("\n"))
	at := len(bytes.Join(lines[:len(lines)-3], nil)) + 100
	text[at] ^= 1
	var damage *recorder.Damage
	if _, err := recorder.Parse("run.yaml", text); !errors.As(err, &damage) || damage.Interaction != 7 {
		t.Errorf("a changed byte of interaction 7: %v", err)
	}
	sealed, err := recordertest.Cassette(recordertest.Options{Turns: 3})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := recorder.Parse("run.yaml", append(sealed, ' ')); !errors.As(err, &damage) || !strings.Contains(damage.Reason, "after the seal") {
		t.Errorf("a space behind the seal: %v", err)
	}
}

// TestNoPaddingIsLeft: not by a run that ends, nor by one that is closed, nor
// under several lines that are made durable at once.
func TestNoPaddingIsLeft(t *testing.T) {
	w, events, text := interrupted(t, 9)
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	closed, err := os.ReadFile(w.Path())
	if d := cmp.Diff(string(bytes.TrimRight(text, " ")), string(closed)); d != "" || err != nil {
		t.Errorf("after Close (-lines +file), %v:\n%s", err, d)
	}
	readsAs(t, closed, events, false)

	w, _, text = interrupted(t, 9)
	if err := w.TookAll(nil); err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(w.Path()); err != nil || len(b) != len(bytes.TrimRight(text, " ")) {
		t.Errorf("%d bytes under a batch, %v", len(b), err)
	}

	path := filepath.Join(t.TempDir(), "run.yaml")
	if w, err = recorder.Create(path, recordertest.Header()); err != nil {
		t.Fatal(err)
	}
	if _, err := recordertest.Generate(recordertest.Options{Turns: 20}, w); err != nil {
		t.Fatal(err)
	}
	want, err := recordertest.Cassette(recordertest.Options{Turns: 20})
	if err != nil {
		t.Fatal(err)
	}
	if b, err := os.ReadFile(path); err != nil || !bytes.Equal(b, want) {
		t.Errorf("the file has %d bytes, the same run in memory %d, %v", len(b), len(want), err)
	}
}
