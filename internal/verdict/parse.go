package verdict

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"investigator/internal/ledger"
)

// Parse reads a verdict from the input of report_findings. When problems is
// not empty the verdict is not valid; each one begins with the JSON pointer of
// what is wrong and says what was expected there. What Parse accepts satisfies
// Schema.
func Parse(input json.RawMessage) (v Verdict, problems []string) {
	r := reader{}
	members, ok := r.object(input)
	if !ok {
		return v, r.problems
	}
	v.readFrom(&r, members)
	if len(r.problems) == 0 && v.Inconclusive() != (v.Confidence == "none") {
		r.complain("/component", `an inconclusive verdict has component "" and confidence "none"; any other has both`)
	}
	return v, r.problems
}

func (v *Verdict) readFrom(r *reader, m map[string]json.RawMessage) {
	v.Component = r.text(m, "component")
	v.Class = r.oneOf(m, "class", Classes())
	v.Mechanism = r.text(m, "mechanism")
	v.Change = r.text(m, "change")
	v.StartedAt = r.text(m, "started_at")
	v.Confidence = r.oneOf(m, "confidence", Confidences())
	if r.read(m, "summary", "a string", &v.Summary) && strings.TrimSpace(v.Summary) == "" {
		r.complain("/summary", "expected a text, found none")
	}
	v.Evidence = r.addresses(m, "evidence")
	v.RuledOut = r.ruledOut(m, "ruled_out")
	if _, given := m["not_examined"]; given {
		v.NotExamined = r.texts(m, "not_examined")
	}
	v.Recommendation = r.text(m, "recommendation")
}

// reader takes members out of objects and collects what is wrong with them. at
// is the JSON pointer of the object being read.
type reader struct {
	at       string
	problems []string
}

func (r *reader) complain(pointer, format string, args ...any) {
	r.problems = append(r.problems, pointer+": "+fmt.Sprintf(format, args...))
}

// object reads the members by their exact names; encoding/json would take
// "Component" for "component".
func (r *reader) object(raw json.RawMessage) (map[string]json.RawMessage, bool) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(raw, &m); err != nil || m == nil {
		r.complain(cmp.Or(r.at, "the input"), "expected an object, found %s", kindOf(raw))
		return nil, false
	}
	return m, true
}

func (r *reader) read(m map[string]json.RawMessage, name, want string, into any) bool {
	raw, found := m[name]
	if !found {
		r.complain(r.at+"/"+name, "expected %s, found none", want)
		return false
	}
	if text, wanted := into.(*string); wanted {
		if s, plain := ledger.PlainString(raw); plain {
			*text = s
			return true
		}
	}
	if string(raw) == "null" || json.Unmarshal(raw, into) != nil {
		r.complain(r.at+"/"+name, "expected %s, found %s", want, kindOf(raw))
		return false
	}
	return true
}

func (r *reader) text(m map[string]json.RawMessage, name string) (s string) {
	r.read(m, name, "a string", &s)
	return s
}

func (r *reader) oneOf(m map[string]json.RawMessage, name string, allowed []string) (s string) {
	want := "one of " + strings.Join(allowed, ", ")
	if r.read(m, name, want, &s) && !slices.Contains(allowed, s) {
		r.complain(r.at+"/"+name, "expected %s, found %q", want, s)
	}
	return s
}

func (r *reader) texts(m map[string]json.RawMessage, name string) (out []string) {
	var raw []json.RawMessage
	r.read(m, name, "an array of strings", &raw)
	for i, item := range raw {
		if s, plain := ledger.PlainString(item); plain {
			out = append(out, s)
			continue
		}
		var s *string
		if json.Unmarshal(item, &s) != nil || s == nil {
			r.complain(fmt.Sprintf("%s/%s/%d", r.at, name, i), "expected a string, found %s", kindOf(item))
			continue
		}
		out = append(out, *s)
	}
	return out
}

func (r *reader) addresses(m map[string]json.RawMessage, name string) []string {
	out := r.texts(m, name)
	for i, address := range out {
		if _, _, err := ParseAddress(address); err != nil {
			r.complain(fmt.Sprintf("%s/%s/%d", r.at, name, i), "%v", err)
		}
	}
	return out
}

func (r *reader) ruledOut(m map[string]json.RawMessage, name string) (out []RuledOut) {
	var raw []json.RawMessage
	r.read(m, name, "an array", &raw)
	for i, item := range raw {
		in := reader{at: fmt.Sprintf("%s/%s/%d", r.at, name, i)}
		if m, ok := in.object(item); ok {
			o := RuledOut{Hypothesis: in.text(m, "hypothesis"), Reason: in.text(m, "reason")}
			if _, given := m["evidence"]; given {
				o.Evidence = in.texts(m, "evidence")
			}
			out = append(out, o)
		}
		r.problems = append(r.problems, in.problems...)
	}
	return out
}

// kindOf names the JSON kind of a value as a model would call it.
func kindOf(raw json.RawMessage) string {
	if len(raw) == 0 {
		return "none"
	}
	switch raw[0] {
	case '{':
		return "an object"
	case '[':
		return "an array"
	case '"':
		return "a string"
	case 't', 'f':
		return "a boolean"
	case 'n':
		return "null"
	}
	return "a number"
}

// maxSeqDigits bounds the event number of an address; longer ones name no event.
const maxSeqDigits = 9

// ParseAddress splits "E7#/deploys/1" into 7 and "/deploys/1". There is one
// spelling of an address: no sign, no leading zero, no white space.
func ParseAddress(address string) (seq int, pointer string, err error) {
	head, pointer, hasPointer := strings.Cut(address, "#")
	digits, found := strings.CutPrefix(head, "E")
	bad := !found || digits == "" || digits[0] == '0' || len(digits) > maxSeqDigits ||
		strings.Trim(digits, "0123456789") != "" || strings.ContainsAny(pointer, "\r\n") ||
		hasPointer && pointer != "" && pointer[0] != '/'
	if bad {
		return 0, "", fmt.Errorf(`expected an address like "E7" or "E7#/deploys/1", found %q`, address)
	}
	seq, err = strconv.Atoi(digits)
	return seq, pointer, err
}
