package proxy

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/diff"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
)

// Divergence is a request that no recorded one answers to.
type Divergence struct {
	Cassette string        `json:"cassette,omitempty"`
	Event    int           `json:"event,omitempty"` // the nearest recorded event that differs
	Type     string        `json:"type,omitempty"`
	Tool     string        `json:"tool,omitempty"`
	Changes  []diff.Change `json:"changes,omitempty"` // pointers into the request; recorded as old and now as new
	More     int           `json:"more,omitempty"`    // changes that are not listed
	Cause    string        `json:"cause"`
}

// maxShown is how many bytes of a value a message quotes.
const maxShown = 160

// String says it in one line.
func (d Divergence) String() string {
	var b strings.Builder
	if d.Event > 0 {
		fmt.Fprintf(&b, "event %d (%s", d.Event, d.Type)
		if d.Tool != "" {
			fmt.Fprintf(&b, " %s", d.Tool)
		}
		b.WriteString("): ")
	}
	b.WriteString(d.Cause)
	if len(d.Changes) > 0 {
		c := d.Changes[0]
		fmt.Fprintf(&b, ": %s: recorded %s / now %s", c.Path, shown(c.Old), shown(c.New))
	}
	if n := len(d.Changes) + d.More; n > 1 {
		fmt.Fprintf(&b, " (and %d more)", n-1)
	}
	if d.Cassette != "" {
		fmt.Fprintf(&b, " [%s]", d.Cassette)
	}
	return b.String()
}

func shown(v json.RawMessage) string {
	switch {
	case v == nil:
		return "nothing"
	case len(v) > maxShown:
		return strings.ToValidUTF8(string(v[:maxShown]), "") + "…"
	}
	return string(v)
}

// nearest says what a request differs from: the call that would have come next
// in the run whose conversation it shares the longest beginning with.
func (m *replaying) nearest(c *call) (why func() Divergence) {
	if list := m.byKey[c.key]; len(list) > 0 {
		t := list[len(list)-1]
		return Divergence{Cassette: t.tape.c.Name(), Event: t.seq, Type: ledger.ModelResponded,
			Cause: fmt.Sprintf("this request was recorded %s and has been answered as often", times(len(list)))}.known
	}
	t := m.expected(c)
	if t == nil {
		return Divergence{Cause: "the run goes on where the recorded one ended: no recorded call is left"}.known
	}
	return func() Divergence { return t.differs(t.patched(c), false) }
}

// known is a divergence for which nothing has to be compared.
func (d Divergence) known() Divergence { return d }

// differs says how a request differs from the recorded one.
func (t *taped) differs(c *call, strict bool) Divergence {
	recorded, err := t.asked()
	if err != nil {
		return Divergence{Cassette: t.tape.c.Name(), Event: t.seq, Cause: err.Error()}
	}
	return compare(t, recorded, c, strict)
}

func times(n int) string {
	if n == 1 {
		return "once"
	}
	return strconv.Itoa(n) + " times"
}

func (m *replaying) expected(c *call) *taped {
	for k := len(c.sums); k > 0; k-- {
		t := m.bySum[c.sums[k-1]]
		if t == nil {
			continue
		}
		if k == len(c.sums) {
			return t // the same conversation: something beside it differs
		}
		for _, next := range t.tape.calls[t.index+1:] {
			if !next.used {
				return next
			}
		}
		return nil
	}
	for _, tape := range m.tapes {
		for _, t := range tape.calls {
			if !t.used && t.route.Op == c.Route.Op {
				return t
			}
		}
	}
	for _, tape := range m.tapes {
		for _, t := range tape.calls {
			if !t.used {
				return t
			}
		}
	}
	return nil
}

// tolerates reports whether a request may be answered as a recorded one that
// has its meaning.
func (m *replaying) tolerates(t *taped, c *call) (changes []foreign.Change, same bool) {
	if m.p.o.Strict {
		return nil, false
	}
	recorded, err := t.asked()
	if err != nil {
		return nil, false // differs tells of it
	}
	return foreign.CompareRequests(recorded, c.Asked)
}

// compare explains how a request differs from a recorded one. Unless strict,
// what is tolerated is not shown.
func compare(t *taped, recorded foreign.Asked, c *call, strict bool) Divergence {
	d := Divergence{Cassette: t.tape.c.Name(), Event: t.seq, Type: ledger.ModelResponded}
	if recorded.Route.Op != c.Route.Op {
		d.Cause = fmt.Sprintf("another operation: recorded %s / now %s", recorded.Route.Op, c.Route.Op)
		return d
	}
	a, b := documentOf(recorded, !strict), documentOf(c.Asked, !strict)
	changes, err := diff.Values(a, b)
	if err != nil {
		d.Cause = err.Error()
		return d
	}
	d.Changes = changes
	d.Cause = "the request differs"
	if len(changes) == 0 {
		return d
	}
	d.Cause = cause(changes[0].Path)
	for _, n := range t.named {
		if strings.HasPrefix(changes[0].Path+"/", fmt.Sprintf("/messages/%d/content/%d/", n.Message, n.Block)) || c.Dialect == foreign.OpenAI && strings.HasPrefix(changes[0].Path, fmt.Sprintf("/messages/%d/", n.Message)) {
			d.Event, d.Type, d.Tool = n.seq, ledger.ToolReturned, n.tool
			d.Cause = "a tool result changed"
		}
	}
	return d
}

// documentOf is a request as one document, by its meaning where asked.
func documentOf(a foreign.Asked, byMeaning bool) json.RawMessage {
	rest, messages := a.Request.Rest.JSON(), a.Request.Messages.Messages()
	if byMeaning {
		rest = foreign.Meaning(rest)
		for i, m := range messages {
			messages[i] = foreign.Meaning(m)
		}
	}
	members, err := converse.Members(rest)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	if list, err := ledger.CanonValue(messages); err == nil && messages != nil {
		members["messages"] = list
	}
	members["modelId"] = ledger.AppendString(nil, a.Request.Model)
	doc, err := ledger.CanonValue(members)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return doc
}

func cause(path string) string {
	switch {
	case strings.HasPrefix(path, "/modelId"), path == "/model":
		return "another model id"
	case strings.HasPrefix(path, "/system"):
		return "the prompt changed"
	case strings.HasPrefix(path, "/tool"):
		return "a tool definition changed"
	case strings.HasPrefix(path, "/inferenceConfig"), path == "/max_tokens", path == "/temperature":
		return "an inference setting changed"
	case strings.HasPrefix(path, "/messages"):
		return "the conversation changed"
	}
	return "a request parameter changed"
}
