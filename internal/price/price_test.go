package price

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/loop"
)

func table(t testing.TB) Table {
	t.Helper()
	b, err := Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestLookup(t *testing.T) {
	price := func(in, out, read, write int64) *loop.Price {
		return &loop.Price{Table: "Amazon Bedrock on demand, 2026-11-29", Input: in, Output: out, CacheRead: read, CacheWrite: write}
	}
	sonnet := price(3_000_000, 15_000_000, 300_000, 3_750_000)
	for _, c := range []struct {
		model string
		cache converse.CacheRule
		want  *loop.Price // nil: unpriced
	}{
		{"global.anthropic.claude-sonnet-4-6", converse.CacheTail, sonnet},
		{"anthropic.claude-sonnet-4-6", converse.CacheNone, sonnet},
		{"us.anthropic.claude-sonnet-4-6", converse.CacheTail, price(3_300_000, 16_500_000, 330_000, 4_125_000)},
		{"eu.anthropic.claude-opus-4-8", converse.CacheTail, price(5_500_000, 27_500_000, 550_000, 6_875_000)},
		{"global.anthropic.claude-sonnet-4-6", converse.CacheTail1h, price(3_000_000, 15_000_000, 300_000, 6_000_000)},
		{"arn:aws:bedrock:us-east-1:123456789012:inference-profile/global.anthropic.claude-sonnet-4-6", converse.CacheTail, sonnet},
		{"arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-sonnet-4-6", converse.CacheTail, sonnet},
		{"global.anthropic.claude-fable-5-1", converse.CacheTail, price(10_000_000, 50_000_000, 250_000, 12_500_000)},
		{"amazon.nova-micro-v1:0", converse.CacheTail, price(35_000, 140_000, 8_750, 35_000)},
		{"openai.gpt-oss-120b-1:0", converse.CacheNone, price(150_000, 600_000, 150_000, 150_000)},
		{"us.anthropic.claude-opus-4-1-20250805-v1:0", converse.CacheTail, price(15_000_000, 75_000_000, 1_500_000, 18_750_000)},

		{"arn:aws:bedrock:us-east-1:123456789012:application-inference-profile/abc123", converse.CacheTail, nil},
		{"arn:aws:bedrock:us-east-1:123456789012:provisioned-model/anthropic.claude-sonnet-4-6", converse.CacheTail, nil},
		{"arn:aws:s3:us-east-1:1:inference-profile/global.anthropic.claude-sonnet-4-6", converse.CacheTail, nil},
		{"mars.anthropic.claude-sonnet-4-6", converse.CacheTail, nil},
		{"anthropic.claude-sonnet-4-6-v2:0", converse.CacheTail, nil},
		{"rule", converse.CacheNone, nil}, {"", converse.CacheNone, nil},
	} {
		got, ok := table(t).Lookup(c.model, c.cache)
		if ok != (c.want != nil) {
			t.Errorf("%s: priced %v", c.model, ok)
			continue
		}
		if c.want == nil {
			c.want = &loop.Price{}
		}
		if diff := cmp.Diff(*c.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.model, diff)
		}
	}
}

func TestCost(t *testing.T) {
	p, _ := table(t).Lookup("global.anthropic.claude-sonnet-4-6", converse.CacheTail)
	u := converse.Usage{Input: 1000, Output: 100, CacheRead: 10_000, CacheWrite: 2000}
	if got := p.Cost(u); got != 3000+1500+3000+7500 {
		t.Errorf("%d micro-dollars", got)
	}
}

// TestBuiltinIsPlausible: every row reads cheaper than it writes, and output
// costs more than input. A swapped column fails here.
func TestBuiltinIsPlausible(t *testing.T) {
	b := table(t)
	if len(b.rows) < 40 || len(b.Sources) == 0 {
		t.Errorf("%d ids, sources %q", len(b.rows), b.Sources)
	}
	for id, r := range b.rows {
		if r.input <= 0 || r.output <= r.input || r.cacheRead > r.input || r.cacheWrite < r.input || r.cacheWrite1h < r.cacheWrite {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

func file(models string) string {
	return fmt.Sprintf(`{"name":"ours","date":"2026-12-01","unit":%q,"models":[%s]}`, unit, models)
}

func TestParseOwnTable(t *testing.T) {
	arn := "arn:aws:bedrock:us-east-1:1:application-inference-profile/abc"
	own, err := Parse([]byte(file(`{"model":"` + arn + `","input":1,"output":2.5}`)))
	if err != nil {
		t.Fatal(err)
	}
	got, ok := own.Lookup(arn, converse.CacheTail1h)
	want := loop.Price{Table: "ours, 2026-12-01", Input: 1_000_000, Output: 2_500_000, CacheRead: 1_000_000, CacheWrite: 1_000_000}
	if diff := cmp.Diff(want, got); diff != "" || !ok {
		t.Errorf("priced %v (-want +got):\n%s", ok, diff)
	}
}

func TestParseRefuses(t *testing.T) {
	for _, c := range []struct{ file, want string }{
		{``, "EOF"}, {`[]`, "cannot unmarshal"}, {file("") + "x", "more after it"}, {file("") + "{}", "more after it"},
		{`{"date":"2026-12-01","unit":"` + unit + `"}`, "/name"},
		{strings.Replace(file(""), "2026-12-01", "last week", 1), `"last week"`},
		{strings.Replace(file(""), "2026-12-01", "2026-13-01", 1), `"2026-13-01"`},
		{strings.Replace(file(""), "1,000,000", "1,000", 1), "/unit"},
		{file(`{"model":"a.b","input":1,"output":2,"outptu":3}`), "outptu"},
		{file(`{"input":1,"output":2}`), "/model"},
		{file(`{"model":"a.b","output":2}`), "/input"},
		{file(`{"model":"a.b","input":-1,"output":2}`), `"-1"`},
		{file(`{"model":"a.b","input":1e3,"output":2}`), `"1e3"`},
		{file(`{"model":"a.b","input":0.0000001,"output":2}`), "6 decimals"},
		{file(`{"model":"a.b","input":99999999,"output":2}`), "at most"},
		{file(`{"model":"a.b","input":1,"output":2},{"model":"b","prefixes":["a."],"input":1,"output":2}`), `/models/1 ("b"): "a.b" has a price already`},
	} {
		if _, err := Parse([]byte(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected %q", c.file, err, c.want)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(builtin))
	f.Add([]byte(file(`{"model":"a.b","prefixes":["","us."],"input":0.25,"output":1,"cache_read":0.1}`)))
	f.Fuzz(func(t *testing.T, data []byte) {
		parsed, err := Parse(data)
		if err != nil {
			return
		}
		for id, r := range parsed.rows {
			if p, ok := parsed.Lookup(id, converse.CacheTail); !ok || p.Input != r.input || p.Input < 0 || p.Output < 0 {
				t.Fatalf("%q: %+v", id, p)
			}
		}
	})
}
