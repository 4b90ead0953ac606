package rule

import (
	"strconv"
	"strings"

	"investigator/internal/verdict"
)

// change is one change record in a result.
type change struct {
	at                               moment
	time, service, kind, id, summary string
	address                          string
}

// name is how a change is called: by its id, or by its kind and time.
func (c change) name() string {
	if c.id != "" {
		return c.id
	}
	return strings.TrimSpace(c.kind + " " + c.time)
}

func (c change) String() string {
	text := c.kind + " " + c.name() + " of " + c.service + " at " + c.time
	if c.id == "" {
		text = c.name() + " of " + c.service
	}
	if c.summary != "" {
		text += " (" + clip(c.summary) + ")"
	}
	return strings.TrimSpace(text)
}

// readChanges gathers the records of every result of list_deploys, so that one
// that another turn or a fork brought counts as well.
func (t *talk) readChanges() []change {
	var all []change
	for i := range t.steps {
		if s := &t.steps[i]; s.tool == toolDeploys && s.answered && !s.gone {
			all = appendChanges(all, s.answer())
		}
	}
	return all
}

func appendChanges(all []change, a answer) []change {
	if !a.ok {
		return all
	}
	for i, n := range a.body.get("deploys").items() {
		c := change{
			time: n.get("time").text(), service: n.get("service").text(), kind: n.get("kind").text(),
			id: n.get("id").text(), summary: n.get("summary").text(), address: a.at("/deploys/" + strconv.Itoa(i)),
		}
		c.at = parseMoment(c.time)
		if !seen(all, c) {
			all = append(all, c)
		}
	}
	return all
}

func seen(all []change, c change) bool {
	for _, other := range all {
		if other.service == c.service && other.id == c.id && other.time == c.time {
			return true
		}
	}
	return false
}

// changesOf lists the changes of a service and returns the one to suspect. An
// error is tried once more with the window spelled out.
func (q *inquiry) changesOf(service string) (found *change, waiting bool) {
	a, waiting := q.ask(toolDeploys, arg{"service", service})
	if !waiting && !a.ok && q.since.at != 0 {
		q.say = "The changes of " + service + " could not be listed (" + a.why + "). Asking again with a window."
		a, waiting = q.ask(toolDeploys, arg{"service", service}, arg{"window", (q.since.at - day).String() + "/" + q.end()})
	}
	if waiting {
		return nil, true
	}
	q.changes = q.talk.readChanges()
	if a.truncated() {
		q.note("a part of the changes", a.why)
	}
	found = q.suspect(service)
	if !a.ok && found == nil {
		q.note("the changes of "+service, a.why)
	}
	q.listed = a.ok && !a.truncated()
	if service == q.service {
		q.partly = a.truncated()
		q.noChange = q.listed && found == nil
	}
	if a.ok && found == nil {
		q.cite(a.at(""))
	}
	return found, false
}

// end is the end of a window that reaches to now.
func (q *inquiry) end() string {
	if q.talk.now != 0 {
		return q.talk.now.String()
	}
	return (q.since.at + day).String()
}

// suspect returns the newest change of a service that lies before the symptom
// and not long before, and takes note of what speaks for the others.
func (q *inquiry) suspect(service string) *change {
	var best *change
	from, to := q.since.at-q.since.lookback(), q.since.at
	for i := range q.changes {
		c := &q.changes[i]
		if c.service == service && q.since.at != 0 && c.at >= from && c.at <= to && (best == nil || c.at >= best.at) {
			best = c
		}
	}
	for i := range q.changes {
		if c := &q.changes[i]; c.service == service && c != best {
			q.acquit(*c, best)
		}
	}
	return best
}

// acquit says why a change is not the suspect.
func (q *inquiry) acquit(c change, suspect *change) {
	reason := ""
	switch {
	case c.at == 0:
		reason = "it has no time that can be compared"
	case q.since.at == 0:
		reason = "it is not known when the symptom began"
	case c.at > q.since.at:
		reason = "it came after the symptom had begun"
	case c.at >= q.since.at-q.since.lookback() && suspect != nil:
		reason = suspect.name() + " lies nearer to the onset"
	default:
		reason = "it came long before the symptom, without effect in between"
	}
	q.ruleOut(c, reason)
}

func (q *inquiry) ruleOut(c change, reason string) {
	r := verdict.RuledOut{Hypothesis: c.String(), Reason: reason}
	if c.address != "" {
		r.Evidence = []string{c.address}
	}
	for _, known := range q.ruledOut {
		if known.Hypothesis == r.Hypothesis {
			return
		}
	}
	q.ruledOut = append(q.ruledOut, r)
}

// suspects counts the changes of a service that lie in the time of suspicion.
func (q *inquiry) suspects(service string) int {
	n := 0
	for _, c := range q.changes {
		if c.service == service && c.at >= q.since.at-q.since.lookback() && c.at <= q.since.at {
			n++
		}
	}
	return n
}
