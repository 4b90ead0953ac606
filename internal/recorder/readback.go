package recorder

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"unicode/utf8"
)

// readsBack reads a line as it will be read and compares it with what was taken,
// so that a replay cannot see other bytes than the run did. A line that reads
// cannot vouch for is decoded as a whole, which is also what says what is wrong.
func readsBack(text []byte, l *line) error {
	text = bytes.TrimSuffix(text, []byte("\n"))
	if reads(text, l) {
		return nil
	}
	back, err := decodeLine(text)
	if err != nil {
		return fmt.Errorf("read line back: %w", err)
	}
	if !back.equal(l) {
		return fmt.Errorf("read line back: interaction %d does not read back as it was taken; this is a fault of the recorder", l.ID)
	}
	return nil
}

// equal reports whether two lines say the same. Members that hold nothing are
// not written, so a missing and an empty one are alike.
func (l *line) equal(o *line) bool {
	return l.ID == o.ID && l.X.equal(&o.X) &&
		l.Request.Method == o.Request.Method && l.Request.URL == o.Request.URL &&
		sameHeaders(l.Request.Headers, o.Request.Headers) && bytes.Equal(l.Request.Body, o.Request.Body) &&
		l.Response.Status == o.Response.Status && l.Response.Code == o.Response.Code && l.Response.Duration == o.Response.Duration &&
		sameHeaders(l.Response.Headers, o.Response.Headers) && bytes.Equal(l.Response.Body, o.Response.Body)
}

func (x *aside) equal(o *aside) bool {
	return x.Seq == o.Seq && x.Origin == o.Origin && x.At == o.At && x.Took == o.Took &&
		(x.Last == nil) == (o.Last == nil) && (x.Last == nil || *x.Last == *o.Last) &&
		slices.EqualFunc(x.Events, o.Events, entry.equal) && slices.EqualFunc(x.Attempts, o.Attempts, attempt.equal)
}

func (e entry) equal(o entry) bool {
	return e.Type == o.Type && e.In == o.In && e.Sum == o.Sum &&
		(e.Data == nil) == (o.Data == nil) && (e.Data == nil || *e.Data == *o.Data)
}

func (a attempt) equal(o attempt) bool {
	return a.Code == o.Code && maps.Equal(a.Header, o.Header) && bytes.Equal(a.Body, o.Body) && a.last == o.last
}

func sameHeaders(a, b map[string][]string) bool { return maps.EqualFunc(a, b, slices.Equal) }

// reads reports whether decodeLine would give l for a line's text. It walks the
// text once, by the grammar of the reader, and compares each string while it
// takes the escapes out of it, so that nothing is copied. It is stricter than
// the reader: it refuses members it does not know and such as stand twice.
func reads(text []byte, l *line) bool {
	rest, found := bytes.CutPrefix(text, []byte("- "))
	if _, summed := sumIn(text); !found || !summed || !utf8.Valid(text) {
		return false
	}
	r := reading{text: rest}
	return l.X.Seq >= 2 && l.ID >= 0 && len(l.X.Events) > 0 && r.line(l) && r.at == len(r.text)
}

// reading is a walk over the text of a line.
type reading struct {
	text []byte
	at   int
}

// member is one member of an object as it is expected.
type member struct {
	name string
	text string      // what it says, unless read is set; it may be missing if that is nothing
	read func() bool // reads its value
	must bool        // it may not be missing
}

func (r *reading) line(l *line) bool {
	return r.object(
		member{name: "id", must: true, read: func() bool { return r.number(l.ID) }},
		member{name: "x", must: true, read: func() bool { return r.aside(&l.X) }},
		member{name: "request", must: true, read: func() bool { return r.request(&l.Request) }},
		member{name: "response", must: true, read: func() bool { return r.response(&l.Response) }},
		member{name: "sum", must: true, read: func() bool { return r.plain() != nil }},
	)
}

func (r *reading) aside(x *aside) bool {
	return r.object(
		member{name: "seq", must: true, read: func() bool { return r.number(x.Seq) }},
		member{name: "events", must: true, read: func() bool {
			return r.array(len(x.Events), func(i int) bool { return r.entry(&x.Events[i]) })
		}},
		member{name: "origin", text: x.Origin},
		member{name: "at", text: x.At},
		member{name: "took", text: x.Took},
		member{name: "attempts", must: len(x.Attempts) > 0, read: func() bool {
			return r.array(len(x.Attempts), func(i int) bool { return r.attempt(&x.Attempts[i]) })
		}},
		member{name: "last", must: x.Last != nil, read: func() bool { return x.Last != nil && r.last(x.Last) }},
	)
}

func (r *reading) entry(e *entry) bool {
	return r.object(
		member{name: "type", text: e.Type},
		member{name: "in", text: e.In},
		member{name: "data", must: e.Data != nil, read: func() bool { return e.Data != nil && r.string([]byte(*e.Data)) }},
		member{name: "sum", text: e.Sum},
	)
}

func (r *reading) attempt(a *attempt) bool {
	return r.object(
		member{name: "code", must: true, read: func() bool { return r.number(a.Code) }},
		member{name: "header", must: true, read: func() bool {
			return r.table(len(a.Header), func(name []byte) bool {
				value, known := a.Header[string(name)]
				return known && r.string([]byte(value))
			})
		}},
		member{name: "body", must: true, read: func() bool { return r.body(a.Body) }},
		member{name: "err", text: a.Err},
		member{name: "at", text: a.At},
		member{name: "took", text: a.Took},
		member{name: "wait", text: a.Wait},
	)
}

func (r *reading) last(l *last) bool {
	return r.object(
		member{name: "err", text: l.Err},
		member{name: "at", text: l.At},
		member{name: "took", text: l.Took},
		member{name: "wait", text: l.Wait},
	)
}

func (r *reading) request(q *request) bool {
	return r.object(
		member{name: "method", text: q.Method},
		member{name: "url", text: q.URL},
		member{name: "headers", must: true, read: func() bool { return r.headers(q.Headers) }},
		member{name: "body", must: true, read: func() bool { return r.body(q.Body) }},
	)
}

func (r *reading) response(p *response) bool {
	return r.object(
		member{name: "status", text: p.Status},
		member{name: "code", must: true, read: func() bool { return r.number(p.Code) }},
		member{name: "headers", must: true, read: func() bool { return r.headers(p.Headers) }},
		member{name: "body", must: true, read: func() bool { return r.body(p.Body) }},
		member{name: "duration", text: p.Duration},
	)
}

func (r *reading) headers(want map[string][]string) bool {
	return r.table(len(want), func(name []byte) bool {
		values, known := want[string(name)]
		return known && r.array(len(values), func(i int) bool { return r.string([]byte(values[i])) })
	})
}
