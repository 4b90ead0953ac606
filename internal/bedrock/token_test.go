package bedrock

import (
	"bytes"
	"net/http"
	"testing"
	"time"

	"investigator/internal/bedrock/bedrocktest"
)

// BenchmarkFirstToken compares when the first piece of a streamed answer is at
// hand: read by a bare HTTP client, and shown by the edge, which signs, records
// and decodes on the way. The figure is µs-to-first; the server sends the rest
// of the answer 5 ms later.
func BenchmarkFirstToken(b *testing.B) {
	srv := serveRaw(b, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
		_, _ = w.Write(bedrocktest.EncodeFrame("contentBlockDelta", []byte(`{"contentBlockIndex":0,"delta":{"text":"now"}}`)))
		_ = http.NewResponseController(w).Flush()
		time.Sleep(5 * time.Millisecond)
		_, _ = w.Write(bedrocktest.EncodeFrame("messageStop", []byte(`{"stopReason":"end_turn"}`)))
	})
	call := modelCall(b, `{}`)
	b.Run("direct", func(b *testing.B) {
		var sum time.Duration
		for b.Loop() {
			began := time.Now()
			resp, err := http.Post(srv+"/model/m/converse-stream", "application/json", bytes.NewReader(call.Request.Body()))
			if err != nil {
				b.Fatal(err)
			}
			if _, err := resp.Body.Read(make([]byte, 4096)); err != nil {
				b.Fatal(err)
			}
			sum += time.Since(began)
			_, _ = bytes.NewBuffer(nil).ReadFrom(resp.Body)
			resp.Body.Close()
		}
		b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "µs-to-first")
	})
	b.Run("edge", func(b *testing.B) {
		var sum time.Duration
		var began time.Time
		o := options(srv, true)
		o.Watch.Text = func(string) { sum += time.Since(began) }
		e := newEdge(b, o)
		for b.Loop() {
			began = time.Now()
			if r := do(b, e, call); r.Failed {
				b.Fatalf("%s", r.Body)
			}
		}
		b.ReportMetric(float64(sum.Microseconds())/float64(b.N), "µs-to-first")
	})
}
