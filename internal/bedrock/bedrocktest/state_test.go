package bedrocktest

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A conversation that grows and moves its cache point reads what it wrote.
func TestPromptCacheFollowsAConversation(t *testing.T) {
	p := newPromptCache(10)
	long := `{"text":"` + strings.Repeat("word ", 40) + `"}`
	point := `{"cachePoint":{"type":"default"}}`
	system := `"system":[` + long + `,` + point + `]`
	one := mustDecode(t, []byte(with(talk(user(ask+","+point)), system)))
	two := mustDecode(t, []byte(with(talk(user(ask), assistant(long), user(ask+","+point)), system)))

	first := p.charge("m", one)
	again := p.charge("m", one)
	grown := p.charge("m", two)
	other := p.charge("n", one)
	if first.CacheRead != 0 || first.CacheWrite == 0 || first.CacheWriteTTL != "5m" || first.Input != 0 {
		t.Errorf("first call: %+v, want all written", first)
	}
	if want := (Usage{CacheRead: first.CacheWrite}); again != want {
		t.Errorf("same call again: %+v, want %+v", again, want)
	}
	if grown.CacheRead != first.CacheWrite || grown.CacheWrite < 50 || grown.Input != 0 {
		t.Errorf("grown call: %+v, want %d read and the rest written", grown, first.CacheWrite)
	}
	if diff := cmp.Diff(first, other); diff != "" {
		t.Errorf("another model shares nothing:\n%s", diff)
	}
}

func TestPromptCacheMinimumAndChange(t *testing.T) {
	p := newPromptCache(1024)
	body := func(system string) any {
		return mustDecode(t, []byte(with(talk(user(ask)), `"system":[{"text":"`+system+`"},{"cachePoint":{"type":"default","ttl":"1h"}}]`)))
	}
	if u := p.charge("m", body("short")); u.CacheRead+u.CacheWrite != 0 || u.Input == 0 || u.CacheWriteTTL != "" {
		t.Errorf("below the minimum: %+v", u)
	}
	p.charge("m", body(strings.Repeat("a", 8000)))
	if u := p.charge("m", body(strings.Repeat("a", 8000))); u.CacheRead < 1024 {
		t.Errorf("same prefix: %+v", u)
	}
	if u := p.charge("m", body(strings.Repeat("a", 8001))); u.CacheRead != 0 || u.CacheWriteTTL != "1h" {
		t.Errorf("changed prefix: %+v, want nothing read", u)
	}
}

// Beyond twenty blocks the service does not look back.
func TestPromptCacheLookback(t *testing.T) {
	body := func(blocks int) any {
		list := `{"text":"` + strings.Repeat("a", 100) + `"}`
		for i := range blocks {
			list += fmt.Sprintf(`,{"text":"%d"}`, i)
		}
		return mustDecode(t, []byte(talk(user(list+`,{"cachePoint":{"type":"default"}}`))))
	}
	for blocks, read := range map[int]bool{15: true, 40: false} {
		p := newPromptCache(1)
		p.charge("m", body(0))
		if u := p.charge("m", body(blocks)); (u.CacheRead > 0) != read {
			t.Errorf("%d blocks later: %+v, want a read: %v", blocks, u, read)
		}
	}
}

func TestPromptCacheOfAnthropicBodies(t *testing.T) {
	s := New(t, Options{CacheMinTokens: 1})
	body := `{"anthropic_version":"x","max_tokens":9,"system":[{"type":"text","text":"be good","cache_control":{"type":"ephemeral"}}],"messages":[{"role":"user","content":"hi"}]}`
	usage := func() string {
		_, _, answer := post(t, s.URL+"/model/x/invoke", body)
		u := mapAt(mustDecode(t, answer), "usage")
		return fmt.Sprint(u["cache_creation_input_tokens"], " ", u["cache_read_input_tokens"])
	}
	first, second := usage(), usage()
	if !strings.HasSuffix(first, " 0") || second != "0 "+strings.TrimSuffix(first, " 0") || first == "0 0" {
		t.Errorf("first %q then %q", first, second)
	}
}

func TestReasoningMemory(t *testing.T) {
	m := newReasoningMemory()
	a, b := Reasoning("one\n", "s1"), Reasoning("two", "s2")
	secret := Redacted([]byte{1, 2})
	m.issue([]Block{a, Text("x"), b, secret})
	m.issue([]Block{a, b, secret}) // the same turn again costs nothing
	m.issue([]Block{Text("only text")})
	if len(m.turns) != 1 {
		t.Errorf("%d turns remembered, want 1", len(m.turns))
	}
	tests := []struct {
		name    string
		came    []Block
		refused bool
	}{
		{"as it was", []Block{a, b, secret}, false},
		{"with other blocks between", []Block{a, Text("y"), b, ToolUse("i", "n", "{}"), secret}, false},
		{"all left out", []Block{Text("x")}, false},
		{"trimmed", []Block{Reasoning("one", "s1"), b, secret}, true},
		{"signature changed", []Block{Reasoning("one\n", "s9"), b, secret}, true},
		{"order changed", []Block{b, a, secret}, true},
		{"one left out", []Block{a, secret}, true},
		{"redacted cut", []Block{a, b, Redacted([]byte{1})}, true},
		{"from elsewhere", []Block{Reasoning("other", "s7")}, false},
	}
	for _, tt := range tests {
		r := Request{Op: OpConverse, Messages: []Message{{Role: "user"}, {Role: "assistant", Blocks: tt.came}, {Role: "user"}}}
		if e := m.check(r); (e != nil) != tt.refused {
			t.Errorf("%s: %v, want refused: %v", tt.name, e, tt.refused)
		}
	}
	// Only the latest assistant message is judged.
	older := Request{Messages: []Message{{Role: "assistant", Blocks: []Block{Reasoning("one", "s1")}}, {Role: "user"}, {Role: "assistant", Blocks: []Block{Text("t")}}}}
	if e := m.check(older); e != nil {
		t.Errorf("an older message was judged: %v", e)
	}
}

func TestEstimateIsStable(t *testing.T) {
	v := mustDecode(t, []byte(talk(user(ask), assistant(call("a")), user(result("a")))))
	first := estimate(v)
	for range 50 {
		if got := estimate(v); got != first || got < 10 {
			t.Fatalf("estimate %d, then %d", first, got)
		}
	}
}
