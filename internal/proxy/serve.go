package proxy

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"time"

	"investigator/internal/foreign"
)

// mode answers calls in one of the ways. The calls were not read yet; reading
// makes a mode that wants them read one.
type mode interface {
	serve(ctx context.Context, c *call, w *writer)
	close(*Result) error
}

// Proxy is an http.Handler in front of Bedrock.
type Proxy struct {
	o      Options
	mode   mode
	serial atomic.Int64 // of request ids
	calls  atomic.Int64
	away   turnedAway
	lender *lender // nil where more is kept of calls than their answers tell
}

// New makes a proxy. The error says what the options lack.
func New(o Options) (*Proxy, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Notify == nil {
		o.Notify = func(Note) {}
	}
	p := &Proxy{o: o}
	var err error
	switch {
	case o.Record != nil:
		p.mode, err = newRecording(p)
	case o.Fork != nil:
		p.mode, err = newForking(p)
		p.mode = reading{p, p.mode}
	case len(o.Replay) > 0:
		p.mode, err = newReplaying(p)
		p.lender = new(lender)
	default:
		err = errors.New("make proxy: expected a place to record, cassettes to replay or a fork, found none")
	}
	return p, err
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &writer{ResponseWriter: rw, conn: connOf(r), id: p.serial.Add(1)}
	route, found := foreign.ParseRoute(r.URL.EscapedPath())
	if name, message := p.unwelcome(r); name != "" {
		p.turnAway(w, foreign.Asked{}, http.StatusForbidden, name, message)
		return
	}
	if !found || r.Method != http.MethodPost {
		like, message := unknownOperation(r.Method, r.URL.EscapedPath())
		p.turnAway(w, like, http.StatusNotFound, "UnknownOperationException", message)
		return
	}
	m := p.lender.lend(int(min(max(r.ContentLength, 0), believed)) + 1)
	body, err := readAll(m.raw, http.MaxBytesReader(rw, r.Body, maxBody))
	w.ready = time.Now().Add(waitFor(r.Header))
	if err != nil {
		w.fail(foreign.Asked{Route: route}, http.StatusBadRequest, "ValidationException", "investigator proxy: read request body: "+err.Error())
		return
	}
	c := &call{Asked: foreign.Asked{Route: route}, arrival: arrived(route, r.Header, p.o.Now()), raw: body, header: r.Header}
	if p.lender != nil {
		m.raw, c.memory = body, m
	}
	p.mode.serve(r.Context(), c, w)
}

// parsed reads a call, or refuses one that is no request.
func (p *Proxy) parsed(c *call, w *writer) bool {
	if err := c.parse(); err != nil {
		w.fail(c.Asked, http.StatusBadRequest, "ValidationException", "investigator proxy: "+err.Error())
		return false
	}
	p.calls.Add(1)
	return true
}

// reading reads each call before the mode gets it.
type reading struct {
	p *Proxy
	mode
}

func (m reading) serve(ctx context.Context, c *call, w *writer) {
	if m.p.parsed(c, w) {
		c.sum()
		m.mode.serve(ctx, c, w)
	}
}

// waitFor is how long a client needs between the end of its request and the
// first byte of an answer.
func waitFor(h http.Header) time.Duration {
	if strings.Contains(h.Get("User-Agent"), "aws-sdk-go") {
		return goSDKWait
	}
	return 0
}

// unwelcome says why a request is refused before it is read: the port spends
// money, and a web page can reach loopback.
func (p *Proxy) unwelcome(r *http.Request) (name, message string) {
	if r.Header.Get("Origin") != "" || r.Header.Get("Sec-Fetch-Site") != "" {
		return "AccessDeniedException", "requests of web pages are refused"
	}
	if p.o.Token == "" {
		if host := hostOf(r.Host); !isLoopback(host) {
			return "AccessDeniedException", fmt.Sprintf("expected a loopback host, found %q", host)
		}
		return "", ""
	}
	for _, sent := range tokensOf(r.Header) {
		if subtle.ConstantTimeCompare([]byte(sent), []byte(p.o.Token)) == 1 {
			return "", ""
		}
	}
	return "AccessDeniedException", "this port wants its token: as bearer key, as X-Api-Key, or as AWS_ACCESS_KEY_ID"
}

// tokensOf lists where a client can put a token without a change of its code.
func tokensOf(h http.Header) []string {
	auth := h.Get("Authorization")
	_, credential, _ := strings.Cut(auth, "Credential=")
	key, _, _ := strings.Cut(credential, "/")
	return []string{strings.TrimPrefix(auth, "Bearer "), key, h.Get("X-Api-Key"), h.Get("X-Investigator-Token")}
}

func hostOf(hostPort string) string {
	if host, _, err := net.SplitHostPort(hostPort); err == nil {
		return host
	}
	return strings.Trim(hostPort, "[]")
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return host == "localhost" || ip != nil && ip.IsLoopback()
}

// Listen opens the port. An address that is not loopback needs open set, and a
// Proxy with a token. The error holds a *net.AddrError where addr itself is wrong.
func Listen(addr string, open bool) (net.Listener, error) {
	host, _, err := net.SplitHostPort(addr)
	if err != nil {
		return nil, fmt.Errorf("listen: expected HOST:PORT: %w", err)
	}
	if !open && !isLoopback(host) {
		return nil, fmt.Errorf("listen: %w", &net.AddrError{Err: "expected a loopback address, because anybody who reaches another one spends on your account", Addr: addr})
	}
	return net.Listen("tcp", addr)
}

// heapSlack lets the heap grow by so much more between two collections, which
// come all the time where little is kept and each call brings its own memory.
const heapSlack = 12 << 20

// Serve answers on l until ctx ends, and then lets calls under way finish for
// a moment. What is cut off after that has returned from h when Serve returns,
// unless it hangs.
func Serve(ctx context.Context, l net.Listener, h http.Handler) error {
	slack := make([]byte, heapSlack) // never written to, so that no memory stands behind it
	defer runtime.KeepAlive(slack)
	var under atomic.Int64
	counted := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		under.Add(1)
		defer under.Add(-1)
		h.ServeHTTP(w, r)
	})
	srv := &http.Server{Handler: counted, Protocols: new(http.Protocols), ReadHeaderTimeout: time.Minute, ConnContext: withConn}
	srv.Protocols.SetHTTP1(true)
	srv.Protocols.SetUnencryptedHTTP2(true) // the AWS SDK for JavaScript speaks nothing else
	done := make(chan error, 1)
	go func() { done <- srv.Serve(conns{l}) }()
	select {
	case err := <-done:
		return fmt.Errorf("serve: %w", err)
	case <-ctx.Done():
	}
	end, cancel := context.WithTimeout(context.WithoutCancel(ctx), 3*time.Second)
	defer cancel()
	if srv.Shutdown(end) != nil {
		_ = srv.Close() // what is still open was given its time
		for deadline := time.Now().Add(cutOff); under.Load() > 0 && time.Now().Before(deadline); {
			time.Sleep(time.Millisecond) // Close waits for nobody
		}
	}
	<-done
	return nil
}

// writer delays the first byte: a body closed by the AWS SDK for Go right after
// its Do returns makes net/http drop a connection whose request it has not
// finished writing, and an answer that comes at once is lost with it.
type writer struct {
	http.ResponseWriter
	conn    *conn // nil where it is not known, or is not this answer's alone
	id      int64
	ready   time.Time
	started bool
	durable bool // what ends an answer waits for its record
}

func (w *writer) head(status int, header map[string]string) {
	if wait := time.Until(w.ready); wait > 0 {
		time.Sleep(wait)
	}
	h := w.Header()
	for name, value := range header {
		h.Set(name, value)
	}
	h.Set("X-Amzn-Requestid", fmt.Sprintf("00000000-0000-4000-8000-%012d", w.id))
	w.started = true
	if status < http.StatusOK || status > 999 { // a cassette of a stranger can hold any
		status = http.StatusBadGateway
	}
	w.WriteHeader(status)
}

func (w *writer) flush() { _ = http.NewResponseController(w.ResponseWriter).Flush() } // writers without it hold nothing back

// whole answers in one piece.
func (w *writer) whole(status int, header map[string]string, body []byte) {
	header = cloned(header)
	header["Content-Length"] = fmt.Sprint(len(body))
	write := func() {
		w.head(status, header)
		_, _ = w.Write(body) // a client that went away needs no answer
	}
	if w.conn == nil || len(body) > maxHeld {
		write()
		return
	}
	w.conn.inOnePiece(func() {
		write()
		w.flush()
	})
}

func cloned(m map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range m {
		out[k] = v
	}
	return out
}

// fail answers in the service's error shape, unless an answer was begun.
func (w *writer) fail(a foreign.Asked, status int, name, message string) {
	if w.started {
		return
	}
	e := foreign.EncodeFailure(a, name, message)
	header := map[string]string{"Content-Type": e.ContentType, "X-Amzn-Errortype": name}
	if status == http.StatusConflict {
		header["X-Should-Retry"] = "false" // two clients try a 409 again without it
	}
	w.whole(status, header, e.Body)
}

// withhold keeps the rest of an answer from the client: with an error where
// nothing of it was passed on, else by breaking off.
func (w *writer) withhold(a foreign.Asked, message string) {
	if w.started {
		w.flush() // an answer has to begin to break off
		panic(http.ErrAbortHandler)
	}
	w.fail(a, http.StatusInternalServerError, "InternalServerException", "investigator proxy: "+message)
}

// Result is what a proxy did, once it is closed.
type Result struct {
	Calls     int64                  `json:"calls"`
	Recorded  []string               `json:"recorded,omitempty"`
	Served    int                    `json:"served,omitempty"`
	Tolerated map[foreign.Change]int `json:"tolerated,omitempty"`
	Diverged  []Divergence           `json:"diverged,omitempty"`
	LeftOver  []LeftOver             `json:"left_over,omitempty"`
	Fork      *Forked                `json:"fork,omitempty"`
	Troubles  []string               `json:"troubles,omitempty"`
	Away      *TurnedAway            `json:"turned_away,omitempty"`
}

// LeftOver is a recorded model call that nobody asked for.
type LeftOver struct {
	Cassette string `json:"cassette"`
	Event    int    `json:"event"`
}

// Close ends the proxy after its last call: runs that ended are sealed. The
// result is whole with an error too, which is about its Troubles.
func (p *Proxy) Close() (Result, error) {
	r := Result{Calls: p.calls.Load(), Away: p.away.result()}
	err := p.mode.close(&r)
	return r, err
}
