package world

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestBadInputSaysWhatIsWrongAndAllowed(t *testing.T) {
	w := mustDemo(t)
	for _, c := range []struct{ tool, input, field, message, allowed string }{
		{"query_metrics", `{}`, "/service", "missing: service", "checkout"},
		{"query_metrics", `{"service":null}`, "/service", "missing: service", "checkout"},
		{"query_metrics", `{"service":""}`, "/service", "missing: service", "checkout"},
		{"query_metrics", `{"service":"check"}`, "/service", `there is no service "check"; did you mean "checkout"?`, "checkout"},
		{"query_metrics", `{"service":"Checkout Service"}`, "/service", `did you mean "checkout"?`, "checkout"},
		{"query_metrics", `{"service":"zz"}`, "/service", `there is no service "zz"`, "payments-db"},
		{"query_metrics", `{"service":"checkout","metrics":"x","a":1}`, "", `unknown argument "a", "metrics"`, "metric"},
		{"query_metrics", `{"service":["checkout"]}`, "/service", "expected string, got array", ""},
		{"query_metrics", `{"service":"checkout","window":"yesterday"}`, "/window", `"yesterday"`, "24h"},
		{"query_metrics", `[]`, "", "not a JSON object", ""},
		{"query_metrics", `{"service":`, "", "not JSON", ""},
		{"query_metrics", `{"service":"checkout"} x`, "", "not JSON", ""},
		{"list_deploys", `{"service":"zz"}`, "/service", `"zz"`, "cart"},
		{"search_logs", `{}`, "", "missing: query", "query"},
		{"search_logs", `{"query":" | "}`, "/query", "no text", "error"},
		{"search_logs", `{"query":"x","limit":0}`, "/limit", "out of range", "1 to 200"},
		{"search_logs", `{"query":"x","limit":1.5}`, "/limit", "expected integer", ""},
		{"search_logs", `{"query":"x","limit":1e999999999}`, "/limit", "out of range", "1 to 200"},
		{"search_logs", `{"query":"x","limit":-1e-999999999}`, "/limit", "out of range", "1 to 200"},
		{"search_logs", `{"query":"x","limit":"5"}`, "/limit", "expected integer, got string", ""},
		{"list_services", `{"service":"cart"}`, "", `unknown argument "service"`, ""},
		{"restart", `{}`, "", `there is no tool "restart"`, "search_logs"},
		{"search_logs", `{"query":"` + strings.Repeat("x", maxInput) + `"}`, "", "at most 65536", ""},
		{strings.Repeat("x", 5000), `{}`, "", "there is no tool", "query_metrics"},
	} {
		var got struct {
			Error struct {
				Allowed        []string
				Field, Message string
			}
			Status string
		}
		r := call(w, c.tool, c.input)
		decode(t, r, StatusError, &got)
		if got.Status != StatusError || got.Error.Field != c.field || !strings.Contains(got.Error.Message, c.message) ||
			c.allowed != "" && !slices.Contains(got.Error.Allowed, c.allowed) || len(r.Body) > 2000 {
			t.Errorf("%.40s %.80s: %.400s", c.tool, c.input, r.Body)
		}
	}
}

// Our own reading of a schema must find a mistake exactly where the validator
// does, or a refusal would be explained in the validator's words, or not at all.
func checkMistakes(t *testing.T, tool tool, input []byte) (refused bool) {
	t.Helper()
	members, p := decodeInput(input)
	if p != nil {
		return true
	}
	schema, err := tool.schema()
	if err != nil {
		t.Fatal(err)
	}
	err = schema.Validate(members)
	if found := mistakes(tool.doc, members); (len(found) > 0) != (err != nil) {
		t.Errorf("%s %q: found %+v, the validator says %v", tool.Name, input, found, err)
	}
	return err != nil
}

func TestMistakesAreThoseOfTheValidator(t *testing.T) {
	w := mustDemo(t)
	values := []string{`null`, `""`, `" "`, `"cart"`, `"Cart"`, `true`, `[]`, `{"a":1}`, `[1e999]`, `0`, `-0.0`, `1`, `0.99`, `1.5`, `2e2`, `200.5`, `201`,
		`200.00000000000000000001`, `9007199254740993`, `1e15`, `1e400`, `-1e400`, `1e-400`}
	seen := map[bool]int{}
	for _, tool := range w.tools {
		for _, name := range []string{"service", "metric", "window", "query", "limit", "Service", "other"} {
			for _, v := range values {
				for _, more := range []string{"", `,"query":"x","service":"cart"`} {
					seen[checkMistakes(t, tool, []byte(`{"`+name+`":`+v+more+`}`))]++
				}
			}
		}
	}
	if seen[true] < 500 || seen[false] < 50 {
		t.Errorf("the table does not try both sides: %v", seen)
	}
}

// A keyword that our reading does not know must not turn into an empty problem.
func TestARefusalWithoutAMistakeKeepsTheValidatorsWords(t *testing.T) {
	if p := explain(tool{}, nil, errors.New("pattern: no match")); p.Message != "pattern: no match" {
		t.Errorf("%+v", p)
	}
}

func TestLimitMayBeWrittenAsModelsDo(t *testing.T) {
	w := mustDemo(t)
	for _, limit := range []string{"3", "3.0", "3e0", "30e-1"} {
		var got logsBody
		decode(t, call(w, "search_logs", `{"query":"exhausted","limit":`+limit+`,"service":null,"window":""}`), StatusTruncated, &got)
		if len(got.Lines) != 3 || got.Matched != 6 || got.Note != "the oldest 3 of 6 matching lines" {
			t.Errorf("limit %s: %+v", limit, got)
		}
		want := map[string]logMatch{"payments-db": {6, "2026-03-10T02:03:14Z", "2026-03-10T07:44:50.137Z"}}
		if diff := cmp.Diff(want, got.ByService); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
}

func TestSeveralMistakesAreAllNamedInAFixedOrder(t *testing.T) {
	w := mustDemo(t)
	for range 30 {
		body := string(call(w, "search_logs", `{"limit":999,"service":"zz","y":1,"x":2}`).Body)
		want := `"message":"missing: query; unknown argument \"x\", \"y\"; limit: out of range; there is no service \"zz\""`
		if !strings.Contains(body, want) {
			t.Fatalf("%s", body)
		}
	}
}
