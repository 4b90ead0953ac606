package bedrocktest

import (
	"crypto/sha256"
	"sync"
)

// Usage is a token count. Input excludes what was read from or written to the
// cache, as the service's does.
type Usage struct {
	Input, Output         int
	CacheRead, CacheWrite int
	CacheWriteTTL         string // "5m" or "1h", empty when nothing was written
}

func (u Usage) total() int { return u.Input + u.Output + u.CacheRead + u.CacheWrite }

// estimate counts the bytes of every string in v, four to a token, and one
// token for each block. It depends on nothing but v.
func estimate(v any) int {
	bytes, blocks := 0, 0
	walk(v, &bytes, &blocks)
	return (bytes+3)/4 + blocks
}

func walk(v any, bytes, blocks *int) {
	switch v := v.(type) {
	case string:
		*bytes += len(v)
	case []any:
		*blocks += len(v)
		for _, item := range v {
			walk(item, bytes, blocks)
		}
	case map[string]any:
		for _, k := range sortedKeys(v) {
			*bytes += len(k)
			walk(v[k], bytes, blocks)
		}
	}
}

func outputTokens(blocks []Block) int {
	n := 0
	for _, b := range blocks {
		n += 1 + (len(b.Text)+len(b.Name)+len(b.Input)+len(b.Redacted)+len(b.Raw)+3)/4
	}
	return n
}

// lookback is how many blocks before a cache point a cached prefix may end.
const lookback = 20

// promptCache remembers prompts by the digest of their prefix. A point that
// moved between two calls still finds the prefix written by the earlier one.
type promptCache struct {
	min int // fewest tokens worth caching

	mu    sync.Mutex
	known map[[sha256.Size]byte]bool
}

func newPromptCache(min int) *promptCache {
	return &promptCache{min: min, known: map[[sha256.Size]byte]bool{}}
}

// boundary is the end of a block: what comes before it, as digest and tokens.
type boundary struct {
	digest [sha256.Size]byte
	tokens int
	point  *cachePoint
}

// boundaries walks tools, system and messages in that order. A cachePoint block
// adds nothing to the digest; a cache_control member is left out of it.
func boundaries(model string, root any) []boundary {
	b := boundary{digest: sha256.Sum256([]byte(model))}
	var out []boundary
	add := func(section string, item any) {
		b.point = pointOf(item)
		if m := mapAt(item, "cachePoint"); m == nil {
			item = without(item, "cache_control")
			b.digest = sha256.Sum256(append(append(b.digest[:], section...), encode(item)...))
			b.tokens += 1 + estimate(item)
		}
		out = append(out, b)
	}
	for _, path := range [][]string{{"toolConfig", "tools"}, {"tools"}, {"system"}} {
		for _, item := range listAt(root, path...) {
			add("head", item)
		}
	}
	if s, ok := valueAt(root, "system").(string); ok {
		add("head", s)
	}
	for _, m := range listAt(root, "messages") {
		if s, ok := valueAt(m, "content").(string); ok {
			add(textAt(m, "role"), s)
		}
		for _, item := range listAt(m, "content") {
			add(textAt(m, "role"), item)
		}
	}
	return out
}

func without(v any, name string) any {
	m, ok := v.(map[string]any)
	if !ok {
		return v
	}
	out := make(map[string]any, len(m))
	for k, item := range m {
		if k != name {
			out[k] = item
		}
	}
	return out
}

// charge answers the input side of the usage for a request and remembers its
// cache points.
func (p *promptCache) charge(model string, root any) Usage {
	bounds := boundaries(model, root)
	if len(bounds) == 0 {
		return Usage{Input: estimate(root)}
	}
	total := bounds[len(bounds)-1].tokens
	p.mu.Lock()
	defer p.mu.Unlock()
	read, reach, ttl := 0, 0, ""
	for i, b := range bounds {
		if b.point == nil || b.tokens < p.min {
			continue
		}
		reach, ttl = b.tokens, b.point.ttl
		for j := i; j >= 0 && j >= i-lookback; j-- {
			if p.known[bounds[j].digest] {
				read = max(read, bounds[j].tokens)
				break
			}
		}
	}
	p.remember(bounds)
	u := Usage{Input: total - max(reach, read), CacheRead: read, CacheWrite: max(reach-read, 0)}
	if u.CacheWrite > 0 {
		u.CacheWriteTTL = ttl
	}
	return u
}

func (p *promptCache) remember(bounds []boundary) {
	for _, b := range bounds {
		if b.point != nil && b.tokens >= p.min {
			p.known[b.digest] = true
		}
	}
}

func converseUsage(u Usage) object {
	o := object{
		{"cacheReadInputTokens", u.CacheRead},
		{"cacheWriteInputTokens", u.CacheWrite},
		{"inputTokens", u.Input},
		{"outputTokens", u.Output},
		{"totalTokens", u.total()},
	}
	if u.CacheWriteTTL == "" {
		return o
	}
	details := []object{{{"inputTokens", u.CacheWrite}, {"ttl", u.CacheWriteTTL}}}
	return append(object{{"cacheDetails", details}}, o...)
}

func anthropicUsage(u Usage) object {
	return object{
		{"input_tokens", u.Input},
		{"cache_creation_input_tokens", u.CacheWrite},
		{"cache_read_input_tokens", u.CacheRead},
		{"output_tokens", u.Output},
	}
}

func openAIUsage(u Usage) object {
	in := u.Input + u.CacheRead + u.CacheWrite
	return object{{"prompt_tokens", in}, {"completion_tokens", u.Output}, {"total_tokens", in + u.Output},
		{"prompt_tokens_details", object{{"cached_tokens", u.CacheRead}}}}
}
