package proxy

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"time"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/scrub"
)

// attempt is one try of a call as it went over the upstream.
type attempt struct {
	edge.Attempt
	url  string
	gone bool // the client went away
}

// forward sends a call on and passes the answer back as it comes. before is
// called once, when the answer is whole and before its end is passed on; also
// where the upstream panics, so that no run waits for the call.
func (p *Proxy) forward(ctx context.Context, c *call, body []byte, path string, w *writer, before func(attempt)) {
	began := p.o.Now()
	a := attempt{url: p.o.Upstream.Place(path)}
	a.At = began.UTC().Format(time.RFC3339Nano)
	done := false
	ended := func(a attempt) {
		done, a.Took = true, p.o.Now().Sub(began).String()
		before(a)
	}
	defer func() {
		if !done {
			before(attempt{Attempt: edge.Attempt{Err: brokeOff}, url: a.url})
		}
	}()
	r, err := outgoing(ctx, c, path, p.o.Token)
	var resp *http.Response
	if err == nil {
		resp, err = p.o.Upstream.Do(r, body)
	}
	if err != nil {
		a.Err, a.gone = networkText(err), ctx.Err() != nil
		ended(a)
		w.fail(c.shape(), http.StatusServiceUnavailable, "ServiceUnavailableException", unreachable+a.Err)
		return
	}
	defer resp.Body.Close()
	if resp.StatusCode < http.StatusOK { // a switch of protocols, or no status at all
		a.Err = fmt.Sprintf("status %d answers no call", resp.StatusCode)
		ended(a)
		w.fail(c.shape(), http.StatusServiceUnavailable, "ServiceUnavailableException", unreachable+a.Err)
		return
	}
	a.Code, a.Header = resp.StatusCode, keptHeaders(resp.Header)
	a.pass(ctx, resp, w, func(a attempt) {
		a.decode(resp.Header.Get("Content-Encoding"))
		ended(a)
	})
}

// pass copies the answer's body, flushing after each piece.
func (a *attempt) pass(ctx context.Context, resp *http.Response, w *writer, before func(attempt)) {
	header := passedHeaders(resp.Header)
	if resp.ContentLength >= 0 {
		a.passWhole(ctx, resp, w, header, before)
		return
	}
	w.head(resp.StatusCode, header)
	p := passage{attempt: a, w: w, from: resp.Body, buf: make([]byte, 16<<10)}
	for {
		n, err := p.read()
		if n > 0 {
			p.take(p.buf[:n])
		}
		if err == nil && !a.gone {
			continue
		}
		a.ended(ctx, err)
		before(*a)
		p.release()
		if a.Err != "" {
			panic(http.ErrAbortHandler) // the client must not take a part for the whole
		}
		return
	}
}

// passWhole copies an answer whose length is known. It is read whole: it came
// in one piece and holds no frame that somebody waits for.
func (a *attempt) passWhole(ctx context.Context, resp *http.Response, w *writer, header map[string]string, before func(attempt)) {
	body := make([]byte, 0, min(resp.ContentLength+1, maxBody))
	body, err := readAll(body, resp.Body)
	a.Body = body[:min(len(body), maxAnswer)]
	if err != nil {
		a.ended(ctx, err)
	}
	if before(*a); w.started {
		return // with an error
	}
	if a.Err == "" && int64(len(body)) == resp.ContentLength {
		w.whole(resp.StatusCode, header, body)
		return
	}
	header["Content-Length"] = fmt.Sprint(resp.ContentLength)
	w.head(resp.StatusCode, header)
	if _, werr := w.Write(body); a.Err != "" || werr != nil && int64(len(body)) < resp.ContentLength {
		panic(http.ErrAbortHandler)
	}
}

// readAll appends what comes to dst, and takes no more than twice the memory
// that it needs.
func readAll(dst []byte, r io.Reader) ([]byte, error) {
	const least = 512
	for {
		if len(dst) == cap(dst) {
			dst = slices.Grow(dst, max(len(dst), least))
		}
		n, err := r.Read(dst[len(dst):cap(dst)])
		dst = dst[:len(dst)+n]
		if err == io.EOF {
			return dst, nil
		}
		if err != nil {
			return dst, err
		}
	}
}

func (a *attempt) keep(b []byte) {
	a.Body = append(a.Body, b[:min(len(b), maxAnswer-len(a.Body))]...)
}

const (
	clientGone  = "the client went away"
	unreachable = "investigator proxy: the upstream cannot be reached: "
)

func (a *attempt) ended(ctx context.Context, err error) {
	switch {
	case err == io.EOF: // all of it is here, whatever became of the client
		a.gone, a.Err = false, ""
	case ctx.Err() != nil || a.gone:
		a.gone, a.Err = true, clientGone
	case err != nil && err != io.EOF:
		a.Err = "the answer broke off: " + networkText(err)
	}
}

// networkText says what went wrong without addresses, ports and paths.
func networkText(err error) string {
	if errors.Is(err, context.Canceled) {
		return clientGone
	}
	for _, known := range []string{"connection refused", "connection reset", "no such host", "timeout", "certificate", "unexpected EOF", "EOF", "find credentials"} {
		if strings.Contains(err.Error(), known) {
			return known
		}
	}
	return "network error"
}

// keptHeaders is what a cassette keeps of an answer's headers.
func keptHeaders(h http.Header) map[string]string {
	out := map[string]string{}
	for _, name := range []string{"Content-Type", "X-Amzn-Errortype"} {
		if v := h.Get(name); v != "" {
			out[name] = v
		}
	}
	return out
}

// passedHeaders is what a client gets of them.
func passedHeaders(h http.Header) map[string]string {
	out := keptHeaders(h)
	for name := range h {
		if strings.HasPrefix(name, "X-Amzn-Bedrock-") || name == "Retry-After" || name == "Content-Encoding" {
			out[name] = h.Get(name)
		}
	}
	return out
}

// returnOf reads what an attempt brought. The bytes that are kept hold no secret.
func returnOf(c *call, a attempt, origin edge.Origin) edge.Return {
	safe := a.Attempt
	safe.Body, safe.Err, safe.Header = cleanBody(a.Body), clean(a.Err), map[string]string{}
	for name, value := range a.Header {
		safe.Header[name] = clean(value)
	}
	r := edge.Return{Origin: origin, Wire: &edge.Wire{URL: clean(a.url), Attempts: []edge.Attempt{safe}}, At: safe.At, Took: safe.Took}
	if f := failureOf(c, safe, &r.Body); f != nil {
		f.Name, f.Message = clean(f.Name), clean(f.Message) // put together from what was escaped
		if tellsSecret(append(foreign.Spoken(safe.Body), joined(safe.Body))) {
			r.Wire.Attempts[0].Body = nil // no answer that could be framed anew
		}
		r.Failed, r.Body = true, edge.FailureBody(*f)
		return r
	}
	text, n := scrub.JSON(r.Body)
	if tellsMore(c.Dialect, r.Body) && tellsSecret(foreign.Spoken(safe.Body)) {
		text, n = foreign.Known(text), n+1
	}
	if n > 0 { // cut in pieces by frames
		r.Body = text
		if e, err := foreign.Encode(c.Asked, text); err == nil {
			r.Wire.Attempts[0].Body = e.Body
		}
	}
	return r
}

// failureOf says how an attempt failed, or reads its answer into body.
func failureOf(c *call, a edge.Attempt, body *json.RawMessage) *edge.Failure {
	switch {
	case a.Code == 0:
		return &edge.Failure{Name: "ConnectionFailed", Message: a.Err}
	case a.Code != http.StatusOK:
		name, _, _ := strings.Cut(a.Header["X-Amzn-Errortype"], ":")
		if name == "" {
			name = http.StatusText(a.Code)
		}
		return &edge.Failure{Name: name, Message: errorText(a.Body), Status: a.Code}
	case a.Err != "" && c.Dialect == foreign.Opaque:
		return &edge.Failure{Name: "IncompleteAnswer", Message: a.Err, Status: a.Code}
	}
	answer, err := foreign.ReadAnswer(c.Dialect, a.Body)
	if err == nil { // clients need not wait for the end of a stream that told them all
		*body = answer
		return nil
	}
	if a.Err != "" {
		err = errors.New(a.Err)
	}
	var s *converse.StreamError
	if errors.As(err, &s) {
		return &edge.Failure{Name: s.Name, Message: s.Message, Status: s.Status}
	}
	return &edge.Failure{Name: "IncompleteAnswer", Message: err.Error(), Status: a.Code}
}

// errorText finds the message in an error of any front door.
func errorText(body []byte) string {
	var e struct {
		Message string `json:"message"`
		Upper   string `json:"Message"`
		Error   struct {
			Message string `json:"message"`
		} `json:"error"`
	}
	_ = json.Unmarshal(body, &e) // a page has no message
	for _, m := range []string{e.Message, e.Upper, e.Error.Message} {
		if m != "" {
			return m
		}
	}
	return "an answer without a message"
}

// retried reports whether a client may be expected to send the call again.
func retried(f edge.Failure) bool {
	return f.Status == 0 || f.Status == http.StatusOK || f.Status == 408 || f.Status == 424 || f.Status == 429 || f.Status >= 500
}
