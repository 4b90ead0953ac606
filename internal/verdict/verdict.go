// Package verdict is the typed conclusion of a run: its shape, the tool by
// which a model gives it, when two verdicts are the same finding, and which of
// its figures occur in none of the evidence it cites.
//
// A model concludes by calling the tool report_findings, whose input is a
// Verdict. Parse checks it as code, not as a schema library would, so that the
// loop stays pure and the problems read as advice to the model.
//
// Two verdicts are the same finding when component, class and change agree
// after trimming, lower-casing and taking any run of "_", "-", "." and spaces
// for the same separator (v8.41 is not v84.1). The wording of mechanism and summary is compared by readers, not here. A verdict
// without a component is inconclusive, and two inconclusive verdicts are the
// same finding.
//
// The package is pure.
package verdict

import (
	"encoding/json"
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

// JSON returns the verdict as canonical JSON.
func (v Verdict) JSON() json.RawMessage {
	b := make([]byte, 0, v.size())
	b = appendText(b, `{"change":`, v.Change)
	b = appendText(b, `,"class":`, v.Class)
	b = appendText(b, `,"component":`, v.Component)
	b = appendText(b, `,"confidence":`, v.Confidence)
	b = appendTexts(b, `,"evidence":`, v.Evidence) // the schema wants [], not null
	b = appendText(b, `,"mechanism":`, v.Mechanism)
	if len(v.NotExamined) > 0 {
		b = appendTexts(b, `,"not_examined":`, v.NotExamined)
	}
	b = appendText(b, `,"recommendation":`, v.Recommendation)
	b = append(b, `,"ruled_out":[`...)
	for i, r := range v.RuledOut {
		if i > 0 {
			b = append(b, ',')
		}
		b = r.appendJSON(b)
	}
	b = appendText(b, `],"started_at":`, v.StartedAt)
	return append(appendText(b, `,"summary":`, v.Summary), '}')
}

// size is about the length of the verdict's JSON, rather more.
func (v Verdict) size() int {
	n := 320 + len(v.Mechanism) + len(v.Summary) + len(v.Recommendation) + sizeOf(v.Evidence) + sizeOf(v.NotExamined)
	for _, r := range v.RuledOut {
		n += 64 + len(r.Hypothesis) + len(r.Reason) + sizeOf(r.Evidence)
	}
	return n
}

func sizeOf(texts []string) int {
	n := 0
	for _, t := range texts {
		n += len(t) + len(`"",`)
	}
	return n
}

func (r RuledOut) appendJSON(b []byte) []byte {
	b = append(b, '{')
	if len(r.Evidence) > 0 {
		b = append(appendTexts(b, `"evidence":`, r.Evidence), ',')
	}
	b = appendText(b, `"hypothesis":`, r.Hypothesis)
	return append(appendText(b, `,"reason":`, r.Reason), '}')
}

func appendText(b []byte, name, text string) []byte {
	return ledger.AppendString(append(b, name...), text)
}

func appendTexts(b []byte, name string, texts []string) []byte {
	b = append(append(b, name...), '[')
	for i, text := range texts {
		if i > 0 {
			b = append(b, ',')
		}
		b = ledger.AppendString(b, text)
	}
	return append(b, ']')
}

// Same reports whether two verdicts are the same finding.
func Same(a, b Verdict) bool { return len(Differences(a, b)) == 0 }

// Difference is one deciding member in which two verdicts differ.
type Difference struct{ Member, A, B string }

// Differences lists the deciding members in which a and b differ.
// Inconclusive verdicts differ in nothing: neither decided anything.
func Differences(a, b Verdict) []Difference {
	if a.Inconclusive() && b.Inconclusive() {
		return nil
	}
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
	return strings.Join(strings.FieldsFunc(strings.ToLower(s), func(r rune) bool {
		return strings.ContainsRune("_-. ", r)
	}), "-")
}
