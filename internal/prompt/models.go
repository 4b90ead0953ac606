package prompt

import (
	"encoding/json"
	"fmt"
	"strings"

	"investigator/internal/converse"
)

// ability is what is known of a family of models. The first family in the table
// whose name begins a model's name is the model's.
type ability struct {
	family      string
	minTokens   int  // fewest tokens a cached prefix has; 0: no caching by cache points
	hour        bool // cache points may live for an hour
	tools       bool // a cache point may end the tools
	temperature bool
}

// abilities are from Bedrock's user guide on prompt caching (autumn 2026), and
// for temperature from public reports: Claude refuses it from Opus 4.7 on. A
// Claude this build does not know is taken for one of the newer ones.
func abilities() []ability {
	return []ability{
		{"anthropic.claude-3-7-sonnet", 1024, false, true, true},
		{"anthropic.claude-3-5-haiku", 2048, false, true, true},
		{"anthropic.claude-3", 0, false, false, true},
		{"anthropic.claude-opus-4-8", 1024, true, true, false},
		{"anthropic.claude-opus-4-7", 4096, true, true, false},
		{"anthropic.claude-opus-4-6", 4096, true, true, true},
		{"anthropic.claude-opus-4-5", 4096, true, true, true},
		{"anthropic.claude-opus-4", 1024, false, true, true},
		{"anthropic.claude-opus-5", 512, true, true, false},
		{"anthropic.claude-sonnet-4-6", 1024, true, true, true},
		{"anthropic.claude-sonnet-4-5", 1024, true, true, true},
		{"anthropic.claude-sonnet-4", 1024, false, true, true},
		{"anthropic.claude-sonnet-5", 1024, true, true, false},
		{"anthropic.claude-haiku-4-5", 4096, true, true, true},
		{"anthropic.claude-fable-5", 512, true, true, false},
		{"anthropic.claude-mythos-preview", 4096, false, true, false},
		{"anthropic.claude-mythos-5", 512, false, true, false},
		{"anthropic.claude", 4096, false, true, false},
		{"amazon.nova", 1024, false, false, true},
		{"", 0, false, false, true},
	}
}

func abilityOf(model string) ability {
	name := bare(model)
	for _, a := range abilities() {
		rest, found := strings.CutPrefix(name, a.family)
		if found && (rest == "" || a.family == "" || strings.ContainsRune("-.:", rune(rest[0]))) {
			return a
		}
	}
	return ability{}
}

func takesTemperature(model string) bool { return abilityOf(model).temperature }

// bare returns the model's own id: without the profile's prefix, and out of an
// ARN that shows it. An application inference profile hides it; what it gives
// fits no family.
func bare(model string) string {
	if strings.HasPrefix(model, "arn:") {
		model = model[strings.LastIndexByte(model, '/')+1:]
	}
	if head, rest, found := strings.Cut(model, "."); found && strings.Contains(rest, ".") {
		switch head {
		case "us", "eu", "apac", "au", "jp", "global", "us-gov":
			return rest
		}
	}
	return model
}

func (o Options) cacheRule() (converse.CacheRule, error) {
	a := abilityOf(o.Model)
	supported := a.minTokens > 0 && o.Model != RuleModel
	switch {
	case o.Cache == CacheHour && !(supported && a.hour):
		return "", fmt.Errorf("cache: %q is not known to keep a cache for an hour", o.Model)
	case o.Cache == CacheHour:
		return converse.CacheTail1h, nil
	case o.Cache != CacheAuto && o.Cache != CacheOff:
		return "", fmt.Errorf("cache: expected %q, %q or nothing, found %q", CacheHour, CacheOff, o.Cache)
	case o.Cache == CacheOff || !supported:
		return converse.CacheNone, nil
	}
	return converse.CacheTail, nil
}

// cachePoints ends the tools and the system prompt with a cache point each,
// where the prefix up to there is long enough to be cached: below the model's
// minimum a point is silently ignored but uses up one of four. All points of a
// request live equally long, since a longer life must not follow a shorter one.
func cachePoints(model string, rule converse.CacheRule, system, tools []json.RawMessage) (s, t []json.RawMessage) {
	if rule == converse.CacheNone {
		return system, tools
	}
	point := json.RawMessage(`{"cachePoint":{"type":"default"}}`)
	if rule == converse.CacheTail1h {
		point = json.RawMessage(`{"cachePoint":{"ttl":"1h","type":"default"}}`)
	}
	a := abilityOf(model)
	prefix := tokens(tools)
	if a.tools && prefix >= a.minTokens {
		tools = append(tools, point)
	}
	if prefix += tokens(system); prefix >= a.minTokens {
		system = append(system, point)
	}
	return system, tools
}

// tokens estimates how many tokens blocks are: four bytes to a token.
func tokens(blocks []json.RawMessage) int {
	n := 0
	for _, b := range blocks {
		n += len(b)
	}
	return n / 4
}
