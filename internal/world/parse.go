package world

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"
)

// series is one metric of one service.
type series struct {
	metric, unit string
	samples      []sample // sorted by time
}

// sample keeps the texts of the file, so that a number reaches the model as it
// was recorded.
type sample struct {
	at    time.Time
	time  string
	value json.Number
	num   float64
}

// parseMetrics reads a long CSV (time,metric,value,unit) into series sorted by
// metric.
func parseMetrics(f file, clock time.Time) ([]series, error) {
	r := csv.NewReader(bytes.NewReader(f.data))
	r.ReuseRecord = true
	r.FieldsPerRecord = 4
	if head, err := r.Read(); err != nil || !slices.Equal(head, []string{"time", "metric", "value", "unit"}) {
		return nil, f.errorf(1, "expected the header time,metric,value,unit")
	}
	var all []series
	index := map[string]int{}
	for {
		row, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, csvError(f, err)
		}
		line, _ := r.FieldPos(0)
		s, err := parseSample(f, line, row, clock)
		if err != nil {
			return nil, err
		}
		i, ok := index[row[1]]
		if !ok {
			i = len(all)
			all = append(all, series{metric: row[1], unit: row[3]})
			index[row[1]] = i
		}
		if all[i].unit != row[3] {
			return nil, f.errorf(line, "metric %q: unit %q here, %q before", clip(row[1], 80), clip(row[3], 80), clip(all[i].unit, 80))
		}
		all[i].samples = append(all[i].samples, s)
	}
	slices.SortFunc(all, func(a, b series) int { return strings.Compare(a.metric, b.metric) })
	for i := range all {
		slices.SortStableFunc(all[i].samples, func(a, b sample) int { return a.at.Compare(b.at) })
	}
	return all, nil
}

func parseSample(f file, line int, row []string, clock time.Time) (sample, error) {
	at, text, err := parseTime(row[0])
	if err != nil {
		return sample{}, f.errorf(line, "%w", err)
	}
	if at.After(clock) {
		return sample{}, f.errorf(line, "%s is after the world's clock, %s", text, rfc(clock))
	}
	if row[1] == "" || len(row[1]) > maxName || len(row[3]) > maxName {
		return sample{}, f.errorf(line, "metric %q, unit %q: expected a metric of 1 to %d bytes and a unit of at most that", clip(row[1], 80), clip(row[3], 80), maxName)
	}
	if !isNumber(row[2]) {
		return sample{}, f.errorf(line, "value %q: expected a decimal number; where there is no sample, leave the row out", clip(row[2], 80))
	}
	num, _ := strconv.ParseFloat(row[2], 64) // out of range gives an infinity, which compares as it should
	return sample{at, text, json.Number(row[2]), num}, nil
}

// isNumber reports whether s is a number of JSON with nothing around it.
func isNumber(s string) bool {
	if s == "" || s[0] != '-' && (s[0] < '0' || s[0] > '9') || s[len(s)-1] < '0' || s[len(s)-1] > '9' {
		return false
	}
	return json.Valid([]byte(s))
}

func csvError(f file, err error) error {
	var p *csv.ParseError
	if errors.As(err, &p) {
		return f.errorf(p.Line, "%w; a row is time,metric,value,unit", p.Err)
	}
	return f.errorf(1, "%w", err)
}

// change is one change record as a model sees it: `synthetic` is not in here,
// so it cannot leak. Fields are in the order of canonical JSON.
type change struct {
	ID      string `json:"id,omitempty"`
	Kind    string `json:"kind"`
	Service string `json:"service"`
	Summary string `json:"summary"`
	Time    string `json:"time"`

	at time.Time
}

// parseChanges reads change records, sorted by time; records of one moment keep
// their order.
func parseChanges(f file, m meta) ([]change, error) {
	var changes []change
	for n, line := range f.lines() {
		var c change
		err := jsonProblem(json.Unmarshal(line, &c))
		if err == nil {
			c.at, c.Time, err = parseTime(c.Time)
		}
		if err == nil {
			err = m.known(c.Service)
		}
		switch {
		case err != nil:
			return nil, f.errorf(n, "%w", err)
		case c.at.After(m.clock):
			return nil, f.errorf(n, "%s is after the world's clock, %s", c.Time, rfc(m.clock))
		case c.Kind == "":
			return nil, f.errorf(n, "no kind; expected deploy, config, flag, rollback, infra or the like")
		}
		c.ID, c.Kind, c.Summary = clip(c.ID, maxName), clip(c.Kind, maxName), clip(c.Summary, maxText)
		changes = append(changes, c)
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	return changes, nil
}

// logLine is one line of a log; lower is the message as it is searched.
type logLine struct {
	Time    string `json:"time"`
	Level   string `json:"level"`
	Service string `json:"service"`
	Pod     string `json:"pod"`
	TraceID string `json:"trace_id"`
	Message string `json:"message"`

	at    time.Time
	lower string
}

// logFile is the log of one service. lines parses it once, on first use.
type logFile struct {
	service string
	lines   func() ([]logLine, error)
}

func newLogFile(service string, f file, clock time.Time) logFile {
	return logFile{service, sync.OnceValues(func() ([]logLine, error) { return parseLog(service, f, clock) })}
}

func parseLog(service string, f file, clock time.Time) ([]logLine, error) {
	lines := make([]logLine, 0, bytes.Count(f.data, []byte("\n"))+1)
	for n, text := range f.lines() {
		l, err := parseLogLine(text)
		switch {
		case err != nil:
			return nil, f.errorf(n, "%w", err)
		case l.at.After(clock):
			return nil, f.errorf(n, "%s is after the world's clock, %s", l.Time, rfc(clock))
		case l.Service != "" && l.Service != service:
			return nil, f.errorf(n, "service %q in the log of %q", clip(l.Service, 80), service)
		}
		l.Service = service
		lines = append(lines, l)
	}
	slices.SortStableFunc(lines, func(a, b logLine) int { return a.at.Compare(b.at) })
	return lines, nil
}

func parseLogLine(text []byte) (l logLine, err error) {
	if err = json.Unmarshal(text, &l); err != nil {
		return l, jsonProblem(err)
	}
	l.lower = strings.ToLower(l.Message)
	l.at, l.Time, err = parseTime(l.Time)
	return l, err
}
