package proxy

import (
	"fmt"
	"strings"
	"sync"

	"investigator/internal/foreign"
)

// TurnedAway are requests that no mode saw: of no operation that is known, or
// not welcome. A client that was pointed here half right makes nothing else.
type TurnedAway struct {
	Count int    `json:"count"`
	First string `json:"first"` // what the first was told
}

// turnedAway counts them.
type turnedAway struct {
	sync.Mutex
	TurnedAway
}

// result is nil where nothing was turned away.
func (t *turnedAway) result() *TurnedAway {
	t.Lock()
	defer t.Unlock()
	if t.Count == 0 {
		return nil
	}
	out := t.TurnedAway
	return &out
}

// turnAway refuses a request, and tells of the first, since not every client
// shows what it was told.
func (p *Proxy) turnAway(w *writer, like foreign.Asked, status int, name, message string) {
	p.away.Lock()
	p.away.Count++
	first := p.away.Count == 1
	if first {
		p.away.First = message
	}
	p.away.Unlock()
	if first {
		p.o.Notify(Note{Kind: "refused", Text: message})
	}
	w.fail(like, status, name, "investigator proxy: "+message)
}

// maxPath bounds how much of a path is repeated.
const maxPath = 200

// unknownOperation says what was asked and what can be, and for the clients that
// are told their base URL, how it ends.
func unknownOperation(method, path string) (like foreign.Asked, message string) {
	advice := "it knows Converse, ConverseStream, InvokeModel, InvokeModelWithResponseStream, CountTokens, ApplyGuardrail, /openai/v1/chat/completions and /anthropic/v1/messages"
	switch {
	case strings.HasSuffix(path, "/chat/completions"):
		like.Dialect, advice = foreign.OpenAI, "the base URL of a client of OpenAI's API has to end in /openai/v1"
	case strings.HasSuffix(path, "/responses"):
		like.Dialect, advice = foreign.OpenAI, "of OpenAI's APIs it knows Chat Completions"
	case strings.HasSuffix(path, "/v1/messages"):
		like.Dialect, like.Route.Op, advice = foreign.Anthropic, foreign.OpMessages, "the base URL of a client of Anthropic's API has to end in /anthropic"
	}
	return like, fmt.Sprintf("%s %.*s is no operation it records; %s", method, maxPath, path, advice)
}
