package proxy

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"

	"investigator/internal/foreign"
)

// countedListener counts what is written to clients, call by call.
type countedListener struct {
	net.Listener
	writes *atomic.Int64
}

func (l countedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	return countedConn{c, l.writes}, err
}

type countedConn struct {
	net.Conn
	writes *atomic.Int64
}

func (c countedConn) Write(b []byte) (int, error) {
	c.writes.Add(1)
	return c.Conn.Write(b)
}

// dialCounted serves a proxy on one more port and returns a connection to it.
func dialCounted(t *testing.T, p *Proxy) (c net.Conn, writes *atomic.Int64) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	writes = new(atomic.Int64)
	ctx, stop := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- Serve(ctx, countedListener{l, writes}, p) }()
	if c, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = c.Close() // a connection that is open is waited for
		stop()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	return c, writes
}

// TestAnswersInOnePiece: an answer of a few KB goes out with one call of the
// system, time after time on the same connection, recorded and replayed. Of a large
// one nothing is held, nor of what comes after it.
func TestAnswersInOnePiece(t *testing.T) {
	answer := func(size int) string { return strings.Replace(hello, "hello", strings.Repeat("x", size), 1) }
	up := upstreamFunc(func(_ *http.Request, body []byte) (*http.Response, error) {
		size := 5_000
		if strings.Contains(string(body), "40000") {
			size = 40_000
		}
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(answer(size))}), nil
	})
	ask := func(p *running) Result {
		c, writes := dialCounted(t, p.Proxy)
		in := bufio.NewReader(c)
		for _, size := range []int{5_000, 5_000, 40_000, 5_000} {
			body := fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":"%d"}]}]}`, size)
			writes.Store(0)
			fmt.Fprintf(c, "POST /run/one/model/m/converse HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
			resp, err := http.ReadResponse(in, nil)
			if err != nil {
				t.Fatal(err)
			}
			got, err := io.ReadAll(resp.Body)
			if want := answer(size); err != nil || string(got) != want || resp.ContentLength != int64(len(want)) {
				t.Errorf("%d bytes, said to be %d, error %v; expected %d", len(got), resp.ContentLength, err, len(want))
			}
			if n := writes.Load(); (n == 1) != (size < maxHeld) {
				t.Errorf("an answer of %d bytes: %d writes", size, n)
			}
		}
		return p.end()
	}
	path := ask(recordTo(t, up, nil)).Recorded[0]
	if got := ask(replayOf(t, true, path)); len(got.Diverged)+len(got.LeftOver) > 0 {
		t.Errorf("replay: %+v", got)
	}
}
