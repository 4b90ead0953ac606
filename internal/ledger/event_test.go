package ledger

import (
	"bytes"
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

// TestElements: what is cut out is what encoding/json decodes.
func TestElements(t *testing.T) {
	for _, text := range []string{`[]`, `[1]`, `["a,]\"",{"b":[1,2]},[],null,-1e5,"\\"]`, `[[[]],{}]`, `{}`, `"[1]"`, `[`, `]`, ``, `[1,`, `[,]`, `["a]`} {
		var want []json.RawMessage
		if json.Unmarshal([]byte(text), &want) != nil || len(want) == 0 {
			want = nil
		}
		if d := cmp.Diff(want, Elements([]byte(text))); d != "" {
			t.Errorf("%s (-want +got):\n%s", text, d)
		}
	}
}

// FuzzPlainString: what counts as plain is what encoding/json reads as the same
// text, and every canonical string without a backslash counts.
func FuzzPlainString(f *testing.F) {
	for _, seed := range []string{`"a"`, `""`, `"`, `"a"b"`, `"é"`, "\"\xff\"", `"a\n"`, `null`, `{"a":"b"}`, ` "a"`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, value []byte) {
		canon, err := Canon(value)
		if err != nil {
			return
		}
		got, plain := PlainString(canon)
		var want string
		if json.Unmarshal(canon, &want) != nil {
			want = ""
		}
		if quoted := canon[0] == '"'; plain != (quoted && !bytes.Contains(canon, []byte(`\`))) {
			t.Fatalf("%s: plain %v", canon, plain)
		}
		if plain && got != want {
			t.Fatalf("%s: read %q, encoding/json reads %q", canon, got, want)
		}
	})
}
