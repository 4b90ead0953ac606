package rule

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func TestNode(t *testing.T) {
	n := parseNode([]byte(`{"a": {"b": [1, "two \"2\"", {"c": -3.50}], "b\\": "\\"}, "d": ""} `))
	if got := n.path("a", "b").strings(); cmp.Diff([]string{`two "2"`}, got) != "" {
		t.Errorf("strings: %q", got)
	}
	var numbers []string
	for _, item := range n.path("a", "b").items() {
		numbers = append(numbers, string(item.number())+string(item.get("c").number()))
	}
	if d := cmp.Diff([]string{"1", "", "-3.50"}, numbers); d != "" {
		t.Errorf("numbers (-want +got):\n%s", d)
	}
	for _, path := range [][]string{{"x"}, {"a", "x"}, {"d", "x"}, {"a", "b", "x"}} {
		if got := n.path(path...); got.there() {
			t.Errorf("%q: expected nothing, found %s", path, got.raw())
		}
	}
	if got := n.get("d"); !got.is('"') || got.text() != "" {
		t.Errorf("d: %s", got.raw())
	}
	for range parseNode([]byte(`[]`)).items() {
		t.Error("an empty array has an element")
	}
}

// A node reads canonical JSON as encoding/json does, and survives all else.
func FuzzNode(f *testing.F) {
	for _, seed := range []string{`{"a":[1,{"b":"\\"}],"c":"x\"y"}`, `[]`, `{}`, `["\\\\","\\\"",{}]`, `{"a":`, `"`, `{"a"`, `[[`, `{"":0,"a":[,]}`} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, raw []byte) {
		walk(readNode(raw), nil, t) // text that is not canonical must not panic
		canon, err := ledger.Canon(raw)
		if err != nil {
			return
		}
		var want any
		if json.Unmarshal(canon, &want) != nil {
			return // a number that no float64 holds
		}
		walk(readNode(canon), want, t)
	})
}

func walk(n node, want any, t *testing.T) {
	_, _ = parseNumber(n)
	switch w := want.(type) {
	case map[string]any:
		for name, value := range w {
			if plain, _ := json.Marshal(name); len(plain) == len(name)+2 { // names with escapes are not looked up here
				walk(n.get(name), value, t)
			}
		}
	case []any:
		count := 0
		for i, item := range n.items() {
			if i >= len(w) {
				t.Fatalf("%s has more than %d elements", n.raw(), len(w))
			}
			walk(item, w[i], t)
			count++
		}
		if count != len(w) {
			t.Fatalf("%s: %d elements, expected %d", n.raw(), count, len(w))
		}
	case string:
		if n.text() != w {
			t.Fatalf("%s is read as %q", n.raw(), n.text())
		}
	case float64:
		if len(n.number()) == 0 {
			t.Fatalf("%s is not read as a number", n.raw())
		}
	default:
		_, _, _ = n.text(), n.number(), n.strings()
		_ = n.path("a", "b")
		for _, item := range n.items() {
			_ = item.get("a").text()
		}
	}
}
