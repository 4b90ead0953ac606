// Package verdict is the typed conclusion of a run: its shape, the tool by
// which a model gives it, when two verdicts are the same finding, and which of
// its figures occur in none of the evidence it cites.
//
// A model concludes by calling the tool report_findings, whose input is a
// Verdict. Parse checks it as code, not as a schema library would, so that the
// loop stays pure and the problems read as advice to the model.
//
// Two verdicts are the same finding when component, class and change agree
// after trimming, lower-casing and folding "_", "-", "." and spaces. The
// wording of mechanism and summary is compared by readers, not here. A verdict
// without a component is inconclusive, and two inconclusive verdicts are the
// same finding.
//
// The package is pure.
package verdict

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/ledger"
)

// Tool is the name of the tool by which a model reports its verdict.
const Tool = "report_findings"

// Verdict is what a run concluded.
type Verdict struct {
	Component      string     `json:"component"`              // the service or resource at fault, "" if inconclusive
	Class          string     `json:"class"`                  // one of Classes
	Mechanism      string     `json:"mechanism"`              // how it fails, one sentence
	Change         string     `json:"change"`                 // id of the change behind it, "" if none
	StartedAt      string     `json:"started_at"`             // RFC 3339, "" if unknown
	Confidence     string     `json:"confidence"`             // one of Confidences
	Summary        string     `json:"summary"`                // for the incident review
	Evidence       []string   `json:"evidence"`               // addresses like E7 or E7#/deploys/1
	RuledOut       []RuledOut `json:"ruled_out"`              // what was considered and dismissed
	NotExamined    []string   `json:"not_examined,omitempty"` // what was not looked at
	Recommendation string     `json:"recommendation"`
}

// RuledOut is one hypothesis that was dismissed, and why.
type RuledOut struct {
	Hypothesis string   `json:"hypothesis"`
	Reason     string   `json:"reason"`
	Evidence   []string `json:"evidence,omitempty"`
}

// Classes of mechanisms.
func Classes() []string {
	return []string{"change", "saturation", "dependency", "load", "failure", "unknown"}
}

// Confidences, from strong to none.
func Confidences() []string { return []string{"high", "medium", "low", "none"} }

// Inconclusive reports whether no component was named.
func (v Verdict) Inconclusive() bool { return strings.TrimSpace(v.Component) == "" }

// Parse reads a verdict from the input of report_findings. When problems is
// not empty the verdict is not valid; each one says what is wrong where.
func Parse(input json.RawMessage) (v Verdict, problems []string) {
	if err := json.Unmarshal(input, &v); err != nil {
		return v, []string{fmt.Sprintf("the input does not have the shape of a verdict: %v", err)}
	}
	if strings.TrimSpace(v.Summary) == "" {
		problems = append(problems, "/summary: expected a text, found none")
	}
	if !slices.Contains(Confidences(), v.Confidence) {
		problems = append(problems, fmt.Sprintf("/confidence: expected one of %s, found %q", strings.Join(Confidences(), ", "), v.Confidence))
	}
	if !slices.Contains(Classes(), v.Class) {
		problems = append(problems, fmt.Sprintf("/class: expected one of %s, found %q", strings.Join(Classes(), ", "), v.Class))
	}
	if v.Inconclusive() != (v.Confidence == "none") {
		problems = append(problems, `/component: an inconclusive verdict has component "" and confidence "none"; any other has both`)
	}
	for i, address := range v.Evidence {
		if _, _, err := ParseAddress(address); err != nil {
			problems = append(problems, fmt.Sprintf("/evidence/%d: %v", i, err))
		}
	}
	return v, problems
}

// JSON returns the verdict as canonical JSON.
func (v Verdict) JSON() json.RawMessage {
	v.Evidence = slices.Concat([]string{}, v.Evidence) // [] rather than null
	v.RuledOut = slices.Concat([]RuledOut{}, v.RuledOut)
	b, _ := ledger.CanonValue(v) // strings always encode
	return b
}

// ParseAddress splits "E7#/deploys/1" into 7 and "/deploys/1".
func ParseAddress(address string) (seq int, pointer string, err error) {
	head, pointer, hasPointer := strings.Cut(address, "#")
	var tail string
	n, _ := fmt.Sscanf(head, "E%d%s", &seq, &tail)
	if n != 1 || seq < 1 || (hasPointer && pointer != "" && pointer[0] != '/') {
		return 0, "", fmt.Errorf(`expected an address like "E7" or "E7#/deploys/1", found %q`, address)
	}
	return seq, pointer, nil
}

// Same reports whether two verdicts are the same finding.
func Same(a, b Verdict) bool { return len(Differences(a, b)) == 0 }

// Difference is one deciding member in which two verdicts differ.
type Difference struct{ Member, A, B string }

// Differences lists the deciding members in which a and b differ.
func Differences(a, b Verdict) []Difference {
	var out []Difference
	for _, d := range []Difference{
		{"component", a.Component, b.Component}, {"class", a.Class, b.Class}, {"change", a.Change, b.Change},
	} {
		if fold(d.A) != fold(d.B) {
			out = append(out, d)
		}
	}
	return out
}

func fold(s string) string {
	return strings.Map(func(r rune) rune {
		switch r {
		case '_', '-', '.', ' ':
			return -1
		}
		return r
	}, strings.ToLower(strings.TrimSpace(s)))
}
