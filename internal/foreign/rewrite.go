package foreign

import (
	"bytes"
	"encoding/json"
	"math"
	"slices"
	"strconv"
	"strings"

	"investigator/internal/ledger"
)

// place says what a value is within a request. Inside data (inputs, results,
// schemas) only numbers are touched: a null there is what the tool said. Inside
// a tool result a blank text is what the tool said too.
type place int

const (
	inRequest place = iota
	inResult
	inData
)

// rewriter writes what stays of a canonical value, in one pass. What is taken out
// is chosen from what stays of it, so that a change cannot hide another one: a
// blank text with a null beside it is a blank text.
type rewriter struct {
	src, dst []byte
	pos      int // in src
	set      set
	results  bool // an object of src may be a tool result that says so itself
	bad      bool // src is not canonical
}

// rewritten returns what stays of a value; all of it where it is not canonical.
// results is what survey says of it.
func rewritten(value json.RawMessage, s set, results bool) json.RawMessage {
	r := rewriter{src: value, dst: make([]byte, 0, len(value)), set: s, results: results}
	if r.value(inRequest); r.bad {
		return value
	}
	return r.dst
}

func (r *rewriter) peek() byte {
	if r.pos < len(r.src) {
		return r.src[r.pos]
	}
	return 0
}

// value writes the value that begins here and moves behind it.
func (r *rewriter) value(at place) {
	switch c := r.peek(); {
	case at != inData && c == '{':
		r.object(at)
	case at != inData && c == '[':
		r.array(at)
	default:
		end := ledger.SkipValue(r.src, r.pos)
		if end <= r.pos {
			r.bad = true
			return
		}
		r.data(r.src[r.pos:end], at)
		r.pos = end
	}
}

// data writes a value in which only numbers can change.
func (r *rewriter) data(v []byte, at place) {
	done := 0
	for i := 0; i < len(v) && r.set.has(roundedNumbers); i++ {
		switch c := v[i]; {
		case c == '"':
			i = ledger.SkipValue(v, i) - 1
			if i < 0 {
				r.bad = true
				return
			}
		case c == '-' || '0' <= c && c <= '9':
			end := numberEnd(v, i)
			if end < 0 {
				end = i + bytes.IndexAny(v[i:], ",]}")
				if end < i {
					end = len(v)
				}
				r.dst = appendNumber(append(r.dst, v[done:i]...), v[i:end], at)
				done = end
			}
			i = end - 1
		}
	}
	r.dst = append(r.dst, v[done:]...)
}

// appendNumber writes a number as a reader with doubles alone would. One too
// large becomes null, but only in data: elsewhere a null means nothing is there.
func appendNumber(dst, v []byte, at place) []byte {
	f, err := strconv.ParseFloat(string(v), 64)
	switch {
	case (err != nil || math.IsInf(f, 0)) && at == inData:
		return append(dst, "null"...)
	case err != nil || math.IsInf(f, 0):
		return append(dst, v...)
	case f == math.Trunc(f) && math.Abs(f) < 1e15:
		return strconv.AppendInt(dst, int64(f), 10) // minus zero too
	}
	return strconv.AppendFloat(dst, f, 'g', -1, 64)
}

// next writes a comma unless the container was just opened, and returns where
// the output is to be cut if what follows is dropped.
func (r *rewriter) next(open int) (before int) {
	before = len(r.dst)
	if before > open {
		r.dst = append(r.dst, ',')
	}
	return before
}

// more reports whether another element or member follows, and moves behind the
// comma, or behind the end of the container.
func (r *rewriter) more(end byte) bool {
	c := r.peek()
	r.bad = r.bad || c != ',' && c != end
	r.pos++
	return !r.bad && c == ','
}

func (r *rewriter) array(at place) {
	r.pos++
	r.dst = append(r.dst, '[')
	open := len(r.dst)
	if r.peek() == ']' {
		r.pos++
	} else {
		for more := true; more; more = r.more(']') {
			before := r.next(open)
			start := len(r.dst)
			r.value(at)
			if dropBlock(r.dst[start:], r.set, at) {
				r.dst = r.dst[:before]
			}
		}
	}
	r.dst = append(r.dst, ']')
}

func dropBlock(b []byte, s set, at place) bool {
	switch {
	case at != inData && s.has(cachePoints) && bytes.HasPrefix(b, []byte(`{"cachePoint":`)):
		return holdsOnly(b, "cachePoint")
	case at == inRequest && s.has(blankText) && bytes.HasPrefix(b, []byte(`{"text":"`)):
		return blank(stringOf(member(b, "text"))) && holdsOnly(b, "text", "type")
	}
	return false
}

// holdsOnly reports whether an object has no members but these.
func holdsOnly(object []byte, names ...string) bool {
	only := true
	err := ledger.EachMember(object, func(name []byte, _ json.RawMessage) {
		only = only && slices.Contains(names, string(name))
	})
	return err == nil && only
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func (r *rewriter) object(at place) {
	if at == inRequest && r.results && isResult(r.src[r.pos:]) {
		at = inResult
	}
	r.pos++
	r.dst = append(r.dst, '{')
	open := len(r.dst)
	if r.peek() == '}' {
		r.pos++
	} else {
		for more := true; more; more = r.more('}') {
			before := r.next(open)
			name := r.name()
			start := len(r.dst)
			r.value(placeOf(name, at))
			if dropMember(name, r.dst[start:], r.set, at) {
				r.dst = r.dst[:before]
			}
		}
	}
	r.dst = append(r.dst, '}')
}

// name writes a member's name and colon.
func (r *rewriter) name() []byte {
	end := -1
	if r.peek() == '"' {
		end = ledger.SkipValue(r.src, r.pos)
	}
	if end < 0 || end >= len(r.src) || r.src[end] != ':' {
		r.bad = true
		return nil
	}
	name := r.src[r.pos+1 : end-1]
	r.dst = append(r.dst, r.src[r.pos:end+1]...)
	r.pos = end + 1
	return name
}

// isResult reports whether the object that v begins with says of itself that it
// is a tool result.
func isResult(v []byte) bool {
	end := ledger.SkipValue(v, 0)
	if end < 0 {
		return false
	}
	found := false
	err := ledger.EachMember(v[:end], func(name []byte, value json.RawMessage) {
		found = found || saysResult(name, value)
	})
	return err == nil && found
}

func placeOf(name []byte, at place) place {
	switch string(name) {
	case "input", "json", "inputSchema", "input_schema", "parameters", "schema", "additionalModelRequestFields":
		return inData
	case "toolResult":
		return max(at, inResult)
	}
	return at
}

func dropMember(name, value []byte, s set, at place) bool {
	if at == inData {
		return false
	}
	text := string(value[:min(len(value), 32)])
	if text == "null" && s.has(emptyMembers) {
		return true
	}
	switch string(name) {
	case "status":
		return at == inResult && s.has(successStatus) && text == `"success"`
	case "toolChoice", "tool_choice":
		return s.has(autoToolChoice) && (text == `{"auto":{}}` || text == `{"type":"auto"}` || text == `"auto"`)
	case "additionalModelResponseFieldPaths":
		return s.has(responsePaths)
	case "requestMetadata":
		return s.has(metadata)
	case "cache_control":
		return s.has(cachePoints)
	case "inferenceConfig":
		return s.has(emptyMembers) && text == `{}`
	}
	return false
}
