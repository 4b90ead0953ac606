package proxy

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/edge"
	"investigator/internal/foreign"
)

func beganStep(n int64, body string) step {
	r, _ := foreign.ParseRoute("/model/m/converse")
	return step{call: n, began: &call{Asked: foreign.Asked{Route: r}, arrival: arrival{Path: r.Path, Tag: "t", Client: "c/1", Invocation: "i", Attempt: 2, At: time.Unix(5, 6).UTC()}, raw: []byte(body)}}
}

func endedStep(n int64, body string) step {
	return step{call: n, ended: &attempt{Attempt: edge.Attempt{Code: 200, Header: map[string]string{"Content-Type": "x"}, Body: []byte(body), Err: "e", At: "a", Took: "t"}, url: "https://x.invalid"}}
}

// same tells what two steps differ in.
func same(a, b step) string {
	type flat struct {
		Call    int64
		Arrival arrival
		Route   foreign.Route
		Raw     string
		Attempt edge.Attempt
		URL     string
	}
	of := func(s step) flat {
		f := flat{Call: s.call}
		if s.began != nil {
			f.Arrival, f.Route, f.Raw = s.began.arrival, s.began.Route, string(s.began.raw)
		}
		if s.ended != nil {
			f.Attempt, f.URL = s.ended.Attempt, s.ended.url
		}
		return f
	}
	return cmp.Diff(of(a), of(b))
}

func spoolIn(t testing.TB, dir string) *spool {
	t.Helper()
	s, err := newSpool(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	return s
}

// TestBacklogKeepsOrder: what goes in comes out, in order, wherever it waited.
func TestBacklogKeepsOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	b := newBacklog(8<<10, 1<<20, spoolIn(t, t.TempDir()))
	var expected []step
	next := int64(0)
	for range 4000 {
		if r.IntN(5) < 3 && len(expected) < 100 {
			next++
			s := beganStep(next, fmt.Sprint("body ", next))
			if next%7 == 0 {
				s = step{call: next}
			} else if next%2 == 0 {
				s = endedStep(next, string(bytes.Repeat([]byte{byte(next)}, r.IntN(3000))))
			}
			if err := b.push(s); err != nil {
				t.Fatal(err)
			}
			expected = append(expected, s)
			continue
		}
		got, found, err := b.pop(false)
		if err != nil || found != (len(expected) > 0) {
			t.Fatalf("found %v with %d waiting: %v", found, len(expected), err)
		}
		if !found {
			continue
		}
		if d := same(expected[0], got); d != "" {
			t.Fatalf("step (-in +out):\n%s", d)
		}
		expected = expected[1:]
	}
	if len(expected) == 0 || b.onDisk() == 0 {
		t.Errorf("%d steps wait, %d bytes on the disk: the test did not come to it", len(expected), b.onDisk())
	}
	b.close()
	for range expected {
		if _, found, err := b.pop(true); !found || err != nil {
			t.Fatal(found, err)
		}
	}
	if _, found, _ := b.pop(true); found {
		t.Error("a step came after the last")
	}
	if info, err := b.rest.file.Stat(); err != nil || info.Size() > maxKept {
		t.Errorf("an empty backlog takes %d bytes of the disk: %v", info.Size(), err)
	}
}

// TestBacklogHoldsTrafficBack: with no room left a push waits for a pop.
func TestBacklogHoldsTrafficBack(t *testing.T) {
	for name, rest := range map[string]*spool{"disk": spoolIn(t, t.TempDir()), "no disk": nil} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBacklog(1, 512, rest)
				const steps = 40
				pushed := make(chan int64, steps)
				go func() {
					for n := range int64(steps) {
						if err := b.push(beganStep(n, "x")); err != nil {
							t.Error(err)
						}
						pushed <- n
					}
				}()
				synctest.Wait()
				if len(pushed) == 0 || len(pushed) > 12 {
					t.Errorf("%d steps fit", len(pushed))
				}
				for n := range int64(steps) {
					if s, found, err := b.pop(true); !found || err != nil || s.call != n {
						t.Fatalf("step %d: %v, %v, %v", n, s.call, found, err)
					}
				}
				synctest.Wait()
				if len(pushed) != steps {
					t.Errorf("%d of %d steps were pushed", len(pushed), steps)
				}
			})
		})
	}
}

// TestBacklogWithoutDisk: a disk that takes no more is told of, and no step is
// lost.
func TestBacklogWithoutDisk(t *testing.T) {
	s := spoolIn(t, t.TempDir())
	readOnly, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	defer readOnly.Close()
	synctest.Test(t, func(t *testing.T) {
		b := newBacklog(1, 1<<20, s)
		for n := range int64(3) {
			if err := b.push(beganStep(n, "x")); err != nil {
				t.Fatal(err)
			}
		}
		file := s.file
		s.file = readOnly
		failed := make(chan error, 1)
		go func() { failed <- b.push(beganStep(3, "x")) }()
		synctest.Wait()
		s.file = file // what was put before can be read
		for n := range int64(4) {
			if got, found, err := b.pop(true); err != nil || !found || got.call != n {
				t.Fatalf("step %d: found %d, %v, %v", n, got.call, found, err)
			}
		}
		if err := <-failed; err == nil {
			t.Error("nothing was said about the disk")
		}
	})
}

// TestSpoolIsUnreadable: what waits on the disk has no name there and is not in
// the clear.
func TestSpoolIsUnreadable(t *testing.T) {
	dir := t.TempDir()
	s := spoolIn(t, dir)
	if err := s.put([]byte("a secret")); err != nil {
		t.Fatal(err)
	}
	if names, err := filepath.Glob(filepath.Join(dir, "*")); err != nil || len(names) > 0 {
		t.Errorf("%v stands in the folder, %v", names, err)
	}
	text := make([]byte, s.size())
	if _, err := s.file.ReadAt(text, 0); err != nil || bytes.Contains(text, []byte("secret")) {
		t.Errorf("the disk holds %q, %v", text, err)
	}
	if err := s.put(make([]byte, 2*maxKept)); err != nil {
		t.Fatal(err)
	}
	text[len(text)-1] ^= 1
	if _, err := s.file.WriteAt(text, 0); err != nil {
		t.Fatal(err)
	}
	if b, err := s.take(); err == nil {
		t.Errorf("took %q, which is not what was put", b)
	}
	if info, err := s.file.Stat(); err != nil || s.size() != 0 || info.Size() != 0 {
		t.Errorf("%d bytes wait that cannot be read, in %d on the disk, %v", s.size(), info.Size(), err)
	}
}

// onDisk is how many bytes of the disk a spool takes.
func onDisk(t *testing.T, s *spool) (n int64) {
	t.Helper()
	for _, p := range append(s.full, s.stretch) {
		info, err := p.file.Stat()
		if err != nil {
			t.Fatal(err)
		}
		n += info.Size()
	}
	return n
}

// TestSpoolThatIsNeverEmpty: calls that come all the time as fast as they are
// recorded leave nothing of themselves on the disk once they are.
func TestSpoolThatIsNeverEmpty(t *testing.T) {
	dir := t.TempDir()
	s := spoolIn(t, dir)
	s.most = 8 << 10
	const waiting, size = 20, 1 << 10
	taken, files := 0, 0
	for n := range 2000 {
		if err := s.put(bytes.Repeat([]byte{byte(n)}, size)); err != nil {
			t.Fatal(err)
		}
		files = max(files, len(s.full))
		if n < waiting {
			continue
		}
		b, err := s.take()
		if err != nil || len(b) != size || b[0] != byte(taken) {
			t.Fatalf("took %d bytes of call %d: %v", len(b), taken, err)
		}
		taken++
	}
	if n := onDisk(t, s); n > s.size()+2*(s.most+2*size) || files == 0 {
		t.Fatalf("%d bytes wait and take %d of the disk, in up to %d files and one", s.size(), n, files)
	}
	s.dir = filepath.Join(dir, "gone")
	for n := range 100 { // without a folder for another file the last one takes all
		if err := s.put(make([]byte, size)); err != nil {
			t.Fatalf("call %d: %v", n, err)
		}
	}
	if _, err := s.full[0].file.WriteAt([]byte("damage"), s.full[0].start+4); err != nil {
		t.Fatal(err)
	}
	if _, err := s.take(); err == nil || s.size() != 0 || len(s.full) > 0 {
		t.Errorf("after damage %d bytes wait in %d files and one, %v", s.size(), len(s.full), err)
	}
}

// TestSpoolLeavesRoom: what waits takes no room that its record will need.
func TestSpoolLeavesRoom(t *testing.T) {
	s := spoolIn(t, t.TempDir())
	if free, known := roomBeside(s.file); known && free <= 0 {
		t.Errorf("%d bytes are free", free)
	}
	free := int64(diskReserve + 1000)
	s.room = func(*os.File) (int64, bool) { return free, true }
	if err := s.put(make([]byte, 400)); err != nil {
		t.Error(err)
	}
	if err := s.put(make([]byte, 400)); err == nil {
		t.Error("the second piece took the room of the first one's record")
	}
	free += 1 << 10
	if err := s.put(make([]byte, 400)); err != nil || s.size() < 800 {
		t.Errorf("%d bytes wait, %v", s.size(), err)
	}
}

func FuzzStep(f *testing.F) {
	f.Add(int64(1), "/model/m/converse", "tag", "{}", true)
	f.Add(int64(-2), "https://x", "\xff", "\x00", false)
	f.Fuzz(func(t *testing.T, id int64, where, text, body string, began bool) {
		s := endedStep(id, body)
		s.ended.Err, s.ended.url, s.ended.Header[text] = text, where, where
		if began {
			s = beganStep(id, body)
			s.began.Tag, s.began.Client = text, where
		}
		b := s.append(nil)
		got, err := parseStep(b)
		if err != nil {
			t.Fatal(err)
		}
		if d := same(s, got); d != "" {
			t.Errorf("step (-in +out):\n%s", d)
		}
		for n := range len(b) - len(body) {
			if s, err := parseStep(b[:n]); err == nil {
				t.Errorf("%d of %d bytes are taken for %+v", n, len(b), s)
			}
		}
	})
}

func BenchmarkSpill(b *testing.B) {
	q := newBacklog(0, 1<<40, spoolIn(b, b.TempDir()))
	s := beganStep(1, string(bytes.Repeat([]byte("x"), 20_000)))
	b.SetBytes(20_000)
	for b.Loop() {
		if err := q.push(s); err != nil {
			b.Fatal(err)
		}
	}
}
