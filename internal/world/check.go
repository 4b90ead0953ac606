package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"slices"
	"strconv"
	"strings"

	"investigator/internal/ledger"
)

// maxInput keeps a runaway input from being decoded.
const maxInput = 64 << 10

// check validates an input against the tool's schema and resolves its window.
// Members that are null or "" count as left out: models write them so.
func (w *World) check(t tool, input json.RawMessage) (args, *problem) {
	members, p := decodeInput(input)
	if p != nil {
		return args{}, p
	}
	schema, err := t.schema()
	if err != nil {
		return args{}, &problem{Message: "the tool's own schema is broken: " + err.Error()}
	}
	if err := schema.Validate(members); err != nil {
		return args{}, explain(t, members, err)
	}
	text := func(name string) string { s, _ := members[name].(string); return s }
	a := args{service: text("service"), metric: text("metric"), query: text("query")}
	if n, ok := members["limit"].(float64); ok {
		a.limit = int(n)
	}
	if a.window, err = parseWindow(text("window"), w.meta.clock); err != nil {
		return args{}, &problem{Message: err.Error(), Field: "/window", Allowed: windowExamples(w.meta.clock)}
	}
	return a, nil
}

// decodeInput returns the members of an input, numbers among them as float64.
// Numbers further down stay as they were written: no argument has a further
// down, so they are refused with what holds them.
func decodeInput(input json.RawMessage) (map[string]any, *problem) {
	if len(input) > maxInput {
		return nil, &problem{Message: fmt.Sprintf("the input has %d bytes; at most %d are allowed", len(input), maxInput)}
	}
	if len(bytes.TrimSpace(input)) == 0 {
		return map[string]any{}, nil
	}
	members, plain := plainMembers(input)
	if !plain {
		v, err := decodeOne(input)
		if err != nil {
			return nil, &problem{Message: "the input is not JSON: " + clip(err.Error(), maxName)}
		}
		var ok bool
		if members, ok = v.(map[string]any); !ok {
			return nil, &problem{Message: "the input is not a JSON object; expected {\"name\": value, …}"}
		}
	}
	for name, v := range members {
		if v == nil || v == "" {
			delete(members, name)
		}
		if n, ok := v.(json.Number); ok {
			members[name] = number(n)
		}
	}
	return members, nil
}

// plainMembers reads an input of texts that need no decoding, which is how nearly
// every call comes.
func plainMembers(input json.RawMessage) (members map[string]any, plain bool) {
	if !ledger.IsCanon(input) {
		return nil, false
	}
	members, plain = map[string]any{}, true
	err := ledger.EachMember(input, func(name []byte, value json.RawMessage) {
		text, ok := ledger.PlainString(value)
		members[string(name)] = text
		plain = plain && ok && bytes.IndexByte(name, '\\') < 0
	})
	return members, plain && err == nil
}

// decodeOne decodes a JSON text that is one value and nothing more. It takes
// numbers that no float64 can hold.
func decodeOne(text []byte) (v any, err error) {
	dec := json.NewDecoder(bytes.NewReader(text))
	dec.UseNumber()
	if err := dec.Decode(&v); err != nil {
		return nil, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return nil, errors.New("invalid character after top-level value")
	}
	return v, nil
}

// number is the nearest float64, within ±1e15. That is exact enough: the only
// number an input may hold is a limit, a small whole number, and all that is
// beyond 2⁵³, or nearer to a whole number than a float64 can tell, is far out
// of its range or meant as that number.
func number(n json.Number) float64 {
	f, err := n.Float64()
	if err != nil || math.Abs(f) > 1e15 {
		return math.Copysign(1e15, f)
	}
	return f
}

// explain turns a refusal into one problem in our words: all that is wrong, in
// a fixed order, and what is allowed for the leading one. The validator only
// says in prose what it met before it stopped, so the schema is read again.
func explain(t tool, members map[string]any, refusal error) *problem {
	all := mistakes(t.doc, members)
	if len(all) == 0 { // a keyword that mistakes does not know
		return &problem{Message: clip(refusal.Error(), maxText)}
	}
	p := all[0]
	for _, more := range all[1:] {
		p.Message += "; " + more.Message
	}
	return &p
}

// mistakes lists what is wrong with the members of an input, sorted. It finds
// something exactly where the validator refuses; a fuzz test holds it to that.
func mistakes(s schema, members map[string]any) []problem {
	var all []problem
	var missing, unknown []string
	for _, name := range s.Required {
		if _, ok := members[name]; !ok {
			missing = append(missing, name)
		}
	}
	if len(missing) > 0 {
		all = append(all, s.missing(missing))
	}
	for name, v := range members {
		if p, known := s.Properties[name]; !known {
			unknown = append(unknown, name)
		} else if wrong := p.mistake(name, v); wrong != nil {
			all = append(all, *wrong)
		}
	}
	if len(unknown) > 0 {
		slices.Sort(unknown)
		all = append(all, problem{Message: "unknown argument " + clip(quoteAll(unknown), maxName), Allowed: s.names()})
	}
	slices.SortFunc(all, func(a, b problem) int {
		return strings.Compare(a.Field+"\x00"+a.Message, b.Field+"\x00"+b.Message)
	})
	return all
}

func (s schema) names() []string { return slices.Sorted(maps.Keys(s.Properties)) }

// missing points at an argument whose values can be listed, or else lists the
// arguments.
func (s schema) missing(names []string) problem {
	p := problem{Message: "missing: " + strings.Join(names, ", "), Allowed: s.names()}
	for _, name := range names {
		if enum := s.Properties[name].Enum; enum != nil {
			p.Field, p.Allowed = "/"+name, enum
		}
	}
	return p
}

// mistake says what is wrong with the value of one argument, if anything is.
func (p property) mistake(name string, v any) *problem {
	wrong := &problem{Field: "/" + name}
	s, _ := v.(string)
	n, isNumber := v.(float64)
	switch got := typeOf(v); {
	case got != p.Type && !(p.Type == "integer" && isNumber && n == math.Trunc(n)):
		wrong.Message = fmt.Sprintf("%s: expected %s, got %s", name, p.Type, got)
	case p.Enum != nil && !slices.Contains(p.Enum, s):
		wrong.Message, wrong.Allowed = fmt.Sprintf("there is no %s %q", name, clip(s, maxName))+guess(p.Enum, s), p.Enum
	case p.Maximum != 0 && (n < float64(p.Minimum) || n > float64(p.Maximum)):
		wrong.Message, wrong.Allowed = name+": out of range", []string{fmt.Sprintf("%d to %d", p.Minimum, p.Maximum)}
	default:
		return nil
	}
	return wrong
}

// typeOf names the type of a decoded JSON value.
func typeOf(v any) string {
	switch v.(type) {
	case string:
		return "string"
	case float64, json.Number:
		return "number"
	case bool:
		return "boolean"
	case []any:
		return "array"
	case map[string]any:
		return "object"
	}
	return "null"
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// guess names a value that the caller may have meant.
func guess(allowed []string, got string) string {
	got = strings.ToLower(strings.TrimSpace(got))
	for _, s := range allowed {
		if l := strings.ToLower(s); len(got) > 2 && (strings.Contains(l, got) || strings.Contains(got, l)) {
			return fmt.Sprintf("; did you mean %q?", s)
		}
	}
	return ""
}
