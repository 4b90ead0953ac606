package world

import (
	"bytes"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/fstest"
)

// openWhole opens a world as one does before a run that costs something.
func openWhole(fsys fs.FS) (*World, error) {
	w, err := Open(fsys)
	if err != nil {
		return nil, err
	}
	return w, w.Check()
}

// Each row breaks one thing in the tiny world; the error must name the place
// and the value.
func TestOpenNamesWhatIsWrongAndWhere(t *testing.T) {
	set := func(name, text string) func(fstest.MapFS) {
		return func(m fstest.MapFS) { m[name] = &fstest.MapFile{Data: []byte(text)} }
	}
	world := func(clock, services, graph string) func(fstest.MapFS) {
		return set("world.json", `{"clock":"`+clock+`","services":`+services+`,"graph":`+graph+`}`)
	}
	const head = "time,metric,value,unit\n"
	for name, c := range map[string]struct {
		edit func(fstest.MapFS)
		want []string
	}{
		"no world.json":         {func(m fstest.MapFS) { delete(m, "world.json") }, []string{"no world.json", "a world is a folder with"}},
		"no alert.json":         {func(m fstest.MapFS) { delete(m, "alert.json") }, []string{"no alert.json", "task"}},
		"world not JSON":        {set("world.json", "{\n\"clock\": x}"), []string{"world.json line 2"}},
		"world of another type": {set("world.json", "{\n\n\"services\": 5}"), []string{"world.json line 3", "services: another kind of value (number)"}},
		"world a list":          {set("world.json", "[]"), []string{"world.json line 1", "expected a JSON object"}},
		"change a list":         {set("changes.jsonl", "[]\n"), []string{"changes.jsonl line 1", "expected a JSON object"}},
		"log message a number":  {set("logs/a.jsonl", `{"message":7}`), []string{"logs/a.jsonl line 1", "message: another kind of value (number)"}},
		"world empty":           {set("world.json", ""), []string{"world.json line 1"}},
		"clock":                 {world("yesterday", `["a"]`, `[]`), []string{"world.json: clock", `"yesterday"`, "RFC 3339"}},
		"clock beyond years":    {world("9999-12-31T23:59:59-23:00", `["a"]`, `[]`), []string{"clock", "years"}},
		"no services":           {world("2026-01-01T12:00:00Z", `[]`, `[]`), []string{"services: none"}},
		"empty service":         {world("2026-01-01T12:00:00Z", `[""]`, `[]`), []string{"services", `""`}},
		"path as service":       {world("2026-01-01T12:00:00Z", `["../a"]`, `[]`), []string{"services", `"../a"`}},
		"service twice":         {world("2026-01-01T12:00:00Z", `["a","a"]`, `[]`), []string{"twice"}},
		"unknown in graph":      {world("2026-01-01T12:00:00Z", `["a","b"]`, `[["a","zz"]]`), []string{"graph", `"zz"`}},
		"empty task":            {set("alert.json", `{"task":" "}`), []string{"alert.json: task"}},
		"alert of a stranger":   {set("alert.json", `{"task":"?","service":"zz"}`), []string{"alert.json: service", `"zz"`}},
		"alert in the future":   {set("alert.json", `{"task":"?","started_at":"2027-01-01T00:00:00Z"}`), []string{"started_at", "2027", "2026-01-01T12:00:00Z"}},
		"alert before year 1":   {set("alert.json", `{"task":"?","started_at":"0000-01-01T00:00:00+23:00"}`), []string{"started_at"}},
		"alert value":           {set("alert.json", `{"task":"?","value":"high"}`), []string{"alert.json"}},
		"no header":             {set("metrics/a.csv", "2026-01-01T10:00:00Z,m,1,s\n"), []string{"metrics/a.csv line 1", "header"}},
		"empty csv":             {set("metrics/a.csv", ""), []string{"metrics/a.csv line 1"}},
		"too few cells":         {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,m,1\n"), []string{"metrics/a.csv line 2", "time,metric,value,unit"}},
		"open quote":            {set("metrics/a.csv", head+"\"2026"), []string{"metrics/a.csv line 2"}},
		"sample time":           {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,m,1,s\n10:00,m,1,s\n"), []string{"metrics/a.csv line 3", `"10:00"`}},
		"sample in the future":  {set("metrics/a.csv", head+"2026-01-01T12:00:01Z,m,1,s\n"), []string{"line 2", "after the world's clock"}},
		"no metric":             {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,,1,s\n"), []string{"line 2", "metric"}},
		"NaN":                   {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,m,NaN,s\n"), []string{"line 2", `"NaN"`, "leave the row out"}},
		"number with a space":   {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,m, 1,s\n"), []string{"line 2", `" 1"`}},
		"leading plus":          {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,m,+1,s\n"), []string{"line 2", `"+1"`}},
		"two units":             {set("metrics/a.csv", head+"2026-01-01T10:00:00Z,m,1,s\n2026-01-01T10:01:00Z,m,1,ms\n"), []string{"line 3", `"ms"`, `"s"`}},
		"metrics of a stranger": {set("metrics/zz.csv", head), []string{"metrics/zz.csv", `"zz"`, "world.json"}},
		"another kind of file":  {set("metrics/a.txt", head), []string{"metrics/a.txt", "SERVICE.csv"}},
		"metrics is a file":     {func(m fstest.MapFS) { delete(m, "metrics/a.csv"); delete(m, "metrics/.stray"); set("metrics", "x")(m) }, []string{"metrics: expected a folder"}},
		"change not JSON":       {set("changes.jsonl", "\n\n{"), []string{"changes.jsonl line 3"}},
		"change time":           {set("changes.jsonl", `{"service":"a","kind":"deploy"}`), []string{"changes.jsonl line 1", "time"}},
		"change of a stranger":  {set("changes.jsonl", `{"time":"2026-01-01T10:00:00Z","service":"zz","kind":"deploy"}`), []string{"changes.jsonl line 1", `"zz"`}},
		"change in the future":  {set("changes.jsonl", `{"time":"2026-01-02T10:00:00Z","service":"a","kind":"deploy"}`), []string{"line 1", "after the world's clock"}},
		"change of no kind":     {set("changes.jsonl", `{"time":"2026-01-01T10:00:00Z","service":"a"}`), []string{"line 1", "no kind"}},
		"log not JSON":          {set("logs/a.jsonl", "{}x"), []string{"logs/a.jsonl line 1"}},
		"log time":              {set("logs/a.jsonl", `{"message":"x"}`), []string{"logs/a.jsonl line 1", "time"}},
		"log in the future":     {set("logs/a.jsonl", `{"time":"2026-01-01T12:00:00.5Z"}`), []string{"line 1", "after the world's clock"}},
		"log of another":        {set("logs/a.jsonl", `{"time":"2026-01-01T10:00:00Z","service":"b"}`), []string{"line 1", `"b"`, `"a"`}},
		"log twice":             {set("logs/a.jsonl.gz", string(zip(nil))), []string{"logs/a.jsonl", "keep one"}},
		"not gzip":              {set("logs/b.jsonl.gz", "plain"), []string{"logs/b.jsonl.gz", "gzip"}},
		"torn gzip":             {set("logs/b.jsonl.gz", string(zip([]byte("{}"))[:12])), []string{"logs/b.jsonl.gz", "EOF"}},
		"gzip bomb":             {set("logs/b.jsonl.gz", string(zip(make([]byte, maxFileBytes+1)))), []string{"logs/b.jsonl.gz", "larger than 64 MB"}},
	} {
		t.Run(name, func(t *testing.T) {
			m := tiny()
			c.edit(m)
			_, err := openWhole(m)
			if err == nil {
				t.Fatal("no error")
			}
			for _, want := range c.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("error %q does not say %q", err, want)
				}
			}
			if len(err.Error()) > 600 {
				t.Errorf("an error of %d bytes", len(err.Error()))
			}
		})
	}
}

// Two damaged logs are read side by side; the error must not depend on which
// was quicker.
func TestTheSameDamageGivesTheSameError(t *testing.T) {
	m := tiny()
	m["logs/a.jsonl"].Data = append(bytes.Repeat([]byte(" \n"), 10000), "broken"...)
	m["logs/b.jsonl"] = &fstest.MapFile{Data: []byte("broken")}
	for range 20 {
		if _, err := openWhole(m); err == nil || !strings.Contains(err.Error(), "logs/a.jsonl line 10001") {
			t.Fatalf("error %v", err)
		}
	}
}

// A damaged log costs nobody who does not ask for it, and nobody who does may
// take it for a log without lines.
func TestADamagedLogIsReportedWhereItIsAskedFor(t *testing.T) {
	m := tiny()
	m["logs/b.jsonl"] = &fstest.MapFile{Data: []byte("\nbroken")}
	m["world.json"].Data = bytes.Replace(m["world.json"].Data, []byte(`["b","a"]`), []byte(`["c","b","a"]`), 1)
	w := mustOpen(t, m)
	for range 2 {
		if err := w.Check(); err == nil || !strings.HasPrefix(err.Error(), "check world: logs/b.jsonl line 2: ") {
			t.Errorf("Check: %v", err)
		}
	}
	for input, status := range map[string]string{
		`{"query":"hello","service":"a"}`: StatusOK,
		`{"query":"none","service":"a"}`:  StatusEmpty,
		`{"query":"hello","service":"b"}`: StatusError,
		`{"query":"hello"}`:               StatusError,
		`{"query":"hello","service":"c"}`: StatusError, // has no log, so it would list the others
	} {
		r := call(mustOpen(t, m), "search_logs", input)
		if r.Status != status || status == StatusError && !bytes.Contains(r.Body, []byte("the logs cannot be read: logs/b.jsonl line 2: ")) {
			t.Errorf("%s: %s", input, r.Body)
		}
	}
}

func TestOpenTakesWhatIsMerelyUnusual(t *testing.T) {
	m := tiny()
	m["world.json"].Data = append([]byte("\ufeff"), m["world.json"].Data...)
	m["metrics/a.csv"].Data = []byte("time,metric,value,unit\r\n2026-01-01T12:00:00+01:00,m,2e400,s\r\n2026-01-01T10:00:00Z,m,-0.0,s\r\n")
	m["logs/a.jsonl"].Data = []byte("\n  {\"time\":\"2026-01-01T10:00:00Z\",\"message\":\"caf\xe9 \xff\"}\r\n\n{\"time\":\"2026-01-01T09:00:00Z\",\"message\":\"earlier \\ud800\"}")
	delete(m, "changes.jsonl")
	w := mustOpen(t, m)
	for input, want := range map[string]string{
		`{"service":"a","metric":"m"}`: `"points":[{"t":"2026-01-01T10:00:00Z","v":-0.0},{"t":"2026-01-01T11:00:00Z","v":2e400}]`,
	} {
		if got := string(call(w, "query_metrics", input).Body); !strings.Contains(got, want) {
			t.Errorf("%s: %s", input, got)
		}
	}
	want := `"lines":[{"message":"earlier ` + "\ufffd" + `","service":"a","time":"2026-01-01T09:00:00Z"},{"message":"caf` + "\ufffd \ufffd" + `","service":"a","time":"2026-01-01T10:00:00Z"}]`
	if got := string(call(w, "search_logs", `{"query":"caf|EARLIER"}`).Body); !strings.Contains(got, want) {
		t.Errorf("logs: %s", got)
	}
}

func TestOpenDirHelpsWhoPointsAtTheWrongThing(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{
		filepath.Join(dir, "missing"): "no such folder",
		file:                          "not a folder",
		dir:                           "no world.json",
	} {
		_, err := OpenDir(path)
		if err == nil || !strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), "a world is a folder with") {
			t.Errorf("%s: %v", path, err)
		}
	}
}

func TestNameIsTheFoldersWhereTheWorldHasNone(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "from-folder")
	m := tiny()
	m["world.json"].Data = []byte(`{"clock":"2026-01-01T12:00:00Z","services":["a"]}`)
	if err := os.CopyFS(dir, m); err != nil {
		t.Fatal(err)
	}
	w, err := OpenDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if w.Name() != "from-folder" {
		t.Errorf("name %q", w.Name())
	}
	if n := len(w.Tools()); n != 3 {
		t.Errorf("%d tools without a call graph, want 3", n)
	}
	if r := call(w, "list_services", "{}"); r.Status != StatusError {
		t.Errorf("list_services without a graph: %s", r.Body)
	}
}

// A world that came by mail must not be able to show files of the machine.
func TestLinksAreRefused(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("needs symbolic links")
	}
	for _, link := range []struct{ name, target string }{
		{"logs/b.jsonl", "../../outside"},
		{"logs/b.jsonl", "a.jsonl"}, // inside as well: one rule
		{"metrics/b.csv", "/etc/passwd"},
		{"changes.jsonl", "../outside"},
		{"alert.json", "../outside"},
		{"world.json", "../outside"},
		{"logs", ".."},
	} {
		parent := t.TempDir()
		dir := filepath.Join(parent, "w")
		if err := os.CopyFS(dir, tiny()); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(parent, "outside"), []byte("top secret"), 0o600); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, link.name)
		if err := os.RemoveAll(path); err != nil {
			t.Fatal(err)
		}
		if err := os.Symlink(link.target, path); err != nil {
			t.Fatal(err)
		}
		for kind, open := range map[string]func() (*World, error){
			"OpenDir": func() (*World, error) { return OpenDir(dir) },
			"Open":    func() (*World, error) { return Open(os.DirFS(dir)) },
		} {
			w, err := open()
			if err == nil {
				t.Fatalf("%s: %s -> %s was opened: %s", kind, link.name, link.target, w.Context())
			}
			if strings.Contains(err.Error(), "secret") {
				t.Errorf("%s: the error quotes the target: %v", kind, err)
			}
		}
	}
}
