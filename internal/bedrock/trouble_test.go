package bedrock

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/edge"
)

// troubleCase says what one trouble, happening to every attempt, comes to.
type troubleCase struct {
	failure  edge.Failure
	attempts int // 8 when it is tried again, 1 when not
}

const (
	again = 8
	once  = 1
)

// troubles is the table of every trouble by name. A nil entry of a way of asking
// means that the answer comes all the same.
func troubles(stream bool) map[string]*troubleCase {
	refused := func(name, message string, status, attempts int) *troubleCase {
		return &troubleCase{edge.Failure{Name: name, Message: message, Status: status}, attempts}
	}
	const (
		throttled = "Too many requests, please wait before trying again."
		system    = "The system encountered an unexpected error during processing. Try your request again."
		model     = "The model encountered an unexpected error while processing the request."
		page      = `HTTP %d with a web page ("Access restricted") instead of Bedrock's answer`
		closed    = "the connection closed before the answer was complete"
	)
	table := map[string]*troubleCase{
		"throttle":             refused("ThrottlingException", throttled, 429, again),
		"throttle-retry-after": refused("ThrottlingException", throttled, 429, again),
		"500":                  refused("InternalServerException", system, 500, again),
		"503":                  refused("ServiceUnavailableException", "Bedrock is unable to process your request.", 503, again),
		"model-not-ready":      refused("ModelNotReadyException", "Model is not ready for inference. Wait and try your request again.", 429, again),
		"model-timeout":        refused("ModelTimeoutException", "Model has timed out in processing the request. Try your request again.", 408, again),
		"model-error":          refused("ModelErrorException", model, 424, once),
		"access-denied":        refused("AccessDeniedException", "You don't have access to the model with the specified model ID.", 403, once),
		"expired-token":        refused("ExpiredTokenException", "The security token included in the request is expired", 403, once),
		"unknown-model":        refused("ValidationException", "The provided model identifier is invalid.", 400, once),
		"html":                 refused(unexpectedAnswer, fmt.Sprintf(page, 200), 200, once),
		"html-502":             refused(unexpectedAnswer, fmt.Sprintf(page, 502), 502, again),
		"redirect":             refused(unexpectedAnswer, "HTTP 302, a redirect, which is not followed: it would carry credentials elsewhere", 302, once),
		"empty-200":            refused(incompleteAnswer, "the answer is empty", 0, again),
		"reset":                refused(connectionFailed, "the connection was reset", 0, again),
		"slow-first-byte":      nil,
		"slow-loris":           nil,
	}
	if stream {
		table["cut"] = refused(incompleteAnswer, "the stream ended before messageStop, so the answer is cut off", 0, again)
		table["cut-in-frame"] = refused(incompleteAnswer, "the stream ended inside a frame", 0, again)
		table["reset-mid-stream"] = refused(connectionFailed, "the connection was reset", 0, again)
		table["bad-crc"] = refused(damagedAnswer, "", 0, again)
		table["throttle-mid-stream"] = refused("ThrottlingException", "Too many tokens, please wait before trying again.", 429, again)
		table["error-mid-stream"] = refused("InternalServerException", system, 500, again)
		table["model-error-mid-stream"] = refused("ModelStreamErrorException", "The model encountered an unexpected error while streaming.", 424, again)
		return table
	}
	table["cut"] = refused(incompleteAnswer, closed, 0, again)
	table["cut-in-frame"] = refused(incompleteAnswer, closed, 0, again)
	table["reset-mid-stream"] = refused(connectionFailed, "the connection was reset", 0, again)
	table["bad-crc"] = refused(damagedAnswer, "", 0, again)
	table["throttle-mid-stream"] = table["throttle"]
	table["error-mid-stream"] = table["500"]
	table["model-error-mid-stream"] = table["model-error"]
	return table
}

func TestTroubleTableIsComplete(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		table := troubles(stream)
		for _, name := range bedrocktest.FaultNames() {
			if _, found := table[name]; !found {
				t.Errorf("no row for %q", name)
			}
		}
	})
}

func faulty(t *testing.T, name string, times int) *bedrocktest.Server {
	t.Helper()
	return bedrocktest.New(t, bedrocktest.Options{
		Script: hello, SlowFirstByte: time.Millisecond, SlowStep: time.Microsecond, RequireAuth: true,
		Faults: []bedrocktest.Fault{{Name: name, Times: times}},
	})
}

// TestLastingTrouble meets every trouble at every attempt: a failure by name
// after as many attempts as it deserves, and nothing that differs between two
// runs of it.
func TestLastingTrouble(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		for name, want := range troubles(stream) {
			t.Run(name, func(t *testing.T) {
				s := faulty(t, name, 0)
				r := do(t, newEdge(t, options(s.URL, stream)), modelCall(t, `{}`))
				if want == nil {
					if r.Failed || len(r.Wire.Attempts) != 1 {
						t.Fatalf("failed after %d attempts: %s", len(r.Wire.Attempts), r.Body)
					}
					return
				}
				got, err := edge.ParseFailure(r.Body)
				if err != nil || !r.Failed {
					t.Fatalf("failed %v, error %v: %s", r.Failed, err, r.Body)
				}
				if want.failure.Message == "" {
					got.Message = "" // quotes checksums of a random padding
				}
				if diff := cmp.Diff(want.failure, got); diff != "" {
					t.Errorf("failure (-want +got):\n%s", diff)
				}
				if n := len(r.Wire.Attempts); n != want.attempts || len(s.Requests()) != n {
					t.Errorf("%d attempts recorded, %d requests seen, expected %d", n, len(s.Requests()), want.attempts)
				}
				checkFacts(t, s, r)
			})
		}
	})
}

// checkFacts: neither the ledger nor the cassette learns where the server was or
// what the credentials are.
func checkFacts(t *testing.T, s *bedrocktest.Server, r edge.Return) {
	t.Helper()
	text := string(r.Body)
	for _, a := range r.Wire.Attempts {
		text += a.Err
	}
	for _, fact := range []string{"127.0.0.1", strings.TrimPrefix(s.URL, "http://"), "AKIDEXAMPLE", "localhost"} {
		if strings.Contains(text, fact) {
			t.Errorf("%q shows in %s", fact, text)
		}
	}
}

// TestPassingTrouble meets every trouble once: the answer of the next attempt is
// the return, whole and without a trace of the first, and both are on record.
func TestPassingTrouble(t *testing.T) {
	good := bedrocktest.New(t, bedrocktest.Options{Script: hello})
	eachWay(t, func(t *testing.T, stream bool) {
		want := do(t, newEdge(t, options(good.URL, stream)), modelCall(t, `{}`))
		for name, row := range troubles(stream) {
			if row == nil || row.attempts == once {
				continue
			}
			t.Run(name, func(t *testing.T) {
				s := faulty(t, name, 1)
				o := options(s.URL, stream)
				o.Now = fixedClock
				r := do(t, newEdge(t, o), modelCall(t, `{}`))
				if diff := cmp.Diff(string(want.Body), string(r.Body)); diff != "" || r.Failed {
					t.Errorf("(-untroubled +got):\n%s", diff)
				}
				checkAttempts(t, r.Wire.Attempts)
				checkSameCall(t, s.Requests())
			})
		}
	})
}

func checkAttempts(t *testing.T, attempts []edge.Attempt) {
	t.Helper()
	if len(attempts) != 2 {
		t.Fatalf("%d attempts", len(attempts))
	}
	first, last := attempts[0], attempts[1]
	if (first.Err == "") != (first.Code >= 400 && first.Header["X-Amzn-Errortype"] != "") {
		t.Errorf("first attempt: status %d, ended by %q", first.Code, first.Err)
	}
	if pause, err := time.ParseDuration(last.Wait); err != nil || pause <= 0 {
		t.Errorf("wait %q", last.Wait)
	}
	if last.Code != 200 || last.Err != "" || first.Wait != "" || first.At != "2026-01-02T03:04:05Z" || first.Took != "0s" {
		t.Errorf("first %+v\nlast %+v", first, last)
	}
	for _, a := range attempts {
		for name := range a.Header {
			if name != "Content-Type" && name != "X-Amzn-Errortype" {
				t.Errorf("header %q was kept", name)
			}
		}
	}
}

// checkSameCall: a server can tell that two requests are attempts of one call
// (case 51).
func checkSameCall(t *testing.T, requests []bedrocktest.Record) {
	t.Helper()
	for i, r := range requests {
		if got, want := r.Header.Get("Amz-Sdk-Request"), fmt.Sprintf("attempt=%d; max=8", i+1); got != want {
			t.Errorf("request %d says %q, expected %q", i, got, want)
		}
		if id := r.Header.Get("Amz-Sdk-Invocation-Id"); id == "" || id != requests[0].Header.Get("Amz-Sdk-Invocation-Id") {
			t.Errorf("request %d has invocation id %q", i, id)
		}
		if string(r.Body) != string(requests[0].Body) {
			t.Errorf("request %d has another body", i)
		}
	}
}

// TestMidStreamValidationIsFinal: what the request is to blame for is not tried
// again, in a stream as before it.
func TestMidStreamExceptions(t *testing.T) {
	for kind, attempts := range map[string]int{
		"validationException": once, "serviceUnavailableException": again, "internalServerException": again,
		"modelTimeoutException": again, "throttlingException": again, "shinyException": once,
	} {
		t.Run(kind, func(t *testing.T) {
			turn := bedrocktest.Turn{Events: []bedrocktest.Event{
				{Type: "contentBlockDelta", Payload: []byte(`{"contentBlockIndex":0,"delta":{"text":"part"}}`)},
				{Type: "!" + kind, Payload: []byte(`{"message":"why"}`)},
			}}
			s := bedrocktest.New(t, bedrocktest.Options{Script: func(bedrocktest.Request) bedrocktest.Turn { return turn }})
			r := do(t, newEdge(t, options(s.URL, true)), modelCall(t, `{}`))
			f, err := edge.ParseFailure(r.Body)
			if err != nil || !r.Failed || !strings.EqualFold(f.Name, kind) || f.Message != "why" {
				t.Errorf("%s, error %v", r.Body, err)
			}
			if len(r.Wire.Attempts) != attempts || strings.Contains(string(r.Body), "part") {
				t.Errorf("%d attempts, expected %d", len(r.Wire.Attempts), attempts)
			}
		})
	}
}

// TestAfterMessageStop: what comes or breaks when the answer is said.
func TestAfterMessageStop(t *testing.T) {
	stop := bedrocktest.EncodeFrame("messageStop", []byte(`{"stopReason":"end_turn"}`))
	usage := bedrocktest.EncodeFrame("metadata", []byte(`{"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`))
	spoiled := slices.Concat(usage[:len(usage)-1], []byte{usage[len(usage)-1] ^ 1})
	refusal := bedrocktest.EncodeFrame("!validationException", []byte(`{"message":"no"}`))
	for _, c := range []struct {
		name     string
		after    []byte
		reset    bool
		failure  string // "" for an answer
		attempts int
	}{
		{"nothing", nil, false, "", once},
		{"usage", usage, false, "", once},
		{"usage and a broken connection", usage, true, "", once},
		{"half the usage", usage[:40], false, incompleteAnswer, again},
		{"half the usage and a broken connection", usage[:40], true, incompleteAnswer, again},
		{"usage with a flipped bit", spoiled, false, damagedAnswer, again},
		{"an exception", refusal, false, "ValidationException", once},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serveRaw(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", "application/vnd.amazon.eventstream")
				_, _ = w.Write(stop)
				_, _ = w.Write(c.after)
				_ = http.NewResponseController(w).Flush()
				if c.reset {
					panic(http.ErrAbortHandler)
				}
			})
			r := do(t, newEdge(t, options(url, true)), modelCall(t, `{}`))
			f, err := edge.ParseFailure(r.Body)
			if err != nil || r.Failed != (c.failure != "") || f.Name != c.failure || len(r.Wire.Attempts) != c.attempts {
				t.Errorf("%d attempts, expected %d: %s", len(r.Wire.Attempts), c.attempts, r.Body)
			}
		})
	}
}

// TestPageIsRecordedWhole: a page instead of a stream is kept to its end, though
// its first bytes show already that it is no stream.
func TestPageIsRecordedWhole(t *testing.T) {
	pieces := []string{"<html><title>\n Sign in </title>", strings.Repeat("<p>", 30_000), "</html>"} // more than one read takes
	url := serveRaw(t, func(w http.ResponseWriter, r *http.Request) {
		for _, p := range pieces {
			_, _ = w.Write([]byte(p))
			_ = http.NewResponseController(w).Flush()
		}
	})
	r := do(t, newEdge(t, options(url, true)), modelCall(t, `{}`))
	if got := string(r.Wire.Attempts[0].Body); got != strings.Join(pieces, "") || !strings.Contains(string(r.Body), `(\"Sign in\")`) {
		t.Errorf("recorded %d bytes, failed with %s", len(got), r.Body)
	}
}

// TestOddAnswers: status 200 is not enough to be an answer.
func TestOddAnswers(t *testing.T) {
	for _, c := range []struct {
		name, kind, body, want string
		code, attempts         int
	}{
		{"no members", "application/json", `{}`, damagedAnswer, 200, again},
		{"no stop reason", "application/json", `{"output":{"message":{"role":"assistant","content":[]}}}`, damagedAnswer, 200, again},
		{"not JSON", "application/json", `{"output":`, damagedAnswer, 200, again},
		{"page called JSON", "application/json", ` <html>`, unexpectedAnswer, 200, once},
		{"no body", "", ``, incompleteAnswer, 200, again},
		{"accepted", "application/json", `{}`, unexpectedAnswer, 202, once},
		{"nameless error", "application/json", `{"message":"Forbidden"}`, "UnknownError", 403, once},
		{"text", "text/plain", `no healthy upstream`, unexpectedAnswer, 503, again},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := serveRaw(t, func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Type", c.kind)
				w.WriteHeader(c.code)
				_, _ = w.Write([]byte(c.body))
			})
			r := do(t, newEdge(t, options(url, false)), modelCall(t, `{}`))
			f, err := edge.ParseFailure(r.Body)
			if err != nil || !r.Failed || f.Name != c.want || len(r.Wire.Attempts) != c.attempts {
				t.Errorf("%d attempts (expected %d), %s (expected %s)", len(r.Wire.Attempts), c.attempts, r.Body, c.want)
			}
			if got := string(r.Wire.Attempts[0].Body); got != c.body {
				t.Errorf("recorded %q of %q", got, c.body)
			}
		})
	}
}

func TestSilenceEndsAnAttempt(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		s := bedrocktest.New(t, bedrocktest.Options{Script: hello, SlowStep: time.Hour, Faults: []bedrocktest.Fault{{Name: "slow-loris", Times: 1}}})
		o := options(s.URL, stream)
		o.IdleTimeout = 30 * time.Millisecond
		r := do(t, newEdge(t, o), modelCall(t, `{}`))
		if r.Failed || len(r.Wire.Attempts) != 2 {
			t.Fatalf("%d attempts: %s", len(r.Wire.Attempts), r.Body)
		}
		if first := r.Wire.Attempts[0]; first.Err != "IdleTimeout: no byte of the answer came for 30ms" || len(first.Body) != 1 {
			t.Errorf("first attempt ended by %q with %d bytes", first.Err, len(first.Body))
		}
	})
}

// TestCallTimeout: a call ends when its time is over, with what it failed of, and
// that is data, not the caller's cancellation.
func TestCallTimeout(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: hello, SlowFirstByte: time.Hour, Faults: []bedrocktest.Fault{{Name: "slow-first-byte"}}})
	o := options(s.URL, true)
	o.CallTimeout = 30 * time.Millisecond
	r := do(t, newEdge(t, o), modelCall(t, `{}`))
	want := edge.Failure{Name: callTimeout, Message: "no whole answer within 30ms"}
	if got, err := edge.ParseFailure(r.Body); err != nil || got != want || len(r.Wire.Attempts) != 1 {
		t.Errorf("%s after %d attempts, expected %+v", r.Body, len(r.Wire.Attempts), want)
	}

	throttled := bedrocktest.New(t, bedrocktest.Options{Script: hello, Faults: []bedrocktest.Fault{{Name: "throttle"}}})
	o = options(throttled.URL, true)
	o.CallTimeout = time.Minute
	o.Sleep = func(ctx context.Context, _ time.Duration) error { return context.DeadlineExceeded }
	r = do(t, newEdge(t, o), modelCall(t, `{}`))
	if got, err := edge.ParseFailure(r.Body); err != nil || got.Name != "ThrottlingException" || len(r.Wire.Attempts) != 1 {
		t.Errorf("%s after %d attempts", r.Body, len(r.Wire.Attempts))
	}
}

// TestRedirectKeepsCredentials: nothing is sent where a redirect points.
func TestRedirectKeepsCredentials(t *testing.T) {
	for _, code := range []int{301, 302, 307, 308} {
		var elsewhere []string
		other := serveRaw(t, func(_ http.ResponseWriter, r *http.Request) { elsewhere = append(elsewhere, r.URL.Path) })
		url := serveRaw(t, func(w http.ResponseWriter, r *http.Request) { http.Redirect(w, r, other+"/x", code) })
		r := do(t, newEdge(t, options(url, true)), modelCall(t, `{}`))
		if f, _ := edge.ParseFailure(r.Body); f.Name != unexpectedAnswer || f.Status != code || len(elsewhere) != 0 {
			t.Errorf("%d: %s, requests elsewhere %q", code, r.Body, elsewhere)
		}
	}
}

func TestUnreachable(t *testing.T) {
	url := serveRaw(t, func(http.ResponseWriter, *http.Request) {})
	for _, c := range []struct {
		name, url, message string
		attempts           int
	}{
		{"nobody listens", "http://127.0.0.1:1", "the connection was refused", again},
		{"no such host", "http://bedrock.invalid", "the endpoint's host name could not be resolved", 0},
		{"not TLS", strings.Replace(url, "http:", "https:", 1), "the endpoint does not speak TLS", again},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := do(t, newEdge(t, options(c.url, true)), modelCall(t, `{}`))
			f, err := edge.ParseFailure(r.Body)
			if err != nil || f.Name != connectionFailed || f.Message != c.message || !Unreachable(f) {
				t.Errorf("%s, expected %q", r.Body, c.message)
			}
			if n := len(r.Wire.Attempts); c.attempts > 0 && n != c.attempts {
				t.Errorf("%d attempts, expected %d", n, c.attempts)
			}
		})
	}
}

// TestCABundle: AWS_CA_BUNDLE is what makes a private authority trusted, and
// without it the refusal is final.
func TestCABundle(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{TLS: true, Script: hello})
	r := do(t, newEdge(t, options(s.URL, true)), modelCall(t, `{}`))
	if f, _ := edge.ParseFailure(r.Body); !strings.Contains(f.Message, "authority that is not trusted") || len(r.Wire.Attempts) != 1 {
		t.Errorf("%d attempts: %s", len(r.Wire.Attempts), r.Body)
	}
	t.Setenv("AWS_CA_BUNDLE", writeFile(t, "ca.pem", s.CA))
	if r := do(t, newEdge(t, options(s.URL, true)), modelCall(t, `{}`)); r.Failed {
		t.Errorf("with the bundle: %s", r.Body)
	}
}

// TestUnknownHostIsFinal: a region that does not exist is said at once, and a
// name server that does not answer is asked again.
func TestUnknownHostIsFinal(t *testing.T) {
	for _, c := range []struct {
		err      error
		attempts int
	}{
		{&net.DNSError{Err: "no such host", IsNotFound: true}, once},
		{&net.DNSError{Err: "server misbehaving", IsTemporary: true}, again},
	} {
		e := newEdge(t, options("http://bedrock.invalid", true))
		e.http.Transport = transportFunc(func(*http.Request) (*http.Response, error) { return nil, c.err })
		r := do(t, e, modelCall(t, `{}`))
		if f, _ := edge.ParseFailure(r.Body); f.Message != "the endpoint's host name could not be resolved" || len(r.Wire.Attempts) != c.attempts {
			t.Errorf("%v: %d attempts, expected %d: %s", c.err, len(r.Wire.Attempts), c.attempts, r.Body)
		}
	}
}

type transportFunc func(*http.Request) (*http.Response, error)

func (f transportFunc) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }
