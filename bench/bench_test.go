package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

func TestRowsAreJudged(t *testing.T) {
	ms := func(n float64) quantity { return quantity{n * 1e6, nanoseconds} }
	for name, c := range map[string]struct {
		row           row
		ratio, target string
		verdict       string
	}{
		"below most":         {versus("w", ms(2), "a", ms(1), 2.5, 0), "2 ×", "≤ 2.5 ×", "ok"},
		"above most":         {versus("w", ms(3), "a", ms(1), 2.5, 0), "3 ×", "≤ 2.5 ×", "MISSED"},
		"above least":        {versus("w", ms(1), "a", ms(200), 0, 100), "200 ×", "≥ 100 ×", "ok"},
		"below least":        {versus("w", ms(1), "a", ms(99), 0, 100), "99 ×", "≥ 100 ×", "MISSED"},
		"within":             {within("w", ms(15), ms(15)), "–", "≤ 15ms", "ok"},
		"beyond":             {within("w", ms(16), ms(15)), "–", "≤ 15ms", "MISSED"},
		"no target":          {versus("w", ms(34), "a", ms(1), 0, 0), "34 ×", "none", "–"},
		"faster":             {faster("w", ms(1), "a", ms(2500)), "2500 ×", "none", "–"},
		"bytes":              {within("w", weighs(21_000_000), weighs(20_000_000)), "–", "≤ 20 MB", "MISSED"},
		"a large ratio":      {versus("w", ms(1), "a", ms(12345), 0, 100), "12345 ×", "≥ 100 ×", "ok"},
		"a rate above least": {versus("w", quantity{96, perSecond}, "a", quantity{100, perSecond}, 0, 0.95), "0.96 ×", "≥ 0.95 ×", "ok"},
		"a rate below least": {versus("w", quantity{94, perSecond}, "a", quantity{100, perSecond}, 0, 0.95), "0.94 ×", "≥ 0.95 ×", "MISSED"},
		"a rate, no target":  {versus("w", quantity{50, perSecond}, "a", quantity{100, perSecond}, 0, 0), "0.5 ×", "none", "–"},
		"none lost":          {within("w", counted(0), counted(0)), "–", "≤ 0 calls", "ok"},
		"one lost":           {within("w", counted(1), counted(0)), "–", "≤ 0 calls", "MISSED"},
		"not measured":       {row{What: "w", Missing: "no python3", Least: 7}, "–", "≥ 7 ×", "NOT MEASURED"},
		"a small number":     {versus("w", quantity{900, nanoseconds}, "a", quantity{1000, nanoseconds}, 1, 0), "0.9 ×", "≤ 1 ×", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			cells := c.row.judged().cells()
			if d := cmp.Diff([]string{c.ratio, c.target, c.verdict}, cells[len(cells)-3:]); d != "" {
				t.Errorf("ratio, target and result (-want +got):\n%s", d)
			}
		})
	}
}

func someRows() []row {
	b := &bench{at: "open"}
	b.add(versus("opening", quantity{10e6, nanoseconds}, "go-vcr", quantity{3.4e9, nanoseconds}, 0, 100))
	b.at = "size"
	b.add(within("größe", weighs(2_000), weighs(1_000)))
	return b.rows
}

func TestTable(t *testing.T) {
	var out bytes.Buffer
	if err := table(&out, someRows()); err != nil {
		t.Fatal(err)
	}
	var got []string
	for line := range strings.Lines(out.String()) {
		got = append(got, strings.TrimRight(line, " \n"))
	}
	want := []string{
		"what     ours  compared with  theirs  ratio  target   result",
		"",
		"go run ./bench --only open",
		"opening  10ms  go-vcr         3.4s    340 ×  ≥ 100 ×  ok",
		"",
		"go run ./bench --only size",
		"größe    2 KB  –              –       –      ≤ 1 KB   MISSED",
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

func TestMarkdown(t *testing.T) {
	var out bytes.Buffer
	if err := markdown(&out, someRows()); err != nil {
		t.Fatal(err)
	}
	want := "| what | ours | compared with | theirs | ratio | target | result | repeat |\n" +
		"|---|---|---|---|---|---|---|---|\n" +
		"| opening | 10ms | go-vcr | 3.4s | 340 × | ≥ 100 × | ok | `go run ./bench --only open` |\n" +
		"| größe | 2 KB | – | – | – | ≤ 1 KB | MISSED | `go run ./bench --only size` |\n"
	if d := cmp.Diff(want, out.String()); d != "" {
		t.Errorf("table (-want +got):\n%s", d)
	}
}

func TestUsage(t *testing.T) {
	for args, want := range map[string]string{
		"--only sizes": `unknown section "sizes", expected one of size, open`,
		"fast":         `expected flags alone, found "fast"`,
		"--fast":       "flag provided but not defined: -fast",
	} {
		var out, notes bytes.Buffer
		if code := run(t.Context(), strings.Fields(args), &out, &notes); code != exitUsage {
			t.Errorf("%s: status %d", args, code)
		}
		if !strings.Contains(notes.String(), want) || out.Len() > 0 {
			t.Errorf("%s: said %q, printed %q", args, notes.String(), out.String())
		}
	}
	if code := run(t.Context(), []string{"--help"}, new(bytes.Buffer), new(bytes.Buffer)); code != exitDone {
		t.Errorf("--help: status %d", code)
	}
}

// TestOneSection runs a section as the command does.
func TestOneSection(t *testing.T) {
	dir := t.TempDir()
	var out, notes bytes.Buffer
	code := run(t.Context(), []string{"--only", "diff", "--quick", "--json", "--dir", dir}, &out, &notes)
	if code != exitDone && code != exitMissed { // what a loaded machine measures is not this test's business
		t.Fatalf("status %d: %s", code, notes.String())
	}
	var rows []row
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil {
		t.Fatal(err)
	}
	if len(rows) != 2 || rows[0].Repeat != "go run ./bench --only diff --quick" || rows[0].Most != 2.5 || rows[0].Ours.Value <= 0 {
		t.Errorf("rows: %+v", rows)
	}
	if left, err := os.ReadDir(dir); err != nil || len(left) > 0 {
		t.Errorf("left behind: %v, error %v", left, err)
	}
}

func TestCompareMeasuresInTurn(t *testing.T) {
	var order strings.Builder
	slow := func(name string) task {
		return func() error {
			order.WriteString(name)
			busy(enough)
			return nil
		}
	}
	times, err := compare(t.Context(), 3, slow("a"), slow("b"))
	if err != nil {
		t.Fatal(err)
	}
	if got := order.String(); got != "abababab" {
		t.Errorf("order %q", got)
	}
	for i, r := range times {
		if len(r) != 3 || r.best() < enough || r.middle() < r.best() {
			t.Errorf("side %d: %v", i, r)
		}
	}
}

// busy takes d by the same clock that measures it.
func busy(d time.Duration) {
	for began := time.Now(); time.Since(began) < d; {
	}
}

func TestCompareEndsWithItsTasks(t *testing.T) {
	broken := errors.New("broken")
	if _, err := compare(t.Context(), 3, func() error { return broken }); !errors.Is(err, broken) {
		t.Errorf("error %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := compare(ctx, 3, func() error { return nil }); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestStatistics(t *testing.T) {
	r := rounds{4, 100, 2, 3}
	if r.best() != 2 || r.middle() != 4 || r.trimmed() != 3 {
		t.Errorf("best %d, middle %d, trimmed %d", r.best(), r.middle(), r.trimmed())
	}
}

// TestUniqueBytes: every text of a run counts once, whatever the conversation
// repeats of it.
func TestUniqueBytes(t *testing.T) {
	short, err := uniqueBytes(4, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	long, err := uniqueBytes(7, 1<<10)
	if err != nil {
		t.Fatal(err)
	}
	if more := long - short; more < 3<<10 || more > 3*(2<<10) {
		t.Errorf("three turns more of 1 KB weigh %d bytes more", more)
	}
}

// TestRaceWritesTheSame: both sides write as many bytes, and what ours wrote is
// the run.
func TestRaceWritesTheSame(t *testing.T) {
	const turns = 13
	text, err := generated(turns, 300)
	if err != nil {
		t.Fatal(err)
	}
	b := &bench{dir: t.TempDir()}
	bare, against, err := b.bareWriter(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(b.dir, "ours.yaml")
	w, err := recorder.Create(path, recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	before := sizeOf(t, path)
	r := race{sizes: lineSizes(text), lines: 5, blocks: 4, ours: w, theirs: bare}
	if _, err := recordertest.Generate(recordertest.Options{Turns: turns, Bytes: 300}, loop.SinkFunc(r.took)); !errors.Is(err, errEnough) {
		t.Fatal(err)
	}
	if err := errors.Join(w.Close(), bare.Close()); err != nil {
		t.Fatal(err)
	}
	if ours, theirs := sizeOf(t, path)-before, sizeOf(t, filepath.Join(b.dir, "bare")); ours != theirs {
		t.Errorf("ours wrote %d bytes, %s %d", ours, against, theirs)
	}
	c, err := recorder.Open(path)
	if err != nil || c.Len() != 20 || len(r.mine) != 4 || len(r.bare) != 4 {
		t.Errorf("error %v; blocks %v and %v", err, r.mine, r.bare)
	}
}

// TestGoWriter is the other side where there is no C compiler.
func TestGoWriter(t *testing.T) {
	path := filepath.Join(t.TempDir(), "bare")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	w := goWriter{f}
	if _, err := w.write([]int{3, 5, 7}); err != nil {
		t.Fatal(err)
	}
	if err := w.Close(); err != nil || sizeOf(t, path) != 15 {
		t.Errorf("wrote %d bytes, error %v", sizeOf(t, path), err)
	}
}

func sizeOf(t *testing.T, path string) int64 {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info.Size()
}

// TestBedrockRunsInPairs: both runs of a pair are whole, and each recorded call
// was measured.
func TestBedrockRunsInPairs(t *testing.T) {
	r := pairOfRuns{turns: 4, pairs: 2, dir: filepath.Join(t.TempDir(), "runs")}
	if err := r.measure(t.Context()); err != nil {
		t.Fatal(err)
	}
	calls := 2 * (4 + 3)
	if len(r.with) != 2 || len(r.without) != 2 || len(r.calls) != calls || len(r.memory) != calls {
		t.Errorf("%d and %d runs, %d and %d calls", len(r.with), len(r.without), len(r.calls), len(r.memory))
	}
	all := 0
	for n := range 4 {
		all += len(r.quarter(n))
	}
	if all != calls {
		t.Errorf("the quarters hold %d calls of %d", all, calls)
	}
	for n := range 2 {
		c, err := recorder.Open(filepath.Join(r.dir, fmt.Sprintf("%d.yaml", n)))
		if err != nil || !c.Sealed() {
			t.Errorf("run %d: error %v", n, err)
		}
	}
}
