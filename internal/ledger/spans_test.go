package ledger

import (
	"bytes"
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// spansAgree compares what is cut out of canonical text with what encoding/json
// decodes, at every depth.
func spansAgree(t *testing.T, canon []byte) {
	t.Helper()
	if end := SkipValue(canon, 0); end != len(canon) {
		t.Fatalf("%s: the value ends at %d", canon, end)
	}
	switch canon[0] {
	case '{':
		objectAgrees(t, canon)
	case '[':
		var want []json.RawMessage
		if err := json.Unmarshal(canon, &want); err != nil {
			t.Fatal(err)
		}
		got := Elements(canon)
		if len(want)+len(got) > 0 && cmp.Diff(want, got) != "" {
			t.Fatalf("%s: (-encoding/json +elements)\n%s", canon, cmp.Diff(want, got))
		}
		for _, e := range got {
			spansAgree(t, e)
		}
	case '"':
		var want string
		if err := json.Unmarshal(canon, &want); err != nil {
			t.Fatal(err)
		}
		if got, plain := PlainString(canon); plain && got != want {
			t.Fatalf("%s: got %q, expected %q", canon, got, want)
		}
	}
}

func objectAgrees(t *testing.T, canon []byte) {
	t.Helper()
	var want map[string]json.RawMessage
	if err := json.Unmarshal(canon, &want); err != nil {
		t.Fatal(err)
	}
	spans, err := MemberSpans(canon)
	if err != nil || len(spans) != len(want) {
		t.Fatalf("%s: %d members, error %v", canon, len(spans), err)
	}
	for _, s := range spans {
		quoted := canon[s.Start : s.End-len(s.Value)-1]
		if string(nameOf(quoted)) == s.Name && !bytes.Equal(Member(canon, s.Name), s.Value) {
			t.Fatalf("%s: member %q is %s, and %s by its name", canon, s.Name, s.Value, Member(canon, s.Name))
		}
		if value := want[string(nameOf(quoted))]; !bytes.Equal(value, s.Value) || string(canon[s.Start+1 : s.End][:len(s.Name)]) != s.Name {
			t.Fatalf("%s: member %s is %s, expected %s", canon, quoted, s.Value, value)
		}
		if rest, err := Without(canon, s.Name); err != nil || len(spans) > 1 && string(rest) != cut(canon, s) || len(spans) == 1 && string(rest) != "{}" {
			t.Fatalf("%s without %q: %s, %v", canon, s.Name, rest, err)
		}
		spansAgree(t, s.Value)
	}
	if Member(canon, "no such name") != nil && want["no such name"] == nil {
		t.Fatalf("%s: a member that is not there", canon)
	}
}

// cut takes a member out, and the comma on one side of it.
func cut(canon []byte, s Span) string {
	if canon[s.End] == ',' {
		return string(canon[:s.Start]) + string(canon[s.End+1:])
	}
	return string(canon[:s.Start-1]) + string(canon[s.End:])
}

func FuzzSpans(f *testing.F) {
	for _, s := range []string{`{"a":"b\"c","d\\":{"e":[1,"\\\\",{}]},"f":null}`, `[[],[""],"]","}",-1.5e7]`, `{"\"":"\\\""}`, `""`} {
		f.Add([]byte(s))
	}
	for _, doc := range documents() {
		f.Add(doc)
	}
	f.Fuzz(func(t *testing.T, in []byte) {
		MemberSpans(in) // whatever it is given
		Member(in, "a")
		Elements(in)
		if canon, err := Canon(in); err == nil {
			spansAgree(t, canon)
		}
	})
}

func TestSpansOfWhatIsNoObject(t *testing.T) {
	for _, s := range []string{"", "{", "[]", `"{}"`, `{"a"}`, `{"a":}`, `{"a":1`, `{a:1}`, `{"a":"}`, `{"a":{}`, `{"a":1,}x`} {
		if spans, err := MemberSpans([]byte(s)); err == nil && len(s) > 0 && s != `{"a":}` {
			t.Errorf("%s: %v", s, spans)
		}
		if _, err := Without([]byte(s)); err == nil && s != `{"a":}` {
			t.Errorf("%s: taken for an object", s)
		}
		if v := Member([]byte(s), "b"); v != nil {
			t.Errorf("%s: member b is %s", s, v)
		}
	}
}
