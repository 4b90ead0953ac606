package report

import (
	"fmt"
	"strings"
	"unicode"
	"unicode/utf16"
	"unicode/utf8"
)

// Clean makes untrusted text safe to print on one line: control characters,
// escape sequences, direction marks, invisible characters, piles of combining
// marks and bytes that are not UTF-8 are shown as escapes.
func Clean(s string) string {
	if harmless(s) {
		return s
	}
	var b strings.Builder
	marks := 0
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		marks = countMarks(marks, r)
		switch {
		case r == utf8.RuneError && size == 1:
			fmt.Fprintf(&b, `\x%02x`, s[i])
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case unsafe(r), marks > maxMarks:
			fmt.Fprintf(&b, `\u{%x}`, r)
		default:
			b.WriteRune(r)
		}
		i += size
	}
	return b.String()
}

func harmless(s string) bool {
	marks := 0
	for _, r := range s {
		if marks = countMarks(marks, r); unsafe(r) || marks > maxMarks {
			return false
		}
	}
	return utf8.ValidString(s)
}

// maxMarks is how many combining marks one character may carry. Scripts need
// up to three; a pile of them covers the lines above and below.
const maxMarks = 4

func countMarks(before int, r rune) int {
	if r < 0x300 || !unicode.In(r, unicode.Mn, unicode.Me) {
		return 0
	}
	return before + 1
}

// unsafe reports whether a character could do more on a terminal than be read,
// or hides from its reader.
func unsafe(r rune) bool {
	if r < 0x7f {
		return r < 0x20
	}
	return !unicode.IsGraphic(r) || invisible(r)
}

// invisible reports whether a character that counts as a letter, a mark or a
// symbol is drawn as nothing. The two selectors that pick how an emoji looks are
// left alone.
func invisible(r rune) bool {
	switch r {
	case 0x034f, 0x115f, 0x1160, 0x17b4, 0x17b5, 0x2800, 0x3164, 0xffa0:
		return true
	case 0xfe0e, 0xfe0f:
		return false
	}
	return unicode.Is(unicode.Variation_Selector, r)
}

// Paragraphs cleans text of several lines, keeping its line breaks.
func Paragraphs(s string) []string {
	lines := strings.Split(strings.ReplaceAll(s, "\r\n", "\n"), "\n")
	for i, l := range lines {
		lines[i] = Clean(l)
	}
	return lines
}

// Shorten cuts s to at most max columns of a terminal, with an ellipsis where
// it cut.
func Shorten(s string, max int) string {
	if len(s) <= max {
		return s
	}
	if max < 1 {
		return ""
	}
	used, end := 0, 0 // end is where the ellipsis would stand
	for i, r := range s {
		if used < max {
			end = i
		}
		if used += columnsOf(r); used > max {
			return s[:end] + "…"
		}
	}
	return s
}

// widthOf is how many columns of a terminal cleaned text takes.
func widthOf(s string) int {
	n := 0
	for _, r := range s {
		n += columnsOf(r)
	}
	return n
}

// columnsOf is how many columns a character takes: two for those of East Asian
// scripts and emoji, none for marks.
func columnsOf(r rune) int {
	switch {
	case r < 0x300:
		return 1
	case unicode.In(r, unicode.Mn, unicode.Me):
		return 0
	case r >= 0x1100 && r <= 0x115f, r >= 0x2e80 && r <= 0xa4cf, r >= 0xac00 && r <= 0xd7a3, r >= 0xf900 && r <= 0xfaff,
		r >= 0xfe30 && r <= 0xfe4f, r >= 0xff01 && r <= 0xff60, r >= 0xffe0 && r <= 0xffe6, r >= 0x1f300 && r <= 0x1faff,
		r >= 0x20000 && r <= 0x3fffd:
		return 2
	}
	return 1
}

// CleanJSON makes indented JSON safe to print: what Clean would escape becomes
// a JSON escape, so the text stays JSON of the same meaning. Line breaks stay.
func CleanJSON(s string) string {
	if strings.IndexFunc(s, func(r rune) bool { return r != '\n' && unsafe(r) }) < 0 {
		return s
	}
	var b strings.Builder
	for _, r := range s {
		switch {
		case r == '\n' || !unsafe(r):
			b.WriteRune(r)
		case r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&b, `\u%04x\u%04x`, hi, lo)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	return b.String()
}
