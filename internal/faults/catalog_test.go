package faults

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func TestFaults(t *testing.T) {
	turn := responded("tool_use", textHi, callJSON("t1", "list_deploys", "{}"), callJSON("t2", "query_metrics", "{}"))
	tests := []struct {
		fault, name string
		event       ledger.Event
		want        string // of the result, or of the model event
	}{
		{"missing", "beside other members", result(deploys), strings.Replace(deploys, `,{"id":"v841","time":"2026-03-10T01:55:00Z"}`, "", 1)},
		{"missing", "the last one there is", result(`{"deploys":[{"id":"v1"}],"matched":1,"status":"ok"}`), `{"deploys":[],"matched":1,"status":"empty"}`},
		{"missing", "a status that says more than ok stays", result(`{"lines":[1],"status":"truncated"}`), `{"lines":[],"status":"truncated"}`},
		{"missing", "no status", result(`{"lines":[1]}`), `{"lines":[]}`},
		{"missing", "a status that is no text", result(`{"lines":[1],"status":7}`), `{"lines":[],"status":7}`},
		{"missing", "a bare array", result(`[1,{"status":"ok"}]`), `[1]`},
		{"missing", "a bare array of one", result(`["ok"]`), `[]`},
		{"missing", "deeper than others", result(`{"data":{"items":[1,2]},"status":"ok"}`), `{"data":{"items":[1]},"status":"ok"}`},
		{"missing", "a lone record goes whole", result(metrics), `{"metrics":[],"status":"empty"}`},
		{"missing", "arrays within records do not count", result(`{"services":[{"calls":["a"]},{"calls":[]}]}`), `{"services":[{"calls":["a"]}]}`},
		{"missing", "a name with marks", result(`{"a/b~":[1,2]}`), `{"a/b~":[1]}`},
		{"empty", "array", result(deploys), `{"deploys":[],"service":"checkout","status":"empty","window":{"end":"2026-03-10T09:00:00Z","start":"2026-03-09T09:00:00Z"}}`},
		{"empty", "text", result(`"boom"`), `""`},
		{"empty", "no status", result(`{"lines":[1]}`), `{"lines":[]}`},
		{"error", "tool", result(deploys), `{"error":{"message":"no answer within 30 s"},"status":"error"}`},
		{"error", "model", turn, `{"error":{"message":"no answer within 30 s","name":"ModelTimeoutException","status":408}}`},
		{"truncated", "three", result(`{"lines":[1,2,3],"status":"ok"}`), `{"lines":[1,2],"status":"truncated"}`},
		{"truncated", "the points of one metric", result(metrics), `{"metrics":[{"metric":"p99","points":[{"t":"2026-03-10T01:00:00Z","v":182}],"unit":"ms"}],"status":"truncated"}`},
		{"stale", "by time, not by place", result(`{"d":[{"time":"2026-03-10T02:00:00.5Z"},{"time":"2026-03-10T02:00:00Z"},{"time":"2026-03-10T02:00:00Z"}]}`), `{"d":[{"time":"2026-03-10T02:00:00Z"},{"time":"2026-03-10T02:00:00Z"}]}`},
		{"stale", "the points of one metric", result(metrics), `{"metrics":[{"metric":"p99","points":[{"t":"2026-03-10T01:00:00Z","v":182}],"unit":"ms"}],"status":"ok"}`},
		{"duplicated", "", result(`{"lines":[1,2]}`), `{"lines":[1,2,1,2]}`},
		{"reordered", "", result(`{"lines":[1,2,3]}`), `{"lines":[3,2,1]}`},
		{"reordered", "the points of one metric", result(`{"m":[{"p":[{"v":1},{"v":2}]}]}`), `{"m":[{"p":[{"v":2},{"v":1}]}]}`},
		{"units", "", result(`{"m":[{"p":[{"t":"3 ms","v":182},{"v":-2410.5}]}],"matched":2}`), `{"m":[{"p":[{"t":"3 ms","v":182000},{"v":-2410500}]}],"matched":2}`},
		{"nulls", "", result(`{"m":[{"5":"5","v":182},[1e400,true],7]}`), `{"m":[{"5":"5","v":null},[null,true],null]}`},
		{"cut", "", turn, turnJSON("max_tokens", textHi)},
		{"cut", "no calls", responded("end_turn", textHi), turnJSON("max_tokens", textHi)},
		{"cut", "reasoning stays", responded("tool_use", signedA, callJSON("t", "now", "{}")), turnJSON("max_tokens", signedA)},
		{"cut", "a server tool's call stays with its result",
			responded("tool_use", `{"toolUse":{"input":{},"name":"web","toolUseId":"s","type":"server_tool_use"}}`, `{"toolResult":{"content":[],"toolUseId":"s"}}`, callJSON("t", "now", "{}")),
			turnJSON("max_tokens", `{"toolUse":{"input":{},"name":"web","toolUseId":"s","type":"server_tool_use"}}`, `{"toolResult":{"content":[],"toolUseId":"s"}}`)},
	}
	seen := map[string]bool{}
	for _, test := range tests {
		seen[test.fault] = true
		t.Run(test.fault+"/"+test.name, func(t *testing.T) {
			out := apply(t, Named(test.fault), test.event)
			got := string(out.Event.Data)
			if test.event.Type == ledger.ToolReturned {
				got = resultOf(t, out.Event)
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if string(out.Return.Body) != got {
				t.Errorf("the return %s is not what stands in the event", out.Return.Body)
			}
		})
	}
	for _, f := range Faults() {
		if !seen[f.Name] {
			t.Errorf("no test applies the fault %s", f.Name)
		}
		if f.Does == "" || f.Like == "" || len(f.Events) == 0 {
			t.Errorf("the fault %s does not say what it does, like what and where: %+v", f.Name, f)
		}
	}
}

func TestFaultRefusals(t *testing.T) {
	turn := responded("tool_use", callJSON("t1", "now", "{}"))
	tests := []struct {
		fault string
		event ledger.Event
		kind  Kind
		what  string
		hint  string
	}{
		{"missing", result(`{"a":[1,2],"b":[3]}`), NotApplicable, `the fault missing: expected one array in the result, found /a, /b`, "point at what you mean, like --drop /a/1"},
		{"missing", result(`{"a":[],"b":[]}`), NotApplicable, `the fault missing: expected one array in the result, found /a, /b`, "point at what you mean, like --drop /a"},
		{"missing", result(`{"error":{"message":"m"},"status":"error"}`), NotApplicable, `the fault missing: expected one array in the result, found none: the top has error, status`, "change a member with --set POINTER=JSON, or let the call fail with --error TEXT"},
		{"missing", result(`"text"`), NotApplicable, `the fault missing: expected one array in the result, found none: the top is "text"`, "change a member with --set POINTER=JSON, or let the call fail with --error TEXT"},
		{"missing", result(`{"a":[]}`), NotApplicable, `the fault missing: expected at least 1 record at "/a", found 0`, "choose another event, or set what is there with --set"},
		{"missing", turn, NotPatchable, "the fault missing is for tool.returned, not for model.responded", "point the fault at such an event, or change this one with --set"},
		{"error", event(ledger.RunStarted, started), NotPatchable, "the fault error is for tool.returned and model.responded, not for run.started", "point the fault at such an event, or change this one with --set"},
		{"cut", result(deploys), NotPatchable, "the fault cut is for model.responded, not for tool.returned", "point the fault at such an event, or change this one with --set"},
		{"truncated", result(`{"a":[1]}`), NotApplicable, `the fault truncated: expected at least 2 records at "/a", found 1`, "choose another event, or set what is there with --set"},
		{"truncated", result(`{"a":[{"tags":["x","y"]}]}`), NotApplicable, `the fault truncated: expected at least 2 records at "/a", found 1`, "choose another event, or set what is there with --set"},
		{"truncated", result(`{"a":[{"lags":[1,2]}]}`), NotApplicable, `the fault truncated: expected at least 2 records at "/a", found 1`, "choose another event, or set what is there with --set"},
		{"reordered", result(`[7]`), NotApplicable, "the fault reordered: expected at least 2 records at the whole document, found 1", "choose another event, or set what is there with --set"},
		{"reordered", result(`[7,7]`), NoChange, "the fault reordered changes nothing here", "choose another event or another fault"},
		{"stale", result(`{"a":[{"time":"2026-03-10T02:00:00Z"},{"time":"10 March"}]}`), NotApplicable, `the fault stale: expected a time in UTC, like 2026-03-10T02:00:00Z, in every record, found none in "/a/1"`, "use truncated, or drop records with --drop"},
		{"stale", result(`{"a":[{"time":"2026-03-10T02:00:00+01:00"},{"time":"2026-03-10T02:00:00Z"}]}`), NotApplicable, `the fault stale: expected a time in UTC, like 2026-03-10T02:00:00Z, in every record, found none in "/a/0"`, "use truncated, or drop records with --drop"},
		{"stale", result(`{"a":[{"t":"2026-03-10T02:00:00Z"},{"t":"2026-03-10T02:00:00Z"}]}`), NotApplicable, `the fault stale: expected records of several times at "/a", found one time`, "use missing or truncated"},
		{"units", result(`{"a":["x"]}`), NoChange, "the fault units changes nothing here", "choose another event or another fault"},
		{"units", result(`{"a":[0]}`), NoChange, "the fault units changes nothing here", "choose another event or another fault"},
		{"empty", result(`{"a":[],"status":"empty"}`), NoChange, "the fault empty changes nothing here", "choose another event or another fault"},
		{"empty", result(`7`), NotApplicable, "the fault empty: expected one array in the result, found none: the top is 7", "change a member with --set POINTER=JSON, or let the call fail with --error TEXT"},
		{"cut", responded("max_tokens", textHi), NoChange, "the fault cut changes nothing here", "choose another event or another fault"},
		{"cut", event(ledger.ModelResponded, `{"no":"turn"}`), NotPatchable, "the fault cut: the recorded turn", "put a whole turn in its place with --replace"},
		{"nosuch", result(deploys), BadPatch, `unknown fault "nosuch"`, "one of missing, empty, error, truncated, stale, duplicated, reordered, units, nulls, cut"},
	}
	for _, test := range tests {
		t.Run(test.fault+"/"+test.what, func(t *testing.T) {
			err := refused(t, Named(test.fault).Check(test.event))
			got := Error{Kind: err.Kind, Event: err.Event, What: err.What, Hint: err.Hint}
			if diff := cmp.Diff(Error{Kind: test.kind, Event: 7, What: test.what, Hint: test.hint}, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDefaultIsAFault(t *testing.T) {
	if _, err := find(Default); err != nil {
		t.Error(err)
	}
}

// Whether a call counts as failed follows its status where the patch touches
// it, and stays otherwise.
func TestFailed(t *testing.T) {
	tests := []struct {
		name  string
		patch Patch
		event ledger.Event
		want  bool
		notes []string
	}{
		{"error", Fail("boom"), result(deploys), true, []string{"the call counts as failed now"}},
		{"set status error", mustSet(t, "/status", `"error"`), result(deploys), true, []string{"the call counts as failed now"}},
		{"other edit of a failure", mustSet(t, "/x", "1"), failedResult(`{"message":"m"}`), true, nil},
		{"a test of the whole decides nothing", Ops(json.RawMessage(`[{"op":"test","path":"","value":{"a":1}},{"op":"remove","path":"/a"}]`)), failedResult(`{"a":1}`), true, nil},
		{"a foreign status", mustSet(t, "/x", "1"), result(`{"status":"error"}`), false, nil},
		{"replaced failure", Replace(json.RawMessage(deploys)), failedResult(`"boom"`), false, []string{"the call counts as answered now, no longer as failed"}},
		{"replaced by a failure", Replace(json.RawMessage(`{"status":"error"}`)), failedResult(`"boom"`), true, nil},
		{"status ok again", mustSet(t, "/status", `"ok"`), failedResult(`{"status":"error"}`), false, []string{"the call counts as answered now, no longer as failed"}},
		{"a failure without a word", Empty(), failedResult(`"boom"`), true, nil},
		{"missing", Named("missing"), result(deploys), false, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			out, err := test.patch.Apply(test.event)
			if err != nil {
				t.Fatal(err)
			}
			if out.Return.Failed != test.want {
				t.Errorf("failed: got %v, want %v", out.Return.Failed, test.want)
			}
			status := map[bool]string{true: `"status":"error","tool"`, false: `"status":"success","tool"`}[test.want]
			if !strings.Contains(string(out.Event.Data), status) {
				t.Errorf("the event does not say %s: %s", status, out.Event.Data)
			}
			if diff := cmp.Diff(test.notes, out.Notes); diff != "" {
				t.Errorf("notes (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTimes1000(t *testing.T) {
	for number, want := range map[string]string{
		"0": "0", "-0.0": "-0", "1": "1000", "1.0": "1000", "182": "182000", "-2410.5": "-2410500", "0.0005": "0.5", "0.12345": "123.45",
		"1e400": "1000e400", "1.5E-3": "1500E-3", "9007199254740993": "9007199254740993000", "10": "10000", "0.001": "1",
	} {
		if got := times1000(number); got != want {
			t.Errorf("times1000(%s) = %s, want %s", number, got, want)
		}
	}
}

func TestTimes(t *testing.T) {
	for record, want := range map[string]string{
		`{"time":"2026-03-10T02:00:00Z"}`:            "2026-03-10T02:00:00",
		`{"t":"2026-03-10T02:00:00.125Z"}`:           "2026-03-10T02:00:00.125",
		`{"timestamp":"2026-03-10T02:00:00Z","z":1}`: "2026-03-10T02:00:00",
		`{"at":"2026-03-10T02:00:00Z"}`:              "2026-03-10T02:00:00",
		`{"ts":"2026-03-10T02:00:00Z"}`:              "2026-03-10T02:00:00",
		`{"time":"2026-03-10T02:00:00+01:00"}`:       "",
		`{"time":"2026-03-10T02:00Z"}`:               "",
		`{"time":"2026-03-10 02:00:00Z"}`:            "",
		`{"time":"2026-03-10T02:00:00,5Z"}`:          "",
		`{"time":"2026-03-10T02:00:0xZ"}`:            "",
		`{"time":"2026-03-10T02:00:00.5xZ"}`:         "",
		`{"time":1773108000}`:                        "",
		`{"when":"2026-03-10T02:00:00Z"}`:            "",
		`"2026-03-10T02:00:00Z"`:                     "",
	} {
		got, found := timeOf([]byte(record))
		if found != (want != "") || found && got != want {
			t.Errorf("timeOf(%s) = %q, %v; want %q", record, got, found, want)
		}
	}
}
