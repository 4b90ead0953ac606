package recorder

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"

	"gopkg.in/dnaeon/go-vcr.v3/cassette"
	"gopkg.in/dnaeon/go-vcr.v3/recorder"
)

// Unmatched says that a cassette served as a network holds no answer to a
// request.
type Unmatched struct {
	Name   string // of the cassette
	Method string
	Path   string
	Reason string
}

func (u *Unmatched) Error() string {
	return fmt.Sprintf("cassette %q: no recorded answer to %s %s: %s", u.Name, u.Method, u.Path, u.Reason)
}

// RetryableError tells the AWS SDK that asking again is of no use.
func (u *Unmatched) RetryableError() bool { return false }

// Serve returns a transport that answers the model requests of c from its file,
// through go-vcr's Recorder in ModeReplayOnly. A request is answered by the
// next recorded one of the same method and path whose rebuilt body is, in
// canonical JSON, the body sent; everything else is an *Unmatched. Nothing is
// ever sent anywhere. Each answer is given once.
func Serve(c *Cassette) (http.RoundTripper, error) {
	bodies, err := c.requestDigests()
	if err != nil {
		return nil, err
	}
	rec, err := c.vcr()
	if err != nil {
		return nil, err
	}
	s := &served{c: c, rec: rec, bodies: bodies}
	rec.SetMatcher(s.match)
	rec.SetRealTransport(s)
	return roundTripper(s.answer), nil
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// served is a cassette given to a client.
type served struct {
	c      *Cassette
	rec    *recorder.Recorder
	bodies map[string]func() string // digest of the rebuilt body, by the stored one

	mu   sync.Mutex
	sent string // digest of the body being matched
}

// answer gives one request to go-vcr. Requests take turns, because go-vcr's
// matcher is told only the request and the digest of its body is taken once.
func (s *served) answer(r *http.Request) (*http.Response, error) {
	miss := &Unmatched{Name: s.c.name, Method: r.Method, Path: r.URL.EscapedPath(), Reason: "the request differs from every recorded one that was not used yet"}
	body, err := readBody(r)
	if err != nil {
		return nil, err
	}
	canon, err := ledger.Canon(body)
	if err != nil {
		miss.Reason = "its body is not JSON"
		return nil, miss
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sent = ledger.Digest(canon)
	resp, err := s.rec.RoundTrip(r)
	switch {
	case errors.Is(err, cassette.ErrInteractionNotFound):
		return nil, miss
	case err != nil:
		return nil, err
	}
	resp.Request, resp.ContentLength, resp.Close = r, -1, false
	resp.Proto, resp.ProtoMajor, resp.ProtoMinor = "HTTP/1.1", 1, 1
	return resp, nil
}

func readBody(r *http.Request) ([]byte, error) {
	if r.Body == nil {
		return nil, nil
	}
	defer r.Body.Close()
	return io.ReadAll(r.Body)
}

func (s *served) match(r *http.Request, recorded cassette.Request) bool {
	digest, isModel := s.bodies[recorded.Body]
	return isModel && r.Method == recorded.Method && r.URL.EscapedPath() == pathOf(recorded.URL) && digest() == s.sent
}

// RoundTrip stands where go-vcr would go to the network.
func (s *served) RoundTrip(r *http.Request) (*http.Response, error) {
	return nil, &Unmatched{Name: s.c.name, Method: r.Method, Path: r.URL.EscapedPath(), Reason: "a cassette never reaches a network"}
}

func pathOf(text string) string {
	u, err := url.Parse(text)
	if err != nil {
		return ""
	}
	return u.EscapedPath()
}

// requestDigests maps each stored model request to the digest of the whole one,
// computed when it is asked for.
func (c *Cassette) requestDigests() (map[string]func() string, error) {
	if _, err := c.Events(); err != nil {
		return nil, err
	}
	out := map[string]func() string{}
	for _, h := range c.heads {
		if h.kind != edge.Model {
			continue
		}
		if _, err := c.Request(h.seq); err != nil {
			return nil, err
		}
		out[string(h.delta)] = sync.OnceValue(func() string {
			req, _ := c.Request(h.seq) // rebuilt above, and not held: all of them may be large
			return bodyDigest(req)
		})
	}
	return out, nil
}

func bodyDigest(req converse.Request) string { return ledger.Digest(req.Body()) }

// vcr loads the whole lines of c with go-vcr, which reads files only.
func (c *Cassette) vcr() (*recorder.Recorder, error) {
	dir, err := os.MkdirTemp("", "cassette")
	if err != nil {
		return nil, fmt.Errorf("serve cassette %q: %w", c.name, err)
	}
	defer os.RemoveAll(dir)
	name := filepath.Join(dir, "run")
	if err := os.WriteFile(name+".yaml", c.yaml(), 0o600); err != nil {
		return nil, fmt.Errorf("serve cassette %q: %w", c.name, err)
	}
	rec, err := recorder.NewWithOptions(&recorder.Options{CassetteName: name, Mode: recorder.ModeReplayOnly, SkipRequestLatency: true})
	if err != nil {
		return nil, fmt.Errorf("serve cassette %q: %w", c.name, err)
	}
	return rec, nil
}

func (c *Cassette) yaml() []byte {
	text := []byte(preamble + listLine)
	for _, l := range c.layout.lines {
		text = append(append(text, l...), '\n')
	}
	return text
}

// WireInteraction is one exchange of a foreign go-vcr cassette.
type WireInteraction struct {
	Method, URL string
	Request     []byte
	Code        int
	Header      http.Header
	Response    []byte
}

// OpenWire reads a go-vcr v3 cassette of any origin as the exchanges it holds.
// The file's name must end in .yaml, as go-vcr names them.
func OpenWire(path string) ([]WireInteraction, error) {
	name, found := strings.CutSuffix(path, ".yaml")
	if !found {
		return nil, &FileError{Verb: "open", File: path, Err: ErrNotCassette, Hint: "go-vcr reads files whose names end in .yaml; rename it"}
	}
	c, err := cassette.Load(name)
	if err != nil {
		out := &FileError{Verb: "open", File: path, Err: err}
		var cause *fs.PathError
		if errors.As(err, &cause) {
			out.Err = cause.Err
		}
		return nil, out
	}
	var list []WireInteraction
	for _, i := range c.Interactions {
		if i == nil {
			continue // an empty list item
		}
		list = append(list, WireInteraction{
			Method: i.Request.Method, URL: i.Request.URL, Request: bytes.Clone([]byte(i.Request.Body)),
			Code: i.Response.Code, Header: i.Response.Headers, Response: []byte(i.Response.Body),
		})
	}
	return list, nil
}
