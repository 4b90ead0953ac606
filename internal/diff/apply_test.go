package diff

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	"github.com/google/go-cmp/cmp"
	"github.com/wI2L/jsondiff"

	"investigator/internal/ledger"
)

// apply applies changes to a by another implementation of JSON Patch. Both are
// wrapped in a member, because that one refuses scalars at the root.
func apply(t *testing.T, a []byte, changes []Change) string {
	t.Helper()
	ops := Ops(changes)
	for k := range ops {
		ops[k].Path = "/x" + ops[k].Path
	}
	text, err := json.Marshal(ops)
	if err != nil {
		t.Fatal(err)
	}
	patch, err := jsonpatch.DecodePatch(text)
	if err != nil {
		t.Fatalf("decode patch %s: %v", text, err)
	}
	out, err := patch.Apply([]byte(`{"x":` + string(a) + `}`))
	if err != nil {
		t.Fatalf("apply %s to %s: %v", text, a, err)
	}
	return canon(t, out)
}

func canon(t *testing.T, doc []byte) string {
	t.Helper()
	out, err := ledger.Canon(doc)
	if err != nil {
		t.Fatal(err)
	}
	return string(out)
}

// peer counts the operations of the library, told to keep numbers as written.
func peer(a, b []byte, options ...jsondiff.Option) (jsondiff.Patch, error) {
	return jsondiff.CompareJSON(a, b, append(options, jsondiff.UnmarshalFunc(func(doc []byte, into any) error {
		d := json.NewDecoder(strings.NewReader(string(doc)))
		d.UseNumber()
		return d.Decode(into)
	}))...)
}

func FuzzValues(f *testing.F) {
	for _, seed := range [][2]string{
		{`{"deploys":[{"id":"v840"},{"id":"v841"}]}`, `{"deploys":[{"id":"v840"}]}`},
		{`[1,2,3,4,5]`, `[0,1,3,{"a":1},5,6]`},
		{`[{"a":[1,2,{"b":3}]},2]`, `[7,{"a":[2,{"b":4,"c":[]}]}]`},
		{`{"a/b":{"~":"xyz"}}`, `{"a/b":{"~":"xy"}}`},
		{`9007199254740993`, `9007199254740992`},
		{`[[],[[]],{}]`, `[[[]],[],{"":0}]`},
		{`"\u0041\ud800"`, `"A"`},
	} {
		f.Add([]byte(seed[0]), []byte(seed[1]))
	}
	f.Fuzz(func(t *testing.T, a, b []byte) {
		changes, err := Values(a, b)
		ca, errA := ledger.Canon(a)
		cb, errB := ledger.Canon(b)
		if (err != nil) != (errA != nil || errB != nil) {
			t.Fatalf("Values: %v, but the documents: %v, %v", err, errA, errB)
		}
		if err != nil {
			return
		}
		if same := string(ca) == string(cb); same != (len(changes) == 0) {
			t.Fatalf("%d changes for equal=%v", len(changes), same)
		}
		pointed(t, ca, cb, changes)
		if strings.Contains(string(ca)+string(cb), `"":`) {
			return // the other implementation does not remove members without a name
		}
		if got, want := apply(t, ca, changes), `{"x":`+string(cb)+`}`; got != want {
			t.Fatalf("from %s\n got %s\nwant %s\nchanges %s", ca, got, want, must(t, changes))
		}
	})
}

// pointed checks that every path leads to the value a change names.
func pointed(t *testing.T, a, b []byte, changes []Change) {
	t.Helper()
	for _, c := range changes {
		doc, want := a, c.Old
		if c.Kind == Added {
			doc, want = b, c.New
		}
		if got := at(t, doc, c.Path); got != string(want) {
			t.Fatalf("%s %q: found %s there, expected %s", c.Kind, c.Path, got, want)
		}
	}
}

// at resolves a pointer by encoding/json alone.
func at(t *testing.T, doc []byte, path string) string {
	t.Helper()
	value := json.RawMessage(doc)
	if path == "" {
		return string(doc)
	}
	for _, token := range strings.Split(path, "/")[1:] {
		token = strings.NewReplacer("~1", "/", "~0", "~").Replace(token)
		if value[0] == '[' {
			var list []json.RawMessage
			k, err := strconv.Atoi(token)
			if err != nil || json.Unmarshal(value, &list) != nil || k >= len(list) {
				t.Fatalf("no element %q of %s", token, value)
			}
			value = list[k]
			continue
		}
		var members map[string]json.RawMessage
		if json.Unmarshal(value, &members) != nil || members[token] == nil {
			t.Fatalf("no member %q of %s", token, value)
		}
		value = members[token]
	}
	return string(value)
}

func must(t *testing.T, v any) string {
	t.Helper()
	b, err := json.Marshal(v)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestValuesAgreesWithPeer(t *testing.T) {
	docs := []string{`{}`, `[]`, `{"a":[1,2,3]}`, `{"a":[1,3]}`, `{"a":[1.0,3]}`, `[{"a":9007199254740993}]`, `[{"a":9007199254740992}]`, `null`, `"x"`}
	for _, a := range docs {
		for _, b := range docs {
			got, err := Values(raw(a), raw(b))
			if err != nil {
				t.Fatal(err)
			}
			want, err := peer([]byte(a), []byte(b), jsondiff.LCS())
			if err != nil {
				t.Fatal(err)
			}
			if (len(got) == 0) != (len(want) == 0) || len(got) > max(len(want), 1) {
				t.Errorf("%s to %s: %s, the library says %s", a, b, must(t, got), want)
			}
		}
	}
}

// sixEdits returns two results of about 100 KB: log records, with six edits of
// which one is an insertion near the front.
func sixEdits() (a, b []byte, want []Change) {
	var old, now []string
	for k := range 900 {
		id := strconv.Itoa(k)
		record := `{"attempt":1,"at":"2026-03-02T02:` + id + `Z","host":"h` + id + `","message":"payments-db pool exhausted, waited ` + id + ` ms","took":1.0}`
		old = append(old, record)
		if k == 10 {
			now = append(now, `{"inserted":true}`)
			want = append(want, change(Added, "/records/10", "", `{"inserted":true}`))
		}
		switch k {
		case 100, 500:
			record = strings.Replace(record, `"took":1.0`, `"took":1`, 1)
			want = append(want, change(Changed, "/records/"+id+"/took", "1.0", "1"))
		case 300:
			record = strings.Replace(record, `"host":"h300",`, ``, 1)
			want = append(want, change(Dropped, "/records/300/host", `"h300"`, ""))
		case 700:
			record = strings.Replace(record, ", waited 700 ms", "", 1)
			want = append(want, change(Truncated, "/records/700/message", `"payments-db pool exhausted, waited 700 ms"`, `"payments-db pool exhausted"`))
		}
		now = append(now, record)
	}
	want = append(want, change(Changed, "/status", `"ok"`, `"empty"`))
	return []byte(`{"records":[` + strings.Join(old, ",") + `],"status":"ok"}`),
		[]byte(`{"records":[` + strings.Join(now, ",") + `],"status":"empty"}`), want
}

func TestSixEdits(t *testing.T) {
	a, b, want := sixEdits()
	got, err := Values(a, b)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
	if got, want := apply(t, a, got), canon(t, []byte(`{"x":`+string(b)+`}`)); got != want {
		t.Error("applying the changes does not give the new document")
	}
}
