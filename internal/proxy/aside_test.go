package proxy

import (
	"bytes"
	"io"
	"net/http"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/faults"
	"investigator/internal/recorder"
)

// counting is an upstream that counts tokens too, and keeps what it was asked.
type counting struct {
	Upstream
	mu    sync.Mutex
	asked []string // path and body
}

func (u *counting) Do(r *http.Request, body []byte) (*http.Response, error) {
	u.mu.Lock()
	u.asked = append(u.asked, r.URL.Path+" "+string(body))
	u.mu.Unlock()
	if !strings.HasSuffix(r.URL.Path, "/count-tokens") {
		return u.Upstream.Do(r, body)
	}
	answer := []byte(`{"inputTokens":7}`)
	return &http.Response{StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, ContentLength: int64(len(answer)), Body: io.NopCloser(bytes.NewReader(answer))}, nil
}

func (u *counting) saw(part string) (n int) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, a := range u.asked {
		n += strings.Count(a, part)
	}
	return n
}

const (
	countPath = "/model/" + haiku + "/count-tokens"
	askPath   = "/model/" + haiku + "/converse"
	countBody = `{"input":{"converse":{"messages":[{"role":"user","content":[{"text":"count me"}]}]}}}`
	titleBody = `{"messages":[{"role":"user","content":[{"text":"Find a title for it"}]}]}`
)

// aroundEach sends calls that are not the agent's before each of its own, by
// way of a client whose transport does.
type aroundEach struct{ do func() }

func (a aroundEach) RoundTrip(r *http.Request) (*http.Response, error) {
	a.do()
	return http.DefaultTransport.RoundTrip(r)
}

// chatty runs an agent that counts tokens, and asks for a title, before each
// call. It returns the statuses of those calls.
func chatty(t *testing.T, url string, bodies ...string) (codes []int, text string, err error) {
	t.Helper()
	o := sdk(t, url).Options()
	o.HTTPClient = &http.Client{Transport: aroundEach{func() {
		for _, b := range bodies {
			path := askPath
			if b == countBody {
				path = countPath
			}
			code, _, _ := post(t, url, path, b)
			codes = append(codes, code)
		}
	}}}
	text, err = agent{client: bedrockruntime.New(o), temp: 3}.run(t.Context())
	return codes, text, err
}

// chattyRun records such an agent: its own cassette first, then the others.
func chattyRun(t *testing.T, bodies ...string) (own string, others []*recorder.Cassette) {
	t.Helper()
	p := recordTo(t, &counting{Upstream: upstream(t, bedrocktest.New(t, bedrocktest.Options{}).URL)}, nil)
	if _, _, err := chatty(t, p.url, bodies...); err != nil {
		t.Fatal(err)
	}
	for _, name := range p.end().Recorded {
		if c := open(t, name); bytes.Contains(c.Header().Start, []byte("get_weather")) {
			own = name
		} else {
			others = append(others, c)
		}
	}
	return own, others
}

func all(codes []int, want int) bool {
	for _, c := range codes {
		if c != want {
			return false
		}
	}
	return len(codes) > 0
}

func forkBeside(t *testing.T, own string, others []*recorder.Cassette, patch faults.Patch, up Upstream) *running {
	t.Helper()
	dir := t.TempDir()
	return start(t, Options{Upstream: up, Replay: others, Fork: &ForkOptions{
		Parent: open(t, own), Patch: patch, Live: up != nil,
		Create: func(h recorder.Header) (*recorder.Writer, error) {
			return recorder.Create(filepath.Join(dir, "fork.yaml"), h)
		},
		Beside: func(n int, h recorder.Header) (*recorder.Writer, error) {
			return recorder.Create(filepath.Join(dir, strings.Repeat("x", n)+".yaml"), h)
		},
	}})
}

// TestForkOfAnAgentThatCounts: calls that are no turns go on to the upstream
// while the fork is live, before and behind the fork point, and none becomes an
// event of the run. The tape answers those it has; a halting fork refuses the
// rest by name, and that is no divergence of the run.
func TestForkOfAnAgentThatCounts(t *testing.T) {
	own, others := chattyRun(t, countBody)
	for name, patch := range forkPatches(t) {
		up := &counting{Upstream: upstream(t, bedrocktest.New(t, bedrocktest.Options{}).URL)}
		p := forkBeside(t, own, nil, patch, up)
		codes, text, err := chatty(t, p.url, countBody)
		if err != nil || !all(codes, http.StatusOK) {
			t.Errorf("%s: %v %q, %v", name, codes, text, err)
		}
		got := p.end()
		if got.Fork.PassedOn != len(codes) || up.saw("count-tokens") != len(codes) || len(got.Recorded) != 1 || len(got.Diverged) > 0 {
			t.Errorf("%s: %+v %+v", name, got, got.Fork)
		}
		checkFork(t, open(t, own), open(t, got.Fork.Cassette), patch.At, patch)

		r := replayOf(t, false, got.Fork.Cassette, got.Recorded[0])
		if codes, _, err := chatty(t, r.url, countBody); patch.At > 1 && (err != nil || !all(codes, http.StatusOK)) {
			t.Errorf("%s: replay of the fork: %v, %v", name, codes, err)
		}
		for _, taped := range [][]*recorder.Cassette{others, nil} {
			p := forkBeside(t, own, taped, patch, nil)
			codes, _, _ := chatty(t, p.url, countBody)
			got, want, refused := p.end(), http.StatusOK, 0
			if taped == nil {
				want, refused = http.StatusConflict, len(codes)
			}
			if !all(codes, want) || got.Fork.Refused != refused || len(got.Diverged) > 0 || !got.Fork.Reached {
				t.Errorf("%s: halting: %v, %+v %+v", name, codes, got, got.Fork)
			}
		}
	}
}

// TestForkTheStartAfterAnotherCall: the run is forked with its own first request,
// not with a call for a title that came before it.
func TestForkTheStartAfterAnotherCall(t *testing.T) {
	own, _ := chattyRun(t)
	for pointer, value := range map[string]string{"/task": `"Another question"`, "/request/inferenceConfig": `{"maxTokens":77}`} {
		patch, err := faults.Set(pointer, []byte(value))
		if err != nil {
			t.Fatal(err)
		}
		up := &counting{Upstream: upstream(t, bedrocktest.New(t, bedrocktest.Options{}).URL)}
		p := forkBeside(t, own, nil, patch.For(1), up)
		codes, text, err := chatty(t, p.url, titleBody)
		if err != nil || !all(codes, http.StatusOK) {
			t.Errorf("%s: %v %q, %v", pointer, codes, text, err)
		}
		got := p.end()
		if up.saw("Find a title") != len(codes) || up.saw("Another question")+up.saw("77") == 0 || got.Fork.PassedOn != len(codes) || len(got.Troubles) > 0 {
			t.Errorf("%s: %+v %+v", pointer, got, got.Fork)
		}
		checkFork(t, open(t, own), open(t, got.Fork.Cassette), 1, patch.For(1))
	}
}

// TestForkOfAnAgentWithOthers: another conversation is answered from the tapes
// that were recorded beside the parent. What they do not hold goes on to the
// upstream behind the fork point.
func TestForkOfAnAgentWithOthers(t *testing.T) {
	own, others := chattyRun(t, titleBody)
	patch := faults.Drop("/records/1").For(5)
	up := &counting{Upstream: upstream(t, bedrocktest.New(t, bedrocktest.Options{}).URL)}
	p := forkBeside(t, own, others, patch, up)
	codes, text, err := chatty(t, p.url, titleBody)
	if err != nil || !all(codes, http.StatusOK) || up.saw("Find a title") > 0 {
		t.Errorf("%v %q, %v, %d went on", codes, text, err, up.saw("Find a title"))
	}
	if code, _, body := post(t, p.url, askPath, strings.Replace(titleBody, "a title", "a summary", 1)); code != http.StatusOK || up.saw("Find a summary") != 1 {
		t.Errorf("%d %s", code, body)
	}
	got := p.end()
	if got.Fork.PassedOn != 1 || len(got.Recorded) != 1 || len(got.Diverged) > 0 {
		t.Errorf("%+v %+v", got, got.Fork)
	}
	checkFork(t, open(t, own), open(t, got.Fork.Cassette), 5, patch)
}

// TestForkWhereTheAgentForgets: a history that the agent rewrote is the run's
// and has no place for the patch. It must not go on as if it were another's.
func TestForkWhereTheAgentForgets(t *testing.T) {
	own, _ := chattyRun(t)
	up := &counting{Upstream: upstream(t, bedrocktest.New(t, bedrocktest.Options{}).URL)}
	p := forkBeside(t, own, nil, faults.Drop("/records/1").For(5), up)
	if _, _, err := chatty(t, p.url); err != nil {
		t.Fatal(err)
	}
	first, err := open(t, own).Request(2)
	if err != nil {
		t.Fatal(err)
	}
	n := up.saw("messages")
	forgot := strings.Replace(string(first.Body()), "What is the weather", "So far we know little. What is the weather", 1)
	code, _, body := post(t, p.url, askPath, forgot)
	if code != http.StatusConflict || !strings.Contains(body, "does not go on from the fork point") || up.saw("messages") != n {
		t.Errorf("%d %s", code, body)
	}
	if got := p.end(); len(got.Diverged) != 1 || got.Fork.PassedOn > 0 {
		t.Errorf("%+v %+v", got, got.Fork)
	}
}

// TestForkOfARunWithoutCalls: a run that was killed before its first answer can
// be forked at its start, and what is not of it goes aside.
func TestForkOfARunWithoutCalls(t *testing.T) {
	own, _ := chattyRun(t)
	path := filepath.Join(t.TempDir(), "killed.yaml")
	w, err := recorder.Create(path, open(t, own).Header())
	if err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	up := &counting{Upstream: upstream(t, bedrocktest.New(t, bedrocktest.Options{}).URL)}
	p := forkBeside(t, path, nil, forkPatches(t)["start"], up)
	if _, text, err := chatty(t, p.url, countBody); err != nil {
		t.Fatal(text, err)
	}
	if code, _, body := post(t, p.url, askPath, titleBody); code != http.StatusOK {
		t.Error(code, body)
	}
	if got := p.end(); !got.Fork.Reached || len(got.Diverged) > 0 {
		t.Errorf("%+v %+v", got, got.Fork)
	}
}
