package engine_test

import (
	"fmt"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"investigator/internal/bedrock"
	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/bedrock/bedrocktest/rulescript"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/world"
)

// fivePercent are faults that hit one request in twenty: ten that pass when the
// call is tried again, one in 250 each, and one in 100 that does not.
func fivePercent() (all []bedrocktest.Fault) {
	for _, name := range []string{"throttle", "500", "model-not-ready", "reset", "empty-200", "cut", "cut-in-frame", "reset-mid-stream", "bad-crc", "throttle-mid-stream"} {
		all = append(all, bedrocktest.Fault{Name: name, Every: 250})
	}
	return append(all, bedrocktest.Fault{Name: "html", Every: 100})
}

// many are runs that share a process, a world, a local Bedrock and two edges.
type many struct {
	t             *testing.T
	world         *world.World
	stream, whole *bedrock.Edge
	dir           string
}

func (m many) file(i int) string { return filepath.Join(m.dir, fmt.Sprintf("%d.yaml", i)) }

func (m many) streams(i int) bool { return i%2 == 0 }

// run records investigation i into a file of its own.
func (m many) run(i int) error {
	start := bedrockStart(m.t, fmt.Sprintf("%s (report %d)", task, i), m.world.Context(), worldTools(m.world))
	rec, err := recorder.Create(m.file(i), recorder.Header{Run: fmt.Sprint(i), Start: start, World: &recorder.World{Name: m.world.Name(), Digest: m.world.Digest()}})
	if err != nil {
		return err
	}
	defer rec.Close()
	model := m.whole
	if m.streams(i) {
		model = m.stream
	}
	_, err = engine.Live(m.t.Context(), start, model, engine.Tools{World: m.world}, rec)
	return err
}

// TestManyInvestigationsAtOnce runs 200 investigations in one process while one
// request in twenty goes wrong. Every one ends with a sealed cassette that
// replays identically, and no goroutine or file stays behind.
func TestManyInvestigationsAtOnce(t *testing.T) {
	const runs = 200
	noAWS(t)
	wakeNetwork(t)
	goroutines, files := runtime.NumGoroutine(), openFiles()
	s, err := bedrocktest.Start(bedrocktest.Options{Script: rulescript.Script(true), Seed: 3, Faults: fivePercent()})
	if err != nil {
		t.Fatal(err)
	}
	m := many{t: t, world: demoWorld(t), stream: bedrockEdge(t, s.URL, true), whole: bedrockEdge(t, s.URL, false), dir: t.TempDir()}
	var wg sync.WaitGroup
	for i := range runs {
		wg.Go(func() {
			if err := m.run(i); err != nil {
				t.Errorf("run %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	m.stream.Close()
	m.whole.Close()
	s.Close()

	faulty, requests := 0, s.Requests()
	for _, r := range requests {
		if r.Fault != "" {
			faulty++
		}
	}
	outcomes, attempts := map[string]int{}, 0
	for i := range runs {
		c := m.holds(i, outcomes)
		attempts += attemptsOf(t, c)
	}
	t.Logf("%d requests, %d with a fault, outcomes %v", len(requests), faulty, outcomes)
	if share := 100 * faulty / len(requests); share < 3 || share > 8 {
		t.Errorf("%d of %d requests met a fault, expected about 5 %%", faulty, len(requests))
	}
	if outcomes[loop.Concluded] < runs*9/10 || outcomes[loop.Failed] == 0 || outcomes[loop.Concluded]+outcomes[loop.Failed] != runs {
		t.Errorf("outcomes %v", outcomes)
	}
	if attempts != len(requests) {
		t.Errorf("%d attempts are on the cassettes, and %d requests were made", attempts, len(requests))
	}
	nothingLeft(t, goroutines, files)
}

// holds makes sure that cassette i is sealed and replays identically, from the
// tape with the tools run again, and over the recorded wire.
func (m many) holds(i int, outcomes map[string]int) *recorder.Cassette {
	m.t.Helper()
	c, err := recorder.Open(m.file(i))
	if err != nil {
		m.t.Fatal(err)
	}
	o, err := loop.ParseOutcome(c.Finished())
	if err != nil || !c.Sealed() {
		m.t.Fatalf("run %d: sealed %v, error %v", i, c.Sealed(), err)
	}
	outcomes[o.Outcome]++
	if r := replayed(m.t, c, engine.Tools{World: m.world}); !r.Identical || r.FromTape != 0 {
		m.t.Errorf("run %d: %+v", i, r)
	}
	if o.Outcome == loop.Concluded && i%40 < 2 {
		sameOverTheWire(m.t, c, m.streams(i))
	}
	return c
}

func attemptsOf(t *testing.T, c *recorder.Cassette) (n int) {
	t.Helper()
	for i := range c.Len() {
		x, err := c.Interaction(i)
		if err != nil {
			t.Fatal(err)
		}
		if x.Kind == edge.Model {
			n += len(x.Attempts)
		}
	}
	return n
}

// wakeNetwork lets the runtime open what it keeps open for good once a process
// has used the network.
func wakeNetwork(t *testing.T) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
}

// openFiles counts what the process holds open, -1 where that cannot be told.
func openFiles() int {
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		return -1
	}
	return len(entries)
}

// nothingLeft waits for goroutines of closed connections, which end by
// themselves, and reports what stays.
func nothingLeft(t *testing.T, goroutines, files int) {
	t.Helper()
	for i := 0; (runtime.NumGoroutine() > goroutines || openFiles() > files) && i < 1e5; i++ {
		runtime.Gosched()
	}
	if n := runtime.NumGoroutine(); n > goroutines {
		stacks := make([]byte, 1<<16)
		stacks = stacks[:runtime.Stack(stacks, true)]
		t.Errorf("%d goroutines before, %d after:\n%s", goroutines, n, strings.TrimSpace(string(stacks)))
	}
	if n := openFiles(); n > files {
		t.Errorf("%d files were open before, %d after", files, n)
	}
}
