package faults

import (
	"slices"
	"strings"
	"testing"
)

func TestTokens(t *testing.T) {
	for pointer, want := range map[string][]string{
		"": nil, "/": {""}, "/a/1": {"a", "1"}, "/a~1b/m~0n": {"a/b", "m~n"}, "/~01": {"~1"}, "//a": {"", "a"}, "/é \"": {"é \""},
	} {
		got, err := tokens(pointer)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("tokens(%q) = %q, %v; want %q", pointer, got, err, want)
		}
		if back := join(got); back != pointer {
			t.Errorf("join(%q) = %q", got, back)
		}
	}
	for _, pointer := range []string{"a", "a/b", "#/a", "/~", "/~2", "/a~"} {
		if _, err := tokens(pointer); err == nil || err.Kind != BadPatch || err.Hint == "" {
			t.Errorf("tokens(%q): %v", pointer, err)
		}
	}
}

func TestIsIndex(t *testing.T) {
	for token, want := range map[string]bool{"0": true, "2": true, "3": false, "-": false, "-1": false, "01": false, "+1": false, "1.0": false, "": false, "99999999999999999999": false} {
		if got := isIndex(token, 3); got != want {
			t.Errorf("isIndex(%q, 3) = %v", token, got)
		}
	}
}

func TestAbbreviate(t *testing.T) {
	long := strings.Repeat("é", 30)
	if got := abbreviate([]byte(`{"a":"` + long)); got != `{"a":"`+strings.Repeat("é", 17)+"…" {
		t.Errorf("got %s", got)
	}
	if got := abbreviate([]byte(strings.Repeat("x", 40))); strings.HasSuffix(got, "…") {
		t.Errorf("got %s", got)
	}
}

func TestDepthOf(t *testing.T) {
	for doc, want := range map[string]int{`1`: 0, `"[[{"`: 0, `[]`: 1, `{"[":"]","a":[[1],{}]}`: 3, `[[],[[]],"\"["]`: 3} {
		if got := depthOf([]byte(doc)); got != want {
			t.Errorf("depthOf(%s) = %d, want %d", doc, got, want)
		}
	}
}
