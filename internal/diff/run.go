package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// Run is one of the two runs to compare. Nothing in it is modified.
type Run struct {
	Name   string
	Events []ledger.Event
	// Sums, if given, holds the ledger's sum after each event; the divergence
	// is then found without comparing what stands before it. They are taken on
	// trust for where to look, and never for saying that runs are identical.
	Sums []ledger.Sum
	// Origins, if given, tells an event's origin.
	Origins func(seq int) edge.Origin
}

// Findings of two runs.
const (
	FindingSame      = "same"      // both verdicts are the same finding
	FindingDifferent = "different" // they are not
	FindingNone      = "none"      // at least one run ended without a typed verdict
)

// Report is how two runs differ, the findings first. Its JSON is stable.
type Report struct {
	A Conclusion `json:"a"`
	B Conclusion `json:"b"`
	// Finding is one of the findings above, and Differences are the deciding
	// members in which two verdicts differ.
	Finding     string       `json:"finding"`
	Differences []Difference `json:"differences"`
	// Identical is true only if both ledgers are the same bytes.
	Identical   bool `json:"identical"`
	IdenticalTo int  `json:"identical_to"` // the last seq before the first difference, 0 if there is none
	// Prefix is "a" if all of a is the beginning of the longer b, "b" the other
	// way round, and else "". There is no divergence then.
	Prefix     string      `json:"prefix"`
	Divergence *Divergence `json:"divergence"`
	// Consequences are the events behind the divergence, aligned.
	Consequences []Consequence `json:"consequences"`
}

// Conclusion is how one run ended.
type Conclusion struct {
	Name    string `json:"name"`
	Events  int    `json:"events"`
	Outcome string `json:"outcome"` // of run.finished, "" for a run that has not finished
	Reason  string `json:"reason,omitempty"`
	Text    string `json:"text,omitempty"` // what the model said instead of a verdict
	// Verdict is nil for a run without a typed verdict. Problem says what is
	// wrong with a run.finished or a verdict that could not be read.
	Verdict *verdict.Verdict `json:"verdict"`
	Problem string           `json:"problem,omitempty"`
}

// Difference is one deciding member in which two verdicts differ.
type Difference struct {
	Member string `json:"member"`
	A      string `json:"a"`
	B      string `json:"b"`
}

// Divergence is the first event at which two ledgers differ.
type Divergence struct {
	Seq   int  `json:"seq"`
	A     Side `json:"a"`
	B     Side `json:"b"`
	InToo bool `json:"in_changed"` // what went out to the edge differs as well
	// Changes are the smallest differing parts if the types agree. Their paths
	// point into the result for two tool.returned, as evidence addresses do,
	// and into the event's data for any other type.
	Changes []Change `json:"changes"`
	// Beside are, for two tool.returned, the changes of data other than the
	// result (the tool, its status, its place in the turn); paths into data.
	Beside  []Change `json:"beside,omitempty"`
	Problem string   `json:"problem,omitempty"` // why there are no changes although the types agree
}

// Side is what one run has at an event.
type Side struct {
	Type   string      `json:"type"`
	Tool   string      `json:"tool,omitempty"`
	Origin edge.Origin `json:"origin,omitempty"`
}

// Ledgers compares two runs. Damaged data in an event is stated as a Problem
// where it stands and does not stop the comparison.
func Ledgers(a, b Run) Report {
	r := Report{
		A: conclude(a), B: conclude(b), Finding: FindingNone,
		Differences: []Difference{}, Consequences: []Consequence{},
		IdenticalTo: sharedEvents(a, b),
	}
	if r.A.Verdict != nil && r.B.Verdict != nil {
		r.Finding = FindingSame
		for _, d := range verdict.Differences(*r.A.Verdict, *r.B.Verdict) {
			r.Finding = FindingDifferent
			r.Differences = append(r.Differences, Difference(d))
		}
	}
	n := r.IdenticalTo
	switch {
	case n == len(a.Events) && n == len(b.Events):
		r.Identical = true
		return r
	case n == len(a.Events):
		r.Prefix = "a"
	case n == len(b.Events):
		r.Prefix = "b"
	default:
		r.Divergence = diverge(a, b, n)
	}
	r.Consequences = consequences(a, b, n)
	return r
}

// conclude reads a run's last event.
func conclude(r Run) Conclusion {
	c := Conclusion{Name: r.Name, Events: len(r.Events)}
	if len(r.Events) == 0 || r.Events[len(r.Events)-1].Type != ledger.RunFinished {
		return c
	}
	o, err := loop.ParseOutcome(r.Events[len(r.Events)-1].Data)
	if err != nil {
		c.Problem = err.Error()
		return c
	}
	c.Outcome, c.Reason, c.Text = o.Outcome, o.Reason, o.Text
	if len(o.Verdict) == 0 || string(o.Verdict) == "null" {
		return c
	}
	v, problems := verdict.Parse(o.Verdict)
	if len(problems) > 0 {
		c.Problem = "read verdict: " + strings.Join(problems, "; ")
		return c
	}
	if v.Evidence == nil {
		v.Evidence = []string{} // read by other programs, which expect an array
	}
	if v.RuledOut == nil {
		v.RuledOut = []verdict.RuledOut{}
	}
	c.Verdict = &v
	return c
}

// sharedEvents returns how many events both ledgers begin with. Sums that
// belong to the events make it a bisection; its outcome is held against the
// bytes, and where they disagree the bytes are compared from the front.
func sharedEvents(a, b Run) int {
	limit := min(len(a.Events), len(b.Events))
	if len(a.Sums) == len(a.Events) && len(b.Sums) == len(b.Events) {
		n := sort.Search(limit, func(k int) bool { return a.Sums[k] != b.Sums[k] })
		complete := n == len(a.Events) && n == len(b.Events) // only bytes may say identical
		if !complete && (n == limit || !sameEvent(a.Events[n], b.Events[n])) && (n == 0 || sameEvent(a.Events[n-1], b.Events[n-1])) {
			return n
		}
	}
	for n := range limit {
		if !sameEvent(a.Events[n], b.Events[n]) {
			return n
		}
	}
	return limit
}

// sameEvent reports whether two events have the same line.
func sameEvent(a, b ledger.Event) bool {
	return a.Seq == b.Seq && a.Type == b.Type && a.In == b.In && bytes.Equal(dataOf(a), dataOf(b))
}

// dataOf returns an event's data as its line has it.
func dataOf(e ledger.Event) json.RawMessage {
	if len(e.Data) == 0 {
		return json.RawMessage("null")
	}
	return e.Data
}

// diverge describes the events at position n, which differ.
func diverge(a, b Run, n int) *Divergence {
	x, y := a.Events[n], b.Events[n]
	d := &Divergence{Seq: x.Seq, A: a.side(x), B: b.side(y), InToo: x.In != y.In, Changes: []Change{}}
	if x.Type != y.Type {
		return d
	}
	changes, err := Values(dataOf(x), dataOf(y))
	if err != nil {
		d.Problem = fmt.Sprintf("compare event %d: %v", x.Seq, err)
		return d
	}
	d.Changes, d.Beside = split(x.Type, changes)
	return d
}

// split parts the changes inside a tool's result, with pointers into it, from
// those beside it. Any other event's changes are returned as they are.
func split(kind string, changes []Change) (inside, beside []Change) {
	inside = []Change{}
	for _, c := range changes {
		if kind == ledger.ToolReturned {
			pointer, found := intoResult(c.Path)
			if !found {
				beside = append(beside, c)
				continue
			}
			c.Path = pointer
		}
		inside = append(inside, c)
	}
	return inside, beside
}

// intoResult turns a pointer into the data of tool.returned into one into its
// result.
func intoResult(path string) (string, bool) {
	rest, inside := strings.CutPrefix(path, "/result")
	return rest, inside && (rest == "" || rest[0] == '/')
}

func (r Run) side(e ledger.Event) Side {
	s := Side{Type: e.Type, Tool: toolOf(e)}
	if r.Origins != nil {
		s.Origin = r.Origins(e.Seq)
	}
	return s
}
