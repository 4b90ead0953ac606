package bedrocktest

import (
	"context"
	"net"
	"sync"
)

// conns counts connections at the listener, below HTTP, where HTTP/1.1 and
// HTTP/2 look the same.
type conns struct {
	net.Listener
	mu    sync.Mutex
	live  int
	total int
}

func (l *conns) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.mu.Lock()
	l.live++
	l.total++
	l.mu.Unlock()
	return &conn{Conn: c, list: l}, nil
}

func (l *conns) counts() (live, total int) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.live, l.total
}

type conn struct {
	net.Conn
	list *conns
	once sync.Once
}

func (c *conn) Close() error {
	c.once.Do(func() {
		c.list.mu.Lock()
		c.list.live--
		c.list.mu.Unlock()
	})
	return c.Conn.Close()
}

// reset closes the connection with a TCP reset instead of a FIN.
func (c *conn) reset() {
	if t, ok := c.Conn.(*net.TCPConn); ok {
		_ = t.SetLinger(0) // without it the peer sees a clean end, which a test will notice
	}
	_ = c.Close()
}

type connKey struct{}

// withConn lets a handler find the TCP connection under TLS and HTTP/2.
func withConn(ctx context.Context, c net.Conn) context.Context {
	if t, ok := c.(interface{ NetConn() net.Conn }); ok {
		c = t.NetConn()
	}
	return context.WithValue(ctx, connKey{}, c)
}

func resetConn(ctx context.Context) {
	if c, ok := ctx.Value(connKey{}).(*conn); ok {
		c.reset()
	}
}

// gate counts the handlers at work and lets nobody in once it is shut. A
// WaitGroup would not do: a handler may start while Close already waits.
type gate struct {
	mu   sync.Mutex
	shut bool
	in   sync.WaitGroup
}

func (g *gate) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.shut {
		return false
	}
	g.in.Add(1)
	return true
}

func (g *gate) leave() { g.in.Done() }

func (g *gate) close() {
	g.mu.Lock()
	g.shut = true
	g.mu.Unlock()
	g.in.Wait()
}
