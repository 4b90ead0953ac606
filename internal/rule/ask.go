package rule

import (
	"encoding/json"
	"slices"
	"strings"

	"investigator/internal/ledger"
)

// The tools this package knows how to use.
const (
	toolMetrics  = "query_metrics"
	toolDeploys  = "list_deploys"
	toolLogs     = "search_logs"
	toolServices = "list_services"
)

// A run is bounded: after maxTurns it concludes from what it has, and one turn
// asks no more than maxCalls questions.
const (
	maxTurns = 12
	maxCalls = 8
)

// arg is one argument of a call; an empty value is left out.
type arg struct{ name, value string }

// answer is what a question brought.
type answer struct {
	body    node
	address string // "" if the result has none
	ok      bool   // body can be read
	why     string // what is missing in it, or why it cannot be read
}

// at returns the address of a part of the answer, "" if it cannot be addressed.
func (a answer) at(pointer string) string {
	if a.address == "" || pointer == "" {
		return a.address
	}
	return a.address + "#" + pointer
}

// ask looks the answer to a question up in the conversation. waiting means that
// it is not there yet: the call is then among those of this turn, and whoever
// asked has to stop.
func (q *inquiry) ask(name string, args ...arg) (a answer, waiting bool) {
	offered := q.talk.tool(name)
	if offered == nil {
		return answer{why: "there is no tool " + name}, false
	}
	input := offered.input(args)
	s, removed := q.talk.find(name, input)
	switch {
	case s != nil:
		return s.answer(), false
	case removed > 1:
		return answer{why: "the result was removed from the conversation"}, false
	case q.talk.turn >= maxTurns || len(q.calls) >= maxCalls:
		return answer{why: "the limit of this rule model was reached"}, false
	}
	q.calls = append(q.calls, call{name, input})
	return answer{}, true
}

// input builds the canonical arguments, without those the tool does not know.
func (t tool) input(args []arg) json.RawMessage {
	known := t.schema.get("properties")
	slices.SortFunc(args, func(a, b arg) int { return strings.Compare(a.name, b.name) })
	b := []byte{'{'}
	for _, a := range args {
		if a.value == "" || known.there() && !known.get(a.name).there() {
			continue
		}
		if len(b) > 1 {
			b = append(b, ',')
		}
		b = append(ledger.AppendString(b, a.name), ':')
		b = ledger.AppendString(b, a.value)
	}
	return append(b, '}')
}

// find returns the newest step that answers a call, and how many of its answers
// were removed from the conversation. Where nobody made this very call, a step
// that asked for the same service and metric over another window will do: the
// turns before may be those of another model, or a fork's.
func (t *talk) find(name string, input json.RawMessage) (found *step, removed int) {
	for i := range slices.Backward(t.steps) {
		s := &t.steps[i]
		switch {
		case s.tool != name || !s.answered || string(s.input.raw()) != string(input):
		case s.gone:
			removed++
		default:
			return s, removed
		}
	}
	if name != toolMetrics && name != toolDeploys {
		return nil, removed
	}
	asked := node{}
	for i := range slices.Backward(t.steps) {
		s := &t.steps[i]
		if s.tool != name || !s.usable() {
			continue
		}
		if !asked.there() {
			asked = parseNode(input)
		}
		if alike(s.input, asked) {
			return s, removed
		}
	}
	return nil, removed
}

func (s *step) usable() bool {
	return s.answered && !s.failed && !s.gone && !s.body.get("error").there() && s.body.there() &&
		!s.body.get("status").says("empty")
}

func alike(a, b node) bool {
	return a.get("service").text() == b.get("service").text() && a.get("metric").text() == b.get("metric").text()
}

func (s *step) answer() answer {
	a := answer{body: s.body, address: s.address, ok: s.body.is('{') && !s.failed}
	status := s.body.get("status")
	switch message := s.body.path("error", "message").text(); {
	case message != "":
		a.ok, a.why = false, message
	case status.says("error"):
		a.ok, a.why = false, s.body.get("error").text()
	case status.says("empty") || status.says("truncated"):
		a.why = s.body.get("note").text()
	case !s.body.is('{'):
		a.why = s.text
	}
	if !a.ok && a.why == "" {
		a.why = "the result is not one this rule model can read"
	}
	if s.spoken {
		a.address = "" // nothing leads into a text
	}
	a.why = clip(a.why)
	return a
}

// truncated reports whether the answer is a part of what there is.
func (a answer) truncated() bool { return a.body.get("status").says("truncated") }

// clip keeps texts of others short in ours.
func clip(s string) string {
	const limit = 160
	if !singleSpaced(s) {
		s = strings.Join(strings.Fields(s), " ")
	}
	if len(s) <= limit {
		return s
	}
	return strings.ToValidUTF8(s[:limit], "") + "…"
}

// singleSpaced reports whether a text is words of ASCII parted by one space, so
// that taking it apart and joining it again would change nothing.
func singleSpaced(s string) bool {
	before := byte(' ')
	for i := range len(s) {
		c := s[i]
		if c < ' ' || c >= 0x80 || c == ' ' && before == ' ' {
			return false
		}
		before = c
	}
	return before != ' ' || s == ""
}
