package purity

import (
	"go/types"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
)

// exports is shared by the tests because it runs the go command.
var exports = sync.OnceValues(func() (types.ImporterFrom, error) {
	patterns := slices.DeleteFunc(std(), func(path string) bool { return path == "embed" })
	patterns = append(patterns, "embed")
	for _, p := range Packages() {
		if _, err := os.Stat(filepath.Join("..", p.Name)); err == nil {
			patterns = append(patterns, p.Path())
		}
	}
	return Exports("..", patterns...)
})

func imports(t *testing.T) types.ImporterFrom {
	t.Helper()
	imp, err := exports()
	if err != nil {
		t.Fatal(err)
	}
	return imp
}

// TestPurePackagesArePure is the gate. When it fails, move what touches the
// world into a package above the line; do not lengthen a list.
func TestPurePackagesArePure(t *testing.T) {
	imp := imports(t)
	for _, p := range Packages() {
		t.Run(p.Name, func(t *testing.T) {
			found, err := Check(filepath.Join("..", p.Name), p, imp)
			if err != nil {
				t.Error(err)
			}
			for _, v := range found {
				t.Error(v)
			}
		})
	}
}

// snippet wraps declarations into a file. Its first line may name imports.
func snippet(imports, body string) map[string][]byte {
	var b strings.Builder
	b.WriteString("package p\n")
	for _, path := range strings.Fields(imports) {
		b.WriteString("import \"" + path + "\"\n")
	}
	b.WriteString(body)
	return map[string][]byte{"p.go": []byte(b.String())}
}

type sample struct{ imports, body string }

// bad is what the gate must catch, by the rule it must name.
func bad() map[string]map[string]sample {
	return map[string]map[string]sample{
		"import": {
			"time":      {"time", `var t = time.Now()`},
			"os":        {"os", `func f() string { return os.Getenv("X") }`},
			"net":       {"net", `var _ net.Conn`},
			"rand":      {"math/rand", `func f() int { return rand.Int() }`},
			"rand v2":   {"math/rand/v2", `func f() int { return rand.Int() }`},
			"crypto":    {"crypto/rand", `func f(b []byte) { rand.Read(b) }`},
			"sync":      {"sync", `type T struct{ mu sync.Mutex }`},
			"log":       {"log", `func f() { log.Print("x") }`},
			"unsafe":    {"unsafe", `func f(p *int) uintptr { return uintptr(unsafe.Pointer(p)) }`},
			"cgo":       {"C", `func f() {}`},
			"reflect":   {"reflect", `func f(m any) []reflect.Value { return reflect.ValueOf(m).MapKeys() }`},
			"maphash":   {"hash/maphash", `var _ maphash.Hash`},
			"unnamed":   {"", `import _ "net/http/pprof"`},
			"above":     {"investigator/internal/recorder", `var _ = recorder.Create`},
			"sideways":  {"investigator/internal/rule", `func f() {}`},
			"no module": {"github.com/aws/aws-sdk-go-v2/aws", `var _ aws.Config`},
		},
		"map range": {
			"collects, unsorted":   {"", `func f(m map[string]int) (s []string) { for k := range m { s = append(s, k) }; return s }`},
			"sorted too late":      {"slices", `func f(m map[string]int, g func()) (s []string) { for k := range m { s = append(s, k) }; g(); slices.Sort(s); return s }`},
			"sorts another":        {"slices", `func f(m map[string]int, o []string) (s []string) { for k := range m { s = append(s, k) }; slices.Sort(o); return s }`},
			"own order":            {"slices", `func f(m map[string]int) (s []string) { for k := range m { s = append(s, k) }; slices.SortFunc(s, func(a, b string) int { return 0 }); return s }`},
			"collects twice":       {"slices", `func f(m map[string]int) (s []string) { for k := range m { s = append(s, k); s = append(s, "x") }; slices.Sort(s); return s }`},
			"calls":                {"", `func f(m map[string]int, g func(string)) { for k := range m { g(k) } }`},
			"first one":            {"", `func f(m map[string]int) int { for _, v := range m { return v }; return 0 }`},
			"float sum":            {"", `func f(m map[string]float64) (s float64) { for _, v := range m { s += v }; return s }`},
			"copies under another": {"", `func f(m map[string]string, d map[string]string) { for k, v := range m { d[v] = k } }`},
			"writes itself":        {"", `func f(m map[string]int) { for k := range m { m[k+"x"] = 1 } }`},
			"computed value":       {"", `func f(m, d map[string]int, next func() int) { for k := range m { d[k] = next() } }`},
			"named type":           {"", `type M map[string]int; func f(m M, g func(string)) { for k := range m { g(k) } }`},
			"type parameter":       {"", `func f[M ~map[K]V, K comparable, V any](m M, g func(K)) { for k := range m { g(k) } }`},
			"field":                {"", `type T struct{ m map[string]int }; func f(t T, g func(string)) { for k := range t.m { g(k) } }`},
			"maps.Keys":            {"maps", `func f(m map[string]int, g func(string)) { for k := range maps.Keys(m) { g(k) } }`},
			"maps.All":             {"maps", `func f(m map[string]int, g func(string)) { for k := range maps.All(m) { g(k) } }`},
			"collected values":     {"maps slices", `func f(m map[string]int) []int { return slices.Collect(maps.Values(m)) }`},
			"maps.Keys as a value": {"maps", `func f(m map[string]int, g func(string)) { keys := maps.Keys[map[string]int]; for k := range keys(m) { g(k) } }`},
			"sorted by a function": {"maps slices", `func f(m map[string]int) []string { return slices.SortedFunc(maps.Keys(m), func(a, b string) int { return 0 }) }`},
			"in a case":            {"", `func f(m map[string]int, g func(string)) { switch { default: for k := range m { g(k) } } }`},
			"shadowed append":      {"slices", `func f(m map[string]int) (s []string) { append := func(s []string, k string) []string { return s[:1] }; for k := range m { s = append(s, k) }; slices.Sort(s); return s }`},
		},
		"goroutine": {
			"go":        {"", `func f(g func()) { go g() }`},
			"iter.Pull": {"iter", `func f(s iter.Seq[int]) { next, stop := iter.Pull(s); next(); stop() }`},
		},
		"channel": {
			"make":    {"", `func f() any { return make(chan int) }`},
			"send":    {"", `type c = chan int; func f(c c) { c <- 1 }`},
			"receive": {"", `func f[C ~chan int](c C) int { return <-c }`},
			"range":   {"", `func f(c <-chan int) { for range c {} }`},
			"select":  {"", `func f() { select {} }`},
			"close":   {"", `func f(c chan int) { close(c) }`},
		},
		"context": {
			"Err":          {"context", `func f(ctx context.Context) error { return ctx.Err() }`},
			"Done":         {"context", `func f(ctx context.Context) { ctx.Done() }`},
			"Value":        {"context", `func f(ctx context.Context) any { return ctx.Value(1) }`},
			"method value": {"context", `func f(ctx context.Context) func() error { return ctx.Err }`},
			"embedded":     {"context", `type T struct{ context.Context }; func f(t T) error { return t.Err() }`},
			"expression":   {"context", `var _ = struct{}{}; func f() any { return context.Context.Err }`},
			"cancel":       {"context", `func f(ctx context.Context) { ctx, c := context.WithCancel(ctx); _ = ctx; c() }`},
			"renamed":      {"", `import c "context"; func f() { c.Background() }`},
		},
		"print": {
			"Println":    {"fmt", `func f() { fmt.Println("x") }`},
			"as a value": {"fmt", `func f() any { return fmt.Printf }`},
			"Scanln":     {"fmt", `func f() { fmt.Scanln() }`},
			"println":    {"", `func f() { println("x") }`},
			"print":      {"", `func f() { print("x") }`},
			"address":    {"fmt", `func f(p *int) string { return fmt.Sprintf("%p", p) }`},
		},
		"write": {
			"assign":         {"", `var n int; func f() { n = 1 }`},
			"increment":      {"", `var n int; func f() { n++ }`},
			"add":            {"", `var n int; func f() { n += 2 }`},
			"element":        {"", `var m = map[string]int{}; func f() { m["a"] = 1 }`},
			"field":          {"", `var v struct{ a [2]int }; func f() { v.a[1] = 1 }`},
			"through":        {"", `var p = new(int); func f() { *p = 1 }`},
			"range":          {"", `var i int; func f() { for i = range 3 {} }`},
			"delete":         {"", `var m = map[string]int{}; func f() { delete(m, "a") }`},
			"clear":          {"", `var m = map[string]int{}; func f() { clear(m) }`},
			"copy":           {"", `var b [4]byte; func f() { copy(b[:], "x") }`},
			"address":        {"", `var n int; func f() *int { return &n }`},
			"pointer method": {"bytes", `var b bytes.Buffer; func f() { b.WriteString("x") }`},
			"another's":      {"io", `func f() { io.EOF = nil }`},
			"closure":        {"", `var next = func() func() int { n := 0; return func() int { n++; return n } }()`},
		},
		"init": {"init": {"", `func init() {}`}},
		"directive": {
			"linkname": {"", "//go:linkname now time.now\nfunc f() {}"},
			"build":    {"", "//go:build linux\n"},
			"nosplit":  {"", "//go:nosplit\nfunc f() {}"},
		},
		"file": {"no body": {"", `func f()`}},
	}
}

func TestGateCatches(t *testing.T) {
	imp := imports(t)
	loop := Packages()[slices.IndexFunc(Packages(), func(p Package) bool { return p.Name == "loop" })]
	for rule, samples := range bad() {
		for name, s := range samples {
			t.Run(rule+"/"+name, func(t *testing.T) {
				found, err := CheckSource(snippet(s.imports, s.body), loop, imp)
				if len(found) == 0 {
					t.Fatalf("passed (%v):\n%s", err, s.body)
				}
				if !slices.ContainsFunc(found, func(v Violation) bool { return v.Rule == rule }) {
					t.Errorf("caught for another reason: %v", found)
				}
				// A sample that does not compile proves nothing, except where
				// the banned import itself is what cannot be loaded.
				if err != nil && rule != "import" && rule != "file" && name != "another's" {
					t.Errorf("the sample does not compile: %v", err)
				}
			})
		}
	}
}

// good is what the gate must not catch.
func good() map[string]sample {
	return map[string]sample{
		"sorted keys":      {"slices", `func f(m map[string]int, g func(string)) { var s []string; for k := range m { s = append(s, k) }; slices.Sort(s); for _, k := range s { g(k) } }`},
		"sorted in a case": {"sort", `func f(m map[string]int, x int) (s []string) { switch x { case 1: for k := range m { s = append(s, k) }; sort.Strings(s) }; return s }`},
		"sorted values":    {"slices", `func f(m map[string]int) (s []int) { for _, v := range m { s = append(s, v) }; slices.Sort(s); return s }`},
		"sorted iterator":  {"maps slices", `func f(m map[string]int, g func(string)) { for _, k := range slices.Sorted(maps.Keys(m)) { g(k) } }`},
		"type parameter":   {"cmp slices", `func f[K cmp.Ordered, V any](m map[K]V) []K { s := make([]K, 0, len(m)); for k := range m { s = append(s, k) }; slices.Sort(s); return s }`},
		"copied map":       {"", `func f(m map[string]int) map[string]int { d := map[string]int{}; for k, v := range m { d[k] = v }; return d }`},
		"set of keys":      {"", `func f(m map[string]int) map[string]struct{} { d := map[string]struct{}{}; for k := range m { d[k] = struct{}{} }; return d }`},
		"deleted keys":     {"", `func f(m, d map[string]int) { for k := range m { delete(d, k) } }`},
		"counted":          {"", `func f(m map[string]int) (n int) { for range m { n++ }; return n }`},
		"slices and ints":  {"", `func f(s []int, g func(int)) { for _, x := range s { g(x) }; for i := range 3 { g(i) }; for _, r := range "x" { g(int(r)) } }`},
		"maps.Clone":       {"maps", `func f(m map[string]int) map[string]int { return maps.Clone(m) }`},
		"read a variable":  {"regexp", `var re = regexp.MustCompile("x"); var names = map[string]int{"a": 1}; func f(s string) (bool, int) { return re.MatchString(s), names[s] }`},
		"local shadow":     {"", `var n int; func f() int { n := 1; n++; p := &n; *p = 2; return n }`},
		"local print":      {"", `func f(print func(string)) { print("x") }`},
		"context passed":   {"context", `type E interface{ Do(context.Context) error }; func f(ctx context.Context, e E) error { return e.Do(ctx) }`},
		"own Err":          {"", `type T struct{}; func (T) Err() error { return nil }; func (T) Done() bool { return true }; func f(t T) (error, bool) { return t.Err(), t.Done() }`},
		"Sprint":           {"fmt io", `func f(w io.Writer) { fmt.Fprintln(w, fmt.Sprintf("%d%%", 1)) }`},
		"layers":           {"investigator/internal/ledger investigator/internal/edge investigator/internal/verdict", `var _ edge.Edge; func f(s ledger.Sum) (string, string) { return s.String(), verdict.Tool }`},
		"init method":      {"", `type T int; func (T) init() {}`},
	}
}

func TestGatePasses(t *testing.T) {
	imp := imports(t)
	loop := Packages()[slices.IndexFunc(Packages(), func(p Package) bool { return p.Name == "loop" })]
	for name, s := range good() {
		t.Run(name, func(t *testing.T) {
			found, err := CheckSource(snippet(s.imports, s.body), loop, imp)
			if len(found) > 0 || err != nil {
				t.Errorf("%v %v in:\n%s", found, err, s.body)
			}
		})
	}
}

func TestCheckReadsFolders(t *testing.T) {
	imp := imports(t)
	p := Package{Name: "p"}
	write := func(files map[string]string) string {
		dir := t.TempDir()
		for name, text := range files {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	if _, err := Check(filepath.Join(t.TempDir(), "missing"), p, imp); err == nil {
		t.Error("a missing package passed")
	}
	if _, err := Check(write(map[string]string{"p_test.go": "package p"}), p, imp); err == nil {
		t.Error("a package without source passed")
	}
	if _, err := Check(write(map[string]string{"p.go": "package p\nfunc f() { x }"}), p, imp); err == nil {
		t.Error("source that does not compile passed")
	}
	if _, err := Check(write(map[string]string{"p.go": "package"}), p, imp); err == nil {
		t.Error("source that does not parse passed")
	}
	found, err := Check(write(map[string]string{"p.go": "package p", "p_windows.go": "package p\nfunc init() {}", "a.s": "", "p_test.go": "package p\nfunc init() {}"}), p, imp)
	if err != nil || len(found) != 2 || found[0].Rule != "file" || found[1].Rule != "init" {
		t.Errorf("found %v, %v; want the assembly and the other system's init, not the test's", found, err)
	}
}

// The lists themselves must not be the hole.
func TestListsHoldTheLine(t *testing.T) {
	worldly := []string{"time", "os", "net", "sync", "log", "rand", "unsafe", "runtime", "syscall", "reflect", "http", "exec", "testing", "plugin", "maphash", "unique", "weak", "signal", "filepath"}
	seen := []string{}
	for _, p := range Packages() {
		for _, path := range slices.Concat(std(), p.Modules) {
			for _, part := range strings.Split(path, "/") {
				// The one exception: scrub compiles a pattern on first use, by
				// sync.OnceValue, which no result can depend on.
				if excepted := p.Name == "scrub" && path == "sync"; slices.Contains(worldly, part) && !excepted {
					t.Errorf("%s may import %s", p.Name, path)
				}
			}
		}
		for _, layer := range p.Layers {
			if !slices.Contains(seen, layer) {
				t.Errorf("%s may import %s, which is not below it", p.Name, layer)
			}
		}
		seen = append(seen, p.Name)
	}
}
