package proxy

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/engine"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// TestSameRequestTwice is case 50: served in order; a third is a miss, unless it
// is another attempt of the second.
func TestSameRequestTwice(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: bedrocktest.Arrivals(bedrocktest.Say(bedrocktest.Text("pong 1")), bedrocktest.Say(bedrocktest.Text("pong 2")))})
	p := recordTo(t, upstream(t, s.URL), nil)
	const ping = `{"messages":[{"role":"user","content":[{"text":"ping"}]}]}`
	ask := func(r *running, invocation, attempt string) (int, string) {
		code, _, text := post(t, r.url, "/model/m/converse", ping, "Amz-Sdk-Invocation-Id", invocation, "Amz-Sdk-Request", attempt)
		return code, text
	}
	ask(p, "a", "attempt=1; max=3")
	ask(p, "b", "attempt=1; max=3")
	paths := p.end().Recorded
	if len(paths) != 1 {
		t.Fatalf("recorded %v, expected one run", paths)
	}
	r := replayOf(t, false, paths[0])
	for _, c := range []struct {
		id, attempt, want string
		code              int
	}{{"1", "attempt=1", "pong 1", 200}, {"2", "attempt=1", "pong 2", 200}, {"2", "attempt=2", "pong 2", 200}, {"3", "attempt=1", "answered as often", 409}} {
		if code, text := ask(r, c.id, c.attempt); code != c.code || !strings.Contains(text, c.want) {
			t.Errorf("%s %s: %d %s, expected %d with %q", c.id, c.attempt, code, text, c.code, c.want)
		}
	}
}

// TestRetriesAreAttemptsOfOneCall is case 51: 429, then success, is one turn
// with two attempts, by header or by the body alone.
func TestRetriesAreAttemptsOfOneCall(t *testing.T) {
	check := func(t *testing.T, path string) {
		c := open(t, path)
		x, err := c.Interaction(0)
		if err != nil {
			t.Fatal(err)
		}
		if len(x.Attempts) != 2 || x.Attempts[0].Code != 429 || x.Attempts[1].Code != 200 {
			t.Errorf("attempts %+v, expected 429 and 200", x.Attempts)
		}
		if turns := strings.Count(strings.Join(typesOf(t, c), " "), ledger.ModelResponded); turns != 3 {
			t.Errorf("%d model turns, expected 3", turns)
		}
	}
	eachWay(t, func(t *testing.T, stream bool) {
		check(t, recorded(t, stream, bedrocktest.ToolLoop(), bedrocktest.Fault{Name: "throttle", Times: 1}))
	})
	for name, headers := range map[string][2][]string{
		"stainless": {{"X-Stainless-Retry-Count", "0"}, {"X-Stainless-Retry-Count", "1"}},
		"no header": {},
	} {
		t.Run(name, func(t *testing.T) {
			n := 0
			p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
				if n++; n == 1 {
					return response(429, "ThrottlingException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"slow down"}`)}), nil
				}
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
			}), nil)
			for _, h := range headers {
				post(t, p.url, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`, h...)
			}
			c := open(t, p.end().Recorded[0])
			x, err := c.Interaction(0)
			if err != nil || len(x.Attempts) != 2 || c.Len() != 1 {
				t.Errorf("%d interactions, %d attempts, %v; expected 1 and 2", c.Len(), len(x.Attempts), err)
			}
		})
	}
}

// TestAsksAgainAfterAFailure: the same request that is no attempt of a call that
// failed is a call of its own, and a replay answers it as that.
func TestAsksAgainAfterAFailure(t *testing.T) {
	const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
	type asked struct {
		after time.Duration
		count string // of retries, as the client says
		tag   string
		code  int
	}
	for name, c := range map[string]struct {
		recorded, replayed []asked
		runs, calls        int
	}{
		"attempts that are not counted": {[]asked{{code: 429}, {time.Second, "", "", 429}, {time.Second, "", "", 200}}, []asked{{code: 200}}, 1, 1},
		"much later": {[]asked{{code: 429}, {time.Second, "", "", 429}, {time.Hour, "", "", 200}},
			[]asked{{code: 429}, {time.Second, "", "", 429}, {time.Second, "", "", 200}}, 1, 2},
		"counted from the start": {[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}, {time.Second, "0", "", 200}},
			[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}, {time.Second, "0", "", 200}}, 1, 2},
		"by another run": {[]asked{{0, "0", "a", 429}, {time.Second, "1", "a", 429}, {time.Second, "0", "b", 200}},
			[]asked{{0, "0", "a", 429}, {time.Second, "1", "a", 429}, {time.Second, "0", "b", 200}}, 2, 2},
		"more often than recorded": {[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}},
			[]asked{{count: "0", code: 429}, {time.Second, "1", "", 429}, {time.Second, "0", "", 429}}, 1, 1},
	} {
		t.Run(name, func(t *testing.T) {
			var now atomic.Pointer[time.Time]
			began := time.Now()
			now.Store(&began)
			clock := func() time.Time { return *now.Load() }
			ask := func(url string, list []asked) {
				for i, a := range list {
					later := clock().Add(a.after)
					now.Store(&later)
					headers := []string{RunHeader, a.tag}
					if a.count != "" {
						headers = append(headers, "X-Stainless-Retry-Count", a.count)
					}
					if code, _, text := post(t, url, "/model/m/converse", body, headers...); code != a.code {
						t.Errorf("call %d: %d %s, expected %d", i+1, code, text, a.code)
					}
				}
			}
			calls := 0
			dir := t.TempDir()
			p := start(t, Options{Now: clock, Record: &RecordOptions{Spool: dir, Create: func(n int, h recorder.Header) (*recorder.Writer, error) {
				return recorder.Create(filepath.Join(dir, fmt.Sprint(n, ".yaml")), h)
			}}, Upstream: upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
				if calls++; calls <= 2 {
					return response(429, "ThrottlingException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"slow down"}`)}), nil
				}
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
			})})
			ask(p.url, c.recorded)
			var tapes []*recorder.Cassette
			n := 0
			for _, path := range p.end().Recorded {
				tapes = append(tapes, open(t, path))
				n += tapes[len(tapes)-1].Len()
			}
			if len(tapes) != c.runs || n != c.calls {
				t.Errorf("%d calls of %d runs, expected %d of %d", n, len(tapes), c.calls, c.runs)
			}
			r := start(t, Options{Now: clock, Replay: tapes})
			ask(r.url, c.replayed)
			if got := r.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
				t.Errorf("replay: %+v", got)
			}
		})
	}
}

// TestAttemptsThatOverlap: an attempt that fails after the next one began is one of
// the call's all the same.
func TestAttemptsThatOverlap(t *testing.T) {
	eachPlace(t, func(t *testing.T, durable bool) {
		const body = `{"messages":[{"role":"user","content":[{"text":"hi"}]}]}`
		came, goOn := make(chan int, 2), [2]chan struct{}{make(chan struct{}), make(chan struct{})}
		var n atomic.Int64
		p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
			i := int(n.Add(1)) - 1
			came <- i
			if <-goOn[i]; i == 0 {
				return response(429, "ThrottlingException", foreign.Encoded{ContentType: "application/json", Body: []byte(`{"message":"slow down"}`)}), nil
			}
			return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(hello)}), nil
		}), func(o *RecordOptions) { o.Durable = durable })
		var wg [2]sync.WaitGroup
		for i := range 2 {
			wg[i].Go(func() {
				post(t, p.url, "/model/m/converse", body, "Amz-Sdk-Invocation-Id", "one", "Amz-Sdk-Request", fmt.Sprint("attempt=", i+1))
			})
			<-came
		}
		for i := range 2 {
			close(goOn[i])
			wg[i].Wait()
		}
		c := open(t, p.end().Recorded[0])
		x, err := c.Interaction(0)
		if err != nil || c.Len() != 1 || len(x.Attempts) != 2 || x.Attempts[0].Code != 429 || x.Attempts[1].Code != 200 {
			t.Errorf("%d calls, the first with %+v, %v; expected one with 429 and 200", c.Len(), x.Attempts, err)
		}
	})
}

// TestManyAgentsAtOnce: identical agents, and different ones, each get a run of
// their own; a replay of all of them at once gives nobody another's answer.
func TestManyAgentsAtOnce(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{Script: func(r bedrocktest.Request) bedrocktest.Turn {
		turn := bedrocktest.ToolLoop()(r)
		if r.Step >= 2 {
			return bedrocktest.Say(bedrocktest.Text("for " + r.Messages[0].Blocks[0].Text))
		}
		return turn
	}})
	const agents = 24
	all := func(p *running) {
		var wg sync.WaitGroup
		for i := range agents {
			wg.Go(func() {
				q := fmt.Sprintf("question %d", i/2) // two of each
				text, err := agent{client: sdk(t, p.url), stream: i%4 < 2, question: q, temp: 3}.run(t.Context())
				if err != nil || text != "for "+q {
					t.Errorf("agent %d got %q, %v", i, text, err)
				}
			})
		}
		wg.Wait()
	}
	p := recordTo(t, upstream(t, s.URL), nil)
	all(p)
	got := p.end()
	s.Close()
	if len(got.Recorded) != agents {
		t.Errorf("%d runs, expected %d", len(got.Recorded), agents)
	}
	for _, path := range got.Recorded {
		c := open(t, path)
		if r, err := engine.Replay(t.Context(), c, engine.ReplayOptions{}); err != nil || !r.Identical || r.ModelTurns != 3 || !c.Sealed() {
			t.Errorf("%s: %+v, %v", path, r, err)
		}
	}
	q := replayOf(t, false, got.Recorded...)
	all(q)
	if r := q.end(); r.Served != 3*agents || len(r.Diverged)+len(r.LeftOver) > 0 {
		t.Errorf("replay: served %d, diverged %v, left over %v", r.Served, r.Diverged, r.LeftOver)
	}
}

// TestTags: a header, a path prefix and AWS_SDK_UA_APP_ID name a run.
func TestTags(t *testing.T) {
	p := recordTo(t, RuleUpstream{}, nil)
	const body = `{"messages":[{"role":"user","content":[{"text":"hi %d"}]}]}`
	for i := range 2 {
		text := fmt.Sprintf(body, i)
		post(t, p.url, "/model/m/converse", text, RunHeader, "one")
		post(t, p.url, "/run/two%20b/model/m/converse", text)
		post(t, p.url, "/model/m/converse", text, "User-Agent", "aws-sdk-go/1 os/linux app/three")
	}
	got := map[string]int{}
	for _, path := range p.end().Recorded {
		c := open(t, path)
		got[c.Foreign().Tag] = c.Len()
	}
	if d := cmp.Diff(map[string]int{"one": 2, "two b": 2, "three": 2}, got); d != "" {
		t.Errorf("interactions by tag (-want +got):\n%s", d)
	}
}

// TestSubAgentsAreApart: a conversation between a tool call and its result is
// another run, and the first goes on.
func TestSubAgentsAreApart(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	p := recordTo(t, upstream(t, s.URL), nil)
	client := sdk(t, p.url)
	outer := agent{client: client, temp: 3, question: "outer"}
	messages := []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: "outer"}}}}
	turn, err := outer.ask(t.Context(), messages)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := (agent{client: client, temp: 4, question: "inner"}).run(t.Context()); err != nil {
		t.Fatal(err)
	}
	results := types.Message{Role: types.ConversationRoleUser}
	for _, b := range turn.Content {
		if u, is := b.(*types.ContentBlockMemberToolUse); is {
			results.Content = append(results.Content, &types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{ToolUseId: u.Value.ToolUseId,
				Content: []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberText{Value: "late"}}}})
		}
	}
	if _, err := outer.ask(t.Context(), append(messages, turn, results)); err != nil {
		t.Fatal(err)
	}
	got := p.end().Recorded
	if len(got) != 2 {
		t.Fatalf("%v, expected two runs", got)
	}
	if c := open(t, got[0]); !c.Sealed() || len(typesOf(t, c)) != 9 {
		t.Errorf("outer run: sealed %v, events %v", c.Sealed(), typesOf(t, c))
	}
	if c := open(t, got[1]); !c.Sealed() || len(typesOf(t, c)) != 11 {
		t.Errorf("inner run: sealed %v, events %v", c.Sealed(), typesOf(t, c))
	}
}

// TestCountTokensBetween: a call that is no turn, between a tool call and its
// result, does not disturb the run.
func TestCountTokensBetween(t *testing.T) {
	s := bedrocktest.New(t, bedrocktest.Options{})
	p := recordTo(t, upstream(t, s.URL), nil)
	a := agent{client: sdk(t, p.url), temp: 3}
	count := func() {
		_, err := a.client.CountTokens(t.Context(), &bedrockruntime.CountTokensInput{ModelId: aws.String(haiku), Input: &types.CountTokensInputMemberConverse{
			Value: types.ConverseTokensRequest{Messages: []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: "hi"}}}}}}})
		if err != nil {
			t.Error(err)
		}
	}
	count()
	if _, err := a.run(t.Context()); err != nil {
		t.Fatal(err)
	}
	count()
	if got := p.end().Recorded; len(got) != 2 {
		t.Errorf("%v, expected the run and the counts", got)
	}
}

// TestDurable: what a client has whole is on the disk.
func TestDurable(t *testing.T) {
	p := recordTo(t, RuleUpstream{}, func(o *RecordOptions) { o.Durable = true })
	for i := range 3 {
		post(t, p.url, "/model/m/converse", fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":"hi %d"}]}]}`, i), RunHeader, "one")
		if c := open(t, filepath.Join(p.dir, "run-001.yaml")); c.Len() != i+1 {
			t.Errorf("after call %d: %d interactions on the disk", i+1, c.Len())
		}
	}
}

// streamed is a whole answer of a kind, in two pieces of which the second begins
// within what says the end.
type streamed struct{ kind, members, first, last string }

func streams(t *testing.T) map[string]streamed {
	t.Helper()
	out := map[string]streamed{}
	for path, members := range map[string]string{
		"/model/m/converse-stream": "", "/openai/v1/chat/completions": `"model":"m","stream":true,`,
		"/anthropic/v1/messages": `"model":"m","stream":true,`, "/model/m/invoke-with-response-stream": `"anthropic_version":"x",`,
	} {
		r, _ := foreign.ParseRoute(path)
		a, err := foreign.ReadRequest(r, []byte(`{`+members+`"messages":[]}`))
		if err != nil {
			t.Fatal(err)
		}
		e, err := foreign.Encode(a, []byte(hello))
		if err != nil {
			t.Fatal(err)
		}
		cut := len(e.Body) - 40
		out[path] = streamed{e.ContentType, members, string(e.Body[:cut]), string(e.Body[cut:])}
	}
	return out
}

// TestDurableStreams: clients act on what ends a stream, and wait for no more. It
// is not passed on before its record is on the disk, unless the upstream leaves
// the stream open.
func TestDurableStreams(t *testing.T) {
	for path, s := range streams(t) {
		for _, leftOpen := range []bool{false, true} {
			t.Run(fmt.Sprint(path, " left open ", leftOpen), func(t *testing.T) {
				read := make(chan struct{})
				p := recordTo(t, upstreamFunc(func(*http.Request, []byte) (*http.Response, error) {
					pr, pw := io.Pipe()
					go func() {
						_, _ = io.WriteString(pw, s.first) // a reader that is gone shows below
						_, _ = io.WriteString(pw, s.last)
						if leftOpen {
							<-read
						} else {
							time.Sleep(50 * time.Millisecond)
						}
						pw.Close()
					}()
					return &http.Response{StatusCode: 200, Header: http.Header{"Content-Type": {s.kind}}, Body: io.NopCloser(pr), ContentLength: -1}, nil
				}), func(o *RecordOptions) { o.Durable = true })
				resp, err := http.DefaultClient.Do(request(t, p.url+path, `{`+s.members+`"messages":[{"role":"user","content":"hi"}]}`))
				if err != nil {
					t.Fatal(err)
				}
				defer resp.Body.Close()
				want := s.first + s.last
				got := make([]byte, len(want))
				if _, err := io.ReadFull(resp.Body, got); err != nil || string(got) != want {
					t.Fatalf("read %q, %v", got, err)
				}
				if n := open(t, filepath.Join(p.dir, "run-001.yaml")).Len(); n != 1 && !leftOpen {
					t.Errorf("the client has all of the answer before its record is on the disk")
				}
				close(read)
				if rest, err := io.ReadAll(resp.Body); len(rest) > 0 || err != nil {
					t.Errorf("%q after the end, %v", rest, err)
				}
				if x, err := open(t, filepath.Join(p.dir, "run-001.yaml")).Interaction(0); err != nil || string(x.Response) != want {
					t.Errorf("recorded %q, %v", x.Response, err)
				}
			})
		}
	}
}

// TestManyRuns: the runs that are open are bounded; what had to go is sealed.
func TestManyRuns(t *testing.T) {
	p := recordTo(t, RuleUpstream{}, func(o *RecordOptions) { o.MaxOpen = 3 })
	for i := range 12 {
		post(t, p.url, "/model/m/converse", fmt.Sprintf(`{"messages":[{"role":"user","content":[{"text":"hi %d"}]}]}`, i))
	}
	for _, path := range p.end().Recorded {
		if c := open(t, path); !c.Sealed() {
			t.Errorf("%s is not sealed", path)
		}
	}
}

// TestWaitsNoLongerThanItShould: a call that may build on an answer under way is
// passed on after a while, though no other call ends meanwhile, or at once where
// its client goes away.
func TestWaitsNoLongerThanItShould(t *testing.T) {
	for name, c := range map[string]struct{ patience, want time.Duration }{
		"a patient client":     {time.Hour, maxWaiting},
		"a client that leaves": {time.Second, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &Proxy{o: Options{Now: time.Now, NewRun: func() string { return "00" }, Notify: func(Note) {}}}
				r := newRuns(p, RecordOptions{Durable: true, Create: func(_ int, h recorder.Header) (*recorder.Writer, error) { return recorder.NewMemory(h) }})
				first, next := conversation(1, "a").began, conversation(2, "a", "b", "c").began
				if err := errors.Join(first.read(), next.read()); err != nil {
					t.Fatal(err)
				}
				under, _, err := r.begin(t.Context(), first)
				if err != nil {
					t.Fatal(err)
				}
				ctx, cancel := context.WithTimeout(t.Context(), c.patience)
				defer cancel()
				began := time.Now()
				go func() { // so that a call which nothing wakes is no deadlock
					time.Sleep(2 * time.Hour)
					r.wake()
				}()
				u, retry, err := r.begin(ctx, next)
				if waited := time.Since(began); u == nil || u == under || retry || err != nil || waited != c.want {
					t.Errorf("waited %v, expected %v; its own run %v, %v", waited, c.want, u != nil && u != under, err)
				}
				time.Sleep(3 * time.Hour)
			})
		})
	}
}
