package rule

import (
	"slices"
	"strconv"
	"strings"
)

// logQuery finds the lines that speak of trouble in the words most programs use.
const logQuery = "error | exhausted | timeout | timed out | refused | unavailable | throttl | failed"

// logLine is one line of a result of search_logs.
type logLine struct {
	at                            moment
	time, service, level, message string
	result                        string // address of the result it stands in
	index                         int    // in the result's lines
	class                         string // one of verdict's
	other                         string // another service that the message names
}

// address returns the evidence address of a line.
func (l logLine) address() string {
	return answer{address: l.result}.at("/lines/" + strconv.Itoa(l.index))
}

// searchLogs looks for lines that are new since the symptom. Where older lines
// fill the result, it asks once more from the onset on.
func (q *inquiry) searchLogs() (*logLine, bool) {
	from := q.since.at - q.since.lookback()
	a, waiting := q.askLogs(from)
	if waiting {
		return nil, true
	}
	if a.truncated() && q.since.at != 0 && q.newest() < q.since.at {
		q.say = "Lines from before the onset fill the result. Searching the logs from " + q.since.text + " on."
		if a, waiting = q.askLogs(q.since.at); waiting {
			return nil, true
		}
	}
	lines := q.talk.readLines()
	switch {
	case !a.ok:
		q.note("the logs", a.why)
	case a.truncated():
		q.note("a part of the log lines", a.why)
	case len(lines) == 0:
		q.note("log lines", reason(a, "none matched"))
	}
	return q.pickLine(lines), false
}

// askLogs searches the logs of all services; an error is tried once more
// without a window.
func (q *inquiry) askLogs(from moment) (answer, bool) {
	window := ""
	if q.since.at != 0 {
		window = from.String() + "/" + q.end()
	}
	a, waiting := q.ask(toolLogs, arg{"query", logQuery}, arg{"window", window})
	if !waiting && !a.ok {
		q.say = "The logs could not be searched (" + a.why + "). Asking again in another way."
		return q.ask(toolLogs, arg{"query", "error"})
	}
	return a, waiting
}

// newest is the time of the newest line that any search returned.
func (q *inquiry) newest() moment {
	var newest moment
	for _, r := range q.talk.readLines() {
		newest = max(newest, r.when)
	}
	return newest
}

// logRecord is a line in a result that was not read further than its time.
type logRecord struct {
	node
	when   moment
	result string // address of the result it stands in
	index  int    // in the result's lines
}

// readLines gathers the lines of every result of search_logs.
func (t *talk) readLines() []logRecord {
	var all []logRecord
	for i := range t.steps {
		s := &t.steps[i]
		if s.tool != toolLogs || !s.answered || s.gone {
			continue
		}
		a := s.answer()
		lines := a.body.get("lines")
		all = slices.Grow(all, lines.count())
		for j, n := range lines.items() {
			r := logRecord{node: n, when: parseMoment(n.get("time").inside()), result: a.address, index: j}
			if r.when != 0 && len(n.get("message").inside()) > 0 && len(n.get("service").inside()) > 0 {
				all = append(all, r)
			}
		}
	}
	return all
}

// read reads a line whole. lower are the services in lower case.
func (r logRecord) read(services, lower []string) logLine {
	l := logLine{
		at: r.when, time: r.get("time").text(), service: r.get("service").text(), level: strings.ToLower(r.get("level").text()),
		message: r.get("message").text(), result: r.result, index: r.index,
	}
	message := strings.ToLower(l.message)
	if l.other = mentionedIn(message, lower, services); l.other == l.service {
		l.other = ""
	}
	l.class = classify(message, l.other)
	return l
}

// shape is the service, and the message with every number replaced and cut to
// its beginning, so that the same line with other figures is known again.
func (r logRecord) shape() string {
	const longest = 96 // of the message
	service, message := r.get("service").decoded(), r.get("message").decoded()
	b := make([]byte, 0, len(service)+1+longest)
	b = append(append(b, service...), '\n')
	head := len(b)
	for i := 0; i < len(message) && len(b) < head+longest; i++ {
		c := message[i]
		if c < '0' || c > '9' {
			b = append(b, c)
		} else if len(b) == head || b[len(b)-1] != '#' {
			b = append(b, '#')
		}
	}
	return string(b)
}

// pickLine returns the line that says most about the cause, nil if no line is
// new since the symptom. Lines that were there before it are chronic.
func (q *inquiry) pickLine(lines []logRecord) *logLine {
	from := q.since.at - q.since.step
	to := q.since.at + 2*q.since.lookback()
	chronic := map[string]bool{}
	for _, r := range lines {
		if q.since.at != 0 && r.when < from {
			chronic[r.shape()] = true
		}
	}
	var best *logLine
	lower := lowered(q.talk.services)
	for _, r := range lines {
		switch {
		case q.since.at != 0 && (r.when < from || r.when > to):
		case best != nil && best.rank() == topRank && r.when >= best.at: // no line outranks it
		case len(chronic) > 0 && chronic[r.shape()]:
		default:
			if l := r.read(q.talk.services, lower); best == nil || l.outranks(*best) {
				best = &l
			}
		}
	}
	return best
}

// classify names the mechanism that a message, in lower case, speaks of.
func classify(m, other string) string {
	switch {
	case containsAny(m, "exhausted", "throttl", "out of memory", "oomkilled", "quota", "rate limit", "too many", "no space left", "queue is full", "overload", "saturat"):
		return "saturation"
	case containsAny(m, "timeout", "timed out", "refused", "unavailable", "unreachable", "no instances", "deadline exceeded", "connection reset"):
		return "dependency"
	case other != "":
		return "dependency"
	}
	return "failure"
}

func containsAny(s string, words ...string) bool {
	for _, w := range words {
		if strings.Contains(s, w) {
			return true
		}
	}
	return false
}

// outranks orders lines by what they say, then by level, then by time.
func (l logLine) outranks(m logLine) bool {
	if a, b := l.rank(), m.rank(); a != b {
		return a > b
	}
	return l.at < m.at
}

// topRank is that of a loud line about a resource that ran out.
const topRank = 5

func (l logLine) rank() int {
	n := 0
	switch l.class {
	case "saturation":
		n = topRank - 1
	case "dependency":
		n = 2
	}
	if l.loud() {
		n++
	}
	return n
}

func (l logLine) loud() bool {
	return containsAny(l.level, "err", "crit", "fatal", "sev") || l.level == "" && containsAny(strings.ToLower(l.message), "error", "fatal")
}

// strong reports whether a line carries a conclusion by itself: an error that
// names a resource that ran out, or another service that does not answer.
func (l logLine) strong() bool {
	return l.loud() && (l.class == "saturation" || l.class == "dependency" && l.other != "")
}

// culprit is the service that a line accuses.
func (l logLine) culprit() string {
	if l.class == "dependency" && l.other != "" {
		return l.other
	}
	return l.service
}
