package rule

import (
	"context"
	"encoding/json"
	"strconv"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

// reply is a turn before it is encoded: what is said, and what is called.
type reply struct {
	say   string
	calls []call
}

type call struct {
	tool  string
	input json.RawMessage
}

// Respond answers a model request. The result is a canonical, normalised
// Converse response that converse.ParseTurn accepts; it calls tools that the
// request offers and no others. Token counts are estimates: a quarter of the
// bytes. The caller owns the result; req is only read.
func Respond(req converse.Request) json.RawMessage {
	t := readTalk(req)
	return think(t).response(t)
}

// response encodes the turn.
func (r reply) response(t *talk) json.RawMessage {
	size := len(r.say) + 320
	for _, c := range r.calls {
		size += len(c.tool) + len(c.input) + 96
	}
	b := append(make([]byte, 0, size), `{"output":{"message":{"content":[`...)
	before := len(b)
	b = append(ledger.AppendString(append(b, `{"text":`...), r.say), '}')
	stop := converse.EndTurn
	for i, c := range r.calls {
		stop = converse.StopToolUse
		b = append(b, `,{"toolUse":{"input":`...)
		b = append(b, c.input...)
		b = append(b, `,"name":`...)
		b = ledger.AppendString(b, c.tool)
		b = append(b, `,"toolUseId":"rule-t`...)
		b = strconv.AppendInt(b, int64(t.turn), 10)
		b = append(b, '-')
		b = strconv.AppendInt(b, int64(i), 10)
		b = append(b, `"}}`...)
	}
	input, output := t.bytes/4, (len(b)-before)/4
	b = append(b, `],"role":"assistant"}},"stopReason":"`...)
	b = append(b, stop...)
	b = append(b, `","usage":{"inputTokens":`...)
	b = strconv.AppendInt(b, int64(input), 10)
	b = append(b, `,"outputTokens":`...)
	b = strconv.AppendInt(b, int64(output), 10)
	b = append(b, `,"totalTokens":`...)
	b = strconv.AppendInt(b, int64(input+output), 10)
	return append(b, `}}`...)
}

// Do answers a model call; edge.Func(rule.Do) is an edge with the rule model
// behind it. It never fails, and it does not look at ctx because it does not
// wait.
func Do(_ context.Context, c edge.Call) (edge.Return, error) {
	return edge.Return{Body: Respond(c.Request), Origin: edge.Rule}, nil
}

// think decides the turn.
func think(t *talk) reply {
	if !t.knowsTools() {
		return foreign(t)
	}
	q := &inquiry{talk: t, service: t.subject()}
	v, waiting := q.investigate()
	if waiting {
		return reply{q.say, q.calls}
	}
	return t.conclude(v)
}

func (t *talk) knowsTools() bool {
	for _, name := range []string{toolMetrics, toolDeploys, toolLogs} {
		if t.tool(name) != nil {
			return true
		}
	}
	return false
}

// conclude reports the verdict, in text where there is no tool for it or where
// the tool was called before: calling it again would change nothing.
func (t *talk) conclude(v verdict.Verdict) reply {
	if t.tool(verdict.Tool) == nil || t.reported {
		return reply{say: v.Summary + "\n\n" + v.Recommendation}
	}
	return reply{v.Summary, []call{{verdict.Tool, v.JSON()}}}
}
