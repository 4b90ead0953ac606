package bedrocktest

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/config"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/google/go-cmp/cmp"
)

// h2c is a client that speaks cleartext HTTP/2 with prior knowledge and nothing
// else, as the AWS SDK for JavaScript does.
func h2c(t *testing.T) *http.Client {
	p := new(http.Protocols)
	p.SetUnencryptedHTTP2(true)
	tr := &http.Transport{Protocols: p}
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: tr}
}

func TestBothProtocolsOnOnePort(t *testing.T) {
	s := New(t, Options{})
	for _, c := range []*http.Client{http.DefaultClient, h2c(t)} {
		for _, op := range []string{"converse", "converse-stream"} {
			resp, err := c.Post(s.URL+"/model/x/"+op, "application/json", strings.NewReader(hello))
			if err != nil {
				t.Fatal(err)
			}
			body, err := io.ReadAll(resp.Body)
			resp.Body.Close()
			if err != nil || resp.StatusCode != 200 || len(body) == 0 {
				t.Errorf("%s over %s: %d, %d bytes, %v", op, resp.Proto, resp.StatusCode, len(body), err)
			}
		}
	}
	var protos []string
	for _, r := range s.Requests() {
		protos = append(protos, r.Proto+" "+r.Method+" "+r.Path)
	}
	want := []string{"HTTP/1.1 POST /model/x/converse", "HTTP/1.1 POST /model/x/converse-stream", "HTTP/2.0 POST /model/x/converse", "HTTP/2.0 POST /model/x/converse-stream"}
	if diff := cmp.Diff(want, protos); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
	if live, total := s.Connections(); live > total || total < 2 {
		t.Errorf("connections: %d live of %d", live, total)
	}
}

// Frames must arrive one by one: the first is read while the script's stream is
// held open by a slow trouble.
func TestFramesAreFlushed(t *testing.T) {
	s := New(t, Options{SlowStep: time.Hour, Faults: []Fault{{Name: "slow-loris"}}})
	for _, c := range []*http.Client{http.DefaultClient, h2c(t)} {
		resp, err := c.Post(s.URL+"/model/x/converse-stream", "application/json", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		if n, err := io.ReadFull(resp.Body, make([]byte, 1)); n != 1 || err != nil {
			t.Errorf("%s: read %d bytes, %v", resp.Proto, n, err)
		}
		resp.Body.Close()
	}
}

func TestSlowLorisIsBoundedAndWhole(t *testing.T) {
	s := New(t, Options{SlowStep: time.Microsecond, SlowBytes: 100, Faults: []Fault{{Name: "slow-loris", Times: 1}}})
	_, _, slow := post(t, s.URL+"/model/x/converse", hello)
	_, _, quick := post(t, s.URL+"/model/x/converse", hello)
	if diff := cmp.Diff(string(quick), string(slow)); diff != "" {
		t.Errorf("a slow answer is another answer:\n%s", diff)
	}
}

func TestSlowFirstByteEndsWithTheClient(t *testing.T) {
	s := New(t, Options{SlowFirstByte: time.Hour, Faults: []Fault{{Name: "slow-first-byte"}}})
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	req, _ := http.NewRequestWithContext(ctx, "POST", s.URL+"/model/x/converse", strings.NewReader(hello))
	if _, err := http.DefaultClient.Do(req); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("error %v, want the deadline", err)
	}
}

func TestResetIsAReset(t *testing.T) {
	s := New(t, Options{Faults: []Fault{{Name: "reset"}}})
	_, err := http.Post(s.URL+"/model/x/converse", "application/json", strings.NewReader(hello))
	if !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("HTTP/1.1: %v, want connection reset", err)
	}
	if _, err := h2c(t).Post(s.URL+"/model/x/converse", "application/json", strings.NewReader(hello)); err == nil {
		t.Error("HTTP/2: no error")
	}
	if r := s.Requests()[0]; r.Fault != "reset" || r.Status != 0 {
		t.Errorf("logged fault %q status %d", r.Fault, r.Status)
	}
}

func TestCutBodyIsShorterThanAnnounced(t *testing.T) {
	for _, fault := range []string{"cut", "cut-in-frame"} {
		s := New(t, Options{Faults: []Fault{{Name: fault}}})
		resp, err := http.Post(s.URL+"/model/x/converse", "application/json", strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = io.ReadAll(resp.Body); !errors.Is(err, io.ErrUnexpectedEOF) {
			t.Errorf("%s: %v, want unexpected EOF", fault, err)
		}
		resp.Body.Close()
	}
}

func TestPagesInTheWay(t *testing.T) {
	s := New(t, Options{Faults: []Fault{
		{Name: "html", When: func(r Request) bool { return r.Number == 0 }},
		{Name: "html-502", When: func(r Request) bool { return r.Number == 1 }},
		{Name: "empty-200", When: func(r Request) bool { return r.Number == 2 }},
		{Name: "redirect", When: func(r Request) bool { return r.Number == 3 }},
		{Name: "throttle", RetryAfter: 1500 * time.Millisecond},
	}})
	c := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	var got []string
	for range 5 {
		resp, err := c.Post(s.URL+"/model/x/converse-stream", "application/json", strings.NewReader("not even JSON"))
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		h := resp.Header
		got = append(got, fmt.Sprintf("%d %s %v %s", resp.StatusCode, h.Get("Content-Type"), len(body) > 0,
			strings.TrimPrefix(h.Get("Location"), s.URL)+h.Get("Retry-After")+h.Get("x-amz-retry-after")))
	}
	want := []string{
		"200 text/html; charset=utf-8 true ", "502 text/html; charset=utf-8 true ", "200 application/vnd.amazon.eventstream false ",
		"302 text/html; charset=utf-8 true /redirected", "429 application/json true 21500",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
}

// A client that follows the redirect shows in the log with what it sent along.
func TestRedirectIsFollowedHome(t *testing.T) {
	s := New(t, Options{Faults: []Fault{{Name: "redirect"}}})
	status, _, body := post(t, s.URL+"/model/x/converse", hello)
	if status != 200 || !strings.Contains(string(body), "<html>") {
		t.Errorf("followed to %d %s", status, body)
	}
	if rs := s.Requests(); len(rs) != 2 || rs[1].Path != "/redirected" || rs[1].Op != "" {
		t.Errorf("log %+v", rs)
	}
}

func TestFaultsByPlace(t *testing.T) {
	draw := func(seed uint64) (hits int, pattern string) {
		f := Fault{Name: "throttle", Every: 20}
		for i := range 2000 {
			if f.draw(seed, fmt.Append(nil, i%100), i/100) {
				hits++
				pattern += fmt.Sprint(i, " ")
			}
		}
		return hits, pattern
	}
	hits, one := draw(1)
	_, again := draw(1)
	_, other := draw(2)
	if hits < 60 || hits > 140 {
		t.Errorf("%d of 2000 hit, expected about 100", hits)
	}
	if one != again || one == other {
		t.Error("the choice must depend on the seed and on nothing else")
	}
	s := New(t, Options{})
	s.Inject(Fault{Name: "500", Times: 2})
	var codes []int
	for range 3 {
		status, _, _ := post(t, s.URL+"/model/x/converse", hello)
		codes = append(codes, status)
	}
	if diff := cmp.Diff([]int{500, 500, 200}, codes); diff != "" {
		t.Errorf("Times: 2 (-want +got):\n%s", diff)
	}
}

func TestParseFault(t *testing.T) {
	if f, err := ParseFault("throttle@20"); err != nil || f.Name != "throttle" || f.Every != 20 {
		t.Errorf("throttle@20: %+v, %v", f, err)
	}
	for _, bad := range []string{"", "nosuch", "cut@", "cut@0", "cut@x", "@3"} {
		if _, err := ParseFault(bad); err == nil {
			t.Errorf("ParseFault(%q) gave no error", bad)
		}
	}
	if _, err := Start(Options{Faults: []Fault{{Name: "nosuch"}}}); err == nil || !strings.Contains(err.Error(), `unknown fault "nosuch"`) {
		t.Errorf("Start with an unknown fault: %v", err)
	}
	for _, name := range FaultNames() {
		k, _ := findTrouble(name)
		if (k.instead == nil) == (k.spoil == nil) {
			t.Errorf("fault %s must either answer or spoil", name)
		}
	}
}

// A stream of one event has no middle, and no fault may trip over it.
func TestFaultsOnShortReplies(t *testing.T) {
	for _, name := range FaultNames() {
		k, _ := findTrouble(name)
		for _, r := range []reply{{status: 200}, {status: 200, streamed: true}, {status: 200, streamed: true, chunks: [][]byte{[]byte("x")}}} {
			if k.spoil != nil {
				r.header = http.Header{}
				k.spoil(injection{op: OpConverseStream}, r)
			}
		}
	}
}

// AWS_CA_BUNDLE is how a user makes the SDK trust the authority.
func TestTLSWithGeneratedAuthority(t *testing.T) {
	s := New(t, Options{TLS: true})
	bundle := filepath.Join(t.TempDir(), "ca.pem")
	if err := os.WriteFile(bundle, s.CA, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("AWS_CA_BUNDLE", bundle)
	t.Setenv("AWS_ACCESS_KEY_ID", "AKIDEXAMPLE")
	t.Setenv("AWS_SECRET_ACCESS_KEY", "secret")
	t.Setenv("AWS_ENDPOINT_URL_BEDROCK_RUNTIME", s.URL)
	t.Setenv("AWS_CONFIG_FILE", bundle+".none")
	t.Setenv("AWS_SHARED_CREDENTIALS_FILE", bundle+".none")
	cfg, err := config.LoadDefaultConfig(t.Context(), config.WithRegion("us-east-1"))
	if err != nil {
		t.Fatal(err)
	}
	turns, err := streamLoop(t.Context(), t, bedrockruntime.NewFromConfig(cfg))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(loopTurns, turns); diff != "" {
		t.Errorf("turns (-want +got):\n%s", diff)
	}
	if _, err := http.Get(s.URL); err == nil {
		t.Error("a client without the authority was served")
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(s.CA)
	tr := &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}, ForceAttemptHTTP2: true}
	defer tr.CloseIdleConnections()
	s.Inject(Fault{Name: "reset"})
	if _, err := (&http.Client{Transport: tr}).Post(s.URL+"/model/x/converse", "application/json", strings.NewReader(hello)); err == nil {
		t.Error("no reset under TLS")
	}
	if p := s.Requests()[3].Proto; p != "HTTP/2.0" {
		t.Errorf("TLS with ALPN spoke %s, want HTTP/2.0", p)
	}
}

func TestRefusalsOfTheDoor(t *testing.T) {
	s := New(t, Options{RequireAuth: true, Script: func(Request) Turn { panic("oops") }})
	tests := []struct {
		method, path, auth string
		status             int
		text               string
	}{
		{"POST", "/model/x/converse", "", 403, "Missing Authentication Token"},
		{"POST", "/model/x/converse", "Bearer key", 400, "panic while answering: oops"},
		{"GET", "/model/x/converse", "Bearer key", 404, "no operation at GET"},
		{"POST", "/model//converse", "Bearer key", 404, "no operation"},
		{"POST", "/model/x/guess", "Bearer key", 404, "no operation"},
		{"POST", "/", "Bearer key", 404, "no operation"},
	}
	for _, tt := range tests {
		req, err := http.NewRequest(tt.method, s.URL+tt.path, strings.NewReader(hello))
		if err != nil {
			t.Fatal(err)
		}
		if tt.auth != "" {
			req.Header.Set("Authorization", tt.auth)
		}
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		body, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != tt.status || !strings.Contains(string(body), tt.text) {
			t.Errorf("%s %s: %d %s", tt.method, tt.path, resp.StatusCode, body)
		}
	}
}

// The log keeps the newest and hands out copies.
func TestLog(t *testing.T) {
	s := New(t, Options{MaxLog: 3})
	for i := range 5 {
		post(t, s.URL+"/model/x/converse", strings.Replace(hello, "hi", fmt.Sprint(i), 1))
	}
	rs := s.Requests()
	if len(rs) != 3 || rs[0].Number != 2 || !strings.Contains(string(rs[2].Body), `"4"`) {
		t.Fatalf("log holds %d records from number %d", len(rs), rs[0].Number)
	}
	rs[0].Body[0] = 'X'
	rs[0].Header.Set("Content-Type", "X")
	if again := s.Requests()[0]; again.Body[0] != '{' || again.Header.Get("Content-Type") != "application/json" {
		t.Error("a caller can change the log")
	}
}

// Two servers of one seed give the same bytes, and padding differs by frame.
func TestAnswersAreReproducible(t *testing.T) {
	streams := map[uint64]string{}
	for _, seed := range []uint64{1, 1, 2} {
		s := New(t, Options{Seed: seed})
		_, h, body := post(t, s.URL+"/model/x/converse-stream", hello)
		_, _, second := post(t, s.URL+"/model/x/converse-stream", hello)
		now := h.Get("x-amzn-RequestId") + string(body)
		if before, ok := streams[seed]; ok && before != now {
			t.Errorf("seed %d gave two answers", seed)
		}
		if string(second) == string(body) {
			t.Error("padding is the same on every call")
		}
		streams[seed] = now
		lengths := map[int]bool{}
		for _, e := range decodeFrames(t, body) {
			lengths[len(textAt(mustDecode(t, e.Payload), "p"))] = true
		}
		if len(lengths) < 3 || lengths[0] {
			t.Errorf("padding lengths %v", lengths)
		}
	}
	if streams[1] == streams[2] {
		t.Error("seeds do not matter")
	}
}

// Close ends answers in progress and leaves nothing running.
func TestCloseLeavesNothing(t *testing.T) {
	before := runtime.NumGoroutine()
	tr := &http.Transport{}
	s, err := Start(Options{SlowStep: time.Hour, Faults: []Fault{{Name: "slow-loris", When: func(r Request) bool { return r.Number%2 == 0 }}}})
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	started := make(chan struct{}, 8)
	for range 8 {
		wg.Go(func() {
			resp, err := (&http.Client{Transport: tr}).Post(s.URL+"/model/x/converse-stream", "application/json", strings.NewReader(hello))
			started <- struct{}{}
			if err != nil {
				return
			}
			_, _ = io.Copy(io.Discard, resp.Body)
			resp.Body.Close()
		})
	}
	for range 8 {
		<-started
	}
	s.Close()
	s.Close() // a second time is no fault
	wg.Wait()
	tr.CloseIdleConnections()
	if live, total := s.Connections(); live != 0 || total == 0 {
		t.Errorf("%d of %d connections live after Close", live, total)
	}
	// net/http's goroutines end on their own after their connection is closed.
	for range 10_000 {
		if runtime.NumGoroutine() <= before {
			return
		}
		runtime.Gosched()
		runtime.GC()
	}
	buf := make([]byte, 1<<20)
	t.Errorf("goroutines: %d before, %d after\n%s", before, runtime.NumGoroutine(), buf[:runtime.Stack(buf, true)])
}

// fatal stands in for a test, to see New fail.
type fatal struct{ said string }

func (f *fatal) Helper()                        {}
func (f *fatal) Cleanup(func())                 {}
func (f *fatal) Fatalf(format string, a ...any) { f.said = fmt.Sprintf(format, a...) }

func TestNewReportsABusyAddress(t *testing.T) {
	s := New(t, Options{})
	var f fatal
	if New(&f, Options{Addr: strings.TrimPrefix(s.URL, "http://")}) != nil || !strings.HasPrefix(f.said, "start local bedrock: ") {
		t.Errorf("second server on one address: %q", f.said)
	}
}

func TestTooLargeBody(t *testing.T) {
	s := New(t, Options{})
	_, err := sdk(t, s, 1).InvokeModel(t.Context(), &bedrockruntime.InvokeModelInput{ModelId: aws.String("x"), Body: make([]byte, maxBody+1)})
	if err == nil || !strings.Contains(err.Error(), "too long") {
		t.Errorf("error %v, want too long", err)
	}
}
