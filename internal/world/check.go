package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
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
		return args{}, w.explain(t, err)
	}
	text := func(name string) string { s, _ := members[name].(string); return s }
	a := args{service: text("service"), metric: text("metric"), query: text("query")}
	if n, ok := members["limit"].(json.Number); ok {
		f, _ := n.Float64()
		a.limit = int(f)
	}
	if a.window, err = parseWindow(text("window"), w.meta.clock); err != nil {
		return args{}, &problem{Message: err.Error(), Field: "/window", Allowed: windowExamples(w.meta.clock)}
	}
	return a, nil
}

func decodeInput(input json.RawMessage) (map[string]any, *problem) {
	if len(input) > maxInput {
		return nil, &problem{Message: fmt.Sprintf("the input has %d bytes; at most %d are allowed", len(input), maxInput)}
	}
	if len(bytes.TrimSpace(input)) == 0 {
		return map[string]any{}, nil
	}
	v, err := jsonschema.UnmarshalJSON(bytes.NewReader(input))
	if err != nil {
		return nil, &problem{Message: "the input is not JSON: " + clip(err.Error(), maxName)}
	}
	members, ok := v.(map[string]any)
	if !ok {
		return nil, &problem{Message: "the input is not a JSON object; expected {\"name\": value, …}"}
	}
	for name, v := range members {
		if v == nil || v == "" {
			delete(members, name)
		}
		if n, ok := v.(json.Number); ok {
			members[name] = tame(n)
		}
	}
	return members, nil
}

// tame rewrites a number with an exponent: the validator computes exactly, and
// 1e999999999 written out would take all memory there is.
func tame(n json.Number) json.Number {
	f, err := n.Float64()
	if err != nil || math.Abs(f) > 1e15 {
		return json.Number(strconv.FormatFloat(math.Copysign(1e15, f), 'f', -1, 64))
	}
	return json.Number(strconv.FormatFloat(f, 'f', -1, 64))
}

// explain turns what the validator found into one problem in our words: all
// that is wrong, in a fixed order, and what is allowed for the leading one.
func (w *World) explain(t tool, err error) *problem {
	var v *jsonschema.ValidationError
	if !errors.As(err, &v) {
		return &problem{Message: err.Error()}
	}
	var all []problem
	for _, leaf := range leaves(v) {
		all = append(all, w.explainLeaf(t, leaf))
	}
	slices.SortFunc(all, func(a, b problem) int {
		return strings.Compare(a.Field+"\x00"+a.Message, b.Field+"\x00"+b.Message)
	})
	p := all[0]
	for _, more := range all[1:] {
		p.Message += "; " + more.Message
	}
	return &p
}

// leaves are the mistakes themselves, without the groups around them.
func leaves(v *jsonschema.ValidationError) []*jsonschema.ValidationError {
	if len(v.Causes) == 0 {
		return []*jsonschema.ValidationError{v}
	}
	var all []*jsonschema.ValidationError
	for _, c := range v.Causes {
		all = append(all, leaves(c)...)
	}
	return all
}

func (w *World) explainLeaf(t tool, v *jsonschema.ValidationError) problem {
	name := strings.Join(v.InstanceLocation, "/")
	p := problem{}
	if name != "" {
		p.Field = "/" + name
	}
	switch k := v.ErrorKind.(type) {
	case *kind.Required:
		p.Message, p.Allowed = "missing: "+strings.Join(k.Missing, ", "), t.props
		if slices.Contains(k.Missing, "service") {
			p.Field, p.Allowed = "/service", w.meta.Services
		}
	case *kind.AdditionalProperties:
		slices.Sort(k.Properties)
		p.Message, p.Allowed = fmt.Sprintf("unknown argument %s", clip(quoteAll(k.Properties), maxName)), t.props
	case *kind.Enum:
		got := fmt.Sprint(k.Got)
		p.Message, p.Allowed = fmt.Sprintf("there is no %s %q", name, clip(got, maxName))+w.guess(got), w.meta.Services
	case *kind.Type:
		p.Message = fmt.Sprintf("%s: expected %s, got %s", name, strings.Join(k.Want, " or "), k.Got)
	case *kind.Minimum, *kind.Maximum:
		p.Message = fmt.Sprintf("%s: out of range", name)
		p.Allowed = []string{fmt.Sprintf("1 to %d", maxLines)}
	default:
		_, p.Message, _ = strings.Cut(v.Error(), "\n- ")
	}
	return p
}

func quoteAll(names []string) string {
	quoted := make([]string, len(names))
	for i, n := range names {
		quoted[i] = strconv.Quote(n)
	}
	return strings.Join(quoted, ", ")
}

// guess names a service that the caller may have meant.
func (w *World) guess(got string) string {
	got = strings.ToLower(strings.TrimSpace(got))
	for _, s := range w.meta.Services {
		if l := strings.ToLower(s); len(got) > 2 && (strings.Contains(l, got) || strings.Contains(got, l)) {
			return fmt.Sprintf("; did you mean %q?", s)
		}
	}
	return ""
}
