package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"slices"
	"time"

	"investigator/internal/bedrock/bedrocktest"
)

const (
	streamPath = "/model/m/converse-stream"
	streamGap  = 20 * time.Millisecond // between the first frame and the others
)

// stream is a streamed answer: its first frame, and those that come later.
type stream struct{ first, rest []byte }

func newStream() stream {
	var rest []byte
	for _, frame := range []struct{ kind, payload string }{
		{"contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"An answer."}}`},
		{"contentBlockStop", `{"contentBlockIndex":0}`},
		{"messageStop", `{"stopReason":"end_turn"}`},
		{"metadata", `{"metrics":{"latencyMs":20},"usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`},
	} {
		rest = append(rest, bedrocktest.EncodeFrame(frame.kind, []byte(frame.payload))...)
	}
	return stream{bedrocktest.EncodeFrame("messageStart", []byte(`{"role":"assistant"}`)), rest}
}

func (s stream) write(w http.ResponseWriter) {
	w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
	_, _ = w.Write(s.first) // a proxy that went away shows at the client
	_ = http.NewResponseController(w).Flush()
	time.Sleep(streamGap)
	_, _ = w.Write(s.rest)
}

// read sends a request, and returns when the first frame was there.
func (s stream) read(l *line, body []byte) (time.Duration, error) {
	began := time.Now()
	resp, err := l.send(streamPath, body)
	if err != nil {
		return 0, err
	}
	got := make([]byte, len(s.first))
	if _, err := io.ReadFull(resp.Body, got); err != nil {
		return 0, err
	}
	took := time.Since(began)
	rest, err := io.ReadAll(resp.Body)
	if err == nil && !bytes.Equal(append(got, rest...), slices.Concat(s.first, s.rest)) {
		err = fmt.Errorf("expected a stream of %d bytes, found %d others with status %d", len(s.first)+len(s.rest), len(got)+len(rest), resp.StatusCode)
	}
	return took, err
}

// firstChunk measures how long the first frame of a stream takes. Both proxies
// run, and every stream goes through the one and then through the other.
func (c *contest) firstChunk(ctx context.Context) error {
	sides, err := c.both(ctx)
	if err != nil {
		return err
	}
	lines := []*line{{addr: sides[0].addr}, {addr: sides[1].addr, run: "bench"}}
	var firsts [2]figures
	for round := range c.times + 1 {
		var times [2]figures
		for n := range c.streams {
			for i, l := range lines {
				took, err := c.up.stream.read(l, c.up.ask.with(round*c.streams+n))
				if err != nil {
					return fmt.Errorf("stream through %s: %w", sides[i].what, err)
				}
				times[i] = append(times[i], float64(took))
			}
		}
		if round > 0 { // the first one warms up
			firsts[0], firsts[1] = append(firsts[0], times[0].middle()), append(firsts[1], times[1].middle())
		}
	}
	for _, l := range lines {
		l.hangUp()
	}
	c.add(paired("first chunk of a stream, recording", nanoseconds, firsts[1], against, firsts[0], 1.15, 0))
	return c.endBoth(sides)
}
