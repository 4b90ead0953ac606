package verdict

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/jsonschema-go/jsonschema"

	"investigator/internal/ledger"
)

func whole() Verdict {
	return Verdict{
		Component: "payments-db", Class: "change", Mechanism: "pool exhausted", Change: "v841", StartedAt: "2026-03-10T02:00:00Z",
		Confidence: "high", Summary: "v841 cut the pool", Evidence: []string{"E7", "E7#/deploys/1"},
		RuledOut:       []RuledOut{{Hypothesis: "load", Reason: "flat", Evidence: []string{"E4"}}},
		NotExamined:    []string{"logs"},
		Recommendation: "roll back",
	}
}

// edited returns the whole verdict's JSON with members set (raw JSON) or, for
// "", removed.
func edited(t *testing.T, edits map[string]string) json.RawMessage {
	t.Helper()
	var m map[string]json.RawMessage
	if err := json.Unmarshal(whole().JSON(), &m); err != nil {
		t.Fatal(err)
	}
	for name, raw := range edits {
		if m[name] = json.RawMessage(raw); raw == "" {
			delete(m, name)
		}
	}
	out, err := ledger.CanonValue(m)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

func TestParseGivesBackWhatJSONWrote(t *testing.T) {
	v, problems := Parse(whole().JSON())
	if problems != nil {
		t.Fatal(problems)
	}
	if d := cmp.Diff(whole(), v); d != "" {
		t.Error(d)
	}
	none := Verdict{Class: "unknown", Confidence: "none", Summary: "nothing found"}
	if _, problems := Parse(none.JSON()); problems != nil {
		t.Errorf("an honest inconclusive verdict was refused: %v", problems)
	}
}

// Each row is a mistake a model can make; the problem must name the place.
func TestParseNamesEveryProblem(t *testing.T) {
	cases := map[string]struct {
		edits map[string]string
		want  string
	}{
		"missing member":     {map[string]string{"mechanism": ""}, "/mechanism: expected a string, found none"},
		"missing evidence":   {map[string]string{"evidence": ""}, "/evidence: expected an array of strings, found none"},
		"null member":        {map[string]string{"change": "null"}, "/change: expected a string, found null"},
		"other case":         {map[string]string{"component": "", "Component": `"x"`}, "/component: expected a string, found none"},
		"number":             {map[string]string{"component": "7"}, "/component: expected a string, found a number"},
		"object":             {map[string]string{"summary": `{"a":1}`}, "/summary: expected a string, found an object"},
		"blank summary":      {map[string]string{"summary": `" \t "`}, "/summary: expected a text, found none"},
		"class":              {map[string]string{"class": `"bug"`}, `/class: expected one of change, saturation, dependency, load, failure, unknown, found "bug"`},
		"confidence":         {map[string]string{"confidence": `"sure"`}, `/confidence: expected one of high, medium, low, none, found "sure"`},
		"blank component":    {map[string]string{"component": `" "`}, "/component: an inconclusive verdict"},
		"sure of nothing":    {map[string]string{"confidence": `"none"`}, "/component: an inconclusive verdict"},
		"evidence string":    {map[string]string{"evidence": `"E7"`}, "/evidence: expected an array of strings, found a string"},
		"evidence number":    {map[string]string{"evidence": `["E7",7]`}, "/evidence/1: expected a string, found a number"},
		"evidence null":      {map[string]string{"evidence": `[null]`}, "/evidence/0: expected a string, found null"},
		"bad address":        {map[string]string{"evidence": `["E7","event 7"]`}, `/evidence/1: expected an address like "E7" or "E7#/deploys/1", found "event 7"`},
		"ruled out text":     {map[string]string{"ruled_out": `["load"]`}, "/ruled_out/0: expected an object, found a string"},
		"ruled out half":     {map[string]string{"ruled_out": `[{"hypothesis":"load"}]`}, "/ruled_out/0/reason: expected a string, found none"},
		"ruled out evidence": {map[string]string{"ruled_out": `[{"hypothesis":"a","reason":"b","evidence":[1]}]`}, "/ruled_out/0/evidence/0: expected a string, found a number"},
		"not examined":       {map[string]string{"not_examined": `true`}, "/not_examined: expected an array of strings, found a boolean"},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			_, problems := Parse(edited(t, c.edits))
			if len(problems) != 1 || !strings.HasPrefix(problems[0], c.want) {
				t.Errorf("problems = %q, want one that begins with %q", problems, c.want)
			}
		})
	}
	for _, in := range []string{`null`, `[]`, `"E7"`, `7`, `true`} {
		if _, problems := Parse(json.RawMessage(in)); len(problems) != 1 || !strings.HasPrefix(problems[0], "the input: expected an object, found ") {
			t.Errorf("Parse(%s) = %q", in, problems)
		}
	}
	if _, problems := Parse(json.RawMessage(`{}`)); len(problems) != 10 {
		t.Errorf("an empty object has %d problems, want one for each required member: %q", len(problems), problems)
	}
}

func compiled(t testing.TB) *jsonschema.Resolved {
	t.Helper()
	var s jsonschema.Schema
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	resolved, err := s.Resolve(nil)
	if err != nil {
		t.Fatal(err)
	}
	return resolved
}

func satisfies(t testing.TB, s *jsonschema.Resolved, input []byte) bool {
	t.Helper()
	dec := json.NewDecoder(bytes.NewReader(input))
	dec.UseNumber() // a fuzzer writes numbers that no float64 can hold
	var v any
	if err := dec.Decode(&v); err != nil {
		t.Fatal(err)
	}
	return s.Validate(floats(v)) == nil
}

// floats replaces numbers, which the library would take for strings; a verdict
// holds none, so any value will do.
func floats(v any) any {
	switch v := v.(type) {
	case json.Number:
		return 0.5
	case []any:
		for i := range v {
			v[i] = floats(v[i])
		}
	case map[string]any:
		for name := range v {
			v[name] = floats(v[name])
		}
	}
	return v
}

// beyondSchema are the two rules that only Parse knows.
func beyondSchema(problem string) bool {
	return strings.HasPrefix(problem, "/summary: expected a text") || strings.HasPrefix(problem, "/component: an inconclusive")
}

// The schema a model is shown and the code that judges its answer must agree,
// or a model that obeys the one is refused by the other. Every member takes
// every value of a set, judged by a schema library that is not ours.
func TestSchemaAndParseAgree(t *testing.T) {
	s := compiled(t)
	values := []string{
		"", "null", "true", "7", `""`, `" "`, `"x"`, `"high"`, `"none"`, `"load"`, `[]`, `["x"]`, `["E1","E12#","E3#/a~1b"]`, `["E0"]`, `["E07"]`,
		`["E+7"]`, `["E 7"]`, `["E7 "]`, `["E7#a"]`, `["E999999999"]`, `["E9999999999"]`, `["E7#/a\nb"]`, `["e7"]`, `["E7#/é#/"]`, `[1]`, `[null]`, `[[]]`,
		`{}`, `{"a":1}`, `[{}]`, `[{"hypothesis":"a","reason":"b"}]`, `[{"hypothesis":"a","reason":null}]`,
		`[{"hypothesis":"a","reason":"b","evidence":["anything"]}]`, `[{"hypothesis":"a","reason":"b","evidence":"E1"}]`, `[{"hypothesis":"a","reason":"b","more":1}]`,
	}
	names := []string{"component", "class", "mechanism", "change", "started_at", "confidence", "summary", "evidence", "ruled_out", "not_examined", "recommendation", "other"}
	agreed := map[bool]int{}
	for _, name := range names {
		for _, value := range values {
			input := edited(t, map[string]string{name: value})
			_, problems := Parse(input)
			want := satisfies(t, s, input)
			if len(problems) > 0 && !slices.ContainsFunc(problems, func(p string) bool { return !beyondSchema(p) }) {
				continue
			}
			if got := len(problems) == 0; got != want {
				t.Errorf("%s = %s: schema says %v, Parse says %q", name, value, want, problems)
			}
			agreed[want]++
		}
	}
	if agreed[true] < 20 || agreed[false] < 200 {
		t.Errorf("the table does not try both sides: %v", agreed)
	}
}

func FuzzParse(f *testing.F) {
	s := compiled(f)
	f.Add([]byte(whole().JSON()))
	f.Add([]byte(`{"component":"","evidence":["E1#/~0"],"ruled_out":[null]}`))
	f.Fuzz(func(t *testing.T, in []byte) {
		canon, err := ledger.Canon(in)
		if err != nil {
			return
		}
		v, problems := Parse(canon)
		if len(problems) > 0 {
			return
		}
		if !satisfies(t, s, canon) {
			t.Fatalf("Parse accepts what the schema refuses: %s", canon)
		}
		again, problems := Parse(v.JSON())
		if len(problems) > 0 || !bytes.Equal(again.JSON(), v.JSON()) {
			t.Fatalf("JSON does not come back: %s %q", v.JSON(), problems)
		}
	})
}

// JSON is written by hand; encoding/json must agree with it.
func FuzzJSON(f *testing.F) {
	f.Add("payments-db", "he said \"10 → 50\"\u2028\x07\xff", uint8(0))
	f.Add("", "<&>", uint8(7))
	f.Fuzz(func(t *testing.T, a, b string, lists uint8) {
		v := Verdict{a, b, a, b, a, b, b + a, []string{}, []RuledOut{}, nil, a + b}
		if lists&1 != 0 {
			v.Evidence, v.RuledOut = []string{a, b}, []RuledOut{{a, b, nil}, {b, a, []string{b, a}}}
		}
		if lists&2 != 0 {
			v.NotExamined = []string{b, a, b}
		}
		want, err := ledger.CanonValue(v)
		if err != nil {
			t.Fatal(err)
		}
		if lists&4 != 0 && lists&1 == 0 {
			v.Evidence, v.RuledOut = nil, nil // written as empty lists
		}
		if d := cmp.Diff(string(want), string(v.JSON())); d != "" {
			t.Errorf("(-encoding/json +JSON):\n%s", d)
		}
	})
}

func TestSchemaIsCanonical(t *testing.T) {
	want, err := ledger.Canon(Schema())
	if err != nil || !bytes.Equal(want, Schema()) {
		t.Errorf("Schema is not canonical JSON (%v)", err)
	}
	var s struct {
		Properties struct{ Class, Confidence struct{ Enum []string } }
	}
	if err := json.Unmarshal(Schema(), &s); err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([][]string{Classes(), Confidences()}, [][]string{s.Properties.Class.Enum, s.Properties.Confidence.Enum}); d != "" {
		t.Errorf("the schema's enumerations are not the package's:\n%s", d)
	}
	if !strings.Contains(Description, "E7#/deploys/1") {
		t.Error("Description does not show an address")
	}
}

func TestJSONOfAnEmptyVerdictHasArrays(t *testing.T) {
	got := string(Verdict{}.JSON())
	if !strings.Contains(got, `"evidence":[]`) || !strings.Contains(got, `"ruled_out":[]`) {
		t.Errorf("JSON = %s", got)
	}
}

func TestParseAddress(t *testing.T) {
	good := map[string]struct {
		seq     int
		pointer string
	}{"E7": {7, ""}, "E12#": {12, ""}, "E7#/deploys/1": {7, "/deploys/1"}, "E1#/a#b": {1, "/a#b"}, "E999999999#/": {999999999, "/"}}
	for in, want := range good {
		seq, pointer, err := ParseAddress(in)
		if err != nil || seq != want.seq || pointer != want.pointer {
			t.Errorf("ParseAddress(%q) = %d, %q, %v", in, seq, pointer, err)
		}
	}
	for _, in := range []string{"", "E", "7", "e7", "E0", "E07", "E-1", "E+7", "E 7", " E7", "E7 ", "E7x", "E7.5", "E1_0", "E٣", "E7#deploys", "E7#/a\nb", "E99999999999999999999"} {
		if seq, _, err := ParseAddress(in); err == nil || !strings.Contains(err.Error(), "found") {
			t.Errorf("ParseAddress(%q) = %d, %v; want an error that quotes it", in, seq, err)
		}
	}
}

func TestSameFinding(t *testing.T) {
	base := Verdict{Component: "payments-db", Class: "change", Change: "v8.41"}
	with := func(edit func(*Verdict)) Verdict { v := base; edit(&v); return v }
	nothing := Verdict{Class: "unknown"}
	cases := map[string]struct {
		a, b Verdict
		want []string
	}{
		"itself":             {base, base, nil},
		"spelling":           {base, with(func(v *Verdict) { v.Component = " Payments_DB " }), nil},
		"wording":            {base, with(func(v *Verdict) { v.Summary, v.Mechanism, v.Confidence = "x", "y", "low" }), nil},
		"component":          {base, with(func(v *Verdict) { v.Component = "checkout" }), []string{"component"}},
		"class":              {base, with(func(v *Verdict) { v.Class = "load" }), []string{"class"}},
		"no change":          {base, with(func(v *Verdict) { v.Change = "" }), []string{"change"}},
		"moved separator":    {base, with(func(v *Verdict) { v.Change = "v84.1" }), []string{"change"}},
		"all three":          {base, Verdict{Component: "a", Class: "b", Change: "c"}, []string{"component", "class", "change"}},
		"both inconclusive":  {nothing, Verdict{Class: "load", Change: "v1"}, nil},
		"one inconclusive":   {base, nothing, []string{"component", "class", "change"}},
		"inconclusive blank": {Verdict{Component: " "}, nothing, nil},
	}
	for name, c := range cases {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, d := range Differences(c.a, c.b) {
				got = append(got, d.Member)
			}
			if d := cmp.Diff(c.want, got); d != "" {
				t.Error(d)
			}
			if Same(c.a, c.b) != (c.want == nil) || Same(c.a, c.b) != Same(c.b, c.a) {
				t.Errorf("Same = %v, reversed %v", Same(c.a, c.b), Same(c.b, c.a))
			}
		})
	}
}
