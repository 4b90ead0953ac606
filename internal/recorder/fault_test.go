package recorder

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"syscall"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// faulty is a file that fails from its n-th write on, in one way.
type faulty struct {
	memory
	after    int // writes that succeed
	writes   int
	partial  int   // bytes of the failing write that still get through
	write    error // what the failing write returns
	sync     error
	truncate error
}

func (f *faulty) failing() bool { return f.writes > f.after }

func (f *faulty) Write(p []byte) (int, error) {
	if f.writes++; !f.failing() || (f.write == nil && f.partial < 0) {
		return f.memory.Write(p)
	}
	n := min(max(f.partial, 0), len(p))
	f.memory.Write(p[:n])
	return n, f.write
}

func (f *faulty) Sync() error {
	if f.failing() {
		return f.sync
	}
	return nil
}

func (f *faulty) Truncate(size int64) error {
	if f.truncate != nil {
		return f.truncate
	}
	return f.memory.Truncate(size)
}

func testStart(t testing.TB) Header {
	t.Helper()
	start := loop.Start{Task: "why", Model: "rule", Request: []byte(`{"system":[{"text":"s"}]}`)}
	data, err := start.JSON()
	if err != nil {
		t.Fatal(err)
	}
	return Header{Tool: "test", Run: "r", Start: data}
}

// endless is a model that asks for a tool for ever.
func endless() edge.Edge {
	return edge.Func(func(_ context.Context, call edge.Call) (edge.Return, error) {
		if call.Kind == edge.Tool {
			return edge.Return{Body: []byte(`{"text":"` + strings.Repeat("x", 200) + `"}`), Origin: edge.Executed}, nil
		}
		return edge.Return{Origin: edge.Rule, Body: []byte(
			`{"output":{"message":{"content":[{"toolUse":{"input":{},"name":"read","toolUseId":"a"}}],"role":"assistant"}},"stopReason":"tool_use"}`)}, nil
	})
}

// stopping is a model that has nothing to say, until the loop gives up on it.
func stopping() edge.Edge {
	return edge.Func(func(context.Context, edge.Call) (edge.Return, error) {
		return edge.Return{Origin: edge.Rule, Body: []byte(`{"output":{"message":{"content":[{"text":"no"}],"role":"assistant"}},"stopReason":"end_turn"}`)}, nil
	})
}

func TestWriteFaults(t *testing.T) {
	table := map[string]struct {
		file   faulty
		want   error
		ragged bool
	}{
		"disk full, nothing written": {faulty{write: syscall.ENOSPC}, syscall.ENOSPC, false},
		"disk full, half written":    {faulty{write: syscall.ENOSPC, partial: 100}, syscall.ENOSPC, false},
		"input/output error":         {faulty{write: syscall.EIO, partial: 3}, syscall.EIO, false},
		"short write without error":  {faulty{partial: 50}, io.ErrShortWrite, false},
		"sync fails":                 {faulty{partial: -1, sync: syscall.EIO}, syscall.EIO, true},
		"quota":                      {faulty{write: syscall.EDQUOT, partial: 1}, syscall.EDQUOT, false},
		"cannot be taken back":       {faulty{write: syscall.ENOSPC, partial: 100, truncate: syscall.EIO}, syscall.ENOSPC, true},
	}
	for name, c := range table {
		t.Run(name, func(t *testing.T) {
			f := c.file
			f.after = 4 // the header and three lines
			p, err := prepare(testStart(t))
			if err != nil {
				t.Fatal(err)
			}
			w := newWriter("run.yaml", &f, p)
			if err := w.writeHeader(p.text); err != nil {
				t.Fatal(err)
			}
			_, err = loop.Run(t.Context(), p.begin, endless(), w)
			var fail *WriteError
			if !errors.As(err, &fail) || !errors.Is(err, c.want) || fail.Ragged != c.ragged || fail.Kept != w.Seq() {
				t.Fatalf("Took: %v (%+v)", err, fail)
			}
			got, err := Parse("run.yaml", f.Bytes())
			if err != nil {
				t.Fatal(err)
			}
			n, err := got.EventCount()
			if n != fail.Kept || err != nil || (got.Torn() != nil) != (name == "cannot be taken back") {
				t.Errorf("%d events are left, torn %v, %v; want %d", n, got.Torn(), err, fail.Kept)
			}
			size := f.Len()
			if again := w.Took(edge.Call{}, edge.Return{}, []ledger.Event{{Seq: w.Seq() + 1}}); !errors.Is(again, c.want) || f.Len() != size {
				t.Errorf("after the fault: %v, %d bytes", again, f.Len()-size)
			}
		})
	}
}

func TestHeaderFaults(t *testing.T) {
	for name, f := range map[string]*faulty{
		"disk full":  {write: syscall.ENOSPC},
		"short":      {partial: 5},
		"sync fails": {partial: -1, sync: syscall.EIO},
	} {
		p, err := prepare(testStart(t))
		if err != nil {
			t.Fatal(err)
		}
		var file *FileError
		if err := newWriter("run.yaml", f, p).writeHeader(p.text); !errors.As(err, &file) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// forge writes a cassette of the given line bodies with sums that fit, so that
// what lies behind the sums is reached.
func forge(t testing.TB, bodies ...string) []byte {
	t.Helper()
	w, err := NewMemory(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	text := w.Bytes()
	for _, b := range bodies {
		text = append(text, w.finishLine([]byte(b), 0)...)
	}
	return text
}

func forgedLine(id int, x, url, request, answer string) string {
	l := line{ID: id, Request: forgedRequest(url, request), Response: response{Status: "200 OK", Code: 200, Body: body(answer)}}
	text := string(l.append(nil))
	return strings.Replace(text, `"x":{"seq":0,"events":[]}`, `"x":`+x, 1)
}

func forgedRequest(url, text string) request {
	return request{Method: "POST", URL: url, Body: body(text)}
}

// Forged lines give errors: no panic, and no more memory than the file is worth.
func TestForgedLinesAreRefused(t *testing.T) {
	sum := strings.Repeat("0", 64)
	events := `{"seq":2,"events":[{"type":"model.responded","sum":"` + sum + `"}],"origin":"rule"}`
	for name, text := range map[string]string{
		"no JSON":        `- {"id":0,"x":nonsense`,
		"no x":           `- {"id":0`,
		"no events":      forgedLine(0, `{"seq":2,"events":[]}`, ruleURL, "{}", "{}"),
		"negative seq":   forgedLine(0, `{"seq":-2,"events":[{"type":"model.responded"}]}`, ruleURL, "{}", "{}"),
		"late seq":       forgedLine(0, `{"seq":9,"events":[{"type":"model.responded"}]}`, ruleURL, "{}", "{}"),
		"huge seq":       forgedLine(0, `{"seq":99999999999999999999,"events":[{"type":"model.responded"}]}`, ruleURL, "{}", "{}"),
		"other sum":      forgedLine(0, events, ruleURL, "{}", `{"output":{"message":{"content":[],"role":"assistant"}},"stopReason":"end_turn"}`),
		"no answer":      forgedLine(0, events, ruleURL, "{}", `{}`),
		"uncalled tool":  forgedLine(0, `{"seq":2,"events":[{"type":"tool.returned"}]}`, toolURL+"a", "{}", "{}"),
		"bad binary":     strings.Replace(forgedLine(0, events, ruleURL, "{}", "BODY"), `"BODY"`, `!!binary "%%%"`, 1),
		"open binary":    strings.Replace(forgedLine(0, events, ruleURL, "{}", "BODY"), `"BODY"`, `!!binary "AAAA`, 1),
		"not UTF-8":      strings.Replace(forgedLine(0, events, ruleURL, "{}", "BODY"), "BODY", "\xff\xfe", 1),
		"control bytes":  strings.Replace(forgedLine(0, events, ruleURL, "{}", "BODY"), "BODY", "\x00\x1b", 1),
		"deeply nested":  `- {"id":0,"x":` + strings.Repeat("[", 200000),
		"too many seqs":  forgedLine(0, `{"seq":2,"events":[`+strings.Repeat(`{"type":"tool.called"},`, 1000)+`{"type":"tool.called"}]}`, ruleURL, "{}", "{}"),
		"surrogate half": strings.Replace(forgedLine(0, events, ruleURL, "{}", "BODY"), "BODY", `\ud800`, 1),
	} {
		t.Run(name, func(t *testing.T) {
			c, err := Parse("forged.yaml", forge(t, text))
			if err != nil {
				t.Fatalf("the sums do not fit: %v", err)
			}
			_, err = c.Events()
			var damage *Damage
			if !errors.As(err, &damage) || damage.Line != 5 || damage.Interaction != 0 {
				t.Errorf("Events: %v", err)
			}
			if _, again := c.Event(1); again == nil {
				t.Error("Event answers from a cassette that cannot be read")
			}
		})
	}
	if _, err := Parse("forged.yaml", forge(t, `- {"id":-1`)); err == nil {
		t.Error("a negative id was read")
	}
	if _, err := Parse("forged.yaml", forge(t, `- {"id":99999999999999999999`)); err == nil {
		t.Error("a huge id was read")
	}
	if _, err := Parse("forged.yaml", forge(t, `- {"id":0`, `- {"id":0`)); err == nil {
		t.Error("one id was read twice")
	}
}

// oneResult is a source that gives the same result for every id.
type oneResult struct{ text []byte }

func (o oneResult) answer(int) (json.RawMessage, error) { return nil, errors.New("no such answer") }
func (o oneResult) result(int) (json.RawMessage, error) { return o.text, nil }

func TestForgedRequestsAreRefused(t *testing.T) {
	p, err := prepare(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	big := oneResult{[]byte(`"` + strings.Repeat("x", 1<<16) + `"`)}
	nulls, holes := "null", `{"at":"/content/0","id":0}`
	for i := 1; i < 2000; i++ {
		nulls += ",null"
		holes += fmt.Sprintf(`,{"at":"/content/%d","id":0}`, i)
	}
	for name, text := range map[string]string{
		"no JSON":       `{`,
		"no rest":       `{"base":-1,"kept":0,"add":[]}`,
		"keeps more":    `{"base":0,"kept":5,"add":[]}`,
		"keeps fewer":   `{"base":0,"kept":-5,"add":[]}`,
		"empty item":    `{"base":0,"kept":0,"add":[{}]}`,
		"no answer":     `{"base":0,"kept":0,"add":[{"r":7}]}`,
		"no hole":       `{"base":0,"kept":0,"add":[{"t":{"content":[1],"role":"user"},"holes":[{"at":"/content/0","id":0}]}]}`,
		"beyond":        `{"base":0,"kept":0,"add":[{"t":{"content":[null],"role":"user"},"holes":[{"at":"/content/9","id":0}]}]}`,
		"no member":     `{"base":0,"kept":0,"add":[{"t":{"content":[null],"role":"user"},"holes":[{"at":"/x","id":0}]}]}`,
		"twice":         `{"base":0,"kept":0,"add":[{"t":{"content":[null],"role":"user"},"holes":[{"at":"/content/0","id":0},{"at":"/content/0","id":0}]}]}`,
		"grows":         `{"base":0,"kept":0,"add":[{"t":{"content":[` + nulls + `],"role":"user"},"holes":[` + holes + `]}]}`,
		"another":       `{"base":0,"kept":1,"add":[],"digest":"00"}`,
		"rest no JSON":  `{"base":0,"kept":1,"add":[],"rest":7}`,
		"rest messages": `{"base":0,"kept":1,"add":[],"rest":{"messages":[]}}`,
	} {
		left := int64(1 << 20)
		d, err := readDelta([]byte(text))
		if err == nil {
			_, err = d.rebuild(p.begin.Request(), p.begin.Request().Messages.Last(), big, &left)
		}
		if err == nil || name == "grows" && !strings.Contains(err.Error(), "than an honest recording could") {
			t.Errorf("%s: rebuilt, %v", name, err)
		}
	}
}

func TestRequestChainsEnd(t *testing.T) {
	c := &Cassette{layout: layout{lines: make([][]byte, 3)}, heads: []head{
		{kind: edge.Model, delta: []byte(`{"base":1}`)}, {kind: edge.Model, delta: []byte(`{"base":1}`)}, {kind: edge.Tool, delta: []byte(`{}`)},
	}}
	for i := range 2 {
		if _, err := c.requestOf(i); err == nil {
			t.Errorf("interaction %d extends itself or a later one", i)
		}
	}
}

func TestHugeLineIsReadOnce(t *testing.T) {
	// A line claims nothing about its length, so there is nothing to believe:
	// 64 MB without an end are dropped as a torn line.
	b := append(forge(t), bytes.Repeat([]byte("x"), 64<<20)...)
	c, err := Parse("huge.yaml", b)
	if err != nil || c.Torn() == nil || c.Torn().Dropped != 64<<20 {
		t.Errorf("Parse: %v", err)
	}
}
