package diff

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func TestNotJSON(t *testing.T) {
	for _, bad := range []string{"", " ", "{", `{"a":}`, `[1,]`, "nul", `"a`, "1 2", "\xff", "01", strings.Repeat("[", 20000), strings.Repeat("[", 10001) + strings.Repeat("]", 10001)} {
		for side, docs := range map[string][2]string{"old": {bad, `1`}, "new": {`1`, bad}, "read old": {bad, bad}} {
			_, err := Values(raw(docs[0]), raw(docs[1]))
			if !errors.Is(err, ledger.ErrSyntax) || !strings.Contains(err.Error(), side) {
				t.Errorf("%.20q as %s: error %v", bad, side, err)
			}
		}
	}
}

func TestDeepNesting(t *testing.T) {
	deep := func(leaf string) string { return strings.Repeat(`{"a":[`, 4900) + leaf + strings.Repeat(`]}`, 4900) }
	got, err := Values(raw(deep("1")), raw(deep("2")))
	if err != nil {
		t.Fatal(err)
	}
	want := []Change{change(Changed, strings.Repeat("/a/0", 4900), "1", "2")}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

func TestHugeNumbers(t *testing.T) {
	digits := strings.Repeat("9", 100000)
	got, err := Values(raw("["+digits+"1]"), raw("["+digits+"2]"))
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff([]Change{change(Changed, "/0", digits+"1", digits+"2")}, got); d != "" {
		t.Errorf("changes (-want +got):\n%s", d)
	}
}

// Long arrays with nothing in common, or in reverse order, must end soon and
// still lead from one to the other.
func TestLongArrays(t *testing.T) {
	array := func(n int, element func(k int) string) []byte {
		list := make([]string, n)
		for k := range list {
			list[k] = element(k)
		}
		return []byte("[" + strings.Join(list, ",") + "]")
	}
	up := array(5000, func(k int) string { return fmt.Sprint(k) })
	for name, b := range map[string][]byte{
		"other elements": array(5000, func(k int) string { return fmt.Sprint(-1 - k) }),
		"reversed":       array(5000, func(k int) string { return fmt.Sprint(4999 - k) }),
		"fewer":          array(4000, func(k int) string { return fmt.Sprint(k + k%3) }),
	} {
		changes, err := Values(up, b)
		if err != nil || len(changes) == 0 || len(changes) > 9000 {
			t.Errorf("%s: %d changes, error %v", name, len(changes), err)
		}
		if !slices.Equal(resultOf(t, up, changes), elements(t, b)) {
			t.Errorf("%s: applying the changes does not give the new document", name)
		}
	}
}

// resultOf applies the changes of a flat array.
func resultOf(t *testing.T, a []byte, changes []Change) []string {
	t.Helper()
	list := elements(t, a)
	for _, op := range Ops(changes) {
		var k int
		if _, err := fmt.Sscanf(op.Path, "/%d", &k); err != nil {
			t.Fatalf("path %q: %v", op.Path, err)
		}
		switch op.Op {
		case "replace":
			list[k] = string(op.Value)
		case "remove":
			list = slices.Delete(list, k, k+1)
		case "add":
			list = slices.Insert(list, k, string(op.Value))
		}
	}
	return list
}

func elements(t *testing.T, array []byte) []string {
	t.Helper()
	text := canon(t, array)
	return strings.Split(text[1:len(text)-1], ",")
}

func TestInputsAreKept(t *testing.T) {
	a, b := []byte(` {"a":[1,2,3],"b":"xyz"} `), []byte(`{"b":"xy","a":[0,1,2,3]}`)
	x, y := string(a), string(b)
	changes, err := Values(a, b)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range changes { // results own their bytes
		clear(c.Old)
		clear(c.New)
	}
	if string(a) != x || string(b) != y {
		t.Errorf("inputs became %s and %s", a, b)
	}
}

// FuzzCommon holds the search against a plain table.
func FuzzCommon(f *testing.F) {
	f.Add([]byte("abcabba"), []byte("cbabac"))
	f.Add([]byte("xaxcxabc"), []byte("abcy"))
	f.Add([]byte{}, []byte("a"))
	f.Fuzz(func(t *testing.T, x, y []byte) {
		if len(x) > 300 || len(y) > 300 {
			return
		}
		a, b := ints(x), ints(y)
		got := common(a, b)
		last := pair{-1, -1}
		for _, p := range got {
			if p.a <= last.a || p.b <= last.b || a[p.a] != b[p.b] {
				t.Fatalf("pair %v after %v does not match", p, last)
			}
			last = p
		}
		if want := longest(a, b); len(got) != want {
			t.Fatalf("%d common elements of %q and %q, expected %d", len(got), x, y, want)
		}
	})
}

func ints(s []byte) []int {
	out := make([]int, len(s))
	for k, c := range s {
		out[k] = int(c)
	}
	return out
}

func longest(a, b []int) int {
	row := make([]int, len(b)+1)
	for _, x := range a {
		diagonal := 0
		for j, y := range b {
			above := row[j+1]
			row[j+1] = max(above, row[j])
			if x == y {
				row[j+1] = diagonal + 1
			}
			diagonal = above
		}
	}
	return row[len(b)]
}
