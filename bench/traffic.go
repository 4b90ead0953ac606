package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The traffic of the proxy's rows: a request of 20 KB, an answer of 5 KB, and so
// many connections that are kept open. Every request holds a number that its
// answer holds again, so that no answer can pass for another.
const (
	connections = 16
	askBytes    = 20_000
	answerBytes = 5_000
	askPath     = "/model/m/converse"
	patience    = time.Minute // for one call
)

// form is a text with a place for a number of eight digits.
type form struct{ before, after string }

func (f form) with(n int) []byte {
	out := make([]byte, 0, len(f.before)+8+len(f.after))
	return append(fmt.Appendf(append(out, f.before...), "%08d", n), f.after...)
}

// number finds the number in a text of this form.
func (f form) number(text []byte) (int, error) {
	at := len(f.before)
	if len(text) != at+8+len(f.after) || string(text[:at]) != f.before {
		return 0, errors.New("the request is not the one that was sent")
	}
	return strconv.Atoi(string(text[at : at+8]))
}

// filled repeats words until before, a number and after are so many bytes long.
func filled(before, words, after string, bytes int) form {
	n := bytes - len(before) - len(after) - 8
	return form{before, strings.Repeat(words, n/len(words)+1)[:n] + after}
}

// askForm and answerForm are those of independent calls.
func askForm() form {
	return filled(`{"messages":[{"role":"user","content":[{"text":"question `, " the quick brown fox jumps over the lazy dog",
		`"}]}],"system":[{"text":"Be brief."}]}`, askBytes)
}

func answerForm() form {
	return filled(`{"output":{"message":{"role":"assistant","content":[{"text":"for question `, " answer",
		`"}]}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`, answerBytes)
}

// upstream stands in for Bedrock. It answers at once, when it has read the
// request whole.
type upstream struct {
	addr    string
	server  *http.Server
	ask     form
	answer  form
	stream  stream
	arrived atomic.Int64
}

func newUpstream() (*upstream, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	u := &upstream{addr: l.Addr().String(), ask: askForm(), answer: answerForm(), stream: newStream()}
	u.server = &http.Server{Handler: u}
	go u.server.Serve(l) // ends with Close
	return u, nil
}

func (u *upstream) url() string { return "http://" + u.addr }

func (u *upstream) Close() error { return u.server.Close() }

// ServeHTTP implements http.Handler.
func (u *upstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body := make([]byte, max(r.ContentLength, 0))
	if _, err := io.ReadFull(r.Body, body); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	u.arrived.Add(1)
	switch r.URL.Path {
	case streamPath:
		u.stream.write(w)
		return
	case talkPath:
		reply(w, talkAnswer(body))
		return
	}
	n, err := u.ask.number(body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	reply(w, u.answer.with(n))
}

func reply(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	_, _ = w.Write(body) // a proxy that went away shows at the client
}

// line is a client's connection. It does little, so that what is measured is
// the proxy.
type line struct {
	addr string
	run  string // the run's name, "" for none
	conn net.Conn
	in   *bufio.Reader
}

// send sends a request and returns the answer's head. The body has to be read.
func (l *line) send(path string, body []byte) (*http.Response, error) {
	if l.conn == nil {
		conn, err := net.Dial("tcp", l.addr)
		if err != nil {
			return nil, err
		}
		l.conn, l.in = conn, bufio.NewReaderSize(conn, 16<<10)
	}
	if err := l.conn.SetDeadline(time.Now().Add(patience)); err != nil {
		return nil, err
	}
	head := "POST " + path + " HTTP/1.1\r\nHost: " + l.addr + "\r\nContent-Type: application/json\r\nContent-Length: " + strconv.Itoa(len(body)) + "\r\n"
	if l.run != "" {
		head += "X-Investigator-Run: " + l.run + "\r\n"
	}
	parts := net.Buffers{[]byte(head + "\r\n"), body}
	if _, err := parts.WriteTo(l.conn); err != nil {
		return nil, err
	}
	return http.ReadResponse(l.in, nil)
}

// call sends a request and expects this answer to it. A connection on which
// something went wrong is not used again.
func (l *line) call(path string, body, want []byte) error {
	resp, err := l.send(path, body)
	var got []byte
	if err == nil {
		got, err = io.ReadAll(resp.Body)
	}
	switch {
	case err != nil:
	case resp.StatusCode != http.StatusOK:
		err = fmt.Errorf("status %d: %.200s", resp.StatusCode, got)
	case !bytes.Equal(got, want):
		err = fmt.Errorf("expected the answer %.90q of %d bytes, found %.90q of %d", want, len(want), got, len(got))
	}
	if err != nil || resp.Close {
		l.hangUp()
	}
	return err
}

func (l *line) hangUp() {
	if l.conn != nil {
		_ = l.conn.Close() // nothing is expected on it any more
	}
	l.conn = nil
}

// burst is calls that are sent as fast as they are answered.
type burst struct {
	took   time.Duration
	calls  int
	failed int
	first  error // why one failed
}

// rate is in calls a second.
func (b burst) rate() float64 { return float64(b.calls) / b.took.Seconds() }

// whole is an error unless every call was answered.
func (b burst) whole() error {
	if b.failed == 0 {
		return nil
	}
	return fmt.Errorf("%d of %d calls failed, one of them so: %w", b.failed, b.calls, b.first)
}

// calls sends independent calls over all connections, in the given order.
func (u *upstream) calls(ctx context.Context, addr, run string, order []int) burst {
	return spread(ctx, addr, run, len(order), func(l *line, i int) error {
		return l.call(askPath, u.ask.with(order[i]), u.answer.with(order[i]))
	})
}

// spread does n things, numbered from 0, over all connections.
func spread(ctx context.Context, addr, run string, n int, do func(*line, int) error) burst {
	var next atomic.Int64
	var mu sync.Mutex
	var group sync.WaitGroup
	out := burst{calls: n}
	began := time.Now()
	for range connections {
		group.Go(func() {
			l := &line{addr: addr, run: run}
			defer l.hangUp()
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				err := ctx.Err()
				if err == nil {
					err = do(l, i)
				}
				if err != nil {
					mu.Lock()
					out.failed++
					out.first = err
					mu.Unlock()
				}
			}
		})
	}
	group.Wait()
	out.took = time.Since(began)
	return out
}

// numbers are from, from+1 and so on, n of them.
func numbers(from, n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = from + i
	}
	return out
}
