package bedrocktest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"sync"
	"time"
)

// Options configures a Server. The zero value serves ToolLoop on a free
// loopback port.
type Options struct {
	Addr   string // address to listen on; empty means 127.0.0.1:0
	TLS    bool   // serve HTTPS with a generated authority, see Server.CA
	Script Script // nil means ToolLoop()
	Faults []Fault

	// Seed feeds padding, request ids and the choice of faults.
	Seed uint64
	// FirstByteDelay is waited after the body was read. Zero means 300 µs:
	// below 200 µs the AWS SDK for Go loses calls to a race of its own.
	FirstByteDelay time.Duration
	// SlowFirstByte is the wait of the fault slow-first-byte; zero means 2 s.
	SlowFirstByte time.Duration
	// SlowStep is the wait between bytes of slow-loris; zero means 1 ms. Each
	// answer is slow for at most SlowBytes bytes (zero means 1000).
	SlowStep  time.Duration
	SlowBytes int

	CacheMinTokens int      // fewest tokens a cached prefix has; zero means 1024
	ContextTokens  int      // see Validator
	Models         []string // see Validator
	Blocked        []string // texts at which ApplyGuardrail intervenes
	RequireAuth    bool     // refuse requests without credentials of any kind
	MaxLog         int      // records kept; zero means 4096
}

func (o Options) withDefaults() Options {
	o.Addr = cmp.Or(o.Addr, "127.0.0.1:0")
	o.FirstByteDelay = cmp.Or(o.FirstByteDelay, 300*time.Microsecond)
	o.SlowFirstByte = cmp.Or(o.SlowFirstByte, 2*time.Second)
	o.SlowStep = cmp.Or(o.SlowStep, time.Millisecond)
	o.SlowBytes = cmp.Or(o.SlowBytes, 1000)
	o.CacheMinTokens = cmp.Or(o.CacheMinTokens, 1024)
	o.MaxLog = cmp.Or(o.MaxLog, 4096)
	if o.Script == nil {
		o.Script = ToolLoop()
	}
	return o
}

// Server is a running local Bedrock. Its methods may be called from any
// goroutine.
type Server struct {
	URL string // http://127.0.0.1:port, without a slash at the end
	CA  []byte // PEM of the authority when Options.TLS is set

	opts      Options
	http      *http.Server
	conns     *conns
	journal   *journal
	reasoning *reasoningMemory
	cache     *promptCache

	ctx      context.Context
	cancel   context.CancelFunc
	handlers gate
	served   chan struct{}
	closing  sync.Once
}

// Start listens and serves until Close. The caller must Close it.
func Start(o Options) (*Server, error) {
	o = o.withDefaults()
	for _, f := range o.Faults {
		if _, ok := findTrouble(f.Name); !ok {
			return nil, fmt.Errorf("start local bedrock: unknown fault %q, expected one of %v", f.Name, FaultNames())
		}
	}
	l, err := net.Listen("tcp", o.Addr)
	if err != nil {
		return nil, fmt.Errorf("start local bedrock: %w", err)
	}
	s := &Server{
		opts: o, conns: &conns{Listener: l}, served: make(chan struct{}),
		journal:   &journal{limit: o.MaxLog, arrivals: map[[sha256.Size]byte]int{}},
		reasoning: newReasoningMemory(), cache: newPromptCache(o.CacheMinTokens),
	}
	s.journal.inject(o.Faults)
	s.ctx, s.cancel = context.WithCancel(context.Background())
	if err := s.listen(); err != nil {
		return nil, errors.Join(err, l.Close())
	}
	return s, nil
}

// listen builds the HTTP server and starts it.
func (s *Server) listen() error {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	s.http = &http.Server{
		Handler:           http.HandlerFunc(s.serve),
		Protocols:         protocols,
		BaseContext:       func(net.Listener) context.Context { return s.ctx },
		ConnContext:       withConn,
		ErrorLog:          log.New(io.Discard, "", 0), // broken connections are this server's trade
		ReadHeaderTimeout: time.Minute,
	}
	scheme, serve := "http", s.http.Serve
	if s.opts.TLS {
		cert, ca, err := authority()
		if err != nil {
			return err
		}
		protocols.SetHTTP2(true)
		s.CA, scheme = ca, "https"
		s.http.TLSConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12}
		serve = func(l net.Listener) error { return s.http.ServeTLS(l, "", "") }
	} else {
		protocols.SetUnencryptedHTTP2(true)
	}
	s.URL = scheme + "://" + s.conns.Addr().String()
	go func() {
		defer close(s.served)
		_ = serve(s.conns) // always an error, and Close is the one cause
	}()
	return nil
}

// TB is the part of testing.TB that New needs; naming it keeps the testing
// package out of the command.
type TB interface {
	Helper()
	Fatalf(format string, args ...any)
	Cleanup(func())
}

// New starts a server that is closed when the test ends.
func New(t TB, o Options) *Server {
	t.Helper()
	s, err := Start(o)
	if err != nil {
		t.Fatalf("%v", err)
		return nil
	}
	t.Cleanup(s.Close)
	return s
}

// Close ends every connection and waits for the answers in progress, which are
// abandoned. It may be called more than once.
func (s *Server) Close() {
	s.closing.Do(func() {
		s.cancel()
		_ = s.http.Close() // the listener is ours and nothing is left to save
		<-s.served
		s.handlers.close()
	})
}

// Inject adds faults for the requests to come. It panics on an unknown name.
func (s *Server) Inject(faults ...Fault) {
	for _, f := range faults {
		if _, ok := findTrouble(f.Name); !ok {
			panic(fmt.Sprintf("bedrocktest: inject: unknown fault %q, expected one of %v", f.Name, FaultNames()))
		}
	}
	s.journal.inject(faults)
}

// Requests answers copies of what came in, in order of arrival.
func (s *Server) Requests() []Record { return s.journal.snapshot() }

// Connections answers how many connections are open and how many ever were.
func (s *Server) Connections() (live, total int) { return s.conns.counts() }

// requestID is a UUID-shaped name for the n-th request.
func requestID(seed uint64, n int) string {
	var b [16]byte
	binary.BigEndian.PutUint64(b[:8], seed)
	binary.BigEndian.PutUint64(b[8:], uint64(n))
	sum := sha256.Sum256(b[:])
	return fmt.Sprintf("%x-%x-4%x-8%x-%x", sum[0:4], sum[4:6], sum[6:8], sum[8:10], sum[10:16])[:36]
}
