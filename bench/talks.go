package main

import (
	"bytes"
	"context"
	"fmt"
	"strings"
)

// Conversations as agents have them: no header names the run, the question is
// followed by a loop of three turns (two that ask for a tool, one that answers),
// and then the next question is put, so that the request grows from 12 KB to
// 57 KB.
const (
	talkPath     = "/model/talk/converse"
	talkLoops    = 4
	loopTurns    = 3
	talkCalls    = talkLoops * loopTurns
	systemBytes  = 12_000
	resultBytes  = 4_000
	thoughtBytes = 1_000
)

// turnOf names a turn of a conversation; its answer follows from it.
type turnOf struct{ talk, loop, turn int }

func (t turnOf) String() string { return fmt.Sprintf("t-%08d-%02d-%d", t.talk, t.loop, t.turn) }

func prose(words string, bytes int) string {
	return strings.Repeat(words, bytes/len(words)+1)[:bytes]
}

// message is what the model says at a turn. The id of its tool call names the
// turn that will follow the result.
func (t turnOf) message() string {
	text := `{"text":"` + t.String() + prose(" I look at the numbers once more", thoughtBytes) + `"}`
	if t.turn+1 < loopTurns {
		text += `,{"toolUse":{"toolUseId":"` + t.next().String() + `","name":"read","input":{"part":"a"}}}`
	}
	return `{"role":"assistant","content":[` + text + `]}`
}

func (t turnOf) next() turnOf { return turnOf{t.talk, t.loop, t.turn + 1} }

func (t turnOf) answer() []byte {
	reason := "tool_use"
	if t.turn+1 == loopTurns {
		reason = "end_turn"
	}
	return []byte(`{"output":{"message":` + t.message() + `},"stopReason":"` + reason + `","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`)
}

// asked is the message that asks for a turn: a question, or a tool's result.
func (t turnOf) asked() string {
	if t.turn == 0 {
		return `{"role":"user","content":[{"text":"` + t.String() + ` why is checkout slow?"}]}`
	}
	return `{"role":"user","content":[{"toolResult":{"toolUseId":"` + t.String() + `","content":[{"text":"` + prose("p99 is 212 ms. ", resultBytes) + `"}]}}]}`
}

// talkAnswer is what the upstream says to a request: the turn that was named
// last in it.
func talkAnswer(body []byte) []byte {
	var t turnOf
	at := max(bytes.LastIndex(body, []byte(`"toolUseId":"t-`))+len(`"toolUseId":"`), bytes.LastIndex(body, []byte(`"text":"t-`))+len(`"text":"`))
	if _, err := fmt.Sscanf(string(body[at:min(at+15, len(body))]), "t-%08d-%02d-%1d", &t.talk, &t.loop, &t.turn); err != nil {
		return []byte(err.Error())
	}
	return t.answer()
}

// talk has a whole conversation.
func talk(l *line, n int) error {
	var messages []string
	for loop := range talkLoops {
		for turn := range loopTurns {
			t := turnOf{n, loop, turn}
			messages = append(messages, t.asked())
			if err := l.call(talkPath, talkBody(messages), t.answer()); err != nil {
				return err
			}
			messages = append(messages, t.message())
		}
	}
	return nil
}

func talkBody(messages []string) []byte {
	return []byte(`{"system":[{"text":"` + prose("You look into incidents. ", systemBytes) + `"}],` +
		`"toolConfig":{"tools":[{"toolSpec":{"name":"read","description":"Reads a part.","inputSchema":{"json":{"type":"object"}}}}]},` +
		`"messages":[` + strings.Join(messages, ",") + `]}`)
}

// talks has n conversations, as many at once as there are connections. The
// rate is that of its calls.
func talks(ctx context.Context, addr string, from, n int) burst {
	out := spread(ctx, addr, "", n, func(l *line, i int) error { return talk(l, from+i) })
	out.calls *= talkCalls
	return out
}
