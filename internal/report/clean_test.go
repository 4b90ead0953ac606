package report

import (
	"encoding/json"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestClean(t *testing.T) {
	for name, tt := range map[string]struct{ in, want string }{
		"plain":                {"config change: pool 50 → 10", "config change: pool 50 → 10"},
		"empty":                {"", ""},
		"line breaks":          {"a\nb\tc\r\n", `a\nb\tc\u{d}\n`},
		"colour":               {"\x1b[31mred\x1b[0m", `\u{1b}[31mred\u{1b}[0m`},
		"window title":         {"\x1b]0;owned\a", `\u{1b}]0;owned\u{7}`},
		"C1 control sequence":  {"\u009b2J", `\u{9b}2J`},
		"backspace and delete": {"a\b\x7f", `a\u{8}\u{7f}`},
		"NUL":                  {"a\x00b", `a\u{0}b`},
		"direction marks":      {"a\u202eb\u2066c\u061c\u200f", `a\u{202e}b\u{2066}c\u{61c}\u{200f}`},
		"zero width":           {"pay\u200bments\u2060\ufeff", `pay\u{200b}ments\u{2060}\u{feff}`},
		"line separators":      {"a\u2028b\u2029c\u0085", `a\u{2028}b\u{2029}c\u{85}`},
		"tags":                 {"a\U000e0041b", `a\u{e0041}b`},
		"variation selectors":  {"a\ufe00\U000e0101", `a\u{fe00}\u{e0101}`},
		"emoji as an emoji":    {"✔️ 👍🏽 é", "✔️ 👍🏽 é"},
		"fillers":              {"a\u3164\uffa0\u2800\u115f\u034fb", `a\u{3164}\u{ffa0}\u{2800}\u{115f}\u{34f}b`},
		"private use":          {"\ue000\U00100000", `\u{e000}\u{100000}`},
		"unassigned":           {"\u0378", `\u{378}`},
		"not UTF-8":            {"a\xffb\xc3", `a\xffb\xc3`},
		"replacement as such":  {"\ufffd", "\ufffd"},
		"a pile of marks":      {"e" + strings.Repeat("\u0301", 6), "e" + strings.Repeat("\u0301", 4) + `\u{301}\u{301}`},
		"scripts":              {"日本語 עברית ไทย้ é हिन्दी", "日本語 עברית ไทย้ é हिन्दी"},
	} {
		t.Run(name, func(t *testing.T) {
			if got := Clean(tt.in); got != tt.want {
				t.Errorf("Clean(%q) = %q, want %q", tt.in, got, tt.want)
			}
		})
	}
}

// FuzzClean holds what Clean promises of any bytes: one line of graphic
// characters, and no change the second time.
func FuzzClean(f *testing.F) {
	for _, s := range []string{"", "a\x1b[2J", "\u202e", "e\u0301\u0301\u0301\u0301\u0301\u0301", "\xff\xfe", "日本"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		got := Clean(s)
		if !utf8.ValidString(got) || strings.ContainsFunc(got, unsafe) {
			t.Errorf("Clean(%q) = %q", s, got)
		}
		if again := Clean(got); again != got {
			t.Errorf("Clean(%q) = %q, and again %q", s, got, again)
		}
		if n := widthOf(Shorten(got, 10)); n > 10 {
			t.Errorf("Shorten(%q, 10) takes %d columns", got, n)
		}
	})
}

func FuzzCleanJSON(f *testing.F) {
	for _, s := range []string{"", "\x1b", "\u009b", "\u202e\U000e0041", "a\"\\"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		doc, err := json.MarshalIndent(map[string]string{"v": s}, "", "  ")
		if err != nil {
			t.Fatal(err)
		}
		got := CleanJSON(string(doc))
		var before, after map[string]string
		if json.Unmarshal(doc, &before) != nil || json.Unmarshal([]byte(got), &after) != nil || before["v"] != after["v"] {
			t.Errorf("CleanJSON(%s) = %s: another document", doc, got)
		}
		if strings.ContainsFunc(got, func(r rune) bool { return r != '\n' && unsafe(r) }) {
			t.Errorf("CleanJSON(%s) = %q", doc, got)
		}
	})
}

func TestCleanJSONLeavesWhatIsSafe(t *testing.T) {
	const doc = "{\n  \"a\": \"→ é 日本\"\n}\n"
	if got := CleanJSON(doc); got != doc {
		t.Errorf("CleanJSON(%q) = %q", doc, got)
	}
	if got, want := CleanJSON("\"\u009b\U000e0041\""), `"\u009b\udb40\udc41"`; got != want {
		t.Errorf("CleanJSON = %s, want %s", got, want)
	}
}

func TestShorten(t *testing.T) {
	for _, tt := range []struct {
		in   string
		max  int
		want string
	}{
		{"abc", 3, "abc"}, {"abcd", 3, "ab…"}, {"äöü", 3, "äöü"}, {"äöüß", 3, "äö…"}, {"", 0, ""}, {"abc", 0, ""}, {"abc", -5, ""}, {"abc", 1, "…"},
		{"日本語", 6, "日本語"}, {"日本語", 5, "日本…"}, {"日本語", 4, "日…"}, {"e\u0301a", 2, "e\u0301a"},
	} {
		if got := Shorten(tt.in, tt.max); got != tt.want {
			t.Errorf("Shorten(%q, %d) = %q, want %q", tt.in, tt.max, got, tt.want)
		}
	}
}

func TestParagraphs(t *testing.T) {
	got := strings.Join(Paragraphs("one\r\ntwo\x1b\n\nthree"), "|")
	if want := `one|two\u{1b}||three`; got != want {
		t.Errorf("Paragraphs: %s, want %s", got, want)
	}
}
