package proxy

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"runtime"
	"testing"

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
