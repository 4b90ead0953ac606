package foreign

import (
	"fmt"
	"strconv"
	"strings"
)

// Op is an operation of Bedrock's front doors.
type Op string

// The operations that are recorded and replayed.
const (
	OpConverse        Op = "Converse"
	OpConverseStream  Op = "ConverseStream"
	OpInvoke          Op = "InvokeModel"
	OpInvokeStream    Op = "InvokeModelWithResponseStream"
	OpCountTokens     Op = "CountTokens"
	OpApplyGuardrail  Op = "ApplyGuardrail"
	OpChatCompletions Op = "ChatCompletions"
	OpMessages        Op = "Messages"
)

const (
	chatPath     = "/openai/v1/chat/completions"
	messagesPath = "/anthropic/v1/messages"
)

// Route is what a request's path says.
type Route struct {
	Op    Op
	Model string // decoded; "" where the body names it
	Path  string // escaped as the client spelled it, without any prefix
	Tag   string // NAME of a prefix /run/NAME
}

// ParseRoute reads an escaped path. Clients spell an ARN's slash as %2F and as
// itself and may put a prefix before the path, so the operation is the last
// segment. found is false for an operation this package does not know.
func ParseRoute(escapedPath string) (r Route, found bool) {
	path := escapedPath
	if rest, tagged := strings.CutPrefix(path, "/run/"); tagged {
		tag, after, more := strings.Cut(rest, "/")
		if name, ok := unescape(tag); ok && more {
			r.Tag, path = name, "/"+after
		}
	}
	r.Path = path
	switch {
	case strings.HasSuffix(path, chatPath):
		r.Op, r.Path = OpChatCompletions, chatPath
		return r, true
	case strings.HasSuffix(path, messagesPath):
		r.Op, r.Path = OpMessages, messagesPath
		return r, true
	}
	if at := strings.Index(path, "/guardrail/"); at >= 0 && strings.HasSuffix(path, "/apply") {
		r.Op, r.Path = OpApplyGuardrail, path[at:]
		return r, true
	}
	at := strings.Index(path, "/model/")
	cut := strings.LastIndexByte(path, '/')
	if at < 0 || cut <= at+len("/model/") {
		return r, false
	}
	model, ok := unescape(path[at+len("/model/") : cut])
	r.Path, r.Model, r.Op = path[at:], model, modelOp(path[cut+1:])
	return r, ok && r.Op != ""
}

func modelOp(segment string) Op {
	switch segment {
	case "converse":
		return OpConverse
	case "converse-stream":
		return OpConverseStream
	case "invoke":
		return OpInvoke
	case "invoke-with-response-stream":
		return OpInvokeStream
	case "count-tokens":
		return OpCountTokens
	}
	return ""
}

// WithModel returns the path with another model id in it.
func (r Route) WithModel(model string) Route {
	if r.Model == "" {
		return r
	}
	r.Path = "/model/" + escape(model) + r.Path[strings.LastIndexByte(r.Path, '/'):]
	r.Model = model
	return r
}

// unescape decodes the %XX of a path segment.
func unescape(s string) (out string, ok bool) {
	if !strings.Contains(s, "%") {
		return s, true
	}
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			b.WriteByte(s[i])
			continue
		}
		if i+3 > len(s) {
			return "", false
		}
		v, err := strconv.ParseUint(s[i+1:i+3], 16, 8)
		if err != nil {
			return "", false
		}
		b.WriteByte(byte(v))
		i += 2
	}
	return b.String(), true
}

// escape encodes what a path segment may not hold.
func escape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		c := s[i]
		if 'a' <= c && c <= 'z' || 'A' <= c && c <= 'Z' || '0' <= c && c <= '9' || strings.IndexByte("-._~:", c) >= 0 {
			b.WriteByte(c)
			continue
		}
		fmt.Fprintf(&b, "%%%02X", c)
	}
	return b.String()
}
