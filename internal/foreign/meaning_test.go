package foreign

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/ledger"
)

func canon(t testing.TB, text string) json.RawMessage {
	t.Helper()
	c, err := ledger.Canon([]byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCompare(t *testing.T) {
	user := func(blocks string) string { return `{"role":"user","content":[` + blocks + `]}` }
	for name, c := range map[string]struct {
		recorded, now string
		want          []Change
		same          bool
	}{
		"equal":             {user(`{"text":"a"}`), user(`{"text":"a"}`), nil, true},
		"order of members":  {`{"a":1,"b":2}`, `{"b":2,"a":1}`, nil, true},
		"rounded":           {`{"input":{"i":9007199254740993,"f":1.0,"z":-0.0}}`, `{"input":{"i":9007199254740992,"f":1,"z":0}}`, []Change{RoundedNumbers}, true},
		"too large":         {`{"input":{"e":1e400}}`, `{"input":{"e":null}}`, []Change{RoundedNumbers}, true},
		"another number":    {`{"input":{"i":9007199254740993}}`, `{"input":{"i":9007199254740994}}`, nil, false},
		"status":            {user(`{"toolResult":{"toolUseId":"u","content":[]}}`), user(`{"toolResult":{"toolUseId":"u","content":[],"status":"success"}}`), []Change{SuccessStatus}, true},
		"an error":          {user(`{"toolResult":{"toolUseId":"u","content":[]}}`), user(`{"toolResult":{"toolUseId":"u","content":[],"status":"error"}}`), nil, false},
		"status in data":    {user(`{"toolResult":{"content":[{"json":{"status":"success"}}]}}`), user(`{"toolResult":{"content":[{"json":{}}]}}`), nil, false},
		"null in data":      {`{"input":{"a":null}}`, `{"input":{}}`, nil, false},
		"null beside":       {`{"role":"assistant","refusal":null}`, `{"role":"assistant"}`, []Change{EmptyMembers}, true},
		"auto":              {`{"toolConfig":{"tools":[]}}`, `{"toolConfig":{"tools":[],"toolChoice":{"auto":{}}}}`, []Change{AutoToolChoice}, true},
		"any":               {`{"toolConfig":{"tools":[]}}`, `{"toolConfig":{"tools":[],"toolChoice":{"any":{}}}}`, nil, false},
		"blank":             {user(`{"text":"a"},{"text":" \n"}`), user(`{"text":"a"}`), []Change{BlankText}, true},
		"not blank":         {user(`{"text":"a"},{"text":" b"}`), user(`{"text":"a"}`), nil, false},
		"cache point":       {user(`{"text":"a"},{"cachePoint":{"type":"default"}}`), user(`{"text":"a"}`), []Change{CachePoints}, true},
		"cache control":     {user(`{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}`), user(`{"type":"text","text":"a"}`), []Change{CachePoints}, true},
		"trimmed reasoning": {`{"content":[{"reasoningContent":{"reasoningText":{"text":"step one\n\n","signature":"c2ln"}}}]}`, `{"content":[{"reasoningContent":{"reasoningText":{"text":"step one","signature":"c2ln"}}}]}`, nil, false},
		"several":           {user(`{"text":"a"},{"text":""}`), `{"role":"user","name":null,"content":[{"text":"a"}]}`, []Change{BlankText, EmptyMembers}, true},
		"both alike":        {user(`{"text":""},{"toolResult":{"content":[]}}`), user(`{"text":""},{"toolResult":{"content":[],"status":"success"}}`), []Change{SuccessStatus}, true},
		"lone surrogate":    {user(`{"text":"x\ud83d"}`), user(`{"text":"x\ufffd"}`), nil, true},
	} {
		t.Run(name, func(t *testing.T) {
			got, same := Compare(canon(t, c.recorded), canon(t, c.now))
			if d := cmp.Diff(c.want, got); same != c.same || d != "" {
				t.Errorf("same %v, expected %v (-want +got)\n%s", same, c.same, d)
			}
		})
	}
}

// TestEveryChangeIsDeclared: the table above would not notice one without a name.
func TestEveryChangeIsDeclared(t *testing.T) {
	if n := len(Changes()); everything != 1<<n-1 {
		t.Errorf("%d changes are named and the set is %b", n, everything)
	}
}

// slowly is what stays of a value by its definition: each value is cut into its
// parts, and every part is looked at.
func slowly(v []byte, s set, at place) []byte {
	switch {
	case v[0] == '[':
		list, _ := elements(v)
		var out [][]byte
		for _, e := range list {
			if e := slowly(e, s, at); !dropBlock(e, s, at) {
				out = append(out, e)
			}
		}
		return slices.Concat([]byte{'['}, bytes.Join(out, []byte{','}), []byte{']'})
	case v[0] == '{':
		spans, _ := ledger.MemberSpans(v)
		for _, m := range spans {
			if at == inRequest && (m.Name == "type" && string(m.Value) == `"tool_result"` || m.Name == "role" && string(m.Value) == `"tool"`) {
				at = inResult
			}
		}
		var out [][]byte
		for _, m := range spans {
			name := []byte(m.Name)
			if value := slowly(m.Value, s, placeOf(name, at)); !dropMember(name, value, s, at) {
				out = append(out, slices.Concat(v[m.Start:m.End-len(m.Value)], value))
			}
		}
		return slices.Concat([]byte{'{'}, bytes.Join(out, []byte{','}), []byte{'}'})
	case s.has(roundedNumbers) && (v[0] == '-' || '0' <= v[0] && v[0] <= '9'):
		return appendNumber(nil, v, at)
	}
	return v
}

// FuzzMeaning: meaning is what its definition says, for every change; taking it
// twice changes nothing, gives JSON, and the short way for plain values agrees with
// the long one.
func FuzzMeaning(f *testing.F) {
	for _, s := range []string{`{"content":[{"text":""},{"text":"a\\"},{"cachePoint":{}}],"role":"user"}`, `{"input":{"n":[1,-0,1.0,1e400,9007199254740993]}}`, `{"a":null,"status":"success","text":"né"}`, `[]`, `"x"`, conversation, string(loops()),
		`[{"type":"tool_result","status":"success","content":[{"text":" "}]},{"toolResult":{"status":"success","content":[{"text":""},{"cachePoint":{"type":"default"}}]}},{"text":" ","x":null}]`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		c, err := ledger.Canon([]byte(s))
		if err != nil {
			return
		}
		for i := range len(Changes()) + 1 {
			chosen := everything &^ (1 << i)
			if got, want := meaning(c, chosen), slowly(c, chosen, inRequest); !bytes.Equal(got, want) {
				t.Fatalf("%s without %b is %s, expected %s", c, chosen, got, want)
			}
		}
		m := Meaning(c)
		if !json.Valid(m) {
			t.Fatalf("%s became %s", c, m)
		}
		again, err := ledger.Canon(m)
		if err != nil || string(Meaning(again)) != string(m) {
			t.Fatalf("%s, twice %s", m, Meaning(again))
		}
		if again := rewritten(c, everything, true); plain(c) && string(again) != string(c) {
			t.Fatalf("%s is called plain and becomes %s", c, again)
		}
	})
}

func TestSumsAreChained(t *testing.T) {
	a := read(t, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"a"}]},{"role":"assistant","content":[{"text":"b"}]}]}`)
	b := read(t, "/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"a"},{"text":""}]},{"role":"assistant","content":[{"text":"c"}]}]}`)
	x, y := Sums(a.Request.Messages.Messages()), Sums(b.Request.Messages.Messages())
	if x[0] != y[0] || x[1] == y[1] {
		t.Errorf("sums %v and %v", x, y)
	}
	if Key(a, x[1]) == Key(read(t, "/model/m/converse-stream", `{"messages":[]}`), x[1]) {
		t.Error("two operations have one key")
	}
}

// TestSumsOfThreads: what a thread knows already gives the same sums, before and
// behind a message whose meaning is not its text.
func TestSumsOfThreads(t *testing.T) {
	for name, body := range map[string]string{
		"plain": string(longQuestion()), "loop": string(loops()), "all": conversation, "none": `{"messages":[]}`,
		"middle": `{"messages":[{"content":[{"text":"a"}],"role":"user"},{"content":[{"text":"b"}],"name":null,"role":"assistant"},{"content":[{"text":"c"}],"role":"user"}]}`,
	} {
		a := read(t, "/model/m/converse", body)
		if d := cmp.Diff(Sums(a.Request.Messages.Messages()), SumsOf(a.Request.Messages)); d != "" {
			t.Errorf("%s: (-of messages +of thread)\n%s", name, d)
		}
	}
}

// TestPlainNumbersAreTheShortest: a number that is called plain is what a reader
// with doubles alone writes.
func TestPlainNumbersAreTheShortest(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	called := 0
	for range 200_000 {
		s := []string{"", "-"}[r.IntN(2)] + strconv.FormatInt(r.Int64N([]int64{1, 10, 1e6, 1e7, 1e15}[r.IntN(5)]), 10)
		if r.IntN(4) > 0 {
			s += fmt.Sprintf(".%0*d", 1+r.IntN(9), r.Int64N([]int64{1, 1000, 1e9, 1e15}[r.IntN(4)]))
		}
		if numberEnd([]byte(s), 0) < 0 {
			continue
		}
		called++
		if got := string(appendNumber(nil, []byte(s), inData)); got != s {
			t.Fatalf("%s is called plain and is written %s", s, got)
		}
	}
	if called < 50_000 {
		t.Errorf("%d numbers are plain", called)
	}
}

func FuzzReadRequest(f *testing.F) {
	f.Add("/model/m/converse", `{"messages":[{"role":"user","content":[{"text":"a"},{"toolResult":{"toolUseId":"u","content":[{"json":{"a":1}}]}}]}],"system":[]}`)
	f.Add("/model/m/invoke", `{"anthropic_version":"x","messages":[{"role":"user","content":[{"type":"tool_result","tool_use_id":"u","content":"x"}]}]}`)
	f.Add("/model/m/converse", `{"messages":[{"role":"user","content":[{"toolResult":"x"},{"toolResult":{"content":[]}}]}]}`)
	f.Add("/openai/v1/chat/completions", `{"messages":[{"role":"tool","tool_call_id":"u","content":"{\"a\":1}"}]}`)
	f.Fuzz(func(t *testing.T, path, body string) {
		r, _ := ParseRoute(path)
		a, err := ReadRequest(r, []byte(body))
		if err != nil {
			return
		}
		back, err := ReadRequest(r, a.Request.Body())
		if err != nil || back.Request.Digest() != a.Request.Digest() {
			t.Fatalf("%s: its body %s reads as another request, %v", body, a.Request.Body(), err)
		}
		for _, res := range a.Results() {
			edited := a.SetResult(res, json.RawMessage(`{"edited":true}`), true)
			got := edited.Results()
			if len(got) != len(a.Results()) || !strings.Contains(string(edited.Request.Body()), "edited") {
				t.Fatalf("%s: after an edit %s", a.Request.Body(), edited.Request.Body())
			}
		}
		if _, err := Start(a); err != nil {
			t.Fatalf("%s: no run starts: %v", body, err)
		}
	})
}
