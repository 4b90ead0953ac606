package world

import (
	"bytes"
	"compress/gzip"
	"context"
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// realWorlds are the recorded incidents of the repository.
func realWorlds() []string {
	return []string{"petshop-lambda", "petshop-dynamodb", "boutique-cpu", "trainticket-route"}
}

func mustDemo(t testing.TB) *World {
	t.Helper()
	w, err := Demo()
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func mustOpenDir(t testing.TB, name string) *World {
	t.Helper()
	w, err := OpenDir(filepath.Join("..", "..", "worlds", name))
	if err != nil {
		t.Fatal(err)
	}
	return w
}

// allWorlds opens each world once, by folder name.
func allWorlds(t testing.TB) map[string]*World {
	worlds := map[string]*World{"demo": mustDemo(t)}
	for _, name := range realWorlds() {
		worlds[name] = mustOpenDir(t, name)
	}
	return worlds
}

// tiny is a world small enough to break one thing at a time.
func tiny() fstest.MapFS {
	return mapFS(map[string]string{
		"world.json":     `{"name":"secret-name","title":"A title","summary":"A summary.","clock":"2026-01-01T12:00:00Z","services":["b","a"],"graph":[["a","b"]]}`,
		"alert.json":     `{"task":"Why?","service":"a","started_at":"2026-01-01T11:00:00Z","signal":"latency","value":9.50,"threshold":1}`,
		"metrics/a.csv":  "time,metric,value,unit\n2026-01-01T10:00:00Z,latency,1.0,ms\n2026-01-01T11:00:00Z,latency,9.50,ms\n",
		"logs/a.jsonl":   `{"time":"2026-01-01T10:30:00Z","level":"info","service":"a","trace_id":"t1","message":"Hello World"}` + "\n",
		"changes.jsonl":  `{"time":"2026-01-01T10:59:00Z","service":"a","kind":"deploy","id":"d1","summary":"new","synthetic":true}` + "\n",
		"answer.json":    `{"root_cause":{}}`,
		"NOTICE.md":      "notice",
		"metrics/.stray": "left by an editor",
	})
}

func mapFS(files map[string]string) fstest.MapFS {
	m := fstest.MapFS{}
	for name, text := range files {
		m[name] = &fstest.MapFile{Data: []byte(text)}
	}
	return m
}

func mustOpen(t testing.TB, fsys fs.FS) *World {
	t.Helper()
	w, err := Open(fsys)
	if err != nil {
		t.Fatal(err)
	}
	return w
}

func call(w *World, name, input string) Result {
	return w.Call(context.Background(), name, json.RawMessage(input))
}

func TestDemoIsWholeAndSaysWhatTheReferenceExperimentNeeds(t *testing.T) {
	w := mustDemo(t)
	if err := w.Check(); err != nil {
		t.Fatal(err) // what is part of the program must be whole
	}
	if got, want := w.Alert().Task, "Checkout p99 latency spiked overnight. Find the likely cause."; got != want {
		t.Errorf("task %q, want %q", got, want)
	}
	if got, want := w.Clock(), time.Date(2026, 3, 10, 9, 0, 0, 0, time.UTC); !got.Equal(want) {
		t.Errorf("clock %v, want %v", got, want)
	}
	if w.Name() != "demo" {
		t.Errorf("name %q", w.Name())
	}
}

func TestEmbeddedDemoIsTheFolderOnDisk(t *testing.T) {
	onDisk, err := OpenDir("demo")
	if err != nil {
		t.Fatal(err)
	}
	if got, want := onDisk.Digest(), mustDemo(t).Digest(); got != want {
		t.Errorf("digest %s on disk, %s in the program", got, want)
	}
}

func TestContextTellsAlertClockAndServicesOnly(t *testing.T) {
	want := `{"alert":{"service":"a","signal":"latency","started_at":"2026-01-01T11:00:00Z","task":"Why?","threshold":1,"value":9.50},` +
		`"now":"2026-01-01T12:00:00Z","services":["a","b"],"summary":"A summary.","title":"A title"}`
	if diff := cmp.Diff(want, string(mustOpen(t, tiny()).Context())); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
}

// A title may contain the name the model must not see.
func TestContextDropsTextThatNamesTheWorld(t *testing.T) {
	m := tiny()
	m["world.json"].Data = []byte(strings.Replace(string(m["world.json"].Data), "A title", "The Secret-Name incident", 1))
	if got := string(mustOpen(t, m).Context()); strings.Contains(got, "title") || !strings.Contains(got, "summary") {
		t.Errorf("context %s", got)
	}
	dir := filepath.Join(t.TempDir(), "summary")
	if err := os.CopyFS(dir, tiny()); err != nil {
		t.Fatal(err)
	}
	w, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if got := string(w.Context()); strings.Contains(got, "A summary") || !strings.Contains(got, "A title") {
		t.Errorf("context of a folder named summary: %s", got)
	}
}

// transcript is everything a model could be shown: every tool with every
// service, with and without each metric, and log searches that match much.
func transcript(w *World) string {
	var b strings.Builder
	b.Write(w.Context())
	tools, _ := json.Marshal(w.Tools())
	b.Write(tools)
	show := func(name, input string) { b.Write(call(w, name, input).Body); b.WriteByte('\n') }
	show("list_services", `{}`)
	show("list_deploys", `{"window":"3650d"}`)
	show("no_such_tool", `{}`)
	for _, s := range append([]string{"no-such-service"}, w.meta.Services...) {
		show("query_metrics", `{"service":"`+s+`"}`)
		for _, m := range w.metrics[s] {
			show("query_metrics", `{"service":"`+s+`","metric":"`+m.metric+`"}`)
		}
		show("list_deploys", `{"service":"`+s+`"}`)
		show("list_deploys", `{"service":"`+s+`","window":"1s"}`)
		show("search_logs", `{"service":"`+s+`","query":"a|e|i|o|u","limit":200}`)
		show("search_logs", `{"service":"`+s+`","query":"no such text"}`)
	}
	return b.String()
}

func TestNothingShownNamesTheFolderOrSaysWhatIsMadeUp(t *testing.T) {
	for name, w := range allWorlds(t) {
		shown := strings.ToLower(transcript(w))
		for _, secret := range []string{"synthetic", "answer.json", "must_not_blame", "root_cause", "attribution", "made up"} {
			if strings.Contains(shown, secret) {
				t.Errorf("%s: a model is shown %q", name, secret)
			}
		}
		// "demo" is a word of every day: the petshop calls itself a demo shop.
		if strings.Contains(shown, name) {
			t.Errorf("%s: a model is shown the folder's name", name)
		}
	}
}

// Garbage where the answer and the notices were must change nothing: they are
// never read.
func TestAnswerAndNoticesAreNeverRead(t *testing.T) {
	for _, name := range realWorlds() {
		dir := filepath.Join("..", "..", "worlds", name)
		for _, file := range []string{"answer.json", "NOTICE.md"} {
			if _, err := os.Stat(filepath.Join(dir, file)); err != nil {
				t.Fatal(err) // nothing would be proved
			}
		}
		copied := filepath.Join(t.TempDir(), name)
		if err := os.CopyFS(copied, os.DirFS(dir)); err != nil {
			t.Fatal(err)
		}
		for _, file := range []string{"answer.json", "NOTICE.md", "LICENSE"} {
			if err := os.WriteFile(filepath.Join(copied, file), []byte("\xff{{{"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		spoilt, err := OpenDir(copied)
		if err != nil {
			t.Fatal(err)
		}
		w := mustOpenDir(t, name)
		if spoilt.Digest() != w.Digest() {
			t.Errorf("%s: digest %s with garbage, %s without", name, spoilt.Digest(), w.Digest())
		}
		if diff := cmp.Diff(transcript(w), transcript(spoilt)); diff != "" {
			t.Errorf("%s: results differ (-real +garbage):\n%s", name, diff)
		}
	}
}

func TestDigestIsOfWhatCanBeSeen(t *testing.T) {
	base := mustOpen(t, tiny()).Digest()
	edit := func(file, old, new string) func(fstest.MapFS) {
		return func(m fstest.MapFS) {
			if !bytes.Contains(m[file].Data, []byte(old)) {
				t.Fatalf("%s holds no %q", file, old)
			}
			m[file].Data = bytes.Replace(m[file].Data, []byte(old), []byte(new), 1)
		}
	}
	for name, c := range map[string]struct {
		edit func(fstest.MapFS)
		same bool
	}{
		"nothing":          {func(fstest.MapFS) {}, true},
		"synthetic":        {edit("changes.jsonl", "true", "false"), true},
		"name":             {edit("world.json", "secret-name", "other"), true},
		"service order":    {edit("world.json", `["b","a"]`, `["a","b"]`), true},
		"compressed log":   {compressLog, true},
		"line ends":        {edit("logs/a.jsonl", "\n", "\r\n"), true},
		"answer":           {edit("answer.json", "root", "leaf"), true},
		"clock":            {edit("world.json", "12:00:00Z", "12:00:01Z"), false},
		"title":            {edit("world.json", "A title", "B title"), false},
		"graph":            {edit("world.json", `[["a","b"]]`, `[["b","a"]]`), false},
		"task":             {edit("alert.json", "Why", "How"), false},
		"text of a number": {edit("metrics/a.csv", "9.50", "9.5"), false},
		"message":          {edit("logs/a.jsonl", "Hello", "hello"), false},
		"change":           {edit("changes.jsonl", "new", "old"), false},
		"no changes":       {func(m fstest.MapFS) { delete(m, "changes.jsonl") }, false},
	} {
		m := tiny()
		c.edit(m)
		if got := mustOpen(t, m).Digest() == base; got != c.same {
			t.Errorf("%s: same digest %v, want %v", name, got, c.same)
		}
	}
}

func compressLog(m fstest.MapFS) {
	m["logs/a.jsonl.gz"] = &fstest.MapFile{Data: zip(m["logs/a.jsonl"].Data)}
	delete(m, "logs/a.jsonl")
}

func zip(data []byte) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	z.Write(data)
	z.Close()
	return b.Bytes()
}

// The folder may go away: a world is what it was when it was opened.
func TestWorldOutlivesItsFolder(t *testing.T) {
	m := tiny()
	w := mustOpen(t, m)
	want := transcript(w)
	clear(m)
	if diff := cmp.Diff(want, transcript(w)); diff != "" {
		t.Errorf("(-before +after):\n%s", diff)
	}
}

func TestConcurrentCallsAgree(t *testing.T) {
	for _, w := range []*World{mustDemo(t), mustOpen(t, tiny())} {
		want := transcript(w)
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				if transcript(w) != want {
					t.Error("a concurrent call gave other bytes")
				}
			})
		}
		wg.Wait()
	}
}

func TestRealWorldsHoldWhatTheyShould(t *testing.T) {
	type counts struct {
		Services, Metrics, Samples, Changes, Logs, Lines, Edges, Tools int
		Clock                                                          string
	}
	want := map[string]counts{
		"petshop-lambda":    {20, 140, 682, 4, 0, 0, 21, 4, "2023-04-12T21:30:00Z"},
		"petshop-dynamodb":  {19, 133, 1318, 4, 0, 0, 20, 4, "2023-04-13T02:35:00Z"},
		"boutique-cpu":      {10, 180, 2821, 3, 10, 12058, 14, 4, "2022-08-22T05:22:00Z"},
		"trainticket-route": {11, 70, 2524, 3, 10, 4199, 13, 4, "2023-01-29T09:24:00Z"},
		"demo":              {6, 14, 336, 8, 6, 39, 7, 4, "2026-03-10T09:00:00Z"},
	}
	got := map[string]counts{}
	for name, w := range allWorlds(t) {
		c := counts{Services: len(w.meta.Services), Changes: len(w.changes), Logs: len(w.logs), Edges: len(w.meta.Graph), Tools: len(w.Tools()), Clock: rfc(w.Clock())}
		for _, all := range w.metrics {
			c.Metrics += len(all)
			for _, s := range all {
				c.Samples += len(s.samples)
			}
		}
		for _, lf := range w.logs {
			lines, err := lf.lines()
			if err != nil {
				t.Fatal(err)
			}
			c.Lines += len(lines)
		}
		got[name] = c
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
