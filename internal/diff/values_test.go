package diff

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func raw(s string) json.RawMessage {
	if s == "" {
		return nil
	}
	return json.RawMessage(s)
}

// change is a short form of Change for tables.
func change(kind, path, old, new string) Change {
	return Change{Kind: kind, Path: path, Old: raw(old), New: raw(new)}
}

func TestValues(t *testing.T) {
	tests := map[string]struct {
		a, b string
		want []Change
	}{
		"equal":                {`{"a":1}`, `{"a":1}`, nil},
		"other spelling":       {`{"b":"A","a":[ ]}`, ` { "a" : [], "b":"\u0041" } `, nil},
		"beyond 2^53":          {`9007199254740993`, `9007199254740992`, []Change{change(Changed, "", "9007199254740993", "9007199254740992")}},
		"number as written":    {`[1.0]`, `[1]`, []Change{change(Changed, "/0", "1.0", "1")}},
		"huge exponent":        {`[1e400,-0.0]`, `[1e401,-0.0]`, []Change{change(Changed, "/0", "1e400", "1e401")}},
		"kind":                 {`{"a":1}`, `[1]`, []Change{change(Changed, "", `{"a":1}`, `[1]`)}},
		"literals":             {`[true,null]`, `[false,7]`, []Change{change(Changed, "/0", "true", "false"), change(Changed, "/1", "null", "7")}},
		"member dropped":       {`{"a":1,"b":2}`, `{"b":2}`, []Change{change(Dropped, "/a", "1", "")}},
		"member added":         {`{"b":2}`, `{"a":1,"b":2}`, []Change{change(Added, "/a", "", "1")}},
		"escaped names":        {`{"a/b~c":1,"\u0001":2}`, `{"a/b~c":2,"\u0001":3}`, []Change{change(Changed, "/\x01", "2", "3"), change(Changed, "/a~1b~0c", "1", "2")}},
		"null is a value":      {`{"a":null}`, `{}`, []Change{change(Dropped, "/a", "null", "")}},
		"string cut":           {`["abc"]`, `["ab"]`, []Change{change(Truncated, "/0", `"abc"`, `"ab"`)}},
		"string cut at \\":     {`"\\n"`, `"\\"`, []Change{change(Truncated, "", `"\\n"`, `"\\"`)}},
		"string longer":        {`["ab"]`, `["abc"]`, []Change{change(Changed, "/0", `"ab"`, `"abc"`)}},
		"escape is no cut":     {`"\n"`, `"\\"`, []Change{change(Changed, "", `"\n"`, `"\\"`)}},
		"array cut":            {`{"d":[1,2,3,4,5]}`, `{"d":[1]}`, []Change{change(Truncated, "/d", "[1,2,3,4,5]", "[1]")}},
		"last records gone":    {`{"d":[1,2,3]}`, `{"d":[1]}`, []Change{change(Dropped, "/d/1", "2", ""), change(Dropped, "/d/2", "3", "")}},
		"array emptied":        {`{"d":[1,2]}`, `{"d":[]}`, []Change{change(Truncated, "/d", "[1,2]", "[]")}},
		"element inserted":     {`[1,2,3]`, `[1,9,2,3]`, []Change{change(Added, "/1", "", "9")}},
		"element appended":     {`[1]`, `[1,2]`, []Change{change(Added, "/1", "", "2")}},
		"first dropped":        {`[1,2,3]`, `[2,3]`, []Change{change(Dropped, "/0", "1", "")}},
		"behind insertion":     {`[1,{"k":1,"v":1}]`, `[0,1,{"k":1,"v":2}]`, []Change{change(Added, "/0", "", "0"), change(Changed, "/1/v", "1", "2")}},
		"added inside moved":   {`[{"k":1}]`, `[0,{"k":1,"v":2}]`, []Change{change(Added, "/0", "", "0"), change(Added, "/1/v", "", "2")}},
		"added below a member": {`{"d":[{"k":1}]}`, `{"d":[{"k":1},{"k":2}]}`, []Change{change(Added, "/d/1", "", `{"k":2}`)}},
		"beside a change": {`[{"id":1,"v":1},{"id":2,"v":1}]`, `[{"id":0,"v":0},{"id":1,"v":3},{"id":2,"v":3}]`,
			[]Change{change(Added, "/0", "", `{"id":0,"v":0}`), change(Changed, "/0/v", "1", "3"), change(Changed, "/1/v", "1", "3")}},
		"nothing in common": {`{"x":{"a":1,"b":2}}`, `{"x":{"c":1}}`, []Change{change(Changed, "/x", `{"a":1,"b":2}`, `{"c":1}`)}},
		"object filled":     {`{}`, `{"a":1,"b":2}`, []Change{change(Added, "/a", "", "1"), change(Added, "/b", "", "2")}},
		"repeated member":   {`{"a":1,"a":2}`, `{"a":2}`, nil},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := Values(raw(tt.a), raw(tt.b))
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("changes (-want +got):\n%s", d)
			}
		})
	}
}
