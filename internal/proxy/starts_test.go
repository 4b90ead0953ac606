package proxy

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/faults"
	"investigator/internal/recorder"
)

// TestAForkOfAHaltedStart: what a fork of the first event patched stays when it is
// forked there again, also where it was halted before the model was asked. Its
// first patch used to get lost, because no recorded call showed that it fits.
func TestAForkOfAHaltedStart(t *testing.T) {
	for path, e := range echoes() {
		task, model := setAt(t, "/task", `"Why?"`, 1), setAt(t, "/model", `"m2"`, 1)
		prompt := setAt(t, prompts()[path], `"Be long."`, 1)
		for name, c := range map[string]struct {
			halted []faults.Patch
			live   faults.Patch
			sees   []string
		}{
			"model, question":         {[]faults.Patch{model}, task, []string{`"Why?"`, "m2"}},
			"question, model":         {[]faults.Patch{task}, model, []string{`"Why?"`, "m2"}},
			"prompt, model":           {[]faults.Patch{prompt}, model, []string{"Be long.", "m2"}},
			"question, question":      {[]faults.Patch{task}, setAt(t, "/task", `"Who?"`, 1), []string{`"Who?"`}},
			"model, prompt, question": {[]faults.Patch{model, prompt}, task, []string{"Be long.", `"Why?"`, "m2"}},
		} {
			t.Run(name+path, func(t *testing.T) {
				up := &oddities{}
				r := recordTo(t, up, nil)
				e.run(t, r.url, path)
				file := r.end().Recorded[0]
				for _, patch := range c.halted {
					h := forkOf(t, file, patch, nil)
					e.run(t, h.url, path)
					file = h.end().Fork.Cassette
				}
				up.seen, up.paths = nil, nil
				p := forkOf(t, file, c.live, up)
				given := e.run(t, p.url, path)
				fork := p.end().Fork.Cassette
				checkFork(t, open(t, file), open(t, fork), 1, c.live)
				for i, body := range up.seen {
					for _, text := range c.sees {
						if !bytes.Contains(append(body, up.paths[i]...), []byte(text)) {
							t.Errorf("no %s in %s", text, body)
						}
					}
				}
				again := replayOf(t, true, fork)
				if d := cmp.Diff(given, e.run(t, again.url, path)); d != "" || len(given) != 3 {
					t.Errorf("replay (-given +replayed):\n%s", d)
				}
				again.end()
			})
		}
	}
}

// TestAForkOfAStartByAChangedAgent: an agent may also have been changed to begin
// as the forked fork does.
func TestAForkOfAStartByAChangedAgent(t *testing.T) {
	const path = "/model/m/converse"
	e, up := echoes()[path], &oddities{}
	r := recordTo(t, up, nil)
	e.run(t, r.url, path)
	p := forkOf(t, r.end().Recorded[0], setAt(t, "/task", `"Why?"`, 1), up)
	e.run(t, p.url, path)
	e.asks = `{"role":"user","content":[{"text":"Why?"}]}`
	again := forkOf(t, p.end().Fork.Cassette, setAt(t, "/task", `"Who?"`, 1), up)
	up.seen = nil
	e.run(t, again.url, path)
	again.end()
	for _, body := range up.seen {
		if !bytes.Contains(body, []byte(`"Who?"`)) || bytes.Contains(body, []byte(`"Why?"`)) {
			t.Errorf("the model saw %s", body)
		}
	}
	if len(up.seen) != 3 {
		t.Errorf("the model was asked %d times", len(up.seen))
	}
}

// TestASubAgentThatAsksFirst has the run's own prompt, tools and model, and is
// not taken for the run that is forked at its start.
func TestASubAgentThatAsksFirst(t *testing.T) {
	for path, e := range echoes() {
		for name, patch := range map[string]faults.Patch{
			"model": setAt(t, "/model", `"m2"`, 1), "prompt": setAt(t, prompts()[path], `"Be long."`, 1),
		} {
			for _, live := range []bool{true, false} {
				up, sub := &oddities{}, e.asking("Which day is it?")
				r := recordTo(t, up, nil)
				e.run(t, r.url, path)
				own := r.end().Recorded[0]
				up.seen, up.paths = nil, nil
				var on Upstream
				if live {
					on = up
				}
				p := forkBeside(t, own, nil, patch, on)
				first := sub.run(t, p.url, path)
				e.run(t, p.url, path)
				got := p.end()
				if started := open(t, got.Fork.Cassette).Start(); bytes.Contains(started, []byte("Which day")) || len(got.Diverged) > 0 {
					t.Errorf("%s of %s: begins with %s, %v", name, path, started, got.Diverged)
				}
				if wants := map[bool]int{true: 3, false: 0}[live]; len(up.seen) != 2*wants || got.Fork.PassedOn != wants || got.Fork.Refused == wants {
					t.Errorf("%s of %s: the model was asked %d times, %+v, %s", name, path, len(up.seen), got.Fork, first)
				}
				for i, body := range up.seen {
					changed := bytes.Contains(body, []byte("Be long.")) || bytes.Contains(append(body, up.paths[i]...), []byte("m2"))
					if changed == bytes.Contains(body, []byte("Which day")) {
						t.Errorf("%s of %s: the model saw %s", name, path, body)
					}
				}
			}
		}
	}
}

// TestAForkBesideItsForebears: the forked tape answers what belongs to its run,
// though those that it was forked from, or that were forked from it, lie beside it
// and hold the agent's requests as it sends them. The agent used to get their
// answers and never came to the fork point.
func TestAForkBesideItsForebears(t *testing.T) {
	for path, e := range echoes() {
		task, model := setAt(t, "/task", `"Why?"`, 1), setAt(t, "/model", `"m2"`, 1)
		result := setAt(t, "", `"other"`, 4)
		for name, patches := range map[string][]faults.Patch{
			"start, call":         {task, deploy(8)},
			"result, call":        {result, deploy(8)},
			"call, result":        {deploy(2), setAt(t, "", `"other"`, 9)},
			"start, start, turn":  {task, model, deploy(2)},
			"result, start, call": {result, model, deploy(5), deploy(2)},
		} {
			t.Run(name+path, func(t *testing.T) {
				up := &oddities{}
				r := recordTo(t, up, nil)
				e.run(t, r.url, path)
				runs := []*recorder.Cassette{open(t, r.end().Recorded[0])}
				for i, patch := range patches {
					parent := runs[i].Name()
					alone := forkOf(t, parent, patch, up)
					want := e.run(t, alone.url, path)
					file := alone.end().Fork.Cassette
					asked := up.seen
					up.seen = nil
					beside := forkBeside(t, parent, append(slices.Clone(runs), open(t, file)), patch, up)
					if d := cmp.Diff(want, e.run(t, beside.url, path)); d != "" {
						t.Errorf("fork %d (-alone +beside the others):\n%s", i, d)
					}
					if got := beside.end(); !got.Fork.Reached || got.Fork.PassedOn > 0 || len(got.Diverged) > 0 {
						t.Errorf("fork %d: %+v, %v", i, got.Fork, got.Diverged)
					}
					if d := cmp.Diff(asked, up.seen); i > 0 && d != "" {
						t.Errorf("fork %d: the model saw (-alone +beside the others):\n%s", i, d)
					}
					runs, up.seen = append(runs, open(t, file)), nil
				}
			})
		}
	}
}

// asking is the agent with another question, as a sub-agent with the run's own
// prompt, tools and model is.
func (e echo) asking(question string) echo {
	e.asks = strings.Replace(e.asks, "What time is it?", question, 1)
	return e
}

// TestASubAgentOnTape is answered from there whatever its prompt is, before and
// behind the fork point.
func TestASubAgentOnTape(t *testing.T) {
	for path, e := range echoes() {
		sub := e.asking("Which day is it?")
		for name, c := range map[string]struct {
			patch  faults.Patch
			before bool
		}{
			"question, before": {setAt(t, "/task", `"Why?"`, 1), true},
			"question":         {setAt(t, "/task", `"Why?"`, 1), false},
			"model":            {setAt(t, "/model", `"m2"`, 1), false},
			"call":             {deploy(2), false},
			"result":           {setAt(t, "", `"other"`, 4), false},
		} {
			for _, live := range []bool{true, false} {
				up := &oddities{}
				r := recordTo(t, up, nil)
				e.run(t, r.url, path)
				want := sub.run(t, r.url, path)
				runs := r.end().Recorded
				var on Upstream
				if live {
					on = up
				}
				up.seen = nil
				p := forkBeside(t, runs[0], []*recorder.Cassette{open(t, runs[0]), open(t, runs[1])}, c.patch, on)
				var given []string
				if c.before {
					given = sub.run(t, p.url, path)
				}
				e.run(t, p.url, path)
				if !c.before {
					given = sub.run(t, p.url, path)
				}
				if d := cmp.Diff(want, given); d != "" {
					t.Errorf("%s of %s, live %v (-recorded +given):\n%s", name, path, live, d)
				}
				got := p.end()
				if !got.Fork.Reached || got.Fork.PassedOn+got.Fork.Refused+len(got.Diverged)+len(got.Troubles) > 0 || bytes.Contains(bytes.Join(up.seen, nil), []byte("Which day")) {
					t.Errorf("%s of %s, live %v: %+v %+v", name, path, live, got, got.Fork)
				}
			}
		}
	}
}

// TestASubAgentThatGoesOn behind the fork point from what it was answered before
// it stays another conversation.
func TestASubAgentThatGoesOn(t *testing.T) {
	const path = "/model/m/converse"
	e, up := echoes()[path], &oddities{}
	r := recordTo(t, up, nil)
	e.run(t, r.url, path)
	p := forkBeside(t, r.end().Recorded[0], nil, setAt(t, "/model", `"m2"`, 1), up)
	asks := e.asking("Which day is it?").asks
	codes := []int{}
	for _, messages := range []string{asks, e.asks, asks + `,{"role":"assistant","content":[{"text":"Hm."}]},` + e.asks} {
		code, _, _ := post(t, p.url, path, fmt.Sprintf(e.frame, messages))
		codes = append(codes, code)
	}
	if got := p.end(); !all(codes, 200) || got.Fork.PassedOn != 2 {
		t.Errorf("%v, %+v", codes, got.Fork)
	}
}

// TestASubAgentWithItsOwnPrompt is another conversation where the prompt is a
// message, too, and so is one whose first request comes before the run's. A run
// that changes its prompt stays the run.
func TestASubAgentWithItsOwnPrompt(t *testing.T) {
	const path = "/openai/v1/chat/completions"
	for _, role := range []string{"system", "developer"} {
		e := echoes()[path]
		prompt := fmt.Sprintf(`{"role":%q,"content":"Be brief."},`, role)
		e.asks = prompt + e.asks
		own := func(text string) echo {
			sub := e.asking(text)
			sub.asks = strings.Replace(sub.asks, "Be brief.", "Sum it up.", 1)
			return sub
		}
		for name, patch := range map[string]faults.Patch{
			"call": deploy(2), "result": setAt(t, "", `"other"`, 4), "question": setAt(t, "/task", `"Why?"`, 1),
		} {
			up := &oddities{}
			r := recordTo(t, up, nil)
			e.run(t, r.url, path)
			p := forkBeside(t, r.end().Recorded[0], nil, patch, up)
			want := 3
			if patch.At == 1 {
				own("Which month is it?").run(t, p.url, path)
				want = 6
			}
			e.run(t, p.url, path)
			if given := own("Which day is it?").run(t, p.url, path); len(given) != 3 {
				t.Errorf("%s, %s: the sub-agent got %s", role, name, given)
			}
			n := len(up.seen)
			changed := own("What time is it?").run(t, p.url, path)
			if !strings.HasPrefix(changed[0], "409") || len(up.seen) != n {
				t.Errorf("%s, %s: a run that changed its prompt went on unpatched: %s", role, name, changed)
			}
			p.stop()
			if got, err := p.Close(); got.Fork.PassedOn != want || len(got.Diverged) != 1 || err != nil {
				t.Errorf("%s, %s: %+v %+v, %v", role, name, got, got.Fork, err)
			}
		}
	}
}

// TestAForkOfTheStartNamesOneModel: where a request names its model, run.started
// does so twice. A patch of one alone left the other, and the next patch of that
// changed nothing.
func TestAForkOfTheStartNamesOneModel(t *testing.T) {
	for _, path := range []string{"/openai/v1/chat/completions", "/anthropic/v1/messages"} {
		e, up := echoes()[path], &oddities{}
		r := recordTo(t, up, nil)
		e.run(t, r.url, path)
		file := r.end().Recorded[0]
		member := setAt(t, "/request/model", `"m7"`, 1)
		for name, patch := range map[string]faults.Patch{"set": member, "dropped": faults.Drop("/request/model").For(1)} {
			_, err := New(Options{Fork: &ForkOptions{Parent: open(t, file), Patch: patch}})
			if err == nil || !strings.Contains(err.Error(), "two models") {
				t.Errorf("%s of %s: error %v", name, path, err)
			}
		}
		both, err := faults.Join(setAt(t, "/model", `"m7"`, 1), member)
		if err != nil {
			t.Fatal(err)
		}
		back, err := faults.Join(setAt(t, "/model", `"m"`, 1), setAt(t, "/request/model", `"m"`, 1))
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []struct {
			patch faults.Patch
			sees  string
		}{{both, "m7"}, {setAt(t, "/task", `"Why?"`, 1), "m7"}, {back, "m"}, {setAt(t, "/model", `"m8"`, 1), "m8"}} {
			up.seen = nil
			p := forkOf(t, file, c.patch, up)
			e.run(t, p.url, path)
			file = p.end().Fork.Cassette
			for _, body := range up.seen {
				if !bytes.Contains(body, fmt.Appendf(nil, `"model":%q`, c.sees)) {
					t.Errorf("no model %s in %s", c.sees, body)
				}
			}
			again := replayOf(t, true, file)
			if given := e.run(t, again.url, path); len(given) != 3 || len(up.seen) != 3 {
				t.Errorf("%s: %d calls, replayed %s", c.sees, len(up.seen), given)
			}
		}
	}
}
