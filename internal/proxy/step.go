package proxy

import (
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"time"

	"investigator/internal/foreign"
)

// step is the beginning or the end of a call, as it was seen; or neither, when
// nothing more is expected of it.
type step struct {
	call  int64
	began *call // not read
	ended *attempt
}

func (s step) size() int {
	n := 1 << 10
	if s.began != nil {
		n += len(s.began.raw)
	}
	if s.ended != nil {
		n += len(s.ended.Body)
	}
	return n
}

// What a step begins with.
const (
	markBegan   = 'b'
	markEnded   = 'e'
	markNeither = 'n'
)

// append writes a step in a form that parseStep reads, in this process alone.
func (s step) append(dst []byte) []byte {
	if c := s.began; c != nil {
		dst = binary.AppendVarint(append(dst, markBegan), s.call)
		dst = appendFields(dst, c.Path, c.Tag, c.Client, c.Invocation)
		dst = binary.AppendVarint(dst, int64(c.Attempt))
		dst = binary.AppendVarint(dst, c.At.UnixNano())
		return append(dst, c.raw...)
	}
	a := s.ended
	if a == nil {
		return binary.AppendVarint(append(dst, markNeither), s.call)
	}
	dst = binary.AppendVarint(append(dst, markEnded), s.call)
	dst = binary.AppendVarint(dst, int64(a.Code))
	dst = appendFields(dst, a.url, a.Err, a.At, a.Took, a.Wait)
	dst = binary.AppendVarint(dst, int64(len(a.Header)))
	for _, name := range slices.Sorted(maps.Keys(a.Header)) {
		dst = appendFields(dst, name, a.Header[name])
	}
	return append(dst, a.Body...)
}

func appendFields(dst []byte, fields ...string) []byte {
	for _, f := range fields {
		dst = append(binary.AppendVarint(dst, int64(len(f))), f...)
	}
	return dst
}

// parseStep reads a step. Its body is a part of b.
func parseStep(b []byte) (step, error) {
	if len(b) == 0 {
		return step{}, errStep
	}
	r := &fields{rest: b[1:]}
	s := step{call: r.number()}
	switch b[0] {
	case markBegan:
		c := &call{arrival: arrival{Path: r.text(), Tag: r.text(), Client: r.text(), Invocation: r.text(), Attempt: int(r.number()), At: time.Unix(0, r.number()).UTC()}, raw: r.rest}
		c.Route, _ = foreign.ParseRoute(c.Path) // it was one when the call came
		s.began = c
	case markEnded:
		a := &attempt{}
		a.Code = int(r.number())
		a.url, a.Err, a.At, a.Took, a.Wait = r.text(), r.text(), r.text(), r.text(), r.text()
		a.Header = map[string]string{}
		for n := r.number(); n > 0 && !r.bad; n-- {
			name := r.text()
			a.Header[name] = r.text()
		}
		a.Body, s.ended = r.rest, a
	case markNeither:
	default:
		r.bad = true
	}
	if r.bad {
		return step{}, errStep
	}
	return s, nil
}

var errStep = errors.New("expected a call's beginning or end")

// fields reads what appendFields wrote.
type fields struct {
	rest []byte
	bad  bool
}

func (f *fields) number() int64 {
	v, n := binary.Varint(f.rest)
	if n <= 0 {
		f.bad, f.rest = true, nil
		return 0
	}
	f.rest = f.rest[n:]
	return v
}

func (f *fields) text() string {
	n := f.number()
	if n < 0 || n > int64(len(f.rest)) {
		f.bad, f.rest = true, nil
		return ""
	}
	text := string(f.rest[:n])
	f.rest = f.rest[n:]
	return text
}
