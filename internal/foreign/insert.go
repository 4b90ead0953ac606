package foreign

import (
	"encoding/json"
	"fmt"
	"slices"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// Added is a call that a fork adds to a model turn, and what it returned.
type Added struct {
	Use    converse.ToolUse
	Body   json.RawMessage
	Failed bool
}

// Insertion adds calls that no agent made to a conversation. The agent keeps
// its own history, so they are added again to each of its requests.
type Insertion struct {
	Message int             // where the turn stands among the messages, from 0
	Turn    json.RawMessage // the canonical response, with the added calls
	Added   []Added
}

// Holds reports whether a call was added.
func (i Insertion) Holds(id string) bool {
	return slices.ContainsFunc(i.Added, func(a Added) bool { return a.Use.ID == id })
}

// Whole reports whether the turn calls nothing else. An agent has nothing to
// answer then, and never sees the turn: what follows it is its answer.
func (i Insertion) Whole() bool {
	turn, err := converse.ParseCanonical(i.Turn)
	return err == nil && !slices.ContainsFunc(turn.ToolUses, func(u converse.ToolUse) bool { return !i.Holds(u.ID) })
}

// Without is the turn as the agent sees it: without the added calls.
func (i Insertion) Without() json.RawMessage {
	turn, err := converse.ParseCanonical(i.Turn)
	if err != nil {
		return i.Turn
	}
	blocks := []json.RawMessage{}
	for _, b := range turn.Blocks {
		if use := member(b, "toolUse"); use == nil || !i.Holds(stringOf(member(use, "toolUseId"))) {
			blocks = append(blocks, b)
		}
	}
	message := with(turn.Message, "content", listOf(blocks))
	return with(i.Turn, "output", with(member(i.Turn, "output"), "message", message))
}

// Insert returns the request with the insertion. The error says what the
// request lacks: the turn in its place, or the results of its other calls.
func (a Asked) Insert(i Insertion) (Asked, error) {
	messages := a.Request.Messages.Messages()
	var err error
	switch {
	case i.Message > len(messages):
		err = fmt.Errorf("expected a conversation of %d messages or more, found %d", i.Message, len(messages))
	case i.Whole():
		messages, err = a.insertTurn(messages, i)
	default:
		messages, err = a.extendTurn(messages, i)
	}
	if err != nil {
		return a, fmt.Errorf("insert a call at /messages/%d: %w", i.Message, err)
	}
	a.Request.Messages = converse.NewThread(messages...)
	return a, nil
}

// insertTurn puts the turn and its results before whatever the agent has there.
func (a Asked) insertTurn(messages []json.RawMessage, i Insertion) ([]json.RawMessage, error) {
	turn, err := converse.ParseCanonical(i.Turn)
	if err != nil {
		return nil, err
	}
	more := []json.RawMessage{assistantMessage(a.Dialect, turn)}
	results := make([]json.RawMessage, 0, len(i.Added))
	for _, added := range i.Added {
		results = append(results, resultOf(a.Dialect, added, nil))
	}
	if a.Dialect == OpenAI {
		more = append(more, results...)
	} else {
		more = append(more, converse.Message("user", results))
	}
	return slices.Insert(messages, i.Message, more...), nil
}

// assistantMessage is a turn as a request holds it.
func assistantMessage(d Dialect, turn converse.Turn) json.RawMessage {
	switch d {
	case Anthropic:
		blocks, _ := anthropicBlocks(turn)
		return encode(object{"role": "assistant", "content": blocks})
	case OpenAI:
		return encode(openAIMessageOf(turn))
	}
	m, _ := converse.Echo(turn)
	return m
}

// extendTurn adds the calls to the agent's own turn, and the results to those
// that the agent sends.
func (a Asked) extendTurn(messages []json.RawMessage, i Insertion) ([]json.RawMessage, error) {
	if i.Message == len(messages) || stringOf(member(messages[i.Message], "role")) != "assistant" {
		return nil, fmt.Errorf("expected the model's turn, which the agent leaves out or tells otherwise")
	}
	calls := "content"
	if a.Dialect == OpenAI {
		calls = "tool_calls"
	}
	list, isList := elements(member(messages[i.Message], calls))
	if !isList {
		return nil, fmt.Errorf("expected a turn with calls, found %.80q", messages[i.Message])
	}
	for _, added := range i.Added {
		list = append(list, callOf(a.Dialect, added.Use))
	}
	messages[i.Message] = with(messages[i.Message], calls, listOf(list))
	at, block := a.lastResult(messages, i.Message+1)
	if at < 0 {
		return nil, fmt.Errorf("expected the results of the turn's calls behind it, found none")
	}
	if a.Dialect == OpenAI {
		for k, added := range i.Added {
			messages = slices.Insert(messages, at+1+k, resultOf(a.Dialect, added, messages[at]))
		}
		return messages, nil
	}
	blocks, _ := elements(member(messages[at], "content"))
	for k, added := range i.Added {
		blocks = slices.Insert(blocks, block+1+k, resultOf(a.Dialect, added, blocks[block]))
	}
	messages[at] = with(messages[at], "content", listOf(blocks))
	return messages, nil
}

// lastResult finds the last tool result between two turns: its message, and its
// block there. at is -1 where there is none.
func (a Asked) lastResult(messages []json.RawMessage, from int) (at, block int) {
	at = -1
	for k := from; k < len(messages) && stringOf(member(messages[k], "role")) != "assistant"; k++ {
		for _, r := range resultsOf(a.Dialect, messages[k], k) {
			at, block = r.Message, r.Block
		}
	}
	return at, block
}

func callOf(d Dialect, use converse.ToolUse) json.RawMessage {
	switch d {
	case Anthropic:
		return encode(object{"type": "tool_use", "id": use.ID, "name": use.Name, "input": use.Input})
	case OpenAI:
		return encode(object{"type": "function", "id": use.ID, "function": object{"name": use.Name, "arguments": string(use.Input)}})
	}
	return encode(object{"toolUse": object{"toolUseId": use.ID, "name": use.Name, "input": use.Input}})
}

// resultOf is a result as a request holds it, in the form of another one, which
// may be nil.
func resultOf(d Dialect, added Added, like json.RawMessage) json.RawMessage {
	text := json.RawMessage(`""`) // the form of a text
	switch d {
	case OpenAI:
		return encode(object{"role": "tool", "tool_call_id": added.Use.ID, "content": inForm(d, text, added.Body)})
	case Anthropic:
		if like != nil {
			text = member(like, "content")
		}
		out := object{"type": "tool_result", "tool_use_id": added.Use.ID, "content": inForm(d, text, added.Body)}
		if added.Failed {
			out["is_error"] = true
		}
		return encode(out)
	}
	block := converse.ToolResult{ID: added.Use.ID, Result: added.Body, Error: added.Failed}.Block()
	content := member(member(like, "toolResult"), "content")
	if content == nil {
		return block
	}
	return with(block, "toolResult", with(member(block, "toolResult"), "content", inForm(d, content, added.Body)))
}

func listOf(list []json.RawMessage) json.RawMessage {
	b, _ := ledger.CanonValue(list) // canonical values encode
	return b
}
