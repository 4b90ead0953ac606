package bedrock

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"investigator/internal/converse"
)

// lateReader is a transport that answers before it has read the request, as
// net/http does against a fast server, and reads it when the answer is read.
type lateReader struct{ read []byte }

func (l *lateReader) RoundTrip(r *http.Request) (*http.Response, error) {
	late := iotest.DataErrReader(strings.NewReader(`{"output":{"message":{"role":"assistant","content":[]}},"stopReason":"end_turn"}`))
	body := readerFunc(func(p []byte) (int, error) {
		if l.read == nil {
			b, err := io.ReadAll(r.Body)
			if err != nil {
				return 0, err
			}
			l.read = append([]byte{}, b...)
		}
		return late.Read(p)
	})
	return &http.Response{StatusCode: 200, Header: http.Header{}, Body: io.NopCloser(body), Request: r}, nil
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }

// TestBodyOutlivesTheSDK: the SDK empties its body as soon as the response's
// header is there. net/http may still be reading it, and would take the end for
// the peer's: 2 to 12 % of calls to a server in the same machine were lost so.
func TestBodyOutlivesTheSDK(t *testing.T) {
	e := newEdge(t, options("http://bedrock.invalid", false))
	late := &lateReader{}
	e.http.Transport = late
	call := modelCall(t, `{}`)
	if r := do(t, e, call); r.Failed || !bytes.Equal(late.read, call.Request.Body()) {
		t.Errorf("the transport read %q: %s", late.read, r.Body)
	}
}

// readFor reads from r in a bubble of fake time, with an idle timeout of 10 s.
func readFor(r func(ctx context.Context) io.Reader) (body string, err error) {
	ctx, cancel := context.WithCancelCause(context.Background())
	defer cancel(nil)
	x := &exchange{ongoing: &ongoing{Edge: &Edge{idle: 10 * time.Second}}, ctx: ctx, cancel: cancel}
	err = x.read(r(ctx), 1000, nil)
	return string(x.body), err
}

func TestSilence(t *testing.T) {
	for _, c := range []struct {
		name  string
		gap   time.Duration
		bytes string
		err   string
	}{
		{"slow but steady", 9 * time.Second, "0123456789", ""},
		{"silent", 11 * time.Second, "", "IdleTimeout: no byte of the answer came for 10s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				text := iotest.OneByteReader(strings.NewReader("0123456789"))
				body, err := readFor(func(ctx context.Context) io.Reader {
					return readerFunc(func(p []byte) (int, error) {
						if err := sleep(ctx, c.gap); err != nil {
							return 0, err
						}
						return text.Read(p)
					})
				})
				if body != c.bytes || (err == nil) != (c.err == "") || err != nil && err.Error() != c.err {
					t.Errorf("read %q, error %v", body, err)
				}
			})
		})
	}
}

func TestAnswersAreBounded(t *testing.T) {
	_, err := readFor(func(context.Context) io.Reader { return strings.NewReader(strings.Repeat("x", 2000)) })
	if err == nil || !strings.Contains(err.Error(), "exceeds 1000 bytes") {
		t.Errorf("error %v", err)
	}
}

// BenchmarkDo times a call against a transport that answers at once: what this
// package and the SDK add to a call.
func BenchmarkDo(b *testing.B) {
	e := newEdge(b, options("http://bedrock.invalid", false))
	call := modelCall(b, `{}`)
	for b.Loop() {
		e.http.Transport = &lateReader{}
		if r := do(b, e, call); r.Failed {
			b.Fatalf("%s", r.Body)
		}
	}
}

// BenchmarkDecode times what replay does with a stored stream of 1,000 events.
func BenchmarkDecode(b *testing.B) {
	delta := converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "contentBlockDelta", Payload: []byte(`{"contentBlockIndex":0,"delta":{"text":"some words "},"p":"abcdefgh"}`)})
	stop := converse.EncodeFrame(converse.Frame{Kind: converse.EventFrame, Type: "messageStop", Payload: []byte(`{"stopReason":"end_turn"}`)})
	body := append(bytes.Repeat(delta, 1000), stop...)
	for b.Loop() {
		frames, _, err := converse.DecodeFrames(body)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := converse.Assemble(frames); err != nil {
			b.Fatal(err)
		}
	}
}
