package rule

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

// maxForeign is how many tools of others are tried in one run.
const maxForeign = 4

// foreign answers a request whose tools are not those of an investigation: it
// calls what it can call without harm, once, and then says that it cannot
// conclude anything.
func foreign(t *talk) reply {
	if len(t.steps) == 0 && !t.reported {
		if calls := t.tryOut(); len(calls) > 0 {
			return reply{"These tools are unknown to the rule model; it calls each of them once with values from the question.", calls}
		}
	}
	why := "none of the tools it knows (" + strings.Join([]string{toolMetrics, toolDeploys, toolLogs}, ", ") + ") is offered"
	if len(t.tools) == 0 {
		why = "the request offers no tools"
	}
	v := verdict.Verdict{
		Class: "unknown", Confidence: "none", Mechanism: "Not found.",
		Summary:        "Inconclusive: the rule model follows fixed rules, and " + why + ".",
		Recommendation: "Needs a human, or a model that can read.",
	}
	for _, s := range t.newest(maxForeign) {
		v.Summary += " " + s.report()
		if s.address != "" {
			v.Evidence = append(v.Evidence, s.address)
		}
	}
	return t.conclude(v)
}

// newest returns the last n steps that have a result, in the order of the
// conversation.
func (t *talk) newest(n int) []step {
	var out []step
	for _, s := range slices.Backward(t.steps) {
		if s.answered && !s.gone && s.tool != verdict.Tool && len(out) < n {
			out = append(out, s)
		}
	}
	slices.Reverse(out)
	return out
}

// report quotes a result, so that a conclusion about nothing still differs
// where the results do.
func (s step) report() string {
	did, what := " returned ", s.text
	if s.failed {
		did = " failed with "
	}
	if s.body.there() {
		what = string(s.body.raw())
	}
	if what == "" {
		what = "nothing"
	}
	return clip(s.tool) + did + clip(what) + "."
}

// tryOut makes a call of every tool that only reads, going by its name, and
// whose arguments are simple.
func (t *talk) tryOut() []call {
	var calls []call
	for _, tool := range t.tools {
		if tool.name == verdict.Tool || !reads(tool.name) || len(calls) == maxForeign {
			continue
		}
		if input, ok := tool.example(t.task); ok {
			calls = append(calls, call{tool.name, input})
		}
	}
	return calls
}

// reads reports whether a name begins with a word for looking at something and
// has none for changing it. A tool that may change the world is never called to
// find out what it does.
func reads(name string) bool {
	name = strings.ToLower(name)
	if containsAny(name, "create", "delete", "update", "replace", "remove", "write", "insert", "send") {
		return false
	}
	for _, verb := range []string{"get", "list", "query", "search", "read", "describe", "find", "show", "fetch", "lookup"} {
		if strings.HasPrefix(name, verb) {
			return true
		}
	}
	return false
}

// example fills the required arguments of a tool from the question.
func (t tool) example(task string) (json.RawMessage, bool) {
	properties := t.schema.get("properties")
	values := map[string]json.RawMessage{}
	for _, name := range t.schema.get("required").strings() {
		value, ok := exampleValue(properties.get(name), task)
		if !ok {
			return nil, false
		}
		values[name] = value
	}
	input, err := ledger.CanonValue(values)
	return input, err == nil
}

func exampleValue(schema node, task string) (json.RawMessage, bool) {
	if choices := schema.get("enum").strings(); len(choices) > 0 {
		choice := choices[0]
		if named := mentioned(task, choices); named != "" {
			choice = named
		}
		return ledger.AppendString(nil, choice), true
	}
	switch schema.get("type").text() {
	case "string":
		return ledger.AppendString(nil, clip(nameIn(task))), true
	case "number", "integer":
		return json.RawMessage(strconv.Itoa(numberIn(task))), true
	}
	return nil, false
}

// nameIn returns the part of a question that most likely is a value: its leading
// run of capitalised words, those that begin a sentence aside, or else all of it.
func nameIn(text string) string {
	var name []string
	begins := true // the next word begins a sentence
	for word := range strings.FieldsSeq(text) {
		bare := strings.Trim(word, "\"'`()[].,;:?!")
		if ended := strings.TrimRight(word, "\"'`)]"); begins || !isName(bare) {
			if len(name) > 0 {
				break
			}
			begins = strings.HasSuffix(ended, ".") || strings.HasSuffix(ended, "?") || strings.HasSuffix(ended, "!") || strings.HasSuffix(ended, ":")
			continue
		}
		name = append(name, bare)
		if !strings.HasSuffix(word, bare) {
			break
		}
	}
	if len(name) == 0 {
		return text
	}
	return strings.Join(name, " ")
}

// isName reports whether a word of two letters or more begins with a capital.
func isName(word string) bool {
	r, size := utf8.DecodeRuneInString(word)
	return size < len(word) && unicode.IsUpper(r)
}

// numberIn returns the leading whole number in a text, 1 if there is none.
func numberIn(text string) int {
	start := strings.IndexAny(text, "0123456789")
	if start < 0 {
		return 1
	}
	end := start
	for end < len(text) && end-start < 9 && '0' <= text[end] && text[end] <= '9' {
		end++
	}
	n, _ := digits(text[start:end])
	return n
}
