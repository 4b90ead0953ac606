package proxy

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

// BenchmarkLoad is what loading a tape costs, and what a loaded one keeps: time
// and heap for each recorded call.
func BenchmarkLoad(b *testing.B) {
	const n = 2000
	path := tapeOf(b, n)
	http.DefaultClient.CloseIdleConnections()
	var p *Proxy
	heap := -heapNow()
	b.ResetTimer()
	for range b.N {
		var err error
		if p, err = New(Options{Replay: []*recorder.Cassette{open(b, path)}}); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	heap += heapNow()
	runtime.KeepAlive(p)
	b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*n), "µs/call")
	b.ReportMetric(float64(heap)/n, "heap-B/call")
}

// A recorded answer costs the same wherever on a long tape it stands: only its
// own text is read, and not the line around it, which is no longer held.
func TestAnswersCostTheSameAllAlongATape(t *testing.T) {
	const n, some = 500, 50
	p, err := New(Options{Replay: []*recorder.Cassette{open(t, tapeOf(t, n))}})
	if err != nil {
		t.Fatal(err)
	}
	calls := p.mode.(*replaying).tapes[0].calls
	cost := func(from int) float64 {
		next := from
		return testing.AllocsPerRun(some-1, func() {
			e, cut, err := recordedAnswer(foreign.Asked{}, calls[next])
			if err != nil || cut || string(e.body) != string(bigAnswer()) {
				t.Fatalf("call %d: %d bytes, cut %v, %v", next, len(e.body), cut, err)
			}
			next++
		})
	}
	if first, last := cost(0), cost(n-some); first > last+1 {
		t.Errorf("%v allocations for an early answer, %v for a late one", first, last)
	}
}

func heapNow() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// BenchmarkServeLong serves each of b.N recorded calls once, without HTTP:
// -benchtime 21000x.
func BenchmarkServeLong(b *testing.B) {
	path := tapeOf(b, b.N)
	p, err := New(Options{Replay: []*recorder.Cassette{open(b, path)}})
	if err != nil {
		b.Fatal(err)
	}
	runtime.GC()
	b.ResetTimer()
	b.ReportAllocs()
	for i := range b.N {
		r := httptest.NewRequest(http.MethodPost, "/model/m/converse", bytes.NewReader(bigBody(1+i)))
		r.Host = "127.0.0.1"
		w := &nowhere{header: http.Header{}}
		p.ServeHTTP(w, r)
		if w.status != 200 {
			b.Fatal(w.status)
		}
	}
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
}
