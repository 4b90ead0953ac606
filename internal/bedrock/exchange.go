package bedrock

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"investigator/internal/converse"
)

// exchange is one attempt: a request and what came back for it.
type exchange struct {
	*ongoing
	ctx    context.Context
	cancel context.CancelCauseFunc
	number int // of the attempt, from 1

	sent   bool
	answer io.ReadCloser // of an answer with status 200, nil if there was none
	code   int
	header http.Header
	body   []byte // what was received of the body
	shown  bool   // something of it was shown
}

// Bounds of what is read into memory. The service allows requests of 25 MB; an
// answer is bounded by its output tokens.
const (
	maxAnswer = 64 << 20
	maxError  = 1 << 20
)

// Causes by which an exchange ends itself.
var (
	errAnswered = errors.New("the answer is read outside of the SDK")
	errIdle     = errors.New("the answer fell silent")
)

// do sends the request by the SDK and reads the answer. The SDK sees the answer
// when it is an error and is told errAnswered when it is not.
func (x *exchange) do() (json.RawMessage, error) {
	ctx := context.WithValue(x.ctx, exchangeKey{}, x)
	var err error
	if x.stream {
		var out *bedrockruntime.ConverseStreamOutput
		out, err = x.client.ConverseStream(ctx, &bedrockruntime.ConverseStreamInput{ModelId: &x.model})
		if err == nil {
			_ = out.GetStream().Close() // cannot happen: a good answer comes as errAnswered
		}
	} else {
		_, err = x.client.Converse(ctx, &bedrockruntime.ConverseInput{ModelId: &x.model})
	}
	if x.answer == nil {
		return nil, x.refused(err)
	}
	defer x.answer.Close()
	if x.stream {
		return x.readStream()
	}
	return x.readWhole()
}

// readWhole reads the answer of Converse.
func (x *exchange) readWhole() (json.RawMessage, error) {
	if err := x.read(x.answer, maxAnswer, nil); err != nil {
		return nil, err
	}
	if err := x.page(); err != nil {
		return nil, err
	}
	if len(x.body) == 0 {
		return nil, incomplete("the answer is empty")
	}
	body, err := converse.Normalize(x.body)
	if err != nil {
		return nil, damaged(err)
	}
	return body, nil
}

// readStream reads the answer of ConverseStream, showing pieces as they come.
func (x *exchange) readStream() (json.RawMessage, error) {
	var a converse.Assembler
	at := 0
	readErr := x.read(x.answer, maxAnswer, func() error {
		if x.isPage() {
			return nil // read it whole: it goes into the record
		}
		frames, rest, err := converse.DecodeFrames(x.body[at:])
		at = len(x.body) - rest
		for _, f := range frames {
			piece, err := a.Add(f)
			if err != nil {
				return x.broken(err)
			}
			x.show(piece)
		}
		if err != nil {
			return damaged(err)
		}
		return nil
	})
	if err := x.page(); err != nil {
		return nil, err
	}
	// A connection that breaks when all is said takes nothing away.
	if whole := a.Stopped() && at == len(x.body); readErr != nil && !whole {
		return nil, readErr
	}
	switch {
	case len(x.body) == 0:
		return nil, incomplete("the answer is empty")
	case at < len(x.body):
		return nil, incomplete("the stream ended inside a frame")
	}
	body, err := a.Response()
	if errors.Is(err, converse.ErrTruncated) {
		return nil, incomplete(converse.ErrTruncated.Error())
	}
	if err != nil {
		return nil, x.broken(err)
	}
	return body, nil
}

// broken turns what the assembler says into a failed attempt.
func (x *exchange) broken(err error) error {
	var e *converse.StreamError
	if errors.As(err, &e) {
		return exception(e)
	}
	return damaged(err)
}

// read appends what r gives to the body, until it ends, breaks, falls silent or
// exceeds limit. took is called after each piece; an error from it ends the
// reading and is returned.
func (x *exchange) read(r io.Reader, limit int, took func() error) error {
	silence := time.AfterFunc(x.idle, func() { x.cancel(errIdle) })
	defer silence.Stop()
	buf := make([]byte, 32<<10)
	for {
		n, err := r.Read(buf)
		silence.Reset(x.idle)
		x.body = append(x.body, buf[:n]...)
		if n > 0 && took != nil {
			if err := took(); err != nil {
				return err
			}
		}
		switch {
		case err == io.EOF:
			return nil
		case err != nil:
			return x.interrupted(err)
		case len(x.body) > limit:
			return &attemptError{name: tooLarge, message: fmt.Sprintf("the answer exceeds %d bytes", limit)}
		}
	}
}

// isPage reports whether something that is not Bedrock answered with a page.
func (x *exchange) isPage() bool {
	if strings.HasPrefix(x.header.Get("Content-Type"), "text/") {
		return true
	}
	return bytes.HasPrefix(bytes.TrimSpace(x.body[:min(len(x.body), 64)]), []byte("<"))
}

func (x *exchange) page() error {
	if !x.isPage() {
		return nil
	}
	return unexpected(x.code, x.body)
}

// kept returns the response headers that a cassette keeps. Others would act on
// a client in replay (dates as clock skew, retry-after as real waiting), or
// identify a request for ever.
func (x *exchange) kept() map[string]string {
	kept := map[string]string{}
	for _, name := range []string{"Content-Type", "X-Amzn-Errortype"} {
		if v := x.header.Get(name); v != "" {
			kept[name] = v
		}
	}
	return kept
}

type exchangeKey struct{}

// transport is the HTTP client given to the SDK.
type transport struct{ client *http.Client }

var _ aws.HTTPClient = transport{}

// Do sends a request with its own copy of the body: the SDK closes its body
// when Do returns, and net/http, still reading, would drop the connection.
func (t transport) Do(r *http.Request) (*http.Response, error) {
	x, ok := r.Context().Value(exchangeKey{}).(*exchange)
	if !ok {
		return nil, fmt.Errorf("send request to %s: not a model call", r.URL.Host)
	}
	r = r.WithContext(x.ctx) // the SDK's may end before the answer is read
	r.GetBody = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(x.request)), nil }
	r.Body, _ = r.GetBody()
	x.sent, x.url = true, x.recorded(r.URL)
	resp, err := t.client.Do(r)
	if err != nil {
		return nil, err
	}
	x.code, x.header = resp.StatusCode, resp.Header
	if resp.StatusCode == http.StatusOK {
		x.answer = resp.Body
		return nil, errAnswered
	}
	defer resp.Body.Close()
	if err := x.read(resp.Body, maxError, nil); err != nil {
		return nil, err
	}
	resp.Body = io.NopCloser(bytes.NewReader(x.body))
	return resp, nil
}

// recorded is the URL that a cassette keeps: AWS's own for the region when the
// call goes elsewhere, because where a developer's endpoint is says nothing about
// the run, and a cassette must match from any machine.
func (x *exchange) recorded(u *url.URL) string {
	kept := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if x.custom {
		kept.Scheme, kept.Host = "https", "bedrock-runtime."+x.region+".amazonaws.com"
		if at := strings.LastIndex(kept.EscapedPath(), "/model/"); at > 0 {
			if p, err := url.PathUnescape(kept.EscapedPath()[at:]); err == nil {
				kept.Path, kept.RawPath = p, kept.EscapedPath()[at:]
			}
		}
	}
	return kept.String()
}
