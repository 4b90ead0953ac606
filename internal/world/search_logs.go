package world

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"investigator/internal/ledger"
)

// Lines of one result, without and with a limit given.
const (
	defaultLines = 50
	maxLines     = 200
)

type logsBody struct {
	Available []logCoverage       `json:"available,omitempty"`
	Lines     []lineOut           `json:"lines"` // none here: withLines writes them
	Matched   int                 `json:"matched"`
	ByService map[string]logMatch `json:"matched_by_service,omitempty"`
	Note      string              `json:"note,omitempty"`
	Query     string              `json:"query"`
	Service   string              `json:"service,omitempty"`
	Status    string              `json:"status"`
	Window    window              `json:"window"`
}

type lineOut struct {
	Level   string `json:"level,omitempty"`
	Message string `json:"message"`
	Pod     string `json:"pod,omitempty"`
	Service string `json:"service"`
	Time    string `json:"time"`
	TraceID string `json:"trace_id,omitempty"`
}

// logMatch counts the matches in one service.
type logMatch struct {
	Count int    `json:"count"`
	First string `json:"first"`
	Last  string `json:"last"`
}

// logCoverage says which lines exist in one service, whatever the query.
type logCoverage struct {
	From     string `json:"from"`
	InWindow int    `json:"in_window"`
	Lines    int    `json:"lines"`
	Service  string `json:"service"`
	To       string `json:"to"`
}

func (w *World) searchLogs(a args) Result {
	body := logsBody{Lines: []lineOut{}, Query: clip(a.query, maxName), Service: a.service, Status: StatusOK, Window: a.window}
	words := alternatives(a.query)
	if len(words) == 0 {
		return fail("search_logs", problem{Field: "/query", Message: fmt.Sprintf("query %q holds no text to look for", clip(a.query, maxName)), Allowed: []string{"timeout", "timeout | refused", "error"}})
	}
	if a.service == "" {
		_ = w.parsed() // side by side; what is damaged is met again below
	}
	found := make([]*logLine, 0, defaultLines)
	for _, lf := range w.logsOf(a.service) {
		lines, err := lf.lines()
		if err != nil {
			return fail("search_logs", unreadable(err))
		}
		found = match(found, lines, words, a.window)
	}
	body.Matched = len(found)
	if len(found) == 0 {
		if err := w.noLines(a, &body); err != nil {
			return fail("search_logs", unreadable(err))
		}
		return result(body.Status, body)
	}
	slices.SortStableFunc(found, func(x, y *logLine) int { return x.at.Compare(y.at) })
	limit := a.limit
	if limit == 0 {
		limit = defaultLines
	}
	if len(found) > limit {
		body.Status = StatusTruncated
		body.ByService = countByService(found)
		body.Note = fmt.Sprintf("the oldest %d of %d matching lines", limit, len(found))
		found = found[:limit]
	}
	return Result{body.Status, body.withLines(found)}
}

// withLines encodes a body that shows lines. It is written by hand, because
// reflection on every line costs more than finding it.
func (b logsBody) withLines(found []*logLine) json.RawMessage {
	size := 256 + len(b.Query) + 96*len(b.ByService)
	for _, l := range found {
		size += min(len(l.Message), maxMessage) + len(l.Level) + len(l.Pod) + len(l.Service) + len(l.Time) + len(l.TraceID) + 96
	}
	out := append(make([]byte, 0, size), `{"lines":[`...)
	for i, l := range found {
		if i > 0 {
			out = append(out, ',')
		}
		out = l.appendJSON(out)
	}
	out = strconv.AppendInt(append(out, `],"matched":`...), int64(b.Matched), 10)
	if len(b.ByService) > 0 {
		out = append(append(out, `,"matched_by_service":`...), canonical(b.ByService)...)
	}
	out = appendText(out, `,"note":`, b.Note)
	out = ledger.AppendString(append(out, `,"query":`...), b.Query)
	out = appendText(out, `,"service":`, b.Service)
	out = ledger.AppendString(append(out, `,"status":`...), b.Status)
	out = ledger.AppendString(append(out, `,"window":{"end":`...), b.Window.End)
	return append(ledger.AppendString(append(out, `,"start":`...), b.Window.Start), `}}`...)
}

// appendJSON appends the line as it is shown.
func (l *logLine) appendJSON(b []byte) []byte {
	message := l.Message
	if len(message) > maxMessage {
		message = fmt.Sprintf("%s [cut: %d of %d bytes shown]", clip(message, maxMessage), maxMessage, len(message))
	}
	b = append(b, '{')
	if l.Level != "" {
		b = append(appendText(b, `"level":`, clip(l.Level, maxName)), ',')
	}
	b = ledger.AppendString(append(b, `"message":`...), message)
	b = appendText(b, `,"pod":`, clip(l.Pod, maxName))
	b = ledger.AppendString(append(b, `,"service":`...), l.Service)
	b = ledger.AppendString(append(b, `,"time":`...), l.Time)
	return append(appendText(b, `,"trace_id":`, clip(l.TraceID, maxName)), '}')
}

// appendText appends a member, none for an empty text.
func appendText(b []byte, name, text string) []byte {
	if text == "" {
		return b
	}
	return ledger.AppendString(append(b, name...), text)
}

// unreadable is the problem of a damaged log that [World.Check] would have found.
func unreadable(err error) problem {
	return problem{Message: "the logs cannot be read: " + err.Error()}
}

// logsOf are the logs to look at, sorted by service.
func (w *World) logsOf(service string) []logFile {
	if service == "" {
		return w.logs
	}
	i := slices.IndexFunc(w.logs, func(l logFile) bool { return l.service == service })
	if i < 0 {
		return nil
	}
	return w.logs[i : i+1]
}

func alternatives(query string) []string {
	var words []string
	for alt := range strings.SplitSeq(strings.ToLower(query), "|") {
		if alt = strings.TrimSpace(alt); alt != "" {
			words = append(words, alt)
		}
	}
	return words
}

// match appends the lines that hold one of the words.
func match(found []*logLine, lines []logLine, words []string, win window) []*logLine {
	for i := range lines {
		if l := &lines[i]; win.has(l.at) && l.matches(words) {
			found = append(found, l)
		}
	}
	return found
}

func (l *logLine) matches(words []string) bool {
	for _, word := range words {
		if strings.Contains(l.lower, word) || strings.EqualFold(l.Level, word) || strings.EqualFold(l.TraceID, word) {
			return true
		}
	}
	return false
}

func countByService(found []*logLine) map[string]logMatch {
	counts := map[string]logMatch{}
	for _, l := range found {
		m := counts[l.Service]
		if m.Count == 0 {
			m.First = l.Time
		}
		m.Count, m.Last = m.Count+1, l.Time
		counts[l.Service] = m
	}
	return counts
}

// noLines tells a world without logs from a service without logs, from a window
// without lines, from a query without matches.
func (w *World) noLines(a args, body *logsBody) error {
	body.Status = StatusEmpty
	if len(w.logs) == 0 {
		body.Note = "this world has no logs, so their absence says nothing"
		return nil
	}
	logs := w.logsOf(a.service)
	body.Note = "no line matched; the query is plain text, not a pattern"
	if len(logs) == 0 {
		body.Note = fmt.Sprintf("no log of %s is kept; available lists the logs there are", a.service)
		logs = w.logs
		if err := w.parsed(); err != nil {
			return err
		}
	}
	inWindow := 0
	for _, lf := range logs {
		c := lf.coverage(a.window)
		inWindow += c.InWindow
		if c.Lines > 0 {
			body.Available = append(body.Available, c)
		}
	}
	if inWindow == 0 && len(w.logsOf(a.service)) > 0 {
		body.Note = "no line at all was logged in this window; available says from when to when there are lines"
	}
	return nil
}

func (lf logFile) coverage(win window) logCoverage {
	lines, err := lf.lines()
	if err != nil || len(lines) == 0 {
		return logCoverage{Service: lf.service}
	}
	c := logCoverage{From: lines[0].Time, To: lines[len(lines)-1].Time, Lines: len(lines), Service: lf.service}
	for i := range lines {
		if win.has(lines[i].at) {
			c.InWindow++
		}
	}
	return c
}
