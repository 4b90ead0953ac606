package proxy

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/faults"
)

func setAt(t *testing.T, pointer, value string, at int) faults.Patch {
	t.Helper()
	p, err := faults.Set(pointer, json.RawMessage(value))
	if err != nil {
		t.Fatal(err)
	}
	return p.For(at)
}

// prompts is a member of each door's request, for a patch.
func prompts() map[string]string {
	return map[string]string{
		"/openai/v1/chat/completions": "/request/tools/0/function/description",
		"/anthropic/v1/messages":      "/request/system",
		"/model/m/converse":           "/request/system/0/text",
	}
}

// TestForksOfTheStart replay, and can be forked, by the agent that they were made
// with, which goes on asking what it always asked.
func TestForksOfTheStart(t *testing.T) {
	for path, e := range echoes() {
		task, model := setAt(t, "/task", `"Why?"`, 1), setAt(t, "/model", `"m2"`, 1)
		prompt := setAt(t, prompts()[path], `"Be long."`, 1)
		both, err := faults.Join(task, prompt)
		if err != nil {
			t.Fatal(err)
		}
		for name, c := range map[string]struct {
			patches []faults.Patch
			sees    []string // the model, at the last fork
			not     string
		}{
			"question":            {[]faults.Patch{task}, []string{`"Why?"`}, "What time is it?"},
			"prompt":              {[]faults.Patch{prompt}, []string{"Be long."}, "Be brief."},
			"model":               {[]faults.Patch{model}, []string{"m2"}, `"model":"m"`},
			"both, and a result":  {[]faults.Patch{both, setAt(t, "", `"other"`, 4)}, []string{`"Why?"`, "Be long.", `other`}, "What time is it?"},
			"one after the other": {[]faults.Patch{task, prompt, model}, []string{`"Why?"`, "Be long.", "m2"}, "What time is it?"},
			"a call, and back":    {[]faults.Patch{model, deploy(2), setAt(t, "/model", `"m"`, 1)}, nil, "m2"},
			"a call in it":        {[]faults.Patch{both, deploy(5), deploy(2)}, []string{`"Why?"`, "Be long.", "inserted-2"}, "What time is it?"},
			"a call at its end":   {[]faults.Patch{both, deploy(8)}, []string{`"Why?"`, "Be long.", "inserted-8"}, "What time is it?"},
		} {
			t.Run(name+path, func(t *testing.T) {
				up := &oddities{}
				r := recordTo(t, up, nil)
				e.run(t, r.url, path)
				file := r.end().Recorded[0]
				for i, patch := range c.patches {
					up.seen, up.paths = nil, nil
					p := forkOf(t, file, patch, up)
					given := e.run(t, p.url, path)
					got := p.end()
					checkFork(t, open(t, file), open(t, got.Fork.Cassette), patch.At, patch)
					file = got.Fork.Cassette
					again := replayOf(t, true, file)
					if d := cmp.Diff(given, e.run(t, again.url, path)); d != "" {
						t.Errorf("replay of fork %d (-given +replayed):\n%s", i, d)
					}
					if got := again.end(); len(got.Diverged)+len(got.LeftOver) > 0 {
						t.Errorf("replay of fork %d: diverged %v, left over %v", i, got.Diverged, got.LeftOver)
					}
				}
				if len(up.seen) == 0 {
					t.Error("the model was not asked")
				}
				for i, body := range up.seen {
					body = append(body, up.paths[i]...)
					for _, text := range c.sees {
						if !bytes.Contains(body, []byte(text)) {
							t.Errorf("no %s in %s", text, body)
						}
					}
					if bytes.Contains(body, []byte(c.not)) {
						t.Errorf("%s in %s", c.not, body)
					}
				}
			})
		}
	}
}

// TestAForkOfTheStartBesideItsParent: both are served, each to the run that asks
// first for it; what fits as it is goes before what fits with the patch.
func TestAForkOfTheStartBesideItsParent(t *testing.T) {
	for path, e := range echoes() {
		up := &oddities{}
		r := recordTo(t, up, nil)
		e.run(t, r.url, path)
		parent := r.end().Recorded[0]
		p := forkOf(t, parent, setAt(t, prompts()[path], `"Be long."`, 1), up)
		e.run(t, p.url, path)
		fork := p.end().Fork.Cassette
		for runs := 1; runs <= 2; runs++ {
			both := replayOf(t, false, fork, parent)
			for range runs {
				e.run(t, both.url, path)
			}
			got := both.end()
			if len(got.Diverged) > 0 || len(got.LeftOver) != 3*(2-runs) {
				t.Errorf("%s, %d runs: diverged %v, left over %v", path, runs, got.Diverged, got.LeftOver)
			}
			for _, l := range got.LeftOver {
				if l.Cassette != fork {
					t.Errorf("%s: what the parent answers was answered from its fork: %v", path, l)
				}
			}
		}
	}
}

// TestAForkOfTheStartStaysStrict: only what the patch says is put in the place of
// what the agent sends.
func TestAForkOfTheStartStaysStrict(t *testing.T) {
	const path = "/model/m/converse"
	for name, c := range map[string]struct{ was, now, differs string }{
		"another question": {"What time is it?", "Which day is it?", "/messages/0/content/0/text"},
		"another prompt":   {"Be brief.", "Be kind.", "/system/0/text"},
		"another tool":     {`"name":"get_time"`, `"name":"get_time","description":"d"`, "/toolConfig/tools/0/toolSpec/description"},
	} {
		e, up := echoes()[path], &oddities{}
		r := recordTo(t, up, nil)
		e.run(t, r.url, path)
		both, err := faults.Join(setAt(t, "/task", `"Why?"`, 1), setAt(t, prompts()[path], `"Be long."`, 1))
		if err != nil {
			t.Fatal(err)
		}
		p := forkOf(t, r.end().Recorded[0], both, up)
		e.run(t, p.url, path)
		again := replayOf(t, false, p.end().Fork.Cassette)
		e.frame, e.asks = strings.Replace(e.frame, c.was, c.now, 1), strings.Replace(e.asks, c.was, c.now, 1)
		e.run(t, again.url, path)
		got := again.end().Diverged
		if len(got) != 1 || len(got[0].Changes) == 0 || got[0].Changes[len(got[0].Changes)-1].Path != c.differs && got[0].Changes[0].Path != c.differs {
			t.Errorf("%s: diverged %v", name, got)
		}
	}
}

// TestAForkOfTheStartOfAnotherRun: an agent that begins otherwise than the
// recorded run is told so, and the model is not asked without the patch.
func TestAForkOfTheStartOfAnotherRun(t *testing.T) {
	const path = "/model/m/converse"
	for want, c := range map[string]struct {
		patch          faults.Patch
		asks, by, says string
	}{
		"another question": {setAt(t, "/task", `"Why?"`, 1), "Which day is it?", path, "Be brief."},
		"another model":    {setAt(t, "/model", `"m2"`, 1), "What time is it?", "/model/other/converse", "Be brief."},
		"another /system":  {setAt(t, "/request/system/0/text", `"Be long."`, 1), "What time is it?", path, "Be kind."},
	} {
		e, up := echoes()[path], &oddities{}
		r := recordTo(t, up, nil)
		e.run(t, r.url, path)
		p := forkOf(t, r.end().Recorded[0], c.patch, up)
		up.seen = nil
		e.asks = strings.Replace(e.asks, "What time is it?", c.asks, 1)
		e.frame = strings.Replace(e.frame, "Be brief.", c.says, 1)
		answers := e.run(t, p.url, c.by)
		p.stop()
		_, _ = p.Close() // the error is another test's
		if len(up.seen) > 0 || !strings.Contains(answers[0], want) {
			t.Errorf("%s: the upstream saw %d requests, the agent %s", want, len(up.seen), answers[0])
		}
	}
}
