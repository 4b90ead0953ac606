package proxy

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"path/filepath"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"investigator/internal/recorder"
)

// How to repeat the figures:
//
//	go test -run '^$' -bench . -benchtime 5000x ./internal/proxy
//
// A request has 20 KB, an answer 5 KB, and sixteen connections ask at once.

// bigBody is a request of 20 KB whose question is the n-th.
func bigBody(n int) []byte {
	filler := strings.Repeat("The quick brown fox jumps over the lazy dog. ", 20_000/45)
	return fmt.Appendf(nil, `{"messages":[{"role":"user","content":[{"text":"question %d %s"}]}],"system":[{"text":"Be brief."}]}`, n, filler)
}

func bigAnswer() []byte {
	return []byte(`{"output":{"message":{"role":"assistant","content":[{"text":"` + strings.Repeat("answer ", 5000/7) + `"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`)
}

// quickUpstream answers at once, after it has read the request.
func quickUpstream(b testing.TB) *httptest.Server {
	answer := bigAnswer()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Content-Length", fmt.Sprint(len(answer)))
		_, _ = w.Write(answer)
	}))
	b.Cleanup(s.Close)
	return s
}

// ask sends the n-th of b.N calls over sixteen connections.
func ask(b *testing.B, url string, header func(r *http.Request)) {
	b.Helper()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 16}}
	defer client.CloseIdleConnections()
	var next, failed atomic.Int64
	b.SetParallelism(16 / runtime.GOMAXPROCS(0))
	b.ResetTimer()
	b.RunParallel(func(pb *testing.PB) {
		for pb.Next() {
			r, _ := http.NewRequest(http.MethodPost, url+"/model/m/converse", bytes.NewReader(bigBody(int(next.Add(1)))))
			if header != nil {
				header(r)
			}
			resp, err := client.Do(r)
			if err != nil {
				failed.Add(1)
				continue
			}
			n, err := io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || n < 4000 {
				failed.Add(1)
			}
		}
	})
	b.StopTimer()
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "calls/s")
	if n := failed.Load(); n > 0 {
		b.Errorf("%d of %d calls failed", n, b.N)
	}
}

// reverseProxy is what to compare with: net/http/httputil with the request body
// read first, without which it loses answers (golang/go#40747).
func reverseProxy(b testing.TB, to string) *httptest.Server {
	u, _ := url.Parse(to)
	rp := httputil.NewSingleHostReverseProxy(u)
	rp.Transport = &http.Transport{MaxIdleConnsPerHost: 512}
	rp.FlushInterval = -1
	front := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		r.Body = io.NopCloser(bytes.NewReader(body))
		rp.ServeHTTP(w, r)
	}))
	b.Cleanup(front.Close)
	return front
}

func BenchmarkReverseProxy(b *testing.B) {
	ask(b, reverseProxy(b, quickUpstream(b).URL).URL, nil)
}

// BenchmarkRecord records all calls into one run.
func BenchmarkRecord(b *testing.B) {
	for _, durable := range []bool{false, true} {
		b.Run(map[bool]string{false: "behind", true: "durable"}[durable], func(b *testing.B) {
			s := quickUpstream(b)
			p := recordTo(b, upstream(b, s.URL), func(o *RecordOptions) { o.Durable = durable })
			ask(b, p.url, func(r *http.Request) { r.Header.Set(RunHeader, "bench") })
			p.stop()
			if _, err := p.Close(); err != nil {
				b.Error(err)
			}
		})
	}
}

// tapeOf records n calls into one cassette.
func tapeOf(b testing.TB, n int) string {
	s := quickUpstream(b)
	p := recordTo(b, upstream(b, s.URL), nil)
	for i := 1; i <= n; i++ {
		post(b, p.url, "/model/m/converse", string(bigBody(i)), RunHeader, "bench")
	}
	p.end()
	return filepath.Join(p.dir, "run-001.yaml")
}

// BenchmarkReplay serves calls from tape.
func BenchmarkReplay(b *testing.B) {
	p := replayOf(b, false, tapeOf(b, b.N))
	ask(b, p.url, nil)
}

// BenchmarkReplayCall is the cost of one replayed call without HTTP, by the
// length of the run.
func BenchmarkReplayCall(b *testing.B) {
	for _, n := range []int{100, 2000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			p, err := New(Options{Replay: []*recorder.Cassette{open(b, tapeOf(b, n))}})
			if err != nil {
				b.Fatal(err)
			}
			b.ResetTimer()
			for i := range b.N {
				r := httptest.NewRequest(http.MethodPost, "/model/m/converse", bytes.NewReader(bigBody(1+i%n)))
				r.Host = "127.0.0.1"
				r.Header.Set("X-Stainless-Retry-Count", "1") // a second round is served again
				w := &nowhere{header: http.Header{}}
				p.ServeHTTP(w, r)
				if w.status != 200 {
					b.Fatal(w.status)
				}
			}
		})
	}
}

type nowhere struct {
	header http.Header
	status int
}

func (n *nowhere) Header() http.Header         { return n.header }
func (n *nowhere) Write(b []byte) (int, error) { return len(b), nil }
func (n *nowhere) WriteHeader(status int)      { n.status = status }

// BenchmarkMemory reports the heap after recording b.N calls into one run:
// -benchtime 20000x.
func BenchmarkMemory(b *testing.B) {
	s := quickUpstream(b)
	p := recordTo(b, upstream(b, s.URL), nil)
	ask(b, p.url, func(r *http.Request) { r.Header.Set(RunHeader, "bench") })
	p.end()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	b.ReportMetric(float64(m.HeapAlloc)/(1<<20), "heap-MB")
	b.ReportMetric(float64(m.Sys)/(1<<20), "sys-MB")
}

// BenchmarkFirstByte is the time to the first piece of a stream whose end takes
// 20 ms more, through the proxy and without it.
func BenchmarkFirstByte(b *testing.B) {
	frame := bytes.Repeat([]byte("x"), 120)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = w.Write(frame)
		w.(http.Flusher).Flush()
		time.Sleep(20 * time.Millisecond)
		_, _ = w.Write(frame)
	}))
	defer s.Close()
	p := recordTo(b, upstream(b, s.URL), nil)
	for name, url := range map[string]string{"direct": s.URL, "reverse proxy": reverseProxy(b, s.URL).URL, "proxy": p.url} {
		b.Run(name, func(b *testing.B) {
			var first time.Duration
			body := bigBody(1)
			for range b.N {
				began := time.Now()
				r, _ := http.NewRequest(http.MethodPost, url+"/model/m/converse-stream", bytes.NewReader(body))
				r.Header.Set(RunHeader, "bench")
				resp, err := http.DefaultClient.Do(r)
				if err != nil {
					b.Fatal(err)
				}
				if _, err := io.ReadFull(resp.Body, make([]byte, len(frame))); err != nil {
					b.Fatal(err)
				}
				first += time.Since(began)
				_, _ = io.Copy(io.Discard, resp.Body)
				resp.Body.Close()
			}
			b.ReportMetric(float64(first.Microseconds())/float64(b.N), "µs-to-first")
		})
	}
}
