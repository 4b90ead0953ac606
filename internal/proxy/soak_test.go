package proxy

import (
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/engine"
)

// TestSoak: 64 agents at once over an upstream of which one call in twenty goes
// wrong. An agent may fail, but whoever gets an answer gets its own, and every
// cassette obeys the laws. INVESTIGATOR_SOAK=10m makes it last.
func TestSoak(t *testing.T) {
	lasting, _ := time.ParseDuration(os.Getenv("INVESTIGATOR_SOAK")) // unset: one round
	s := bedrocktest.New(t, bedrocktest.Options{
		Script: func(r bedrocktest.Request) bedrocktest.Turn {
			if r.Step >= 2 {
				return bedrocktest.Say(bedrocktest.Text("for " + r.Messages[0].Blocks[0].Text))
			}
			return bedrocktest.ToolLoop()(r)
		},
		Faults: []bedrocktest.Fault{{Name: "throttle", Every: 40}, {Name: "cut", Every: 80}, {Name: "error-mid-stream", Every: 80}},
		MaxLog: 64,
	})
	p := recordTo(t, upstream(t, s.URL), func(o *RecordOptions) { o.MaxOpen = 128 })
	var wg sync.WaitGroup
	var runs, failed atomic.Int64
	until := time.Now().Add(lasting)
	for i := range 64 {
		wg.Go(func() {
			client := sdk(t, p.url)
			for round := 0; round == 0 || time.Now().Before(until); round++ {
				q := fmt.Sprintf("question %d of %d", round, i)
				text, err := agent{client: client, stream: i%2 == 0, question: q, temp: 3}.run(t.Context())
				runs.Add(1)
				switch {
				case err != nil:
					failed.Add(1)
				case text != "for "+q:
					t.Errorf("agent %d got %q for %q", i, text, q)
				}
			}
		})
	}
	wg.Wait()
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	t.Logf("%d runs, %d failed by the upstream, heap %d MB, from the system %d MB", runs.Load(), failed.Load(), m.HeapAlloc>>20, m.Sys>>20)
	got := p.end()
	if failed.Load()*2 > runs.Load() {
		t.Errorf("%d of %d runs failed", failed.Load(), runs.Load())
	}
	for _, path := range got.Recorded {
		c := open(t, path)
		if r, err := engine.Replay(t.Context(), c, engine.ReplayOptions{}); err != nil || !r.Identical || !c.Sealed() {
			t.Fatalf("%s: %+v, %v", path, r.Divergence, err)
		}
	}
}
