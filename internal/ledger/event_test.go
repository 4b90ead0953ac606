package ledger

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestLineRoundTrip(t *testing.T) {
	e := Event{Seq: 7, Type: ToolReturned, In: "ab", Data: json.RawMessage(`{"a":1.0}`)}
	line := e.Line()
	if got, want := string(line), `{"data":{"a":1.0},"in":"ab","seq":7,"type":"tool.returned"}`; got != want {
		t.Fatalf("Line = %s, want %s", got, want)
	}
	back, err := ParseLine(line)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(e, back); d != "" {
		t.Error(d)
	}
}

func TestParseLineRefusesOtherSpellings(t *testing.T) {
	good := string(Event{Seq: 1, Type: RunStarted, Data: json.RawMessage(`{"a":1,"b":2}`)}.Line())
	for _, bad := range []string{
		" " + good, strings.Replace(good, `"a":1,"b":2`, `"b":2,"a":1`, 1), strings.Replace(good, `"in":"",`, "", 1),
		strings.Replace(good, `{"data"`, `{"aaa":0,"data"`, 1), "", "null",
	} {
		if e, err := ParseLine([]byte(bad)); err == nil {
			t.Errorf("ParseLine(%s) = %+v, want an error", bad, e)
		}
	}
}

func TestSumsChain(t *testing.T) {
	a := []Event{{Seq: 1, Type: RunStarted}, {Seq: 2, Type: ModelResponded}}
	b := []Event{a[1], a[0]}
	if Total(a) == Total(b) {
		t.Error("order does not change the sum")
	}
	if Total(a) != Total(a[:1]).Add(a[1]) {
		t.Error("sums do not chain")
	}
	back, err := ParseSum(Total(a).String())
	if err != nil || back != Total(a) {
		t.Errorf("ParseSum: %v %v", back, err)
	}
	if _, err := ParseSum("xyz"); err == nil {
		t.Error("ParseSum accepted xyz")
	}
}
