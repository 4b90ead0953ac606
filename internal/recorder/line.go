package recorder

import (
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"investigator/internal/edge"
)

// entry is an event as its line keeps it. Data is nil where it is projected
// from the interaction.
type entry struct {
	Type string
	In   string
	Sum  string
	Data *string
}

// last is what is known of the attempt that gave the return beside its
// response.
type last struct {
	Err  string `json:"err"`
	At   string `json:"at"`
	Took string `json:"took"`
	Wait string `json:"wait"`
}

type attempt struct {
	Code   int               `json:"code"`
	Header map[string]string `json:"header"`
	Body   body              `json:"body"`
	last
}

type aside struct {
	Seq      int       `json:"seq"`
	Events   []entry   `json:"events"`
	Origin   string    `json:"origin"`
	At       string    `json:"at"`
	Took     string    `json:"took"`
	Attempts []attempt `json:"attempts"`
	Last     *last     `json:"last"`
}

type request struct {
	Method  string              `json:"method"`
	URL     string              `json:"url"`
	Headers map[string][]string `json:"headers"`
	Body    body                `json:"body"`
}

type response struct {
	Status   string              `json:"status"`
	Code     int                 `json:"code"`
	Headers  map[string][]string `json:"headers"`
	Body     body                `json:"body"`
	Duration string              `json:"duration"`
}

// line is one interaction.
type line struct {
	ID       int      `json:"id"`
	X        aside    `json:"x"`
	Request  request  `json:"request"`
	Response response `json:"response"`

	answer []byte // the text of Response.Body, in a line that was read
}

// spare is a line that was read without its bodies.
func (l *line) spare() *line {
	out := *l
	out.Request.Body, out.Response.Body, out.X.Events = nil, nil, nil
	return &out
}

func (l *line) kind() edge.Kind {
	if strings.HasPrefix(l.Request.URL, toolURL) {
		return edge.Tool
	}
	return edge.Model
}

// The hosts of what never went over a network. The top-level domain is
// reserved, so no request for them can reach anyone.
const (
	toolURL  = "https://tool.invalid/"
	ruleURL  = "https://rule.invalid/model/rule/converse"
	modelURL = "https://model.invalid/model/"
)

// wired reports whether the exchange went over a network.
func (l *line) wired() bool {
	host, _, _ := strings.Cut(strings.TrimPrefix(l.Request.URL, "https://"), "/")
	return !strings.HasSuffix(host, ".invalid")
}

// room is about how many bytes the line takes.
func (l *line) room() int {
	n := 2<<10 + len(l.Request.Body) + len(l.Response.Body)
	for _, a := range l.X.Attempts {
		n += len(a.Body)
	}
	for _, e := range l.X.Events {
		if e.Data != nil {
			n += len(*e.Data)
		}
	}
	return n + n/4 // quotes inside bodies are escaped
}

// append encodes the line up to its sum.
func (l *line) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `- {"id":`...), int64(l.ID), 10)
	dst = l.X.append(append(dst, `,"x":`...))
	dst = l.Request.append(append(dst, `,"request":`...))
	return l.Response.append(append(dst, `,"response":`...))
}

func (x *aside) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"seq":`...), int64(x.Seq), 10)
	dst = append(dst, `,"events":[`...)
	for i, e := range x.Events {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = e.append(dst)
	}
	dst = append(dst, ']')
	dst = appendMember(dst, "origin", x.Origin)
	dst = appendMember(dst, "at", x.At)
	dst = appendMember(dst, "took", x.Took)
	if len(x.Attempts) > 0 {
		dst = append(dst, `,"attempts":[`...)
		for i, a := range x.Attempts {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = a.append(dst)
		}
		dst = append(dst, ']')
	}
	if x.Last != nil {
		dst = append(dst, `,"last":`...)
		open := len(dst)
		dst = append(x.Last.append(dst), '}')
		dst[open] = '{' // in place of the first member's comma; Last is nil when it has no member
	}
	return append(dst, '}')
}

func (e *entry) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"type":`...), e.Type)
	dst = appendMember(dst, "in", e.In)
	if e.Data != nil {
		dst = appendText(append(dst, `,"data":`...), *e.Data)
	}
	return append(appendMember(dst, "sum", e.Sum), '}')
}

func (a *attempt) append(dst []byte) []byte {
	dst = strconv.AppendInt(append(dst, `{"code":`...), int64(a.Code), 10)
	dst = append(dst, `,"header":{`...)
	for i, name := range slices.Sorted(maps.Keys(a.Header)) {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(append(appendText(dst, name), ':'), a.Header[name])
	}
	dst = appendBody(append(dst, `},"body":`...), a.Body)
	return append(a.last.append(dst), '}')
}

func (l *last) append(dst []byte) []byte {
	dst = appendMember(dst, "err", l.Err)
	dst = appendMember(dst, "at", l.At)
	dst = appendMember(dst, "took", l.Took)
	return appendMember(dst, "wait", l.Wait)
}

func appendMember(dst []byte, name, value string) []byte {
	if value == "" {
		return dst
	}
	return appendText(append(append(dst, `,"`...), name+`":`...), value)
}

func (r *request) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"method":`...), r.Method)
	dst = appendText(append(dst, `,"url":`...), r.URL)
	dst = appendHeaders(dst, r.Headers)
	return append(appendBody(append(dst, `,"body":`...), r.Body), '}')
}

func (r *response) append(dst []byte) []byte {
	dst = appendText(append(dst, `{"status":`...), r.Status)
	dst = strconv.AppendInt(append(dst, `,"code":`...), int64(r.Code), 10)
	dst = appendHeaders(dst, r.Headers)
	dst = appendBody(append(dst, `,"body":`...), r.Body)
	return append(appendMember(dst, "duration", r.Duration), '}')
}

func appendHeaders(dst []byte, headers map[string][]string) []byte {
	dst = append(dst, `,"headers":{`...)
	if len(headers) > 1 {
		for i, name := range slices.Sorted(maps.Keys(headers)) {
			if i > 0 {
				dst = append(dst, ',')
			}
			dst = appendHeader(dst, name, headers[name])
		}
		return append(dst, '}')
	}
	for name, values := range headers {
		dst = appendHeader(dst, name, values)
	}
	return append(dst, '}')
}

func appendHeader(dst []byte, name string, values []string) []byte {
	dst = append(appendText(dst, name), ':', '[')
	for i, v := range values {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendText(dst, v)
	}
	return append(dst, ']')
}

// duration returns took where go-vcr can read it as a duration, else "".
func duration(took string) string {
	if d, err := time.ParseDuration(took); err != nil || d < 0 {
		return ""
	}
	return took
}
