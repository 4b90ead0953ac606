package engine_test

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"investigator/internal/bedrock"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/scrub"
	"investigator/internal/world"
)

// everyCassette runs a test over each cassette of the repository.
func everyCassette(t *testing.T, f func(t *testing.T, file string, c *recorder.Cassette)) {
	t.Helper()
	files, err := filepath.Glob("../../cassettes/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("found %d cassettes (%v), want at least 6", len(files), err)
	}
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			c, err := recorder.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			f(t, file, c)
		})
	}
}

// worldOf opens the world a cassette was recorded on.
func worldOf(t *testing.T, c *recorder.Cassette) *world.World {
	t.Helper()
	h := c.Header().World
	if h == nil {
		return nil
	}
	if h.Name == "demo" {
		return demoWorld(t)
	}
	w, err := world.OpenDir(filepath.Join("../../worlds", h.Name))
	if err != nil {
		t.Fatal(err)
	}
	if w.Digest() != h.Digest {
		t.Fatalf("world %s: digest recorded %s / now %s", h.Name, h.Digest, w.Digest())
	}
	return w
}

func TestRepositoryCassettesObeyTheLaws(t *testing.T) {
	everyCassette(t, func(t *testing.T, file string, c *recorder.Cassette) {
		laws(t, c)
		w := worldOf(t, c)
		if w == nil {
			return
		}
		if r := replayed(t, c, engine.Tools{World: w}); !r.Identical {
			t.Errorf("replay with tools executed: %+v", r)
		}
		events, err := c.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range events {
			if e.Type != ledger.ToolReturned {
				continue
			}
			fork, _ := forkRun(t, c, faults.Fail("the tool timed out").For(e.Seq), liveFork(w))
			lawPrefix(t, c, fork, e.Seq)
			if r := replayed(t, fork, nil); !r.Identical {
				t.Errorf("replay of the fork at %d: %+v", e.Seq, r)
			}
		}
	})
}

// Law 9: no secret, host fact or absolute path.
func TestRepositoryCassettesAreClean(t *testing.T) {
	path := regexp.MustCompile(`(?:["\s=(]|^)(/(?:home|root|tmp|work|usr|var|etc|Users|private)/[^"\s]*|[A-Z]:\\\\)`)
	host, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	check := func(b []byte) string {
		switch {
		case scrub.Find(b) != "":
			return "a secret: " + scrub.Find(b)
		case path.Match(b):
			return "a path: " + string(path.Find(b))
		case len(host) > 5 && bytes.Contains(b, []byte(host)):
			return "the host's name"
		}
		return ""
	}
	for _, bad := range []string{`{"f":"/home/me/x.csv"}`, `key AKIAIOSFODNN7EXAMPLE`} { // the control: what must be caught
		if check([]byte(bad)) == "" {
			t.Errorf("the check does not catch %s", bad)
		}
	}
	everyCassette(t, func(t *testing.T, file string, _ *recorder.Cassette) {
		b, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if found := check(b); found != "" {
			t.Errorf("%s holds %s", file, found)
		}
	})
}

// Law 8: change any one field of the model request, and replay names it.
func TestEveryRequestFieldIsNamed(t *testing.T) {
	everyCassette(t, func(t *testing.T, file string, c *recorder.Cassette) {
		if c.Header().Parent != nil {
			return // the same request as its parent's
		}
		var start map[string]any
		d := json.NewDecoder(bytes.NewReader(c.Start()))
		d.UseNumber()
		if err := d.Decode(&start); err != nil {
			t.Fatal(err)
		}
		fields := 0
		for _, member := range []string{"model", "task", "request"} {
			walkLeaves("", member, start[member], func(pointer string, set func(any)) {
				fields++
				namesChange(t, c, start, member, pointer, set)
			}, func(v any) { start[member] = v })
		}
		if fields < 20 {
			t.Errorf("changed %d fields, want at least 20", fields)
		}
	})
}

// walkLeaves calls f with the pointer of every scalar below v and a function
// that changes it.
func walkLeaves(pointer, name string, v any, f func(string, func(any)), set func(any)) {
	switch v := v.(type) {
	case map[string]any:
		for k, x := range v {
			walkLeaves(pointer+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(k), k, x, f, func(n any) { v[k] = n })
		}
	case []any:
		for i, x := range v {
			walkLeaves(pointer+"/"+strconv.Itoa(i), name, x, f, func(n any) { v[i] = n })
		}
	default:
		f(pointer, set)
		set(v)
	}
}

func namesChange(t *testing.T, c *recorder.Cassette, start map[string]any, member, pointer string, set func(any)) {
	t.Helper()
	set("changed-by-the-test")
	data, err := ledger.CanonValue(start)
	if err != nil {
		t.Fatal(err)
	}
	if _, _, err := loop.New(data); err != nil {
		return // refused before it could run, which also names it
	}
	r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{Start: data})
	if err != nil {
		t.Fatal(err)
	}
	if r.Identical || len(r.Divergence.Changes) == 0 {
		t.Errorf("%s%s changed: replay says %+v", member, pointer, r)
		return
	}
	got := r.Divergence.Changes[0].Path
	switch member {
	case "model":
		if got != "/modelId" {
			t.Errorf("model changed: named %s", got)
		}
	case "task":
		if !strings.HasPrefix(got, "/messages/0") {
			t.Errorf("task changed: named %s", got)
		}
	default:
		if len(pointer) < 20 && !strings.HasPrefix(got, pointer) && !strings.HasPrefix(pointer, got) {
			t.Errorf("%s changed: named %s", pointer, got)
		}
	}
}

// Every cassette recorded over a network decodes to the same ledger when its
// exchanges are served to the AWS SDK through go-vcr.
func TestBedrockCassettesOverTheWire(t *testing.T) {
	wired := 0
	everyCassette(t, func(t *testing.T, file string, c *recorder.Cassette) {
		x, err := c.Interaction(0)
		if err != nil {
			t.Fatal(err)
		}
		if x.Attempts == nil {
			return
		}
		wired++
		rt, err := recorder.Serve(c)
		if err != nil {
			t.Fatal(err)
		}
		model := bedrock.Wired(rt, strings.HasSuffix(x.URL, "/converse-stream"))
		r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{Model: model})
		if err != nil || !r.Identical {
			t.Errorf("over the wire: %+v %v", r, err)
		}
	})
	if wired < 3 {
		t.Errorf("%d cassettes were recorded over a network, want at least 3", wired)
	}
}
