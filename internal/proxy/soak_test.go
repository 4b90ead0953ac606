package proxy

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/aws/ratelimit"
	"github.com/aws/aws-sdk-go-v2/aws/retry"
	"github.com/aws/aws-sdk-go-v2/credentials"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/document"
	"github.com/aws/aws-sdk-go-v2/service/bedrockruntime/types"
	"github.com/google/go-cmp/cmp"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

const (
	soakClients = 64
	soakTurns   = 3
	soakPieces  = 24
	// What the heap may be at the end, of what it was after a quarter: so much
	// more, and this on top for lists that are bounded (the names of cassettes).
	soakGrowth  = 1.25
	soakBounded = 4 << 20

	soakUpstreamVariable = "INVESTIGATOR_SOAK_UPSTREAM"
)

// soakPieceList is what the model says at a turn, piece by piece. No other turn
// of any conversation says it, and no piece occurs twice.
func soakPieceList(question string, turn int) []string {
	var out []string
	for n := range soakPieces {
		out = append(out, fmt.Sprintf("%s, turn %d, piece %d%s ", question, turn, n, strings.Repeat(".", n*7%60)))
	}
	return out
}

func soakText(question string, turn int) string {
	return strings.Join(soakPieceList(question, turn), "")
}

func soakToolID(question string, turn int) string {
	return fmt.Sprintf("%s_%d", strings.ReplaceAll(question, " ", "_"), turn)
}

func soakScript(r bedrocktest.Request) bedrocktest.Turn {
	q := r.Messages[0].Blocks[0].Text
	text := bedrocktest.Block{Kind: bedrocktest.KindText, Text: soakText(q, r.Step), Pieces: soakPieceList(q, r.Step)}
	if r.Step+1 == soakTurns {
		return bedrocktest.Say(text)
	}
	return bedrocktest.Say(text, bedrocktest.ToolUse(soakToolID(q, r.Step), "get_weather", `{"city":"`+q+`"}`))
}

// TestSoakUpstream is the upstream of TestSoak, in a process of its own: what it
// remembers of a soak is not the proxy's memory.
func TestSoakUpstream(t *testing.T) {
	if os.Getenv(soakUpstreamVariable) == "" {
		t.Skip("TestSoak starts it")
	}
	var faults []bedrocktest.Fault
	for _, name := range []string{"throttle", "cut", "cut-in-frame", "error-mid-stream", "reset-mid-stream"} {
		faults = append(faults, bedrocktest.Fault{Name: name, Every: 100}) // one call in twenty
	}
	s := bedrocktest.New(t, bedrocktest.Options{Script: soakScript, Faults: faults, MaxLog: 64})
	fmt.Println("upstream " + s.URL)
	_, _ = io.Copy(io.Discard, os.Stdin) // until TestSoak has ended
}

func startSoakUpstream(t *testing.T) string {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^TestSoakUpstream$")
	cmd.Env = append(os.Environ(), soakUpstreamVariable+"=1")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	t.Cleanup(func() {
		_ = in.Close() // ends it
		_, _ = io.Copy(io.Discard, out)
		if err := cmd.Wait(); err != nil {
			t.Errorf("the upstream: %v", err)
		}
	})
	for lines.Scan() {
		if url, found := strings.CutPrefix(lines.Text(), "upstream "); found {
			return url
		}
	}
	t.Fatal("the upstream did not say where it is")
	return ""
}

// soak is agents at work. Each has put so many questions; whole says of each
// whether the agent got to the end.
type soak struct {
	t     *testing.T
	url   string
	whole [soakClients][]bool
}

func soakQuestion(client, round int) string { return fmt.Sprintf("question %d of %d", round, client) }

// work has all agents put questions, at least so many each and until then, and
// returns when none is under way.
func (s *soak) work(rounds int, until time.Time) {
	var wg sync.WaitGroup
	for i := range soakClients {
		wg.Go(func() {
			client := soakSDK(s.url, 3)
			for n := 0; n < rounds || time.Now().Before(until); n++ {
				s.whole[i] = append(s.whole[i], s.put(client, i, len(s.whole[i])))
			}
		})
	}
	wg.Wait()
}

// soakSDK is a client that makes so many attempts, at once.
func soakSDK(url string, attempts int) *bedrockruntime.Client {
	return bedrockruntime.New(bedrockruntime.Options{
		Region: "us-east-1", BaseEndpoint: aws.String(url),
		Credentials: credentials.NewStaticCredentialsProvider("AKIDEXAMPLE", "KEYEXAMPLE", ""),
		HTTPClient:  &http.Client{Transport: &http.Transport{IdleConnTimeout: time.Second}},
		Retryer: retry.NewStandard(func(o *retry.StandardOptions) {
			o.MaxAttempts, o.RateLimiter = attempts, ratelimit.None
			o.Backoff = retry.BackoffDelayerFunc(func(int, error) (time.Duration, error) { return 0, nil })
		}),
	})
}

// put puts a question. An error of the upstream ends the conversation; what was
// answered must be this conversation's next turn, to the last piece.
func (s *soak) put(client *bedrockruntime.Client, i, round int) (whole bool) {
	q := soakQuestion(i, round)
	a := agent{client: client, stream: (i+round)%2 == 0}
	messages := []types.Message{{Role: types.ConversationRoleUser, Content: []types.ContentBlock{&types.ContentBlockMemberText{Value: q}}}}
	for turn := range soakTurns {
		m, err := a.ask(context.Background(), messages)
		if err != nil {
			if !soakFault(err) {
				s.t.Errorf("%s, turn %d: %v", q, turn, err)
			}
			return false
		}
		if diff := cmp.Diff(soakWant(q, turn), soakGot(m)); diff != "" {
			s.t.Errorf("%s, turn %d (-want +got):\n%s", q, turn, diff)
			return false
		}
		messages = append(messages, m, types.Message{Role: types.ConversationRoleUser, Content: []types.ContentBlock{
			&types.ContentBlockMemberToolResult{Value: types.ToolResultBlock{
				ToolUseId: aws.String(soakToolID(q, turn)),
				Content:   []types.ToolResultContentBlock{&types.ToolResultContentBlockMemberJson{Value: document.NewLazyDocument(map[string]any{"for": q, "turn": turn})}},
			}},
		}})
	}
	return true
}

// soakFault reports whether an error is one of those that the upstream injects:
// a refusal of the proxy (409, a run that cannot be recorded) is none.
func soakFault(err error) bool { return !strings.Contains(err.Error(), "investigator proxy") }

func soakWant(question string, turn int) []string {
	out := []string{soakText(question, turn)}
	if turn+1 < soakTurns {
		out = append(out, soakToolID(question, turn))
	}
	return out
}

func soakGot(m types.Message) (out []string) {
	for _, b := range m.Content {
		switch b := b.(type) {
		case *types.ContentBlockMemberText:
			out = append(out, b.Value)
		case *types.ContentBlockMemberToolUse:
			out = append(out, *b.Value.ToolUseId)
		}
	}
	return out
}

// soakHeap is the heap when nobody asks anything: the least of several looks,
// because what was recorded last is still on its way to the disk at the first.
func soakHeap() uint64 {
	least := ^uint64(0)
	for range 20 {
		var m runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&m)
		least = min(least, m.HeapAlloc)
		time.Sleep(25 * time.Millisecond)
	}
	return least
}

// TestSoak: 64 agents at once over an upstream of which one call in twenty goes
// wrong. An agent may fail, but whoever gets an answer gets its own and all of
// it, each conversation is one cassette that holds just this conversation and
// obeys the laws, what is on the cassettes is replayed to the same agents, and
// the heap does not grow. It lasts as long as it is told:
//
//	INVESTIGATOR_SOAK=10m go test ./internal/proxy -run Soak -v -timeout 1h
func TestSoak(t *testing.T) {
	var lasting time.Duration // a few rounds
	if text := os.Getenv("INVESTIGATOR_SOAK"); text != "" {
		var err error
		if lasting, err = time.ParseDuration(text); err != nil {
			t.Fatalf("INVESTIGATOR_SOAK: expected a duration such as 10m, found %q", text)
		}
	}
	if end, limited := t.Deadline(); limited && time.Until(end) < lasting*3 {
		t.Fatalf("INVESTIGATOR_SOAK=%s: the test is stopped after %s; give -timeout %s", lasting, time.Until(end).Round(time.Second), lasting*6)
	}
	p := recordTo(t, upstream(t, startSoakUpstream(t)), nil)
	s := &soak{t: t, url: p.url}
	began := time.Now()
	s.work(maxOpenRuns/soakClients+1, began.Add(lasting/4)) // as many runs as are kept open, and more
	early := soakHeap()
	s.work(3, began.Add(lasting))
	late := soakHeap()
	if late > uint64(soakGrowth*float64(early))+soakBounded {
		t.Errorf("the heap grew from %d KB after a quarter to %d KB", early>>10, late>>10)
	}
	p.end()
	paths := s.check(p.dir)
	t.Logf("heap %d KB after a quarter, %d KB at the end", early>>10, late>>10)
	s.replay(paths)
}

// soakTape is a cassette: which turns of which conversation it holds.
type soakTape struct {
	path, question string
	turns          []int
	err            error
}

// read reads all cassettes of a folder, several at a time.
func (s *soak) read(dir string) []soakTape {
	s.t.Helper()
	paths, err := filepath.Glob(filepath.Join(dir, "*.yaml")) // a Result names 10,000 at most
	if err != nil {
		s.t.Fatal(err)
	}
	out := make([]soakTape, len(paths))
	var next atomic.Int64
	var wg sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < len(paths); i = int(next.Add(1)) - 1 {
				out[i] = soakCassette(s.t.Context(), paths[i])
			}
		})
	}
	wg.Wait()
	return out
}

// check looks at every cassette and returns those of conversations that got to
// their end, by client and round.
func (s *soak) check(dir string) (whole [soakClients]map[int]string) {
	s.t.Helper()
	byQuestion := map[string][]soakTape{}
	for _, tape := range s.read(dir) {
		if tape.err != nil {
			s.t.Fatalf("%s: %v", tape.path, tape.err)
		}
		byQuestion[tape.question] = append(byQuestion[tape.question], tape)
	}
	asked, ended, split := 0, 0, 0
	for i := range s.whole {
		whole[i] = map[int]string{}
		for round, got := range s.whole[i] {
			q := soakQuestion(i, round)
			tapes := byQuestion[q]
			delete(byQuestion, q)
			asked++
			if len(tapes) != 1 {
				if split++; split <= 3 {
					s.t.Errorf("%s: expected one cassette, found %+v", q, tapes)
				}
				continue
			}
			turns := tapes[0].turns
			if !slices.Equal(turns, []int{0, 1, 2}[:min(len(turns), soakTurns)]) || got != (len(turns) == soakTurns) {
				s.t.Errorf("%s holds turns %v; the agent got all: %t", tapes[0].path, turns, got)
			}
			if got {
				whole[i][round] = tapes[0].path
				ended++
			}
		}
	}
	if split > 0 || len(byQuestion) > 0 {
		s.t.Errorf("%d of %d conversations are on no cassette or on several; %d others are there", split, asked, len(byQuestion))
	}
	if ended*2 < asked {
		s.t.Errorf("%d of %d conversations got to their end", ended, asked)
	}
	s.t.Logf("%d conversations, %d of them ended by the upstream's faults", asked, asked-ended-split)
	return whole
}

// soakCassette reads a cassette whose run obeys the laws and holds turns of one
// conversation, each as it was said.
func soakCassette(ctx context.Context, path string) soakTape {
	out := soakTape{path: path}
	var c *recorder.Cassette
	if c, out.err = recorder.Open(path); out.err != nil {
		return out
	}
	if r, err := engine.Replay(ctx, c, engine.ReplayOptions{}); err != nil || !r.Identical || !c.Sealed() {
		out.err = fmt.Errorf("expected a sealed run that is replayed to the byte: sealed %t, %+v, error %w", c.Sealed(), r, err)
		return out
	}
	events, err := c.Events()
	out.err = err
	for _, e := range events {
		switch e.Type {
		case ledger.RunStarted:
			var start struct{ Task string }
			err = json.Unmarshal(e.Data, &start)
			out.question = start.Task
		case ledger.ModelResponded:
			err = out.said(e.Data)
		case ledger.ToolReturned:
			want := fmt.Sprintf(`"result":{"for":"%s","turn":%d}`, out.question, out.last())
			if !strings.Contains(string(e.Data), want) {
				err = fmt.Errorf("expected %s, found %s", want, e.Data)
			}
		}
		if err != nil {
			out.err = fmt.Errorf("event %d: %w", e.Seq, err)
			return out
		}
	}
	return out
}

// last is the turn that the cassette held last, -1 for none.
func (s *soakTape) last() int {
	if len(s.turns) == 0 {
		return -1
	}
	return s.turns[len(s.turns)-1]
}

// said takes an answer, which must be a turn of this conversation to the last
// piece.
func (s *soakTape) said(data []byte) error {
	var m struct {
		Output struct {
			Message struct {
				Content []struct {
					Text    string
					ToolUse struct{ ToolUseID string }
				}
			}
		}
	}
	if err := json.Unmarshal(data, &m); err != nil {
		return err
	}
	var got []string
	for _, b := range m.Output.Message.Content {
		got = append(got, b.Text+b.ToolUse.ToolUseID)
	}
	for turn := range soakTurns {
		if slices.Equal(got, soakWant(s.question, turn)) {
			s.turns = append(s.turns, turn)
			return nil
		}
	}
	return fmt.Errorf("expected a turn of %q, found %.300q", s.question, got)
}

// replay has the same agents put questions that are on cassettes, all at once.
func (s *soak) replay(whole [soakClients]map[int]string) {
	s.t.Helper()
	var paths []string
	for i := range whole {
		for round, path := range whole[i] {
			if round >= len(s.whole[i])-3 {
				paths = append(paths, path)
			}
		}
	}
	p := replayOf(s.t, false, paths...)
	var wg sync.WaitGroup
	for i := range whole {
		wg.Go(func() {
			client := soakSDK(p.url, 10) // on a busy machine the SDK loses answers that come at once
			for round := range whole[i] {
				if round >= len(s.whole[i])-3 && !s.put(client, i, round) {
					s.t.Errorf("%s was not replayed to its end", soakQuestion(i, round))
				}
			}
		})
	}
	wg.Wait()
	if r := p.end(); r.Served != soakTurns*len(paths) || len(r.Diverged)+len(r.LeftOver) > 0 {
		s.t.Errorf("replay of %d conversations: served %d calls, diverged %v, left over %v", len(paths), r.Served, r.Diverged, r.LeftOver)
	}
	s.t.Logf("%d conversations replayed", len(paths))
}
