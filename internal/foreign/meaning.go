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

// Change is a kind of difference between two requests that does not change what
// the model is asked. Each is declared here and counted where it occurs.
// Spelling (order of members, white space, escapes) is no Change: requests are
// compared in canonical JSON.
type Change string

// The changes that honest clients make.
const (
	RoundedNumbers Change = "rounded-numbers"      // 9007199254740993 echoed as …992, 1.0 as 1
	SuccessStatus  Change = "success-status"       // "status":"success" added to a tool result
	AutoToolChoice Change = "auto-tool-choice"     // toolChoice auto, which is the default
	ResponsePaths  Change = "response-field-paths" // additionalModelResponseFieldPaths
	BlankText      Change = "blank-text"           // text blocks of white space alone, outside of tool results
	CachePoints    Change = "cache-points"         // where the prompt cache is written
	EmptyMembers   Change = "empty-members"        // null members, an empty inferenceConfig
	Metadata       Change = "request-metadata"     // requestMetadata, which no model sees
)

// Changes lists all of them.
func Changes() []Change {
	return []Change{RoundedNumbers, SuccessStatus, AutoToolChoice, ResponsePaths, BlankText, CachePoints, EmptyMembers, Metadata}
}

// set is a set of changes, by their place in Changes.
type set uint16

const (
	roundedNumbers set = 1 << iota
	successStatus
	autoToolChoice
	responsePaths
	blankText
	cachePoints
	emptyMembers
	metadata
	everything = metadata<<1 - 1
)

func (s set) has(o set) bool { return s&o != 0 }

// Meaning returns a canonical message or the members beside the messages
// without what the changes make different. It returns value itself where there
// is nothing to take out.
func Meaning(value json.RawMessage) json.RawMessage { return meaning(value, everything) }

func meaning(value json.RawMessage, s set) json.RawMessage {
	if plain(value) {
		return value
	}
	return rewrite(nil, value, s, inRequest)
}

// plain reports whether no change could concern the value: it is the common
// case, and costs one pass that looks at names, numbers and nulls and leaps over
// texts.
func plain(v []byte) bool {
	for i := 0; i < len(v); i++ {
		switch c := v[i]; {
		case c == '"':
			end := textEnd(v, i)
			if end < 0 || end < len(v) && v[end] == ':' && !plainMember(v[i+1:end-1], v[end+1:]) {
				return false
			}
			i = end - 1
		case c == 'n':
			return false
		case c == '-' || '0' <= c && c <= '9':
			end := numberEnd(v, i)
			if end < 0 {
				return false
			}
			i = end - 1
		}
	}
	return true
}

// textEnd returns the offset behind the text that begins at start, or -1.
func textEnd(v []byte, start int) int {
	for at := start + 1; ; {
		n := bytes.IndexByte(v[at:], '"')
		if n < 0 {
			return -1
		}
		at += n + 1
		slashes := 0
		for i := at - 2; i > start && v[i] == '\\'; i-- {
			slashes++
		}
		if slashes%2 == 0 {
			return at
		}
	}
}

// plainMember reports whether a member is none that a change could concern.
func plainMember(name, value []byte) bool {
	switch string(name) {
	case "cachePoint", "cache_control", "toolChoice", "tool_choice", "additionalModelResponseFieldPaths", "requestMetadata":
		return false
	case "status":
		return !bytes.HasPrefix(value, []byte(`"success"`))
	case "inferenceConfig":
		return !bytes.HasPrefix(value, []byte(`{}`))
	case "text":
		return len(value) > 1 && value[0] == '"' && value[1] > ' ' && value[1] != '"' && value[1] != '\\' && value[1] < 0x80
	}
	return true
}

// numberEnd returns the offset behind a short integer, -1 for other numbers.
func numberEnd(v []byte, start int) int {
	end := start
	for end < len(v) && v[end] != ',' && v[end] != ']' && v[end] != '}' {
		if v[end] == '.' || v[end] == 'e' || v[end] == 'E' {
			return -1
		}
		end++
	}
	if end-start > 15 || string(v[start:end]) == "-0" {
		return -1
	}
	return end
}

// place says what a value is within a request. Inside data (inputs, results,
// schemas) only numbers are touched: a null there is what the tool said. Inside
// a tool result a blank text is what the tool said too.
type place int

const (
	inRequest place = iota
	inResult
	inData
)

// rewrite appends what stays of a value. What is taken out is chosen from what
// stays of it, so that a change cannot hide another one: a blank text with a
// null beside it is a blank text.
func rewrite(dst, v []byte, s set, at place) []byte {
	switch {
	case len(v) == 0:
		return dst
	case v[0] == '{':
		return rewriteObject(dst, v, s, at)
	case v[0] == '[':
		return rewriteArray(dst, v, s, at)
	case s.has(roundedNumbers) && (v[0] == '-' || '0' <= v[0] && v[0] <= '9'):
		return appendNumber(dst, v, at)
	}
	return append(dst, v...)
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

func rewriteArray(dst, v []byte, s set, at place) []byte {
	list, ok := elements(v)
	if !ok {
		return append(dst, v...)
	}
	dst = append(dst, '[')
	open := len(dst)
	for _, e := range list {
		before := len(dst)
		if before > open {
			dst = append(dst, ',')
		}
		start := len(dst)
		dst = rewrite(dst, e, s, at)
		if dropBlock(dst[start:], s, at) {
			dst = dst[:before]
		}
	}
	return append(dst, ']')
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
	spans, err := ledger.MemberSpans(object)
	for _, m := range spans {
		if !slices.Contains(names, m.Name) {
			return false
		}
	}
	return err == nil
}

func blank(s string) bool { return strings.TrimSpace(s) == "" }

func rewriteObject(dst, v []byte, s set, at place) []byte {
	spans, err := ledger.MemberSpans(v)
	if err != nil {
		return append(dst, v...)
	}
	if at == inRequest && isResult(spans) {
		at = inResult
	}
	dst = append(dst, '{')
	open := len(dst)
	for _, m := range spans {
		before := len(dst)
		if before > open {
			dst = append(dst, ',')
		}
		dst = append(dst, v[m.Start:m.End-len(m.Value)]...)
		start := len(dst)
		dst = rewrite(dst, m.Value, s, placeOf(m.Name, at))
		if dropMember(m.Name, dst[start:], s, at) {
			dst = dst[:before]
		}
	}
	return append(dst, '}')
}

// isResult reports whether an object says of itself that it is a tool result;
// one of Converse is named by the member that holds it.
func isResult(spans []ledger.Span) bool {
	for _, m := range spans {
		if m.Name == "type" && string(m.Value) == `"tool_result"` || m.Name == "role" && string(m.Value) == `"tool"` {
			return true
		}
	}
	return false
}

func placeOf(name string, at place) place {
	switch name {
	case "input", "json", "inputSchema", "input_schema", "parameters", "schema", "additionalModelRequestFields":
		return inData
	case "toolResult":
		return max(at, inResult)
	}
	return at
}

func dropMember(name string, value []byte, s set, at place) bool {
	if at == inData {
		return false
	}
	text := string(value[:min(len(value), 32)])
	if text == "null" && s.has(emptyMembers) {
		return true
	}
	switch name {
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

// Compare reports whether two canonical values mean the same, and by which
// changes they differ: the fewest that explain it.
func Compare(recorded, now json.RawMessage) (changes []Change, same bool) {
	if bytes.Equal(recorded, now) {
		return nil, true
	}
	if !bytes.Equal(meaning(recorded, everything), meaning(now, everything)) {
		return nil, false
	}
	used := everything
	for i, c := range Changes() {
		without := used &^ (1 << i)
		if bytes.Equal(meaning(recorded, without), meaning(now, without)) {
			used = without
			continue
		}
		changes = append(changes, c)
	}
	return changes, true
}

// CompareRequests is Compare over whole requests.
func CompareRequests(recorded, now Asked) (changes []Change, same bool) {
	if recorded.Route.Op != now.Route.Op || recorded.Request.Model != now.Request.Model {
		return nil, false
	}
	changes, same = Compare(recorded.Request.Rest.JSON(), now.Request.Rest.JSON())
	a, b := recorded.Request.Messages.Messages(), now.Request.Messages.Messages()
	if !same || len(a) != len(b) {
		return nil, false
	}
	for i := range a {
		more, same := Compare(a[i], b[i])
		if !same {
			return nil, false
		}
		changes = append(changes, more...)
	}
	return changes, true
}

// Sums returns the digest chained over the meanings of the messages, one for
// each beginning of the conversation.
func Sums(messages []json.RawMessage) []ledger.Sum {
	out := make([]ledger.Sum, len(messages))
	var s ledger.Sum
	for i, m := range messages {
		s = s.Next(Meaning(m))
		out[i] = s
	}
	return out
}

// Key identifies a request by its meaning: operation, model, members and
// conversation. sum is the last of its Sums.
func Key(a Asked, sum ledger.Sum) ledger.Sum {
	return sum.Next([]byte(a.Route.Op)).Next([]byte(a.Request.Model)).Next(Meaning(a.Request.Rest.JSON()))
}
