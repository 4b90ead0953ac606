package ledger

import (
	"bytes"
	"encoding/json"
	"errors"
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
	f.Fuzz(func(t *testing.T, in []byte) {
		got, err := Canon(in)
		if valid := json.Valid(in); (err == nil) != valid {
			t.Fatalf("Canon(%q): error %v, but encoding/json says valid=%v", in, err, valid)
		}
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
		sameMeaning(t, in, got)
	})
}

// sameMeaning compares with encoding/json as the judge; json.Number keeps the
// numbers' text.
func sameMeaning(t *testing.T, a, b []byte) {
	t.Helper()
	if x, y := decoded(t, a), decoded(t, b); x != y {
		t.Fatalf("meaning changed: %s became %s", x, y)
	}
}

func decoded(t *testing.T, b []byte) string {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(b))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		t.Fatal(err)
	}
	out, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
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
