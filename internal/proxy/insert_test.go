package proxy

import (
	"bytes"
	"encoding/json"
	"fmt"
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
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// deploy is the call that never happened.
func deploy(at int) faults.Patch {
	return faults.InsertCall("get_time", json.RawMessage(`{"city":"Bergen"}`), json.RawMessage(`{"deployed":"14:02"}`)).For(at)
}

// forkOf starts a proxy that forks; without an upstream it halts.
func forkOf(t *testing.T, path string, patch faults.Patch, up Upstream) *running {
	t.Helper()
	out := filepath.Join(t.TempDir(), "fork.yaml")
	return start(t, Options{Upstream: up, Fork: &ForkOptions{Parent: open(t, path), Patch: patch, Live: up != nil,
		Create: func(h recorder.Header) (*recorder.Writer, error) { return recorder.Create(out, h) }}})
}

// originsOf is the type and origin of each event from seq on.
func originsOf(t *testing.T, c *recorder.Cassette, from int) (out []string) {
	t.Helper()
	for i, kind := range typesOf(t, c) {
		if i+1 < from {
			continue
		}
		origin, err := c.Origin(i + 1)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, kind+" "+string(origin))
	}
	return out
}

// checkReplay runs an agent that knows nothing of the fork against its cassette.
func checkReplay(t *testing.T, path string, run func(url string) (string, error), want string) {
	t.Helper()
	r := replayOf(t, false, path)
	text, err := run(r.url)
	if err != nil || text != want {
		t.Errorf("replay: %q, %v; expected %q", text, err, want)
	}
	if got := r.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
		t.Errorf("replay: diverged %v, left over %v", got.Diverged, got.LeftOver)
	}
}

func sdkAgent(t *testing.T, stream bool) func(url string) (string, error) {
	return func(url string) (string, error) {
		return agent{client: sdk(t, url), stream: stream, temp: 3}.run(t.Context())
	}
}

// TestInsertBesideOwnCalls: the agent gets its turn as it was and its tools run;
// the model sees one more call, and its result, now and ever after.
func TestInsertBesideOwnCalls(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		s := bedrocktest.New(t, bedrocktest.Options{})
		patch := deploy(2)
		p := forkOf(t, path, patch, upstream(t, s.URL))
		text, err := sdkAgent(t, stream)(p.url)
		if err != nil || !strings.Contains(text, "was given 4 results") {
			t.Fatal(text, err)
		}
		got := p.end()
		if got.Served != 1 || !got.Fork.Reached || len(got.Diverged) > 0 {
			t.Errorf("%+v", got)
		}
		if len(s.Requests()) != 2 {
			t.Errorf("the upstream saw %d requests", len(s.Requests()))
		}
		for _, r := range s.Requests() {
			if n := bytes.Count(r.Body, []byte("inserted-2")); n != 2 || !bytes.Contains(r.Body, []byte("14:02")) {
				t.Errorf("%d times in %s", n, r.Body)
			}
		}
		c := open(t, got.Fork.Cassette)
		checkFork(t, open(t, path), c, 2, patch)
		want := []string{"model.responded patched", "tool.called derived", "tool.called derived", "tool.called derived", "tool.returned executed", "tool.returned executed", "tool.returned patched",
			"model.responded live", "tool.called derived", "tool.returned executed", "model.responded live", "run.finished derived"}
		if d := cmp.Diff(want, originsOf(t, c, 2)); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		checkReplay(t, c.Name(), sdkAgent(t, stream), text)
	})
}

// TestInsertInPlaceOfAnAnswer: a turn that ended the run becomes the call; the
// agent is given what the model says next, without having seen it.
func TestInsertInPlaceOfAnAnswer(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		s := bedrocktest.New(t, bedrocktest.Options{})
		patch := deploy(10)
		p := forkOf(t, path, patch, upstream(t, s.URL))
		text, err := sdkAgent(t, stream)(p.url)
		if err != nil || !strings.Contains(text, "was given 4 results") {
			t.Fatal(text, err)
		}
		got := p.end()
		c := open(t, got.Fork.Cassette)
		checkFork(t, open(t, path), c, 10, patch)
		want := []string{"model.responded patched", "tool.called derived", "tool.returned patched", "model.responded live", "run.finished derived"}
		if d := cmp.Diff(want, originsOf(t, c, 10)); d != "" {
			t.Errorf("events (-want +got):\n%s", d)
		}
		if d := cmp.Diff([]string{"the inserted call stands in place of 1 block of the turn"}, got.Fork.Notes); d != "" {
			t.Errorf("notes (-want +got):\n%s", d)
		}
		checkReplay(t, c.Name(), sdkAgent(t, stream), text)
	})
}

// TestInsertHalts before the call that would have seen the inserted one.
func TestInsertHalts(t *testing.T) {
	eachWay(t, func(t *testing.T, stream bool) {
		path := recorded(t, stream, bedrocktest.ToolLoop())
		added := func(pointers ...string) (out []diff.Change) {
			for _, pointer := range pointers {
				out = append(out, diff.Change{Kind: diff.Added, Path: pointer})
			}
			return out
		}
		for _, c := range []struct {
			at, event, recorded int
			want                []diff.Change
		}{
			{2, 9, 7, added("/messages/1/content/3", "/messages/2/content/2")},
			{7, 12, 10, added("/messages/3/content/1", "/messages/4/content/1")},
			{10, 13, 10, added("/messages/5", "/messages/6")},
		} {
			p := forkOf(t, path, deploy(c.at), nil)
			_, err := sdkAgent(t, stream)(p.url)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("halted before the model call of event %d", c.event)) {
				t.Errorf("at %d: %v", c.at, err)
			}
			got := p.end().Fork
			if got.Halt == nil || got.Halt.Event != c.event || got.Halt.Recorded != c.recorded {
				t.Fatalf("at %d: %+v", c.at, got.Halt)
			}
			for i := range got.Halt.Changes {
				got.Halt.Changes[i].New = nil
			}
			if d := cmp.Diff(c.want, got.Halt.Changes); d != "" {
				t.Errorf("at %d (-want +got):\n%s", c.at, d)
			}
			halted := open(t, got.Cassette)
			if v, err := engine.Replay(t.Context(), halted, engine.ReplayOptions{}); err != nil || !v.Identical || !v.Unfinished {
				t.Errorf("at %d: verify %+v %+v, %v", c.at, v, v.Divergence, err)
			}
			r := replayOf(t, false, halted.Name())
			if _, err := sdkAgent(t, stream)(r.url); err == nil || !strings.Contains(err.Error(), "no recorded call is left") {
				t.Errorf("at %d: replay of the halted fork: %v", c.at, err)
			}
			if got := r.end(); len(got.LeftOver) > 0 {
				t.Errorf("at %d: left over %v", c.at, got.LeftOver)
			}
		}
	})
}

// TestInsertAtEveryDoor: in every dialect the local Bedrock, which refuses calls
// without results, takes the conversation, and so it does after a further
// question.
func TestInsertAtEveryDoor(t *testing.T) {
	for name, d := range doors() {
		for _, at := range []int{2, 7, 10} {
			t.Run(fmt.Sprintf("%s at %d", name, at), func(t *testing.T) {
				d.then = `{"role":"user","content":"And in Bergen?"}`
				run := func(url string) (string, error) {
					text, code := d.loop(t, url, weather(3))
					if code != http.StatusOK {
						return "", fmt.Errorf("%d %s", code, text)
					}
					return text, nil
				}
				s := bedrocktest.New(t, bedrocktest.Options{})
				r := recordTo(t, upstream(t, s.URL), nil)
				if _, err := run(r.url); err != nil {
					t.Fatal(err)
				}
				path := r.end().Recorded[0]
				before := len(s.Requests())
				p := forkOf(t, path, deploy(at), upstream(t, s.URL))
				text, err := run(p.url)
				if err != nil || !strings.Contains(text, "was given 4 results. I will look up the weather and the time in Oslo.Done: I asked three times and was given 3 results.") {
					t.Fatalf("%q, %v", text, err)
				}
				for _, r := range s.Requests()[before:] {
					if n := bytes.Count(r.Body, []byte(fmt.Sprintf("inserted-%d", at))); n != 2 {
						t.Errorf("%d times in %s", n, r.Body)
					}
				}
				c := open(t, p.end().Fork.Cassette)
				checkFork(t, open(t, path), c, at, deploy(at))
				checkReplay(t, c.Name(), run, text)
			})
		}
	}
}

// TestForkAnInsertion: a fork with an inserted call is a run like another. It
// can be forked before, at and behind the call, and each fork replays.
func TestForkAnInsertion(t *testing.T) {
	set := func(pointer, value string, at int) faults.Patch {
		p, err := faults.Set(pointer, json.RawMessage(value))
		if err != nil {
			t.Fatal(err)
		}
		return p.For(at)
	}
	for name, c := range map[string]struct {
		first, second faults.Patch
		results       int // that the model is given in the end
		sees, not     string
	}{
		"an earlier result":             {deploy(7), set("/temp", "30", 5), 3, `"temp":30`, "inserted-7"},
		"a result beside it":            {deploy(2), set("/temp", "30", 6), 4, `"temp":30`, "nothing"},
		"the inserted result":           {deploy(2), set("/deployed", `"09:00"`, 8), 4, "09:00", "14:02"},
		"the inserted result, whole":    {deploy(10), set("/deployed", `"09:00"`, 12), 4, "09:00", "14:02"},
		"a later result":                {deploy(2), set("/temp", "30", 11), 4, `"temp":30`, "nothing"},
		"another call beside it":        {deploy(7), deploy(7), 5, "inserted-7-2", "nothing"},
		"another call in the same turn": {deploy(10), deploy(10), 5, "inserted-10-2", "nothing"},
		"a later turn":                  {deploy(2), deploy(9), 5, "inserted-9", "nothing"},
		"behind a result that was set":  {set("/temp", "30", 5), deploy(7), 4, `"temp":30`, "nothing"},
		"its own call of that turn":     {deploy(7), set("/output/message/content/0/toolUse/input/city", `"Voss"`, 7), 4, "Voss", "Bergen\"},\"name\":\"get_weather"},
		"the turn without the call":     {deploy(7), faults.Drop("/output/message/content/1").For(7), 3, "Bergen", "inserted-7"},
	} {
		t.Run(name, func(t *testing.T) {
			path := recorded(t, false, bedrocktest.ToolLoop())
			s := bedrocktest.New(t, bedrocktest.Options{})
			once := forkOf(t, path, c.first, upstream(t, s.URL))
			if _, err := sdkAgent(t, false)(once.url); err != nil {
				t.Fatal(err)
			}
			parent := once.end().Fork.Cassette
			before := len(s.Requests())
			twice := forkOf(t, parent, c.second, upstream(t, s.URL))
			text, err := sdkAgent(t, false)(twice.url)
			if err != nil || !strings.Contains(text, fmt.Sprintf("was given %d results", c.results)) {
				t.Fatalf("%q, %v; expected %d results", text, err, c.results)
			}
			for _, r := range s.Requests()[before:] {
				if !bytes.Contains(r.Body, []byte(c.sees)) || bytes.Contains(r.Body, []byte(c.not)) {
					t.Errorf("the upstream saw %s", r.Body)
				}
			}
			got := twice.end()
			if len(s.Requests()) == before || len(got.Diverged) > 0 {
				t.Errorf("%d requests, %+v", len(s.Requests())-before, got)
			}
			fork := open(t, got.Fork.Cassette)
			checkFork(t, open(t, parent), fork, c.second.At, c.second)
			checkReplay(t, fork.Name(), sdkAgent(t, false), text)
		})
	}
}

// TestInsertBehindSignedReasoning keeps the signed block, as our own fork does:
// the local Bedrock refuses a turn whose reasoning was changed or moved.
func TestInsertBehindSignedReasoning(t *testing.T) {
	thinking := func(r bedrocktest.Request) bedrocktest.Turn {
		text := fmt.Sprintf("Turn %d.\n\n", r.Turn)
		turn := bedrocktest.ToolLoop()(r)
		turn.Content = append([]bedrocktest.Block{bedrocktest.Reasoning(text, ledger.Digest([]byte(text)))}, turn.Content...)
		return turn
	}
	for _, at := range []int{7, 10} {
		path := recorded(t, false, thinking)
		s := bedrocktest.New(t, bedrocktest.Options{Script: thinking})
		p := forkOf(t, path, deploy(at), upstream(t, s.URL))
		text, err := sdkAgent(t, false)(p.url)
		if err != nil || !strings.Contains(text, "was given 4 results") {
			t.Errorf("at %d: %q, %v", at, text, err)
		}
		for _, r := range s.Requests() {
			if n := bytes.Count(r.Body, []byte(`"signature"`)); n != bytes.Count(r.Body, []byte(`"assistant"`)) {
				t.Errorf("at %d: %d signatures in %s", at, n, r.Body)
			}
		}
		checkReplay(t, p.end().Fork.Cassette, sdkAgent(t, false), text)
	}
}

// TestInsertIsRetried: another attempt of a call gets its answer too, and the
// inserted result stands in the record once.
func TestInsertIsRetried(t *testing.T) {
	for _, at := range []int{7, 10} {
		path := recorded(t, false, bedrocktest.ToolLoop())
		s := bedrocktest.New(t, bedrocktest.Options{Faults: []bedrocktest.Fault{{Name: "throttle", Times: 2}}})
		p := forkOf(t, path, deploy(at), upstream(t, s.URL))
		if text, err := sdkAgent(t, false)(p.url); err != nil || !strings.Contains(text, "was given 4 results") {
			t.Errorf("at %d: %q, %v", at, text, err)
		}
		c := open(t, p.end().Fork.Cassette)
		if n := strings.Count(strings.Join(originsOf(t, c, at), "\n"), "tool.returned patched"); n != 1 {
			t.Errorf("at %d: %d patched results", at, n)
		}
		checkFork(t, open(t, path), c, at, deploy(at))
	}
}

// TestInsertWhereTheAgentForgets: a history without the turn has no place for
// the call. The request is refused by name and nothing is spent.
func TestInsertWhereTheAgentForgets(t *testing.T) {
	path := recorded(t, false, bedrocktest.ToolLoop())
	s := bedrocktest.New(t, bedrocktest.Options{})
	p := forkOf(t, path, deploy(7), upstream(t, s.URL))
	c, err := open(t, path).Request(7)
	if err != nil {
		t.Fatal(err)
	}
	at7 := string(c.Body())
	ask := func(body string) (int, string) {
		code, _, text := post(t, p.url, "/model/"+haiku+"/converse", body)
		return code, text
	}
	first, err := open(t, path).Request(2)
	if err != nil {
		t.Fatal(err)
	}
	ask(string(first.Body()))
	if code, text := ask(at7); code != http.StatusOK || strings.Contains(text, "inserted") {
		t.Fatal(code, text)
	}
	code, text := ask(strings.Replace(at7, `],"toolConfig"`, `,{"role":"assistant","content":[{"text":"I asked."}]},{"role":"user","content":[{"text":"go on"}]}],"toolConfig"`, 1))
	if code != http.StatusConflict || !strings.Contains(text, "insert a call at /messages/3") || len(s.Requests()) > 0 {
		t.Errorf("%d %s, %d requests", code, text, len(s.Requests()))
	}
	if got := p.end(); len(got.Diverged) != 1 || got.Diverged[0].Event != 7 {
		t.Errorf("diverged %v", got.Diverged)
	}
}

// TestInsertAnUnknownTool is refused before anything runs.
func TestInsertAnUnknownTool(t *testing.T) {
	path := recorded(t, false, bedrocktest.ToolLoop())
	patch := faults.InsertCall("restart", json.RawMessage(`{}`), json.RawMessage(`{}`)).For(7)
	_, err := New(Options{Fork: &ForkOptions{Parent: open(t, path), Patch: patch}})
	if err == nil || !strings.Contains(err.Error(), `no tool "restart"`) {
		t.Error(err)
	}
	if origin, err := open(t, path).Origin(7); err != nil || origin != edge.Live {
		t.Error(origin, err)
	}
}
