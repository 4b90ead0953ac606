package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"math/rand/v2"
	"strings"
	"testing"
	"unicode/utf8"

	"investigator/internal/converse"
	"investigator/internal/ledger"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"gopkg.in/yaml.v3"
)

// FuzzParse reads anything, and anything as the body of a line whose sum fits.
func FuzzParse(f *testing.F) {
	p, err := prepare(testStart(f))
	if err != nil {
		f.Fatal(err)
	}
	w := newWriter("", &memory{}, p)
	if err := w.writeHeader(p.text); err != nil {
		f.Fatal(err)
	}
	f.Add([]byte(""))
	f.Add(w.Bytes())
	head, run, seal := finishedRun(f)
	f.Add(head)
	f.Add(run.Bytes())
	f.Add(append(bytes.Clone(head), seal...))
	f.Add([]byte(forgedLine(0, `{"seq":2,"events":[{"type":"model.responded","sum":"00"}],"origin":"rule"}`, ruleURL, `{"base":-1,"kept":0,"add":[{"s":1}]}`, "{}")))
	f.Add([]byte(strings.Replace(forgedLine(0, `{"seq":2,"events":[{"type":"model.failed","data":"{}"}]}`, ruleURL, "{}", "B"), `"B"`, `!!binary "AA=="`, 1)))
	f.Add([]byte("seal: {}"))
	f.Fuzz(func(t *testing.T, b []byte) {
		readAll(t, b)
		readAll(t, forge(t, strings.ReplaceAll(string(b), "\n", " ")))
	})
}

// readAll asks a cassette everything. It must answer or say what is wrong.
func readAll(t *testing.T, b []byte) {
	c, err := Parse("fuzz.yaml", b)
	if err != nil {
		var file *FileError
		var damage *Damage
		if !errors.As(err, &file) && !errors.As(err, &damage) {
			t.Fatalf("error of type %T: %v", err, err)
		}
		return
	}
	if err := Verify(b); err != nil {
		t.Fatalf("opened but not verified: %v", err)
	}
	events, err := c.Events()
	if err != nil {
		return
	}
	for _, e := range events {
		_, _ = c.Return(e.Seq)
		_, _ = c.Request(e.Seq)
	}
	for i := range c.Len() {
		whole, err := c.Interaction(i)
		if err != nil {
			t.Fatal(err)
		}
		answer, err := c.AnswerOf(whole.First)
		whole.Request = nil
		if d := cmp.Diff(whole, answer, cmpopts.EquateEmpty()); err != nil || d != "" {
			t.Fatalf("interaction %d, %v (-interaction +answer):\n%s", i, err, d)
		}
	}
	if _, err := NewTape(c); err != nil {
		t.Fatal(err)
	}
}

// FuzzEscape holds the strings of a cassette to one meaning: encoding/json and
// yaml.v3 read the bytes that were written.
func FuzzEscape(f *testing.F) {
	for _, s := range []string{"", "plain", "\n\tx", "\x00\x7f\u0085\u009f", "\u2028\u2029\ufeff\ufffe\uffff", "\U0001F600\U0010FFFF",
		"\xed\xa0\x80", "\xff\xfe", `\"`, `!!binary "AA=="`, " lead", "trail ", "a: b # c", "- x", `\ud800`, "%TAG", "'", "\r\n", "\u00a0"} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		text := append(appendBody([]byte(`- {"id":0,"b":`), b), '}')
		if i := bytes.IndexByte(text, '\n'); i >= 0 {
			t.Fatalf("a line of %q holds a newline", b)
		}
		var viaJSON struct{ B body }
		if err := json.Unmarshal(jsonOf(text[2:]), &viaJSON); err != nil || !bytes.Equal(viaJSON.B, b) {
			t.Fatalf("encoding/json reads %q, wrote %q: %v", viaJSON.B, b, err)
		}
		var viaYAML []struct{ B string }
		if err := yaml.Unmarshal(text, &viaYAML); err != nil || viaYAML[0].B != string(b) {
			t.Fatalf("yaml.v3 reads %q, wrote %q: %v", viaYAML, b, err)
		}
		if !utf8.Valid(b) {
			return
		}
		quoted, err := ledger.CanonValue(map[string]string{"v": string(b)})
		if err != nil {
			t.Fatal(err)
		}
		raw := append(appendRaw([]byte(`- {"r":`), quoted), '}')
		var again []struct{ R struct{ V string } }
		if err := yaml.Unmarshal(raw, &again); err != nil || again[0].R.V != string(b) {
			t.Fatalf("yaml.v3 reads %q inside JSON, wrote %q: %v", again, b, err)
		}
		back, err := ledger.Canon(raw[len(`- {"r":`) : len(raw)-1])
		if err != nil || !bytes.Equal(back, quoted) {
			t.Fatalf("canonical %q became %q: %v", quoted, back, err)
		}
	})
}

// FuzzBinaryMarks holds the scan for !!binary to strings: text that looks like
// the mark stays text.
func FuzzBinaryMarks(f *testing.F) {
	f.Add(`x !!binary "y`, []byte("\xff"))
	f.Add(`\!!binary "`, []byte("\xfe!!binary \""))
	f.Fuzz(func(t *testing.T, s string, b []byte) {
		s = valid(s)
		text := append(appendText([]byte(`{"a":`), s), `,"b":`...)
		text = appendBody(text, b)
		text = append(appendText(append(text, `,"c":`...), s), '}')
		var out struct {
			A, C string
			B    body
		}
		if err := json.Unmarshal(jsonOf(text), &out); err != nil || out.A != s || out.C != s || !bytes.Equal(out.B, b) {
			t.Fatalf("read %+v of %s: %v", out, text, err)
		}
	})
}

// conversation is what FuzzDelta grows requests in.
type conversation struct {
	random   *rand.Rand
	answers  map[int]json.RawMessage
	results  map[int]json.RawMessage
	requests map[int]converse.Request
	known    *places
	next     int
}

func (c *conversation) answer(id int) (json.RawMessage, error) {
	if m := c.answers[id]; m != nil {
		return m, nil
	}
	return nil, errors.New("no such answer")
}

func (c *conversation) result(id int) (json.RawMessage, error) {
	if m := c.results[id]; m != nil {
		return m, nil
	}
	return nil, errors.New("no such result")
}

// value makes a tool result of any kind.
func (c *conversation) value() json.RawMessage {
	long := strings.Repeat("text \u0085\"\\ ", c.random.IntN(40))
	var v any
	switch c.random.IntN(6) {
	case 0:
		v = long
	case 1:
		v = []any{long, 1.5, nil}
	case 2:
		v = 7
	case 3:
		v = map[string]any{converse.ContentMember: []any{map[string]string{"text": "x" + long}}}
	default:
		v = map[string]any{"rows": []string{long, long}, "null": nil}
	}
	b, _ := ledger.CanonValue(v)
	return b
}

// grow appends a turn: an answer and its results, or a change to the past.
func (c *conversation) grow(t *converse.Thread) *converse.Thread {
	switch c.random.IntN(8) {
	case 0: // trimmed: all is new, and much of it is not
		return converse.NewThread(t.Messages()[c.random.IntN(t.Len()+1):]...)
	case 1:
		return t.Append(converse.Message("user", []json.RawMessage{converse.TextBlock("literal")}))
	}
	m := converse.Message("assistant", []json.RawMessage{converse.TextBlock("turn " + strings.Repeat("y", c.random.IntN(200)))})
	response, _ := ledger.CanonValue(map[string]any{"output": map[string]any{"message": m}})
	c.answers[c.next] = m
	c.known.answer(c.next, response)
	c.next++
	var blocks []json.RawMessage
	for i := range 1 + c.random.IntN(3) {
		v := c.value()
		c.results[c.next] = v
		c.known.result(c.next, v)
		c.next++
		blocks = append(blocks, converse.ToolResult{ID: strings.Repeat("i", i+1), Address: "E7", Result: v, Error: i == 1}.Block())
	}
	return t.Append(m).Append(converse.Message("user", blocks))
}

// FuzzDelta holds stored requests to the requests they stand for, whatever
// the conversation did in between.
func FuzzDelta(f *testing.F) {
	f.Add(uint64(1), byte(3))
	f.Add(uint64(99), byte(40))
	f.Fuzz(func(t *testing.T, seed uint64, turns byte) {
		p, err := prepare(testStart(t))
		if err != nil {
			t.Fatal(err)
		}
		start := p.begin.Request()
		c := &conversation{random: rand.New(rand.NewPCG(seed, 1)), answers: map[int]json.RawMessage{}, results: map[int]json.RawMessage{},
			requests: map[int]converse.Request{-1: start}, known: newPlaces()}
		base, req := -1, start
		for range turns {
			text := encodeDelta(nil, req, c.requests[base], base, c.known)
			left := int64(64 << 20)
			d, err := readDelta(text)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			got, err := d.rebuild(c.requests[*d.Base], start.Messages.Last(), c, &left)
			if err != nil {
				t.Fatalf("%v\n%s", err, text)
			}
			if !bytes.Equal(got.Body(), req.Body()) || got.Digest() != req.Digest() {
				t.Fatalf("rebuilt %s\nwant %s\nfrom %s", got.Body(), req.Body(), text)
			}
			base = c.next
			c.requests[base] = got
			c.next++
			req.Messages = c.grow(req.Messages)
			if c.random.IntN(5) == 0 {
				req.Model, req.Cache = "other", converse.CacheTail
				req.Rest, _ = converse.NewRest(json.RawMessage(`{"system":[{"text":"changed"}]}`))
			}
		}
	})
}
