package recorder

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

// storedRequests are spellings of stored requests, honest and not.
func storedRequests() []string {
	const whole = `{"digest":"ab","model":"m","base":3,"kept":1,"add":[{"s":1},{"r":2},{"m":{"content":[],"role":"user"}},{"t":{"content":[null]},"holes":[{"at":"/content/0","id":1,"quoted":true}]}],"rest":{"a":1},"cache":"tail-5m"}`
	out := []string{whole, `{"digest":"","model":"","base":-1,"kept":0,"add":[],"rest_from_start":true}`, ``, `{`, `null`, `{}`, whole + " ", whole + "x", " " + whole}
	for _, edit := range [][2]string{
		{`"base":3`, `"base":03`}, {`"base":3`, `"base":-0`}, {`"base":3`, `"base":3.0`}, {`"base":3`, `"base":null`}, {`"base":3`, `"base":99999999999999999999`},
		{`"base":3`, `"base":3,"base":4`}, {`"base":3`, `"BASE":3`}, {`"base":3,`, ``}, {`"kept":1`, `"kept":"1"`}, {`"kept":1`, `"kept":-`},
		{`"model":"m"`, `"model":"\u006d"`}, {`"model":"m"`, "\"model\":\"\x01\""}, {`"model":"m"`, "\"model\":\"\xff\""}, {`"model":"m"`, `"model":"m";"x":1`},
		{`"add":[`, `"add":[,`}, {`"add":[`, `"add":[null,`}, {`{"s":1}`, `{"s":1,"m":{}}`}, {`{"s":1}`, `{"s":2}`}, {`{"s":1}`, `{"s":1,"holes":[]}`}, {`{"s":1}`, `{"m":{"b":1,"a":2}}`},
		{`{"s":1}`, `{"m":{"a":1}"b":2}}`}, {`{"s":1}`, `{"m":{"a":tru}}`}, {`{"s":1}`, `{"m": {"a":1}}`}, {`{"s":1}`, `{"m":null}`}, {`{"s":1}`, "{\"m\":\"\xff\"}"}, {`{"r":2}`, `{"r":null}`},
		{`"rest":{"a":1}`, `"rest":{"a":01}`}, {`"rest":{"a":1}`, `"rest":null`}, {`"rest":{"a":1}`, `"rest":`}, {`"quoted":true`, `"quoted":false`}, {`"quoted":true`, `"quoted":truex`},
		{`"cache":"tail-5m"`, `"cache":"tail-5m","more":{"x":nul}`}, {`"cache":"tail-5m"`, `"cache":"tail-5m","more":{"x":null}`}, {`"cache"`, `"rest_from_start":false,"cache"`},
	} {
		out = append(out, strings.Replace(whole, edit[0], edit[1], 1))
	}
	return out
}

// sameDelta fails where readDelta gives something else than encoding/json, or
// takes what that refuses.
func sameDelta(t *testing.T, text []byte) {
	t.Helper()
	var want delta
	bad := json.Unmarshal(text, &want)
	for i := range want.Add {
		for _, m := range []*json.RawMessage{&want.Add[i].Message, &want.Add[i].Template} {
			if *m != nil && bad == nil {
				*m, bad = ledger.Canon(*m)
			}
		}
	}
	got, err := readDelta(bytes.Clone(text))
	if (err != nil) != (bad != nil) {
		t.Fatalf("%s: %v, want %v", text, err, bad)
	}
	if err != nil {
		return
	}
	for _, d := range []*delta{&got, &want} {
		if d.Rest, err = ledger.Canon(d.Rest); err != nil {
			d.Rest = nil
		}
		for i := range d.Add {
			d.Add[i].Holes = append([]hole{}, d.Add[i].Holes...)
		}
		d.Add = append([]item{}, d.Add...)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("%s: -want +got\n%s", text, d)
	}
}

func TestStoredRequestsReadAsJSON(t *testing.T) {
	for _, text := range storedRequests() {
		sameDelta(t, []byte(text))
	}
}

func FuzzStoredRequest(f *testing.F) {
	for _, text := range storedRequests() {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, text []byte) { sameDelta(t, text) })
}

// A stored request as it is written is read where it stands: its messages are
// parts of its text.
func TestMessagesArePartsOfTheStoredText(t *testing.T) {
	text := []byte(storedRequests()[0])
	d, err := readDelta(text)
	if err != nil || len(d.Add) != 4 {
		t.Fatalf("%d items, %v", len(d.Add), err)
	}
	m := d.Add[2].Message
	at := bytes.Index(text, m)
	if at < 0 || &text[at] != &m[0] {
		t.Errorf("%s is a copy", m)
	}
}
