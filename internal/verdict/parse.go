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
	canon, err := ledger.InCanon(input)
	if err != nil {
		canon = nil // which is no object
	}
	members, ok := r.object(canon, input)
	if !ok {
		return v, r.problems
	}
	v.readFrom(&r, members)
	if len(r.problems) == 0 && v.Inconclusive() != (v.Confidence == "none") {
		r.complain("/component", `an inconclusive verdict has component "" and confidence "none"; any other has both`)
	}
	return v, r.problems
}

func (v *Verdict) readFrom(r *reader, m members) {
	v.Component = r.text(m, "component")
	v.Class = r.oneOf(m, "class", Classes)
	v.Mechanism = r.text(m, "mechanism")
	v.Change = r.text(m, "change")
	v.StartedAt = r.text(m, "started_at")
	v.Confidence = r.oneOf(m, "confidence", Confidences)
	raw, ok := r.read(m, "summary", "a string", '"')
	if v.Summary = stringOf(raw); ok && strings.TrimSpace(v.Summary) == "" {
		r.complain("/summary", "expected a text, found none")
	}
	v.Evidence = r.addresses(m, "evidence")
	v.RuledOut = r.ruledOut(m, "ruled_out")
	if m.value("not_examined") != nil {
		v.NotExamined = r.texts(m, "not_examined")
	}
	v.Recommendation = r.text(m, "recommendation")
}

// members are those of a canonical object, by their exact names; encoding/json
// would take "Component" for "component".
type members []member

type member struct {
	name  []byte
	value json.RawMessage
}

// value returns a member's value, nil if there is none.
func (m members) value(name string) json.RawMessage {
	for i := range m {
		if string(m[i].name) == name {
			return m[i].value
		}
	}
	return nil
}

// stringOf decodes a canonical string, "" for none.
func stringOf(raw json.RawMessage) string {
	s, plain := ledger.PlainString(raw)
	if !plain && raw != nil {
		_ = json.Unmarshal(raw, &s) // canonical strings decode
	}
	return s
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

// object reads the members of a canonical value, which was given as another
// text.
func (r *reader) object(canon, given json.RawMessage) (members, bool) {
	m := make(members, 0, 11) // as a verdict has
	err := ledger.EachMember(canon, func(name []byte, value json.RawMessage) { m = append(m, member{name, value}) })
	if err != nil {
		r.complain(cmp.Or(r.at, "the input"), "expected an object, found %s", kindOf(given))
		return nil, false
	}
	return m, true
}

// read returns a member's value if it begins as its kind does.
func (r *reader) read(m members, name, want string, open byte) (json.RawMessage, bool) {
	raw := m.value(name)
	switch {
	case raw == nil:
		r.complain(r.at+"/"+name, "expected %s, found none", want)
	case raw[0] != open:
		r.complain(r.at+"/"+name, "expected %s, found %s", want, kindOf(raw))
	default:
		return raw, true
	}
	return nil, false
}

func (r *reader) text(m members, name string) string {
	raw, _ := r.read(m, name, "a string", '"')
	return stringOf(raw)
}

func (r *reader) oneOf(m members, name string, allowed func() []string) string {
	s := stringOf(m.value(name))
	if slices.Contains(allowed(), s) {
		return s
	}
	want := "one of " + strings.Join(allowed(), ", ")
	if _, ok := r.read(m, name, want, '"'); ok {
		r.complain(r.at+"/"+name, "expected %s, found %q", want, s)
	}
	return s
}

func (r *reader) texts(m members, name string) (out []string) {
	raw, _ := r.read(m, name, "an array of strings", '[')
	for i, item := range ledger.Elements(raw) {
		if item[0] != '"' {
			r.complain(fmt.Sprintf("%s/%s/%d", r.at, name, i), "expected a string, found %s", kindOf(item))
			continue
		}
		out = append(out, stringOf(item))
	}
	return out
}

func (r *reader) addresses(m members, name string) []string {
	out := r.texts(m, name)
	for i, address := range out {
		if _, _, err := ParseAddress(address); err != nil {
			r.complain(fmt.Sprintf("%s/%s/%d", r.at, name, i), "%v", err)
		}
	}
	return out
}

func (r *reader) ruledOut(m members, name string) (out []RuledOut) {
	raw, _ := r.read(m, name, "an array", '[')
	for i, item := range ledger.Elements(raw) {
		in := reader{at: fmt.Sprintf("%s/%s/%d", r.at, name, i)}
		if m, ok := in.object(item, item); ok {
			o := RuledOut{Hypothesis: in.text(m, "hypothesis"), Reason: in.text(m, "reason")}
			if m.value("evidence") != nil {
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
