package world

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode"

	"investigator/internal/ledger"
)

// Alert is the question of a world and the signal that raised it.
type Alert struct {
	Service   string      `json:"service,omitempty"`
	Signal    string      `json:"signal,omitempty"` // a metric of Service, or what else was counted
	StartedAt time.Time   `json:"started_at,omitzero"`
	Task      string      `json:"task"`
	Threshold json.Number `json:"threshold,omitempty"` // as written; the unit is the signal's
	Value     json.Number `json:"value,omitempty"`
}

// What a model is shown is cut to these many bytes.
const (
	maxName    = 200
	maxText    = 4000
	maxMessage = 1000
)

// meta is the part of world.json that this package uses. Source, licence and
// attribution are for people.
type meta struct {
	Name     string      `json:"name"`
	Title    string      `json:"title"`
	Summary  string      `json:"summary"`
	Clock    string      `json:"clock"`
	LogZone  string      `json:"timezone_of_log_text"`
	Services []string    `json:"services"`
	Graph    [][2]string `json:"graph"`

	clock time.Time
}

func (w *World) loadMeta(d *folder) ([]file, error) {
	f, err := d.read("world.json")
	if err != nil {
		return nil, err
	}
	if err := decodeFile(f, &w.meta); err != nil {
		return nil, err
	}
	if err := w.meta.check(); err != nil {
		return nil, fmt.Errorf("world.json: %w", err)
	}
	if !d.has("alert.json") {
		return nil, errors.New("no alert.json here; it holds the question: {\"task\":\"…\",\"service\":\"…\",\"started_at\":\"…\",…}")
	}
	if f, err = d.read("alert.json"); err != nil {
		return nil, err
	}
	if err := decodeFile(f, &w.alert); err != nil {
		return nil, err
	}
	if err := w.alert.check(w.meta); err != nil {
		return nil, fmt.Errorf("alert.json: %w", err)
	}
	return []file{newFile("world.json", encode(w.meta.visible())), newFile("alert.json", encode(w.alert))}, nil
}

// decodeFile decodes a JSON document and names the line of a mistake.
func decodeFile(f file, into any) error {
	err := json.Unmarshal(f.data, into)
	if err == nil {
		return nil
	}
	offset := int64(0)
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		offset = syntax.Offset
	case errors.As(err, &kind):
		offset = kind.Offset
	default:
		return fmt.Errorf("%s: %w", f.path, err)
	}
	offset = min(max(offset, 0), int64(len(f.data)))
	return f.errorf(1+bytes.Count(f.data[:offset], []byte("\n")), "%w", jsonProblem(err))
}

// jsonProblem words a value of another kind without the names of our types.
func jsonProblem(err error) error {
	var kind *json.UnmarshalTypeError
	switch {
	case !errors.As(err, &kind):
		return err
	case kind.Field == "":
		return fmt.Errorf("expected a JSON object, found another kind of value (%s)", kind.Value)
	}
	return fmt.Errorf("%s: another kind of value (%s) than belongs there", kind.Field, kind.Value)
}

func (m *meta) check() (err error) {
	if m.clock, _, err = parseTime(m.Clock); err != nil {
		return fmt.Errorf("clock: %w", err)
	}
	if len(m.Services) == 0 {
		return errors.New("services: none; name at least one")
	}
	for _, s := range m.Services {
		if err := checkService(s); err != nil {
			return err
		}
	}
	m.Title, m.Summary, m.LogZone = clip(m.Title, maxName), clip(m.Summary, maxText), clip(m.LogZone, maxName)
	slices.Sort(m.Services)
	if len(slices.Compact(slices.Clone(m.Services))) != len(m.Services) {
		return errors.New("services: one is named twice")
	}
	for _, edge := range m.Graph {
		for _, s := range edge {
			if err := m.known(s); err != nil {
				return fmt.Errorf("graph: %w", err)
			}
		}
	}
	slices.SortFunc(m.Graph, func(a, b [2]string) int { return slices.Compare(a[:], b[:]) })
	m.Graph = slices.Compact(m.Graph)
	return nil
}

// checkService keeps names usable as file names, enum members and table cells.
func checkService(s string) error {
	if s == "" || len(s) > 200 || strings.ContainsFunc(s, unicode.IsControl) || strings.ContainsAny(s, `/\`) {
		return fmt.Errorf("services: %q: expected a name of 1 to 200 bytes without slashes and control characters", clip(s, 80))
	}
	return nil
}

func (m *meta) known(service string) error {
	if _, ok := slices.BinarySearch(m.Services, service); !ok {
		return fmt.Errorf("service %q is not among the services of world.json", clip(service, 80))
	}
	return nil
}

func (a *Alert) check(m meta) error {
	if strings.TrimSpace(a.Task) == "" {
		return errors.New("task: empty; it is the question the investigation starts from")
	}
	if a.Service != "" {
		if err := m.known(a.Service); err != nil {
			return fmt.Errorf("service: %w", err)
		}
	}
	a.StartedAt = a.StartedAt.UTC()
	a.Service, a.Signal = clip(a.Service, maxName), clip(a.Signal, maxName)
	if a.StartedAt.Year() < 1 {
		return errors.New("started_at: outside the years 1 to 9999 in UTC")
	}
	if a.StartedAt.After(m.clock) {
		return fmt.Errorf("started_at: %s is after the world's clock, %s", rfc(a.StartedAt), rfc(m.clock))
	}
	return nil
}

// told is what a model is told of a world; fields are in the order of canonical
// JSON.
type told struct {
	Alert    *Alert      `json:"alert,omitempty"`
	Graph    [][2]string `json:"graph,omitempty"`
	Now      string      `json:"now"`
	Services []string    `json:"services"`
	Summary  string      `json:"summary,omitempty"`
	LogZone  string      `json:"timezone_of_log_text,omitempty"`
	Title    string      `json:"title,omitempty"`
}

func (m *meta) visible() told {
	return told{Graph: m.Graph, Now: rfc(m.clock), Services: m.Services, Summary: m.Summary, LogZone: m.LogZone, Title: m.Title}
}

// context leaves the graph to list_services, and the title and the summary out
// where they contain a name that might say too much.
func (m *meta) context(a Alert, base string) json.RawMessage {
	t := m.visible()
	t.Alert, t.Graph = &a, nil
	for _, name := range []string{m.Name, base} {
		if mentions(t.Title, name) {
			t.Title = ""
		}
		if mentions(t.Summary, name) {
			t.Summary = ""
		}
	}
	return canonical(t)
}

func mentions(text, name string) bool {
	return name != "" && strings.Contains(strings.ToLower(text), strings.ToLower(name))
}

// parseTime reads RFC 3339 and returns the time in UTC and its text, which is
// the text given wherever that is UTC already.
func parseTime(s string) (time.Time, string, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, "", fmt.Errorf("time %q: expected RFC 3339, such as 2026-03-10T02:00:00Z", clip(s, 80))
	}
	t = t.UTC()
	if t.Year() < 1 || t.Year() > 9999 {
		return time.Time{}, "", fmt.Errorf("time %q: outside the years 1 to 9999 in UTC", s)
	}
	if strings.HasSuffix(s, "Z") && !strings.Contains(s, ",") {
		return t, s, nil
	}
	return t, rfc(t), nil
}

func rfc(t time.Time) string { return t.UTC().Format(time.RFC3339Nano) }

// clip makes s valid UTF-8, cuts it after n bytes, at a character, and marks the
// cut.
func clip(s string, n int) string {
	s = strings.ToValidUTF8(s, "\ufffd")
	if len(s) <= n {
		return s
	}
	return strings.ToValidUTF8(s[:n], "") + "…"
}

// canonical is what a model is shown: JSON as a ledger spells it.
func canonical(v any) json.RawMessage {
	b, err := ledger.InCanon(encode(v))
	if err != nil {
		panic(fmt.Sprintf("world: encode %T: %v", v, err)) // a mistake in this package
	}
	return b
}

// encode is JSON without HTML escaping. The types given to it hold nothing that
// JSON cannot say: numbers are checked where they are read.
func encode(v any) json.RawMessage {
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		panic(fmt.Sprintf("world: encode %T: %v", v, err)) // a mistake in this package
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n"))
}
