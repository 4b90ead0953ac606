package proxy

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"investigator/internal/foreign"
	"investigator/internal/ledger"
)

// read posts a conversation that is streamed and reads so many bytes of the
// answer.
func read(t *testing.T, url, text string, size int) io.ReadCloser {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, url+"/model/m/converse-stream", bytes.NewReader(conversation(1, text).began.raw))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := http.DefaultClient.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(resp.Body, make([]byte, size)); err != nil {
		t.Fatal(err)
	}
	return resp.Body
}

// TestGoesAwayAfterTheLastFrame: an answer that its client read whole is one,
// although the client waited for no end.
func TestGoesAwayAfterTheLastFrame(t *testing.T) {
	answer := said("hello")
	for name, end := range map[string]error{"and the end came": io.EOF, "and no end came": errors.New("reset")} {
		t.Run(name, func(t *testing.T) {
			left := make(chan struct{})
			p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
				pr, pw := io.Pipe()
				go func() {
					_, _ = pw.Write(answer) // a reader that is gone shows below
					<-r.Context().Done()
					pw.CloseWithError(end)
					close(left)
				}()
				return framed(pr), nil
			}), nil)
			read(t, p.url, "a", len(answer)).Close()
			<-left
			path := p.end().Recorded[0]
			if e, err := open(t, path).Event(2); err != nil || e.Type != ledger.ModelResponded {
				t.Errorf("event 2 is %s, %v", e.Type, err)
			}
			if code, _, text := post(t, replayOf(t, true, path).url, "/model/m/converse-stream", string(conversation(1, "a").began.raw)); code != 200 || text != string(answer) {
				t.Errorf("replayed %d, %d bytes of %d", code, len(text), len(answer))
			}
		})
	}
}

// TestGoesOnBeforeTheEnd: a client that acts on the last frame has its next answer
// before the stream ended.
func TestGoesOnBeforeTheEnd(t *testing.T) {
	answer := said("b")
	goOn := make(chan struct{})
	p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		if strings.HasSuffix(r.URL.Path, "converse") {
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		}
		pr, pw := io.Pipe()
		go func() {
			_, _ = pw.Write(answer)
			<-goOn
			pw.Close()
		}()
		return framed(pr), nil
	}), nil)
	body := read(t, p.url, "a", len(answer))
	post(t, p.url, "/model/m/converse", string(conversation(2, "a", "b", "c").began.raw))
	close(goOn)
	if rest, err := io.ReadAll(body); err != nil || len(rest) > 0 {
		t.Errorf("%q after the last frame, %v", rest, err)
	}
	body.Close()
	if got := p.end().Recorded; len(got) != 1 || open(t, got[0]).Len() != 2 {
		t.Errorf("%q recorded, expected one run of two calls", got)
	}
}

// TestCutOffByTheEnd: what a stream brought until the proxy ended is recorded.
func TestCutOffByTheEnd(t *testing.T) {
	part := said("hello")[:300]
	p := recordTo(t, upstreamFunc(func(r *http.Request, _ []byte) (*http.Response, error) {
		pr, pw := io.Pipe()
		go func() {
			_, _ = pw.Write(part)
			<-r.Context().Done()
			pw.CloseWithError(r.Context().Err())
		}()
		return framed(pr), nil
	}), nil)
	const streams = 5
	for i := range streams {
		defer read(t, p.url, fmt.Sprint(i), len(part)).Close()
	}
	got := p.end().Recorded
	if len(got) != streams {
		t.Errorf("%d runs, expected %d", len(got), streams)
	}
	for _, path := range got {
		if x, err := open(t, path).Interaction(0); err != nil || !bytes.Equal(x.Response, part) || x.Attempts[0].Err != clientGone {
			t.Errorf("kept %d of %d bytes, %+v, %v", len(x.Response), len(part), x.Attempts, err)
		}
	}
}
