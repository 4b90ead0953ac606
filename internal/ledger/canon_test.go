package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestCanon(t *testing.T) {
	cases := map[string]struct{ in, want string }{
		"sorted":             {`{"b":1, "a":2}`, `{"a":2,"b":1}`},
		"nested":             {`{"z":{"y":1,"x":[{"b":0,"a":0}]}}`, `{"z":{"x":[{"a":0,"b":0}],"y":1}}`},
		"last repeated wins": {`{"d":1,"a":0,"d":2}`, `{"a":0,"d":2}`},
		"numbers as written": {`[9007199254740993,1.0,1e400,-0.0,1E+2]`, `[9007199254740993,1.0,1e400,-0.0,1E+2]`},
		"no html escapes":    {`"<&>\u003c"`, `"<&><"`},
		"short escapes":      {`"\u000a\u0009\u0001\/"`, `"\n\t\u0001/"`},
		"pair":               {`"\ud83d\ude00"`, `"😀"`},
		"lone surrogate":     {`"x\ud83dy"`, "\"x\uFFFDy\""},
		"two high halves":    {`"\ud83d\ud83d\ude00"`, "\"\uFFFD😀\""},
		"bad utf-8":          {"\"a\xffb\"", "\"a\uFFFDb\""},
		"escaped key order":  {`{"a\"b":1,"a!":2}`, `{"a!":2,"a\"b":1}`},
		"line separators":    {"\"\u2028\u2029\"", "\"\u2028\u2029\""},
		"empty":              {` { } `, `{}`},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			got, err := Canon([]byte(c.in))
			if err != nil || string(got) != c.want {
				t.Fatalf("Canon(%s) = %s, %v; want %s", c.in, got, err, c.want)
			}
		})
	}
}

func TestCanonRefuses(t *testing.T) {
	for _, in := range []string{"", "{", "[1,]", `{"a":1,}`, `{"a"}`, "01", "1.", "1e", "-", "nul", `"\x"`, `"\u12"`, "\"\n\"", "1 2", `{a:1}`, strings.Repeat("[", 20000)} {
		if out, err := Canon([]byte(in)); !errors.Is(err, ErrSyntax) {
			t.Errorf("Canon(%.20q) = %.20q, %v; want ErrSyntax", in, out, err)
		}
	}
}

func FuzzCanon(f *testing.F) {
	for _, s := range []string{`{"b":[1,2.50,{"c":"\ud83d"}],"a":"\u2028"}`, `"\ud83d\ude00"`, `{"a":1,"a":{"x":2}}`, "1e999", `{"\u0000":"\""}`} {
		f.Add([]byte(s))
	}
	for _, doc := range documents() {
		f.Add(doc[:200])
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		agree(t, in)
		got, err := Canon(in)
		if err != nil {
			return
		}
		again, err := Canon(got)
		if err != nil || !bytes.Equal(got, again) {
			t.Fatalf("not idempotent: %q then %q (%v)", got, again, err)
		}
		if !utf8.Valid(got) {
			t.Fatalf("not UTF-8: %q", got)
		}
	})
}

// plainly is the canonical form by its definition, of a value that encoding/json
// decoded.
func plainly(v any) string {
	switch v := v.(type) {
	case map[string]any:
		var out []string
		for _, name := range slices.Sorted(maps.Keys(v)) {
			out = append(out, plainText(name)+":"+plainly(v[name]))
		}
		return "{" + strings.Join(out, ",") + "}"
	case []any:
		var out []string
		for _, e := range v {
			out = append(out, plainly(e))
		}
		return "[" + strings.Join(out, ",") + "]"
	case string:
		return plainText(v)
	case nil:
		return "null"
	default: // json.Number, bool
		return fmt.Sprint(v)
	}
}

func plainText(s string) string {
	out := `"`
	for _, r := range s {
		switch at := strings.IndexRune("\b\t\n\f\r\"\\", r); {
		case at >= 0:
			out += `\` + `btnfr"\`[at:at+1]
		case r < 0x20:
			out += fmt.Sprintf(`\u%04x`, r)
		default:
			out += string(r)
		}
	}
	return out + `"`
}

func decode(t *testing.T, b []byte) (v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return v
}

// agree compares every way to the canonical form with its definition.
func agree(t *testing.T, in []byte) {
	t.Helper()
	before := bytes.Clone(in)
	got, err := Canon(in)
	if valid := json.Valid(in); (err == nil) != valid {
		t.Fatalf("Canon(%q): error %v, but encoding/json says valid=%v", in, err, valid)
	}
	if err != nil {
		if IsCanon(in) {
			t.Fatalf("%q is called canonical", in)
		}
		return
	}
	if want := plainly(decode(t, in)); string(got) != want {
		t.Fatalf("Canon(%q) = %q, expected %q", in, got, want)
	}
	other, err := InCanon(in)
	more, err2 := AppendCanon([]byte("x"), in)
	if err != nil || err2 != nil || !bytes.Equal(other, got) || string(more) != "x"+string(got) {
		t.Fatalf("%q: InCanon gives %q, AppendCanon %q, Canon %q", in, other, more, got)
	}
	if IsCanon(in) != bytes.Equal(in, got) || IsCanon(in) && &other[0] != &in[0] {
		t.Fatalf("%q: IsCanon %v, canonical %q", in, IsCanon(in), got)
	}
	if got[0] ^= 1; !bytes.Equal(in, before) {
		t.Fatalf("%q was changed or is shared", before)
	}
}

// TestCanonOfPieces: texts made of what changes the way a text is read, at every
// distance from each other.
func TestCanonOfPieces(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 4))
	pieces := []string{`\n`, `\"`, `\\`, `\/`, `\u000a`, `\u001f`, `\u001F`, `\u0041`, `\ud83d\ude00`, `\ud83d`, "é", "\xff", "\xe2\x80", "", "\u2028", "a", "abcdefg", "0123456789abcdef", "\x7f"}
	text := func() string {
		out := ""
		for range r.IntN(5) {
			out += pieces[r.IntN(len(pieces))]
		}
		return `"` + out + `"`
	}
	spaces := []string{"", "", "", "", " ", "\n\t"}
	var value func(depth int) string
	value = func(depth int) string {
		space := func() string { return spaces[r.IntN(len(spaces))] }
		switch n := r.IntN(7); {
		case n == 0 && depth > 0:
			var list []string
			for range r.IntN(4) {
				list = append(list, space()+value(depth-1)+space())
			}
			return "[" + strings.Join(list, ",") + "]"
		case n < 4 && depth > 0:
			var list []string
			for range r.IntN(12) {
				list = append(list, space()+text()+space()+":"+space()+value(depth-1)+space())
			}
			return "{" + strings.Join(list, ",") + "}"
		case n < 6:
			return text()
		}
		return []string{"0", "-1.50e+7", "true", "false", "null"}[r.IntN(5)]
	}
	for range 400 {
		doc := []byte(value(3))
		agree(t, doc)
		if canon, err := Canon(doc); err == nil {
			spansAgree(t, canon)
		}
	}
}

func TestAppendString(t *testing.T) {
	for _, s := range []string{"", "plain", "q\"\\\n\x01é😀\u2028", "bad\xffend", "\xed\xa0\xbd"} {
		got := AppendString(nil, s)
		want, err := Canon(got)
		if err != nil || !bytes.Equal(got, want) {
			t.Errorf("AppendString(%q) = %s; canonical is %s (%v)", s, got, want, err)
		}
	}
}
