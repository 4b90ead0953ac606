package world

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

const demoWindow = `"window":{"end":"2026-03-10T09:00:00Z","start":"2026-03-09T09:00:00Z"}`

// The pointers of the reference experiment: /deploys/1 is v841.
func TestDemoListDeploysOfCheckout(t *testing.T) {
	want := `{"deploys":[` +
		`{"id":"v840","kind":"deploy","service":"checkout","summary":"order confirmation texts in two more languages","time":"2026-03-09T18:20:00Z"},` +
		`{"id":"v841","kind":"deploy","service":"checkout","summary":"config change: payments-db pool size 50 → 10","time":"2026-03-10T01:55:00Z"}],` +
		`"service":"checkout","status":"ok",` + demoWindow + `}`
	if diff := cmp.Diff(want, string(call(mustDemo(t), "list_deploys", `{"service":"checkout"}`).Body)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestDemoCheckoutSpikesAtTwo(t *testing.T) {
	var got struct {
		Metrics []struct {
			Unit   string
			Points []struct {
				T string
				V float64
			}
		}
	}
	decode(t, call(mustDemo(t), "query_metrics", `{"service":"checkout","metric":"latency_p99","window":"24h"}`), StatusOK, &got)
	if len(got.Metrics) != 1 || len(got.Metrics[0].Points) != 24 || got.Metrics[0].Unit != "ms" {
		t.Fatalf("%+v", got)
	}
	points := got.Metrics[0].Points
	for i, p := range points {
		if steady := p.T < "2026-03-10T02:00:00Z"; steady && (p.V < 180 || p.V > 220) || !steady && p.V < 1000 {
			t.Errorf("point %d: %+v", i, p)
		}
		if p.V > points[17].V {
			t.Errorf("the highest value is at %s, want 02:00", p.T)
		}
	}
}

// Lines are encoded by hand; encoding/json must agree with it.
func FuzzLines(f *testing.F) {
	f.Add("error", "pool exhausted \"10 → 50\"\u2028\x07\xff<&>", "checkout", "", uint8(0))
	f.Add("", strings.Repeat("é", 600), "", "t1", uint8(7))
	f.Fuzz(func(t *testing.T, level, message, service, id string, members uint8) {
		b := logsBody{Lines: []lineOut{}, Matched: int(members), Query: message, Status: StatusOK, Window: window{End: level, Start: id}}
		if members&1 != 0 {
			b.Note, b.ByService = service, map[string]logMatch{service: {int(members), level, id}, id: {}}
		}
		if members&2 != 0 {
			b.Service = service
		}
		found := []*logLine{
			{Level: level, Message: message, Service: service, TraceID: id},
			{Message: level, Pod: message, Service: id, Time: service},
		}[:2-members&4/4]
		shown := make([]lineOut, len(found))
		for i, l := range found {
			shown[i] = lineOut{clip(l.Level, maxName), l.Message, clip(l.Pod, maxName), l.Service, l.Time, clip(l.TraceID, maxName)}
			if n := len(l.Message); n > maxMessage {
				shown[i].Message = fmt.Sprintf("%s [cut: %d of %d bytes shown]", clip(l.Message, maxMessage), maxMessage, n)
			}
		}
		lines, err := ledger.CanonValue(shown)
		if err != nil {
			t.Fatal(err)
		}
		want, err := ledger.Canon(bytes.Replace(encode(b), []byte(`"lines":[]`), append([]byte(`"lines":`), lines...), 1))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(string(want), string(b.withLines(found))); diff != "" {
			t.Errorf("(-encoding/json +by hand):\n%s", diff)
		}
	})
}

// What a search for trouble finds from the deploy on starts with the pool.
func TestDemoTroubleInTheLogsStartsWithThePool(t *testing.T) {
	var got struct{ Lines []lineOut }
	r := call(mustDemo(t), "search_logs", `{"query":"error|exhausted|timeout|refused|failed|no payments-db connection","window":"2026-03-10T01:00:00Z/2026-03-10T09:00:00Z"}`)
	decode(t, r, StatusOK, &got)
	want := lineOut{Level: "error", Message: "connection pool exhausted: 10 of 10 connections in use, 37 requests waiting", Service: "payments-db", Time: "2026-03-10T02:03:14Z"}
	if diff := cmp.Diff(want, got.Lines[0]); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if len(got.Lines) != 9 {
		t.Errorf("%d lines, want 9", len(got.Lines))
	}
}

// A fork that withholds v841 must not be given away by another tool.
func TestDemoNamesTheGuiltyDeployInOnePlaceOnly(t *testing.T) {
	w := mustDemo(t)
	for _, c := range [][2]string{{"search_logs", `{"query":"a|e|i|o|u|0|1","limit":200}`}, {"list_services", `{}`}, {"query_metrics", `{"service":"checkout"}`}} {
		if body := call(w, c[0], c[1]).Body; bytes.Contains(body, []byte("841")) || bytes.Contains(body, []byte("50 →")) {
			t.Errorf("%s %s: %s", c[0], c[1], body)
		}
	}
}

func decode(t *testing.T, r Result, status string, into any) {
	t.Helper()
	if r.Status != status {
		t.Fatalf("status %s, want %s: %s", r.Status, status, r.Body)
	}
	if err := json.Unmarshal(r.Body, into); err != nil {
		t.Fatal(err)
	}
}

// Whole bodies of the tiny world, so that a change of any word is seen.
func TestBodies(t *testing.T) {
	const win = `"window":{"end":"2026-01-01T12:00:00Z","start":"2025-12-31T12:00:00Z"}`
	const sec = `"window":{"end":"2026-01-01T12:00:00Z","start":"2026-01-01T11:59:59Z"}`
	w := mustOpen(t, tiny())
	for _, c := range []struct{ tool, input, status, body string }{
		{"query_metrics", `{"service":"a"}`, "ok", `{"metrics":[{"metric":"latency","points":[{"t":"2026-01-01T10:00:00Z","v":1.0},{"t":"2026-01-01T11:00:00Z","v":9.50}],"unit":"ms"}],"service":"a","status":"ok",` + win + `}`},
		{"query_metrics", `{"service":"a","window":"1s"}`, "empty", `{"available":[{"from":"2026-01-01T10:00:00Z","metric":"latency","samples":2,"to":"2026-01-01T11:00:00Z","unit":"ms"}],"metrics":[],"note":"no samples in this window; available says from when to when there are","service":"a","status":"empty",` + sec + `}`},
		{"query_metrics", `{"service":"a","metric":"x"}`, "empty", `{"available":[{"from":"2026-01-01T10:00:00Z","metric":"latency","samples":2,"to":"2026-01-01T11:00:00Z","unit":"ms"}],"metrics":[],"note":"a has no metric \"x\"; it has those under available","service":"a","status":"empty",` + win + `}`},
		{"query_metrics", `{"service":"b"}`, "empty", `{"metrics":[],"note":"no metrics are recorded for b","service":"b","status":"empty",` + win + `}`},
		{"list_deploys", ``, "ok", `{"deploys":[{"id":"d1","kind":"deploy","service":"a","summary":"new","time":"2026-01-01T10:59:00Z"}],"status":"ok",` + win + `}`},
		{"list_deploys", `{"service":"b"}`, "empty", `{"deploys":[],"note":"no change of b was recorded in this window","other_services":{"a":1},"service":"b","status":"empty",` + win + `}`},
		{"list_deploys", `{"service":"a","window":"1s"}`, "empty", `{"deploys":[],"nearest":{"before":{"id":"d1","kind":"deploy","service":"a","summary":"new","time":"2026-01-01T10:59:00Z"}},"note":"no change of a was recorded in this window","service":"a","status":"empty",` + sec + `}`},
		{"list_deploys", `{"window":"2026-01-01T09:00Z/2026-01-01T09:30Z"}`, "empty", `{"deploys":[],"nearest":{"after":{"id":"d1","kind":"deploy","service":"a","summary":"new","time":"2026-01-01T10:59:00Z"}},"note":"no change was recorded in this window","status":"empty","window":{"end":"2026-01-01T09:30:00Z","start":"2026-01-01T09:00:00Z"}}`},
		{"search_logs", `{"query":"x | hello w"}`, "ok", `{"lines":[{"level":"info","message":"Hello World","service":"a","time":"2026-01-01T10:30:00Z","trace_id":"t1"}],"matched":1,"query":"x | hello w","status":"ok",` + win + `}`},
		{"search_logs", `{"query":"hello.*"}`, "empty", `{"available":[{"from":"2026-01-01T10:30:00Z","in_window":1,"lines":1,"service":"a","to":"2026-01-01T10:30:00Z"}],"lines":[],"matched":0,"note":"no line matched; the query is plain text, not a pattern","query":"hello.*","status":"empty",` + win + `}`},
		{"search_logs", `{"query":"hello","window":"1s"}`, "empty", `{"available":[{"from":"2026-01-01T10:30:00Z","in_window":0,"lines":1,"service":"a","to":"2026-01-01T10:30:00Z"}],"lines":[],"matched":0,"note":"no line at all was logged in this window; available says from when to when there are lines","query":"hello","status":"empty",` + sec + `}`},
		{"search_logs", `{"query":"hello","service":"b"}`, "empty", `{"available":[{"from":"2026-01-01T10:30:00Z","in_window":1,"lines":1,"service":"a","to":"2026-01-01T10:30:00Z"}],"lines":[],"matched":0,"note":"no log of b is kept; available lists the logs there are","query":"hello","service":"b","status":"empty",` + win + `}`},
		{"list_services", `{}`, "ok", `{"services":[{"called_by":[],"calls":["b"],"has":["metrics","logs"],"name":"a"},{"called_by":["a"],"calls":[],"has":[],"name":"b"}],"status":"ok"}`},
	} {
		got := call(w, c.tool, c.input)
		if diff := cmp.Diff(c.status+" "+c.body, got.Status+" "+string(got.Body)); diff != "" {
			t.Errorf("%s %s (-want +got):\n%s", c.tool, c.input, diff)
		}
	}
}

func TestACancelledCallIsAResult(t *testing.T) {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	r := mustDemo(t).Call(ctx, "list_deploys", nil)
	if r.Status != StatusError || !strings.Contains(string(r.Body), "cut short: context canceled") {
		t.Errorf("%s", r.Body)
	}
}

func TestAWorldWithoutLogsOrChangesSaysSo(t *testing.T) {
	m := tiny()
	delete(m, "logs/a.jsonl")
	delete(m, "changes.jsonl")
	w := mustOpen(t, m)
	for tool, want := range map[string]string{"search_logs": "this world has no logs", "list_deploys": "this world has no change records"} {
		r := call(w, tool, map[string]string{"search_logs": `{"query":"x"}`, "list_deploys": `{}`}[tool])
		if r.Status != StatusEmpty || !strings.Contains(string(r.Body), want) {
			t.Errorf("%s: %s", tool, r.Body)
		}
	}
}

func TestManySamplesAreSummedUpOrCutAndSayIt(t *testing.T) {
	m := tiny()
	var csv strings.Builder
	csv.WriteString("time,metric,value,unit\n")
	for i := range 600 {
		v := "5.00"
		if i >= 400 {
			v = "50.0"
		}
		fmt.Fprintf(&csv, "2026-01-01T%02d:%02d:%02dZ,level,%s,ms\n", i/3600, i/60%60, i%60, v)
	}
	m["metrics/a.csv"].Data = []byte(csv.String())
	w := mustOpen(t, m)

	want := `{"metrics":[{"change":{"after":50.0,"at":"2026-01-01T00:06:40Z","before":5.00},"first":{"t":"2026-01-01T00:00:00Z","v":5.00},` +
		`"last":{"t":"2026-01-01T00:09:59Z","v":50.0},"max":{"t":"2026-01-01T00:06:40Z","v":50.0},"metric":"level","min":{"t":"2026-01-01T00:00:00Z","v":5.00},"samples":600,"unit":"ms"}],` +
		`"note":"a summary of 600 samples; name a metric to see its samples","service":"a","status":"ok",`
	if got := string(call(w, "query_metrics", `{"service":"a"}`).Body); !strings.HasPrefix(got, want) {
		t.Errorf("summary %s", got)
	}
	var got metricsBody
	decode(t, call(w, "query_metrics", `{"service":"a","metric":"level"}`), StatusTruncated, &got)
	if p := got.Metrics[0].Points; len(p) != 500 || p[499].T != "2026-01-01T00:09:59Z" || !strings.Contains(got.Note, "newest 500 of 600") {
		t.Errorf("%d points, note %q", len(p), got.Note)
	}
}

func TestManyChangesAreCutToTheNewest(t *testing.T) {
	m := tiny()
	var lines strings.Builder
	for i := range 130 {
		fmt.Fprintf(&lines, `{"time":"2026-01-01T%02d:%02d:00Z","service":"a","kind":"deploy","id":"d%d"}`+"\n", i/60, i%60, i)
	}
	m["changes.jsonl"].Data = []byte(lines.String())
	var got deploysBody
	decode(t, call(mustOpen(t, m), "list_deploys", `{}`), StatusTruncated, &got)
	if len(got.Deploys) != 100 || got.Deploys[99].ID != "d129" || !strings.Contains(got.Note, "newest 100 of 130") {
		t.Errorf("%d, last %+v, note %q", len(got.Deploys), got.Deploys[99], got.Note)
	}
}

func TestLongMessagesAreCutAndSayIt(t *testing.T) {
	m := tiny()
	m["logs/a.jsonl"].Data = []byte(`{"time":"2026-01-01T10:00:00Z","message":"x` + strings.Repeat("é", 3000) + ` needle"}`)
	var got logsBody
	decode(t, call(mustOpen(t, m), "search_logs", `{"query":"needle"}`), StatusOK, &got)
	if msg := got.Lines[0].Message; len(msg) > 1100 || !strings.HasSuffix(msg, "é… [cut: 1000 of 6008 bytes shown]") {
		t.Errorf("message of %d bytes ends %q", len(msg), msg[len(msg)-60:])
	}
}

func TestLevelsAndTraceIDsAreFound(t *testing.T) {
	w := mustOpenDir(t, "trainticket-route")
	for query, want := range map[string]int{"BasicServiceImpl#415": 77, "basicserviceimpl#418": 35, "BasicServiceImpl#415|BasicServiceImpl#418": 112} {
		var got logsBody
		decode(t, call(w, "search_logs", `{"service":"ts-basic-service","query":"`+query+`","limit":200}`), StatusOK, &got)
		if got.Matched != want {
			t.Errorf("%s: %d lines, want %d", query, got.Matched, want)
		}
	}
	var trace logsBody
	decode(t, call(w, "search_logs", `{"query":"e107c4d252a8f4810ed9ae6b5ebd5267"}`), StatusOK, &trace)
	services := map[string]bool{}
	for i, l := range trace.Lines {
		services[l.Service] = true
		if i > 0 && l.Time < trace.Lines[i-1].Time {
			t.Errorf("line %d is older than the one before", i)
		}
	}
	if len(services) < 4 {
		t.Errorf("a trace through %v", services)
	}
	if r := call(w, "search_logs", `{"query":"ERROR"}`); r.Status != StatusTruncated {
		t.Errorf("by level: %s", r.Status)
	}
}

// Each piece of key evidence is a call; forks that withhold evidence are built
// from such calls, so they must find something.
func TestKeyEvidenceIsThere(t *testing.T) {
	for _, name := range realWorlds() {
		var answer struct {
			KeyEvidence []struct {
				Tool string
				Args json.RawMessage
			} `json:"key_evidence"`
		}
		data, err := os.ReadFile(filepath.Join("..", "..", "worlds", name, "answer.json"))
		if err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal(data, &answer); err != nil || len(answer.KeyEvidence) == 0 {
			t.Fatalf("%s: %d pieces, %v", name, len(answer.KeyEvidence), err)
		}
		w := mustOpenDir(t, name)
		for _, e := range answer.KeyEvidence {
			if r := w.Call(context.Background(), e.Tool, e.Args); r.Status != StatusOK && r.Status != StatusTruncated {
				t.Errorf("%s: %s %s: %s", name, e.Tool, e.Args, r.Body)
			}
		}
	}
}

func TestFindChangeIsSilentAboutNoise(t *testing.T) {
	for name, c := range map[string]struct {
		values []float64
		at     int // 0: none
	}{
		"step":      {[]float64{1, 1, 1, 9, 9, 9}, 3},
		"flat":      {[]float64{1, 1, 1, 1, 1, 1}, 0},
		"noise":     {[]float64{1, 3, 2, 1, 3, 2, 1, 3}, 0},
		"few":       {[]float64{1, 1, 9}, 0},
		"one spike": {[]float64{1, 1, 1, 1, 9, 1, 1, 1, 1}, 0},
		"late step": {[]float64{1, 1, 1, 1, 1, 9}, 5},
	} {
		var samples []sample
		for i, v := range c.values {
			samples = append(samples, sample{time: fmt.Sprint(i), num: v, value: json.Number(fmt.Sprint(v))})
		}
		got := findChange(samples)
		if (got == nil) != (c.at == 0) || got != nil && got.At != fmt.Sprint(c.at) {
			t.Errorf("%s: %+v, want at %d", name, got, c.at)
		}
	}
}

func TestToolsAreDescribedAlikeEverywhere(t *testing.T) {
	for name, w := range allWorlds(t) {
		var names []string
		for _, tool := range w.Tools() {
			names = append(names, tool.Name)
			if tool.Effect != EffectRead || len(tool.Description) < 150 || len(tool.Description) > 2000 {
				t.Errorf("%s: %s: effect %q, %d bytes of description", name, tool.Name, tool.Effect, len(tool.Description))
			}
			checkCanonical(t, tool.InputSchema)
			if _, err := w.tools[len(names)-1].schema(); err != nil {
				t.Error(err)
			}
		}
		if diff := cmp.Diff([]string{"query_metrics", "list_deploys", "search_logs", "list_services"}, names); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
	if got := mustOpenDir(t, "trainticket-route").Tools()[2].Description; !strings.Contains(got, "UTC+08:00") {
		t.Errorf("search_logs does not tell the zone of its texts: %s", got)
	}
}

// checkCanonical holds b to one canonical JSON object, so that a ledger keeps
// exactly these bytes.
func checkCanonical(t *testing.T, b []byte) {
	t.Helper()
	want, err := ledger.Canon(b)
	if err != nil || want[0] != '{' {
		t.Fatalf("no object (%v): %.300s", err, b)
	}
	if !bytes.Equal(want, b) || !utf8.Valid(b) {
		t.Fatalf("not canonical:\n%.300s\n%.300s", b, want)
	}
}

func TestResultsAreCanonicalAndSayTheirStatus(t *testing.T) {
	for name, w := range allWorlds(t) {
		checkCanonical(t, w.Context())
		for _, line := range strings.Split(strings.TrimSpace(transcript(w)), "\n")[1:] {
			checkCanonical(t, []byte(line))
			if !strings.Contains(line, `"status":"`) {
				t.Errorf("%s: no status: %.300s", name, line)
			}
			if len(line) > 250_000 {
				t.Errorf("%s: a result of %d bytes", name, len(line))
			}
		}
	}
}

func FuzzCall(f *testing.F) {
	w := mustDemo(f)
	for _, t := range append(w.toolNames(), "x") {
		for _, in := range []string{``, `{}`, `{"service":"checkout"}`, `{"query":"a|b","limit":1e999999999}`, `{"service":[1e999999999]}`, `{"window":"\ud800"}`, `{"x":{"y":[[[]]]}}`, "\xff", `null`, `{"query":"\u0000\u2028<&>","window":"1h"}`} {
			f.Add(t, []byte(in))
		}
	}
	f.Fuzz(func(t *testing.T, name string, input []byte) {
		r := w.Call(context.Background(), name, input)
		checkCanonical(t, r.Body)
		for _, tool := range w.tools {
			if tool.Name == name {
				checkMistakes(t, tool, input)
			}
		}
		if again := w.Call(context.Background(), name, bytes.Clone(input)); !bytes.Equal(r.Body, again.Body) || r.Status != again.Status {
			t.Errorf("twice:\n%s\n%s", r.Body, again.Body)
		}
	})
}

// FuzzOpen breaks one file of a world; what opens must answer every tool, but
// for logs that Check refuses.
func FuzzOpen(f *testing.F) {
	for name, file := range tiny() {
		f.Add(name, file.Data)
	}
	f.Add("logs/b.jsonl.gz", zip([]byte("{}")))
	f.Add("alert.json", []byte(`{"task":"?","value":"","threshold":1e999,"started_at":"0000-01-01T00:00:00+23:00"}`))
	f.Add("metrics/a.csv", []byte("time,metric,value,unit\n0001-01-01T00:00:00Z,\"a\nb\",-1e999,\xff\n"))
	f.Fuzz(func(t *testing.T, name string, data []byte) {
		m := tiny()
		m[name] = &fstest.MapFile{Data: data}
		w, err := Open(m)
		if err != nil {
			return
		}
		checkCanonical(t, w.Context())
		damage := w.Check()
		if r := call(w, "search_logs", `{"query":"e"}`); (r.Status == StatusError) != (damage != nil) {
			t.Errorf("Check says %v, a search of all logs %s", damage, r.Body)
		}
		for _, s := range w.meta.Services {
			service := string(encode(s))
			for _, c := range [][2]string{{"query_metrics", `{"service":` + service + `,"window":"36500d"}`}, {"list_deploys", `{"service":` + service + `}`}, {"search_logs", `{"query":"e","service":` + service + `}`}, {"search_logs", `{"query":"no such"}`}} {
				r := call(w, c[0], c[1])
				checkCanonical(t, r.Body)
				if failed := r.Status == StatusError; failed && (damage == nil || c[0] != "search_logs") {
					t.Errorf("%s %s: %s; Check says %v", c[0], c[1], r.Body, damage)
				}
			}
		}
		call(w, "list_services", "")
	})
}
