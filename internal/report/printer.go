package report

import (
	"fmt"
	"io"
	"reflect"
	"strings"
)

// Printer writes lines for people. Its methods take a trusted format and
// untrusted arguments.
type Printer struct {
	w     io.Writer
	color bool
	width int
	piped bool // the width is not known
}

// NewPrinter returns a printer on w. color turns ANSI colours on; width is the
// terminal's width in characters, 0 if unknown.
func NewPrinter(w io.Writer, color bool, width int) *Printer {
	p := &Printer{w: w, color: color, width: width}
	if width <= 20 {
		p.width, p.piped = 110, true
	}
	return p
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

// cleaned makes every text among the arguments safe, also where its type has
// another name.
func cleaned(args []any) []any {
	out := make([]any, len(args))
	for i, a := range args {
		out[i] = a
		switch v := a.(type) {
		case nil:
			continue
		case error:
			out[i] = Clean(v.Error())
			continue
		case fmt.Stringer:
			out[i] = Clean(v.String())
			continue
		}
		switch v := reflect.ValueOf(a); {
		case v.Kind() == reflect.String:
			out[i] = Clean(v.String())
		case v.Kind() == reflect.Slice && v.Type().Elem().Kind() == reflect.Uint8:
			out[i] = Clean(string(v.Bytes()))
		}
	}
	return out
}

// wrap breaks cleaned text into lines of at most width columns. A word that is
// longer is broken too, or the terminal would break it, at column 0, where our
// own lines begin.
func wrap(s string, width int) []string {
	width = max(width, 20)
	var lines []string
	line, used := "", 0
	for _, word := range strings.Fields(s) {
		for _, piece := range pieces(word, width) {
			n := widthOf(piece)
			switch {
			case line == "":
				line, used = piece, n
			case used+1+n <= width:
				line, used = line+" "+piece, used+1+n
			default:
				lines = append(lines, line)
				line, used = piece, n
			}
		}
	}
	return append(lines, line)
}

// pieces cuts a word into pieces of at most width columns.
func pieces(word string, width int) []string {
	var out []string
	start, used := 0, 0
	for i, r := range word {
		n := columnsOf(r)
		if used+n > width {
			out, start, used = append(out, word[start:i]), i, 0
		}
		used += n
	}
	return append(out, word[start:])
}

// Stream writes a piece of untrusted text as it comes, without a line break of
// its own.
func (p *Printer) Stream(piece string) {
	fmt.Fprint(p.w, strings.Join(Paragraphs(piece), "\n"))
}
