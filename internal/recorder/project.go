package recorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// projector derives events from interactions, in order. It knows the turn and
// the tool calls that were asked for and not yet answered. It is a value; use
// returns the next one.
type projector struct {
	turn    int
	pending []edge.Call
}

// projected is what a projector makes of one interaction.
type projected struct {
	data []json.RawMessage // of each event; nil where it cannot be derived
	call edge.Call         // turn, position and use of the call that was answered
}

// use takes the next interaction and its events' types, with the data given
// explicitly (nil where none is). A writer knows what it wants to come out; then
// that itself is the data wherever it does.
func (p projector) use(types []string, given []json.RawMessage, l *line, want []ledger.Event) (projector, projected, error) {
	if l.kind() == edge.Model {
		return p.model(types, given, &l.Response)
	}
	out := projected{data: make([]json.RawMessage, len(types))}
	if len(p.pending) == 0 {
		return p, out, fmt.Errorf("a tool returned that was not called")
	}
	out.call, p.pending = p.pending[0], p.pending[1:]
	canon, err := ledger.InCanon(l.Response.Body)
	if err != nil {
		return p, out, fmt.Errorf("tool result: %w", err)
	}
	if types[0] == ledger.ToolReturned {
		ret := edge.Return{Body: canon, Failed: l.Response.Code != 200}
		if want != nil && isReturned(want[0].Data, out.call, ret) {
			out.data[0] = want[0].Data
		} else {
			out.data[0] = loop.ReturnedData(out.call, ret)
		}
	}
	copyGiven(out.data, given)
	return p, out, nil
}

// isReturned reports whether data is loop.ReturnedData, without putting that
// together around the result.
func isReturned(data json.RawMessage, call edge.Call, ret edge.Return) bool {
	result := ret.Body
	ret.Body = nil
	frame := loop.ReturnedData(call, ret)
	at := bytes.Index(frame, []byte(`"result":`)) + len(`"result":`)
	end := at + len(result)
	return len(data) == len(frame)+len(result) && bytes.Equal(data[:at], frame[:at]) && bytes.Equal(data[at:end], result) && bytes.Equal(data[end:], frame[at:])
}

func copyGiven(data, given []json.RawMessage) {
	for i, g := range given {
		if g != nil {
			data[i] = g
		}
	}
}

func (p projector) model(types []string, given []json.RawMessage, r *response) (projector, projected, error) {
	out := projected{data: make([]json.RawMessage, len(types))}
	p.turn, p.pending = p.turn+1, nil
	out.call = edge.Call{Kind: edge.Model, Turn: p.turn}
	if types[0] == ledger.ModelResponded {
		var t converse.Turn
		asks := slices.Contains(types, ledger.ToolCalled)
		if out.data[0] = given[0]; given[0] == nil {
			t, out.data[0] = answerOf(r.Body)
		} else if asks {
			t, _ = converse.ParseTurn(given[0]) // of one that cannot be read, nothing is derived
		}
		if asks {
			p.pending = calls(p.turn, types[1:], t, out.data[1:])
		}
	}
	copyGiven(out.data, given)
	return p, out, nil
}

// answerOf is the normalised response that came over the wire as body: the JSON
// of Converse, or the frames of ConverseStream, which begin with their length
// and so never with a brace. The response is nil where body holds none.
func answerOf(body []byte) (converse.Turn, json.RawMessage) {
	if len(body) > 0 && body[0] != 0 {
		t, err := converse.NormalizeTurn(body)
		if err != nil {
			return converse.Turn{}, nil
		}
		return t, t.Raw
	}
	frames, _, err := converse.DecodeFrames(body)
	if err != nil {
		return converse.Turn{}, nil
	}
	response, err := converse.Assemble(frames)
	if err != nil {
		return converse.Turn{}, nil
	}
	t, _ := converse.ParseCanonical(response)
	return t, response
}

// calls derives the tool.called events among types and returns the calls.
func calls(turn int, types []string, t converse.Turn, data []json.RawMessage) []edge.Call {
	_, ids := converse.Echo(t)
	var out []edge.Call
	pos := 0
	for i, kind := range types {
		if kind != ledger.ToolCalled && kind != ledger.ToolRefused {
			continue
		}
		if pos >= len(t.ToolUses) {
			return out
		}
		if kind == ledger.ToolCalled {
			use := t.ToolUses[pos]
			use.ID = ids[pos]
			data[i] = loop.CalledData(turn, pos, use)
			out = append(out, edge.Call{Kind: edge.Tool, Turn: turn, Pos: pos, In: edge.ToolDigest(use.Name, use.Input), Use: use})
		}
		pos++
	}
	return out
}
