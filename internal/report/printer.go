package report

import (
	"fmt"
	"io"
	"strings"
)

// Printer writes lines for people. Its methods take a trusted format and
// untrusted arguments.
type Printer struct {
	w     io.Writer
	color bool
	width int
}

// NewPrinter returns a printer on w. color turns ANSI colours on; width is the
// terminal's width in characters, 0 if unknown.
func NewPrinter(w io.Writer, color bool, width int) *Printer {
	if width <= 20 {
		width = 110
	}
	return &Printer{w: w, color: color, width: width}
}

// Style is a colour of the terminal's own palette.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Dim    Style = "2"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
	Cyan   Style = "36"
)

// Line writes one line. Arguments that are strings are cleaned, so that a
// model's words cannot be taken for ours.
func (p *Printer) Line(style Style, format string, args ...any) {
	text := fmt.Sprintf(format, cleaned(args)...)
	if p.color && style != Plain {
		text = "\x1b[" + string(style) + "m" + text + "\x1b[0m"
	}
	fmt.Fprintln(p.w, text)
}

// Blank writes an empty line.
func (p *Printer) Blank() { fmt.Fprintln(p.w) }

// Wrapped writes untrusted text of any length, wrapped to the width and
// indented; label stands before its first line.
func (p *Printer) Wrapped(label, text string) {
	indent := strings.Repeat(" ", len(label))
	for i, par := range Paragraphs(strings.TrimSpace(text)) {
		for j, line := range wrap(par, p.width-len(label)) {
			lead := indent
			if i == 0 && j == 0 {
				lead = label
			}
			fmt.Fprintln(p.w, strings.TrimRight(lead+line, " "))
		}
	}
}

func cleaned(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		switch v := a.(type) {
		case string:
			out[i] = Clean(v)
		case []byte:
			out[i] = Clean(string(v))
		case error:
			out[i] = Clean(v.Error())
		case fmt.Stringer:
			out[i] = Clean(v.String())
		default:
			out[i] = a
		}
	}
	return out
}

func wrap(s string, width int) []string {
	if width < 20 {
		width = 20
	}
	var lines []string
	line := ""
	for _, word := range strings.Fields(s) {
		switch {
		case line == "":
			line = word
		case len([]rune(line))+1+len([]rune(word)) <= width:
			line += " " + word
		default:
			lines = append(lines, line)
			line = word
		}
	}
	return append(lines, line)
}

// Stream writes a piece of untrusted text as it comes, without a line break of
// its own.
func (p *Printer) Stream(piece string) {
	fmt.Fprint(p.w, strings.Join(Paragraphs(piece), "\n"))
}
