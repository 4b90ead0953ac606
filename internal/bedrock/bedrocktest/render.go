package bedrocktest

import (
	"net/http"
	"strings"
	"time"
	"unicode/utf8"
)

// reply is a whole answer before it is sent: pure data, so that faults are
// functions from one reply to another.
type reply struct {
	status int
	header http.Header
	// chunks are written and flushed one by one. Of a streamed reply each chunk
	// is one frame or one server-sent event.
	chunks   [][]byte
	streamed bool
	ending   ending
	first    time.Duration // extra wait before the first byte
	step     time.Duration // when set, bytes go out one at a time, this far apart
}

// ending says how the connection is left after the last chunk.
type ending int

const (
	endClean ending = iota
	endShort        // announce the whole length, send less, close
	endReset        // TCP reset
)

// answer is what a renderer is given.
type answer struct {
	req   Request
	turn  Turn
	usage Usage
	id    string // request id
	pad   func() string
}

// latency is reported, not measured, so that two runs give the same bytes.
func (a answer) latency() int { return 100 + a.usage.Output }

// render turns a script's turn into the reply of the API that was called.
func render(a answer) reply {
	if r := a.turn.Response; r != nil {
		return reply{status: r.Status, header: r.Header.Clone(), chunks: [][]byte{r.Body}}
	}
	if a.turn.Events != nil {
		return renderEvents(a)
	}
	switch a.req.Op {
	case OpConverse:
		return jsonReply(converseAnswer(a))
	case OpConverseStream:
		return eventStream(a, converseEvents(a))
	case OpInvoke:
		return invokeReply(a)
	case OpInvokeStream:
		return eventStream(a, anthropicEvents(a))
	case OpMessages:
		if a.req.Stream {
			return sseReply(a, anthropicEvents(a))
		}
		return jsonReply(anthropicAnswer(a))
	}
	if a.req.Stream {
		return sseReply(a, openAIEvents(a))
	}
	return jsonReply(openAIAnswer(a))
}

// renderEvents sends a script's own events.
func renderEvents(a answer) reply {
	if !a.req.Stream {
		return errorReply(a.req.Op, invalid("bedrocktest: this turn of the script is stream events only and %s does not stream", a.req.Op))
	}
	events := make([]frame, len(a.turn.Events))
	for i, e := range a.turn.Events {
		events[i] = frame{kind: e.Type, payload: e.Payload}
	}
	if a.req.Op == OpMessages || a.req.Op == OpChatCompletions {
		return sseReply(a, events)
	}
	return eventStream(a, events)
}

func jsonReply(v any) reply {
	return reply{status: http.StatusOK, header: http.Header{"Content-Type": {"application/json"}}, chunks: [][]byte{encode(v)}}
}

// cut splits s for streaming: several pieces where there is enough to split,
// never inside a rune, otherwise anywhere, inside JSON escapes too.
func (b Block) cut(s string) []string {
	if b.Pieces != nil {
		return b.Pieces
	}
	size := max(1, min(16, utf8.RuneCountInString(s)/3))
	var out []string
	for len(s) > 0 {
		n := 0
		for range size {
			_, w := utf8.DecodeRuneInString(s[n:])
			n += w
		}
		out = append(out, s[:n])
		s = s[n:]
	}
	return out
}

// inputText is the text of a call's input; a nil Input means {}.
func (b Block) inputText() string {
	if s := strings.TrimSpace(string(b.Input)); s != "" {
		return s
	}
	return "{}"
}
