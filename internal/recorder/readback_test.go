package recorder

import (
	"bytes"
	"fmt"
	"slices"
	"strings"
	"testing"

	"investigator/internal/ledger"
)

// sampleLine has every member, with text that needs escapes in all of them that
// can hold any.
func sampleLine() *line {
	data := "{\"a\":\"\\n\u2028\"}"
	return &line{
		ID: 3,
		X: aside{
			Seq: 12, Origin: "live", At: "2026-01-15T08:00:01Z", Took: "1.5ms",
			Events: []entry{{Type: ledger.ModelResponded, In: "i", Sum: "s", Data: &data}, {Type: ledger.ToolCalled, Sum: "t"}},
			Attempts: []attempt{
				{Code: 429, Header: map[string]string{"Content-Type": "a/b", "X-Amzn-Errortype": "T"}, Body: body("slow\x00\xff"), last: last{Err: "cut\n", At: "x", Took: "y", Wait: "z"}},
				{Code: 0, Body: body("\"down\" \\ \u0085")},
			},
			Last: &last{Err: "e", At: "at", Took: "3ms", Wait: "1s"},
		},
		Request: request{Method: "POST", URL: ruleURL, Headers: jsonHeaders(), Body: body("{\"q\":\"what is it, plainly?\"}\n")},
		Response: response{Status: "200 OK", Code: 200, Headers: map[string][]string{"Content-Type": {"a/b"}, "X-Amzn-Errortype": {"T"}},
			Body: body("a \"long\" answer with plain text and \t odd \u00e9\uffff\U0001F600 ones"), Duration: "3ms"},
	}
}

// summedLine is a line's text as it is written, without the newline.
func summedLine(l *line) []byte {
	return bytes.TrimSuffix((&Writer{}).finishLine(l.append(nil), 0), []byte("\n"))
}

// checkReads holds reads to the reader: what it accepts, decodeLine gives. It
// returns what reads says.
func checkReads(t testing.TB, text []byte, l *line) bool {
	t.Helper()
	if !reads(text, l) {
		return false
	}
	back, err := decodeLine(text)
	if err != nil || !back.equal(l) {
		t.Fatalf("reads accepts what decodes to %+v, %v\nwant %+v\nline %s", back, err, l, text)
	}
	return true
}

// Every difference between what was taken and what a line says is seen, by the
// quick reading and by the whole one.
func TestReadBackSeesEveryDifference(t *testing.T) {
	text := summedLine(sampleLine())
	if !checkReads(t, text, sampleLine()) || readsBack(append(text, '\n'), sampleLine()) != nil {
		t.Fatalf("what was written does not read back: %s", text)
	}
	other := "[]"
	for name, change := range map[string]func(*line){
		"id": func(l *line) { l.ID = 4 }, "longer id": func(l *line) { l.ID = 30 }, "seq": func(l *line) { l.X.Seq = 1 }, "shorter seq": func(l *line) { l.X.Seq = 122 },
		"method": func(l *line) { l.Request.Method = "GET" }, "url": func(l *line) { l.Request.URL = toolURL },
		"request": func(l *line) { l.Request.Body = body("p") }, "request header": func(l *line) { l.Request.Headers = nil },
		"response": func(l *line) { l.Response.Body = l.Response.Body[1:] }, "longer response": func(l *line) { l.Response.Body = append(l.Response.Body, ' ') },
		"shorter response": func(l *line) { l.Response.Body = l.Response.Body[:len(l.Response.Body)-1] },
		"status":           func(l *line) { l.Response.Status = "" }, "code": func(l *line) { l.Response.Code = 20 }, "duration": func(l *line) { l.Response.Duration = "" },
		"header value": func(l *line) { l.Response.Headers["Content-Type"] = []string{"a/c"} }, "header values": func(l *line) { l.Response.Headers["Content-Type"] = []string{"a/b", "a/b"} },
		"header name": func(l *line) { delete(l.Response.Headers, "Content-Type"); l.Response.Headers["A"] = []string{"a/b"} },
		"origin":      func(l *line) { l.X.Origin = "" }, "at": func(l *line) { l.X.At += "0" }, "took": func(l *line) { l.X.Took = "2" },
		"type": func(l *line) { l.X.Events[0].Type = ledger.ModelFailed }, "in": func(l *line) { l.X.Events[0].In = "" }, "more in": func(l *line) { l.X.Events[1].In = "j" },
		"sum": func(l *line) { l.X.Events[0].Sum = "" }, "data": func(l *line) { l.X.Events[0].Data = &other }, "no data": func(l *line) { l.X.Events[0].Data = nil },
		"more data": func(l *line) { l.X.Events[1].Data = &other }, "events": func(l *line) { l.X.Events = append(l.X.Events, entry{}) },
		"fewer events": func(l *line) { l.X.Events = l.X.Events[:1] }, "order of events": func(l *line) { slices.Reverse(l.X.Events) },
		"attempts": func(l *line) { l.X.Attempts = nil }, "fewer attempts": func(l *line) { l.X.Attempts = l.X.Attempts[:1] },
		"attempt": func(l *line) { l.X.Attempts[0].Body = body("slow\x00\xfe") }, "longer attempt": func(l *line) { l.X.Attempts[0].Body = body("slow\x00\xff\xff\xff\xff") },
		"attempt's header": func(l *line) { l.X.Attempts[0].Header["Content-Type"] = "" }, "attempt's wait": func(l *line) { l.X.Attempts[0].Wait = "" },
		"attempt's code": func(l *line) { l.X.Attempts[1].Code = 1 }, "last": func(l *line) { l.X.Last.Wait = "2s" }, "no last": func(l *line) { l.X.Last = nil },
		"bodies": func(l *line) { l.Request.Body, l.Response.Body = l.Response.Body, l.Request.Body },
	} {
		l := sampleLine()
		change(l)
		if checkReads(t, text, l) {
			t.Errorf("%s: the quick reading takes one for another", name)
		}
		if err := readsBack(text, l); err == nil {
			t.Errorf("%s: another one reads back", name)
		}
	}
}

// A recorder that wrote a line wrongly is found out: each byte dropped, doubled
// or changed, each member moved, an escape that is another's.
func TestReadBackSeesWrongLines(t *testing.T) {
	l := sampleLine()
	text := summedLine(l)
	body := len(text) - sumTail
	for at := range body {
		wrong := map[string][]byte{
			"dropped": slices.Delete(slices.Clone(text), at, at+1),
			"doubled": slices.Insert(slices.Clone(text), at, text[at]),
		}
		for _, b := range []byte{0, ' ', '"', '\\', '0', 'a', 'n', '{', '}', 0x7f, 0xff, text[at] ^ 1, text[at] ^ 0x20, text[at] ^ 0x80} {
			if changed := slices.Clone(text); b != text[at] && !(b == 'F' && text[at] == 'f') { // a hex digit in another case is the same
				changed[at] = b
				wrong[fmt.Sprintf("changed to %q", b)] = changed
			}
		}
		for what, line := range wrong {
			if checkReads(t, line, l) {
				t.Fatalf("byte %d (%q) %s: %s reads back", at, text[at], what, line)
			}
		}
	}
	for old, now := range map[string]string{
		`\t`: `\n`, `\uffff`: `\ufffe`, `\n"}`: `\u000a"}`, `\"long\"`: `\"long`, `,"origin":"live"`: "", `"took":"1.5ms"`: `"wait":"1.5ms"`,
		`"code":200`: `"code":200.0`, `"id":3`: `"id":03`, `"last":{`: `"last":{"x":1,`, `"i","data"`: `"i","in":"i","data"`, `!!binary "`: `"`,
		`"url":`: `"URL":`, `"status":"200 OK"`: `"status":null`, "\U0001F600": `\ud83d\ude00`, `{"id"`: `{ "id"`, `"Content-Type":["a/b"],`: ``,
	} {
		line := strings.Replace(string(text), old, now, 1)
		if line == string(text) {
			t.Fatalf("the line holds no %s", old)
		}
		same := now == `\u000a"}` // another spelling of what was taken, which the reader takes
		if got := checkReads(t, []byte(line), l); got != same {
			t.Errorf("%s for %s: reads %v", now, old, got)
		}
	}
}

// The quick reading vouches for every line that is written: it is never the
// whole one that has to.
func TestQuickReadingTakesWhatIsWritten(t *testing.T) {
	for name, shape := range map[string]func() (before, list []Taken){"tool": toolReturns, "turn": modelTurns, "pair": proxyPairs} {
		before, list := shape()
		w, err := NewMemory(testStart(t))
		if err != nil {
			t.Fatal(err)
		}
		if err := w.TookAll(append(before, list[:20]...)); err != nil {
			t.Fatal(err)
		}
		c, err := Parse(name, w.Bytes())
		if err != nil {
			t.Fatal(err)
		}
		for _, text := range c.layout.lines {
			l, err := decodeLine(text)
			if err != nil || !reads(text, l) {
				t.Errorf("%s: %v, %.200s", name, err, text)
			}
		}
	}
}

// FuzzReadBack holds the quick reading of a line to the reader: it takes what is
// written, and of what was changed nothing that says something else.
func FuzzReadBack(f *testing.F) {
	f.Add("answer", "\x00\xff", "u", "{}", uint16(0), byte(0), "")
	f.Add("plain text that is longer than a word", "quote \" and more text here", "\u2028", "", uint16(300), byte(3), `\u00e9`)
	f.Add("\xff\xfe\xfd", "", "", "", uint16(70), byte(1), "!!binary \"")
	f.Fuzz(func(t *testing.T, answer, attempted, text, data string, at uint16, cut byte, put string) {
		l := sampleLine()
		text = valid(text)
		l.Response.Body, l.X.Attempts[0].Body, l.X.Attempts[1].Body = body(answer), body(attempted), nil
		l.X.At, l.X.Last.Err, l.Response.Headers["Content-Type"] = text, text, []string{text}
		if data = valid(data); data != "" {
			l.X.Events[0].Data = &data
		} else {
			l.X.Events[0].Data, l.X.Last = nil, nil
		}
		line := summedLine(l)
		if !checkReads(t, line, l) {
			t.Fatalf("what was written does not read back: %s", line)
		}
		from := int(at) % len(line)
		changed := slices.Replace(slices.Clone(line), from, min(from+int(cut), len(line)), []byte(put)...)
		checkReads(t, changed, l)
	})
}
