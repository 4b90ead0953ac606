package report

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/edge"
)

func printed(color bool, width int, f func(*Printer)) string {
	var b strings.Builder
	f(NewPrinter(&b, color, width))
	return b.String()
}

type name string

type named struct{ s string }

func (n named) String() string { return n.s }

// An argument's text is cleaned whatever its type is called: a type of the
// name Origin passed as it was.
func TestLineCleansEveryText(t *testing.T) {
	const bad, good = "a\x1bb", `a\u{1b}b`
	for what, arg := range map[string]any{
		"string": bad, "bytes": []byte(bad), "error": errors.New(bad), "stringer": named{bad},
		"named string": name(bad), "origin": edge.Origin(bad), "raw JSON": json.RawMessage(bad),
	} {
		if got := printed(false, 80, func(p *Printer) { p.Line(Plain, "%s", arg) }); got != good+"\n" {
			t.Errorf("%s: %q", what, got)
		}
	}
	if got := printed(false, 80, func(p *Printer) { p.Line(Plain, "%d %v %.1f", 7, nil, 0.5) }); got != "7 <nil> 0.5\n" {
		t.Errorf("other arguments: %q", got)
	}
}

func TestColourStandsAroundTheLine(t *testing.T) {
	line := func(p *Printer) { p.Line(Red, "%s", "x\x1b[0m") }
	if got, want := printed(true, 80, line), "\x1b[31mx\\u{1b}[0m\x1b[0m\n"; got != want {
		t.Errorf("with colour: %q, want %q", got, want)
	}
	if got := printed(false, 80, line); strings.Contains(got, "\x1b") {
		t.Errorf("without colour: %q", got)
	}
	if got := printed(true, 80, func(p *Printer) { p.Line(Plain, "x") }); got != "x\n" {
		t.Errorf("plain: %q", got)
	}
}

func TestWrapped(t *testing.T) {
	for name, tt := range map[string]struct {
		label, text string
		want        []string
	}{
		"short":       {"  summary  ", "one two", []string{"  summary  one two"}},
		"wraps":       {"  a  ", "one two three four five six seven", []string{"  a  one two three four", "     five six seven"}},
		"paragraphs":  {"  a  ", "one\ntwo", []string{"  a  one", "     two"}},
		"blank lines": {"  a  ", "one\n\ntwo", []string{"  a  one", "", "     two"}},
		"nothing":     {"  a  ", "", []string{"  a"}},
		"escapes":     {"  a  ", "\x1b[2J", []string{`  a  \u{1b}[2J`}},
		// A long word used to be broken by the terminal, at column 0, where it
		// could look like a line of ours.
		"a long word": {"  a  ", "x " + strings.Repeat("y", 30), []string{"  a  x", "     " + strings.Repeat("y", 20), "     " + strings.Repeat("y", 10)}},
		"wide text":   {"  a  ", strings.Repeat("日", 15), []string{"  a  " + strings.Repeat("日", 10), "     " + strings.Repeat("日", 5)}},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Split(strings.TrimSuffix(printed(false, 25, func(p *Printer) { p.Wrapped(tt.label, tt.text) }), "\n"), "\n")
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("want (-), got (+):\n%s", d)
			}
		})
	}
}

func TestStreamKeepsLinesAndNothingElse(t *testing.T) {
	got := printed(true, 80, func(p *Printer) {
		p.Stream("one\n")
		p.Stream(`C:\new` + "\x1b[2J")
	})
	if want := "one\n" + `C:\new\u{1b}[2J`; got != want {
		t.Errorf("streamed %q, want %q", got, want)
	}
}

func TestWidthUnknownOrTooSmall(t *testing.T) {
	for _, width := range []int{0, -1, 20} {
		if got := NewPrinter(nil, false, width).width; got != 110 {
			t.Errorf("width %d becomes %d", width, got)
		}
	}
}
