package proxy

import (
	"bytes"
	"encoding/json"
	"net/http"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/diff"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/foreign"
	"investigator/internal/recorder"
)

func forked(t *testing.T, path string, patch faults.Patch, up Upstream, stream bool) (string, *running, error) {
	t.Helper()
	out := filepath.Join(t.TempDir(), "fork.yaml")
	p := start(t, Options{Upstream: up, Fork: &ForkOptions{Parent: open(t, path), Patch: patch, Live: up != nil,
		Create: func(h recorder.Header) (*recorder.Writer, error) { return recorder.Create(out, h) }}})
	text, err := agent{client: sdk(t, p.url), stream: stream, temp: 3}.run(t.Context())
	return text, p, err
}

// TestForkAResult: the patched result goes up with every later request, the
// history is the parent's, and the fork verifies, replays and halts.
func TestForkAResult(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		patch := faults.Drop("/records/1").For(5)
		s := bedrocktest.New(t, bedrocktest.Options{})
		text, p, err := forked(t, path, patch, upstream(t, s.URL), stream)
		if err != nil || !strings.Contains(text, "3 results") {
			t.Fatal(text, err)
		}
		got := p.end()
		if got.Served != 2 || !got.Fork.Reached {
			t.Errorf("%+v", got)
		}
		for _, r := range s.Requests() {
			if bytes.Contains(r.Body[:bytes.Index(r.Body, []byte("get_time"))], []byte("nothing")) || strings.Count(string(r.Body), `"second"`) != strings.Count(string(r.Body), "toolResult")/3 {
				t.Errorf("the upstream saw %s", r.Body)
			}
		}
		c := open(t, got.Fork.Cassette)
		checkFork(t, open(t, path), c, 5, patch)
		r := replayOf(t, false, c.Name())
		if _, err := (agent{client: sdk(t, r.url), stream: stream, temp: 3}).run(t.Context()); err != nil {
			t.Errorf("replay of the fork: %v", err)
		}
		_, h, err := forked(t, path, patch, nil, stream)
		if err == nil || !strings.Contains(err.Error(), "halted before the model call of event 7") {
			t.Errorf("halting fork: %v", err)
		}
		halt := h.end().Fork.Halt
		want := []diff.Change{{Kind: diff.Dropped, Path: "/messages/2/content/0/toolResult/content/0/json/records/1", Old: []byte(`"second"`)}}
		if halt == nil || halt.Recorded != 7 {
			t.Fatalf("halt %+v", halt)
		}
		if d := cmp.Diff(want, halt.Changes); d != "" {
			t.Errorf("halt (-want +got):\n%s", d)
		}
	})
}

// checkFork holds a fork to the laws: its history is the parent's, the patched
// event is marked, and its events follow from its traffic.
func checkFork(t *testing.T, parent, c *recorder.Cassette, at int, patch faults.Patch) {
	t.Helper()
	was, err := parent.Events()
	if err != nil {
		t.Fatal(err)
	}
	now, err := c.Events()
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(was[:at-1], now[:at-1]); d != "" {
		t.Errorf("history (-parent +fork):\n%s", d)
	}
	edited, err := patch.Apply(was[at-1])
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(edited.Event.Data), string(now[at-1].Data)); d != "" {
		t.Errorf("patched event (-want +got):\n%s", d)
	}
	if origin, err := c.Origin(at); err != nil || origin != edge.Patched {
		t.Errorf("origin of event %d: %s, %v", at, origin, err)
	}
	if r, err := engine.Replay(t.Context(), c, engine.ReplayOptions{}); err != nil || !r.Identical {
		t.Errorf("verify: %+v %+v, %v", r, r.Divergence, err)
	}
	if h := c.Header().Parent; h == nil || h.At != at || h.Run != parent.Header().Run {
		t.Errorf("parent %+v", h)
	}
}

// TestForkATurn: the edited answer is framed anew, the SDK reads it, and the
// agent acts on it.
func TestForkATurn(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		patch, err := faults.Set("/output/message/content/0/toolUse/input/city", []byte(`"Tromsø"`))
		if err != nil {
			t.Fatal(err)
		}
		s := bedrocktest.New(t, bedrocktest.Options{})
		text, p, err := forked(t, path, patch.For(7), upstream(t, s.URL), stream)
		if err != nil || !strings.Contains(text, "3 results") {
			t.Fatal(text, err)
		}
		got := p.end()
		if r := s.Requests(); len(r) != 1 || !bytes.Contains(r[0].Body, []byte("Tromsø")) || bytes.Contains(r[0].Body, []byte("Bergen")) {
			t.Errorf("upstream: %d requests", len(r))
		}
		checkFork(t, open(t, path), open(t, got.Fork.Cassette), 7, patch.For(7))
	})
}

// TestForkTheStart: another prompt from the first call on.
func TestForkTheStart(t *testing.T) {
	path := recorded(t, false, bedrocktest.ToolLoop())
	patch, err := faults.Set("/task", []byte(`"Another question"`))
	if err != nil {
		t.Fatal(err)
	}
	s := bedrocktest.New(t, bedrocktest.Options{})
	if _, _, err := forked(t, path, patch.For(1), upstream(t, s.URL), false); err != nil {
		t.Fatal(err)
	}
	for _, r := range s.Requests() {
		if !bytes.Contains(r.Body, []byte("Another question")) || bytes.Contains(r.Body, []byte("What is the weather")) {
			t.Errorf("the upstream saw %s", r.Body)
		}
	}
}

// TestForkNeverReached is a failure: nothing was patched.
func TestForkNeverReached(t *testing.T) {
	path := recorded(t, false, bedrocktest.ToolLoop())
	p := start(t, Options{Fork: &ForkOptions{Parent: open(t, path), Patch: faults.Drop("/records/1").For(5), Create: nil}})
	p.stop()
	if _, err := p.Close(); err == nil || !strings.Contains(err.Error(), "never came to event 5") {
		t.Errorf("error %v", err)
	}
}

// TestForkAResultAmongOtherBlocks: a result is patched on its way to the model
// where the agent puts a block before it, or leaves one out, which changes nothing
// of what the request means.
func TestForkAResultAmongOtherBlocks(t *testing.T) {
	const (
		calls  = `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"toolUseId":"u1","name":"f","input":{}}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
		first  = `{"role":"user","content":[{"text":"hi"}]}`
		turn   = `{"role":"assistant","content":[{"toolUse":{"toolUseId":"u1","name":"f","input":{}}}]}`
		result = `{"toolResult":{"toolUseId":"u1","content":[{"json":{"a":1}}]}}`
	)
	for name, c := range map[string]struct{ recorded, now string }{
		"a cache point":     {"", `{"cachePoint":{"type":"default"}},`},
		"no cache point":    {`{"cachePoint":{"type":"default"}},`, ""},
		"no blank text":     {`{"text":" "},`, ""},
		"a text, as it was": {`{"text":"so:"},`, `{"text":"so:"},`},
	} {
		t.Run(name, func(t *testing.T) {
			var asked []string
			up := upstreamFunc(func(_ *http.Request, body []byte) (*http.Response, error) {
				asked = append(asked, string(body))
				answer := hello
				if !strings.Contains(string(body), "toolResult") {
					answer = calls
				}
				return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(answer)}), nil
			})
			run := func(url, before string) {
				post(t, url, "/model/m/converse", `{"messages":[`+first+`]}`)
				second := first + `,` + turn + `,{"role":"user","content":[` + before + result + `]}`
				post(t, url, "/model/m/converse", `{"messages":[`+second+`]}`)
				post(t, url, "/model/m/converse", `{"messages":[`+second+`,{"role":"assistant","content":[{"text":"hello"}]},{"role":"user","content":[{"text":"and?"}]}]}`)
			}
			p := recordTo(t, up, nil)
			run(p.url, c.recorded)
			path := p.end().Recorded[0]
			asked = nil
			f := forkOf(t, path, setAt(t, "/a", "2", 4), up)
			run(f.url, c.now)
			got := f.end()
			want := strings.Replace(c.now+result, `{"a":1}`, `{"a":2}`, 1)
			for i, body := range asked {
				if sent := foreign.Sums(messagesOf(t, body))[2]; sent != foreign.Sums(messagesOf(t, `{"messages":[`+first+`,`+turn+`,{"role":"user","content":[`+want+`]}]}`))[2] {
					t.Errorf("request %d was sent as %s", i+1, body)
				}
			}
			if len(asked) != 2 || !got.Fork.Reached {
				t.Errorf("the model was asked %d times, %+v", len(asked), got.Fork)
			}
			r := replayOf(t, false, got.Fork.Cassette)
			run(r.url, c.now)
			if got := r.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
				t.Errorf("replay of the fork: %+v", got)
			}
		})
	}
}

func messagesOf(t *testing.T, body string) []json.RawMessage {
	t.Helper()
	r, _ := foreign.ParseRoute("/model/m/converse")
	a, err := foreign.ReadRequest(r, []byte(body))
	if err != nil {
		t.Fatal(err)
	}
	return a.Request.Messages.Messages()
}

// TestForkOfAnOddHistory: an agent that keeps the end of its history alone may send
// one that begins with the model's turn. Where the model took it, a fork is not
// refused for it.
func TestForkOfAnOddHistory(t *testing.T) {
	call := func(id string) string {
		return `{"output":{"message":{"role":"assistant","content":[{"toolUse":{"input":{},"name":"look","toolUseId":"` + id + `"}}]}},"stopReason":"tool_use","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`
	}
	turn := func(id string) string {
		return `{"role":"assistant","content":[{"toolUse":{"input":{},"name":"look","toolUseId":"` + id + `"}}]},{"role":"user","content":[{"toolResult":{"content":[{"json":{"a":1}}],"toolUseId":"` + id + `"}}]}`
	}
	up := upstreamFunc(func(_ *http.Request, body []byte) (*http.Response, error) {
		answer := hello
		if !bytes.Contains(body, []byte(`"y"`)) {
			answer = call("y")
		}
		return response(200, "", foreign.Encoded{ContentType: "application/json", Body: []byte(answer)}), nil
	})
	requests := []string{`{"messages":[` + turn("x") + `]}`, `{"messages":[` + turn("x") + `,` + turn("y") + `]}`}
	p := recordTo(t, up, nil)
	for _, r := range requests {
		post(t, p.url, "/model/m/converse", r)
	}
	out := filepath.Join(t.TempDir(), "fork.yaml")
	f := start(t, Options{Upstream: up, Fork: &ForkOptions{Parent: open(t, p.end().Recorded[0]), Patch: faults.Replace([]byte(`{"a":2}`)).For(4), Live: true,
		Create: func(h recorder.Header) (*recorder.Writer, error) { return recorder.Create(out, h) }}})
	for _, r := range requests {
		if code, _, text := post(t, f.url, "/model/m/converse", r); code != 200 {
			t.Errorf("%d: %s", code, text)
		}
	}
	if got := f.end(); !got.Fork.Reached || len(got.Troubles) > 0 {
		t.Errorf("%+v", got)
	}
}
