package proxy

import (
	"context"
	"net"
	"net/http"
)

// conn is a client's connection on which an answer can go out in one piece.
// net/http hands on four KB at a time, and each costs a call of the system and,
// more often than not, a client that wakes up for a part.
type conn struct {
	net.Conn
	held bool
	text []byte // what is held
}

// maxHeld bounds the answers that go out in one piece. Of larger ones a call more
// or less is no matter, and there may be thousands of connections.
const maxHeld = 16 << 10

// Write implements net.Conn.
func (c *conn) Write(b []byte) (int, error) {
	if !c.held {
		return c.Conn.Write(b)
	}
	c.text = append(c.text, b...)
	return len(b), nil
}

// CloseWrite lets net/http end a connection as it would end a TCPConn: a client
// that still sends must get what it was told before.
func (c *conn) CloseWrite() error {
	if half, is := c.Conn.(interface{ CloseWrite() error }); is {
		return half.CloseWrite()
	}
	return nil
}

// inOnePiece calls write and sends what it wrote.
func (c *conn) inOnePiece(write func()) {
	c.held = true
	write()
	c.held = false
	_, _ = c.Conn.Write(c.text) // a client that went away needs no answer
	if c.text = c.text[:0]; cap(c.text) > 2*maxHeld {
		c.text = nil
	}
}

// conns makes a conn of each connection.
type conns struct{ net.Listener }

// Accept implements net.Listener.
func (l conns) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c}, nil
}

type connKey struct{}

func withConn(ctx context.Context, c net.Conn) context.Context {
	return context.WithValue(ctx, connKey{}, c)
}

// connOf is the connection that one request at a time comes over, nil for one that
// several share, as in HTTP/2.
func connOf(r *http.Request) *conn {
	if r.ProtoMajor != 1 {
		return nil
	}
	c, _ := r.Context().Value(connKey{}).(*conn)
	return c
}
