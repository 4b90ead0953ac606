package recorder

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"strings"
	"testing"

	"investigator/internal/loop"
)

// finishedRun is a short run that ends by itself, and the text of its seal up
// to the sum.
func finishedRun(t testing.TB) (head []byte, w *Writer, seal string) {
	t.Helper()
	w, err := NewMemory(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	s, _, err := loop.New(w.header.Start)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := loop.Run(t.Context(), s, stopping(), w); err != nil {
		t.Fatal(err)
	}
	text := w.Bytes()
	at := bytes.LastIndex(text, []byte(sealKey))
	return text[:at], w, string(text[at : len(text)-sumTail-1])
}

// summed ends a forged line with the sum that fits after chain.
func summed(chain [sha256.Size]byte, text string) string {
	sum := sha256.Sum256(append(chain[:], text...))
	return text + sumMember + hex.EncodeToString(sum[:]) + "\"}\n"
}

// A seal whose sum fits but which says something else than the lines is
// refused, at the latest when the events are read.
func TestForgedSealsAreRefused(t *testing.T) {
	head, w, seal := finishedRun(t)
	for name, edit := range map[string][2]string{
		"interactions": {`"interactions":`, `"interactions":1`},
		"events":       {`"events":`, `"events":1`},
		"ledger":       {`"ledger":"`, `"ledger":"0`},
		"finished":     {`"outcome":"`, `"outcome":"un`},
		"no JSON":      {`"events"`, `events`},
	} {
		t.Run(name, func(t *testing.T) {
			forged := strings.Replace(seal, edit[0], edit[1], 1)
			if forged == seal {
				t.Fatalf("the seal holds no %s: %s", edit[0], seal)
			}
			c, err := Parse("forged.yaml", append(bytes.Clone(head), summed(w.chain, forged)...))
			if err == nil {
				_, err = c.Events()
			}
			var damage *Damage
			if !errors.As(err, &damage) || !strings.Contains(damage.Reason, "the seal") || damage.Line != firstLineNo+w.count {
				t.Errorf("read: %v", err)
			}
		})
	}
}

func TestNothingFollowsASeal(t *testing.T) {
	head, w, seal := finishedRun(t)
	text := summed(w.chain, seal)
	after, _ := sumIn([]byte(strings.TrimSuffix(text, "\n")))
	for _, more := range []string{`seal: {"a":1`, `- {"id":1`} {
		b := append(append(bytes.Clone(head), text...), summed(after, more)...)
		var damage *Damage
		if err := Verify(b); !errors.As(err, &damage) || !strings.Contains(damage.Reason, "after the seal") {
			t.Errorf("%s after the seal: %v", more, err)
		}
	}
}

func TestForgedStartSumIsRefused(t *testing.T) {
	p, err := prepare(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	h := p.header
	h.StartSum = strings.Repeat("0", 64)
	text, _, err := encodeHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Parse("forged.yaml", text); err == nil || !strings.Contains(err.Error(), "run.started: sum") {
		t.Errorf("Parse: %v", err)
	}
}

// What the format says is escaped is, also where yaml.v3 would forgive it.
func TestEscapes(t *testing.T) {
	for text, want := range map[string]string{
		"a/<&>é\U0001F600": "\"a/<&>é\U0001F600\"", "\"\\\n\r\t": `"\"\\\n\r\t"`, "\x00\x1f\x7f": `"\u0000\u001f\u007f"`,
		"\u0080\u0085\u009f\u00a0": "\"\\u0080\\u0085\\u009f\u00a0\"", "\u2028\u2029": `"\u2028\u2029"`, "\ufeff\ufffe\uffff\ufffd": "\"\\ufeff\\ufffe\\uffff\ufffd\"",
	} {
		if got := string(appendText(nil, text)); got != want {
			t.Errorf("%q is written %s, want %s", text, got, want)
		}
		if got, err := unquote([]byte(want)); string(got) != text || err != nil {
			t.Errorf("%s is read %q, %v", want, got, err)
		}
	}
}

func TestUnquoteReadsJSONStrings(t *testing.T) {
	for _, s := range []string{`"\b\f\/"`, `"\u00E9\u00e9"`, `""`, `"\u0000"`} {
		var want string
		if err := json.Unmarshal([]byte(s), &want); err != nil {
			t.Fatal(err)
		}
		if got, err := unquote([]byte(s)); err != nil || string(got) != want {
			t.Errorf("%s is read %q, %v; want %q", s, got, err, want)
		}
	}
	for _, s := range []string{``, `"`, `x`, `"a`, `"\"`, `"\u12"`, `"\u12g4"`, `"\ud800"`, `"\udfff"`, `"\x41"`, "\"\n\"", `"a"b"`} {
		if got, err := unquote([]byte(s)); err == nil {
			t.Errorf("%s is read as %q", s, got)
		}
	}
}
