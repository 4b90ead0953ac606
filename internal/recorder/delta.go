package recorder

import (
	"bytes"
	"encoding/json"
	"fmt"
	"hash/maphash"
	"slices"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// delta is how a model request is stored: what it has beyond the request of
// the model interaction it extends.
type delta struct {
	Digest        string             `json:"digest"`
	Model         string             `json:"model"`
	Base          *int               `json:"base"` // interaction id, -1 for none
	Kept          int                `json:"kept"` // messages of the base's thread
	Add           []item             `json:"add"`
	Rest          json.RawMessage    `json:"rest"` // nil: as in the base
	RestFromStart bool               `json:"rest_from_start"`
	Cache         converse.CacheRule `json:"cache"`
}

// item is one added message: exactly one of the members is set. Message and
// Template are canonical once they were read.
type item struct {
	Start    int             `json:"s"` // 1: the first message of the run
	Answer   *int            `json:"r"` // the assistant message of that interaction's response
	Message  json.RawMessage `json:"m"` // the message itself
	Template json.RawMessage `json:"t"` // the message with null where the holes are
	Holes    []hole          `json:"holes"`
}

// hole is filled with the response body of a tool interaction; as the string
// of its text if Quoted.
type hole struct {
	At     string `json:"at"`
	ID     int    `json:"id"`
	Quoted bool   `json:"quoted"`
}

// minHole is the size from which a value is worth a hole.
const minHole = 80

// place is where a text was recorded: the interaction, and whether the text is
// the string form of what stands there.
type place struct {
	id     int
	quoted bool
}

// places finds recorded texts by their bytes: answers and results apart, since a
// tool may return what a model said.
type places struct {
	seeds   [2]maphash.Seed
	answers map[fingerprint]int // the interactions of all answers but the last
	results map[fingerprint]place

	last   json.RawMessage // the message of the last answer, which is the one most asked for
	lastID int
}

// fingerprint stands for a text within one process. It is no digest: it leaves
// the process in no way, and nobody outside can know what it is.
type fingerprint [2]uint64

func newPlaces() *places {
	return &places{seeds: [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}, answers: map[fingerprint]int{}, results: map[fingerprint]place{}}
}

func (p *places) fingerprint(text []byte) fingerprint {
	return fingerprint{maphash.Bytes(p.seeds[0], text), maphash.Bytes(p.seeds[1], text)}
}

// took notes what later requests may hold of an interaction.
func (p *places) took(id int, kind edge.Kind, body json.RawMessage) {
	if kind == edge.Model {
		p.answer(id, body)
	} else {
		p.result(id, body)
	}
}

// answer notes a model's answer, whose bytes stay as they are.
func (p *places) answer(id int, response json.RawMessage) {
	message := assistantMessage(response)
	if len(message) == 0 {
		return
	}
	if p.last != nil {
		p.answers[p.fingerprint(p.last)] = p.lastID
	}
	p.last, p.lastID = message, id
}

func (p *places) result(id int, result json.RawMessage) {
	if len(result) < minHole {
		return
	}
	p.results[p.fingerprint(result)] = place{id: id}
	if result[0] != '"' && result[0] != '{' {
		p.results[p.fingerprint(ledger.AppendString(nil, string(result)))] = place{id: id, quoted: true}
	}
}

// ofAnswer finds the interaction whose answer holds a message.
func (p *places) ofAnswer(message json.RawMessage) (id int, found bool) {
	if bytes.Equal(message, p.last) {
		return p.lastID, true
	}
	if len(p.answers) == 0 {
		return 0, false
	}
	id, found = p.answers[p.fingerprint(message)]
	return id, found
}

// ofResult finds a tool result that is worth a hole.
func (p *places) ofResult(value json.RawMessage) (place, bool) {
	if len(value) < minHole || len(p.results) == 0 {
		return place{}, false
	}
	at, found := p.results[p.fingerprint(value)]
	return at, found
}

func assistantMessage(response json.RawMessage) json.RawMessage {
	return ledger.Member(ledger.Member(response, "output"), "message")
}

// encodeDelta appends req as an extension of base, which was interaction
// baseID; baseID -1 means that base is what run.started gives.
func encodeDelta(b []byte, req, base converse.Request, baseID int, known *places) []byte {
	var shared *converse.Thread
	if baseID >= 0 {
		shared = common(req.Messages, base.Messages)
	}
	added := req.Messages.Since(shared)
	size := 512
	for _, m := range added {
		size += len(m) + 16
	}
	b = ledger.AppendString(append(slices.Grow(b, size), `{"digest":`...), req.Digest())
	b = ledger.AppendString(append(b, `,"model":`...), req.Model)
	b = strconv.AppendInt(append(b, `,"base":`...), int64(baseID), 10)
	b = strconv.AppendInt(append(b, `,"kept":`...), int64(shared.Len()), 10)
	b = append(b, `,"add":[`...)
	for i, m := range added {
		if i > 0 {
			b = append(b, ',')
		}
		first := baseID < 0 && i == 0 && bytes.Equal(m, base.Messages.Last())
		b = appendItem(b, m, first, known)
	}
	b = append(b, ']')
	switch same := bytes.Equal(req.Rest.JSON(), base.Rest.JSON()); {
	case !same:
		b = append(append(b, `,"rest":`...), req.Rest.JSON()...)
	case baseID < 0:
		b = append(b, `,"rest_from_start":true`...)
	}
	if req.Cache != "" {
		b = ledger.AppendString(append(b, `,"cache":`...), string(req.Cache))
	}
	return append(b, '}')
}

// common returns the messages that both threads begin with.
func common(a, b *converse.Thread) *converse.Thread {
	for a.Len() > b.Len() {
		a = a.Parent()
	}
	for b.Len() > a.Len() {
		b = b.Parent()
	}
	for a.Sum() != b.Sum() {
		a, b = a.Parent(), b.Parent()
	}
	return a
}

func appendItem(b []byte, message json.RawMessage, first bool, known *places) []byte {
	if first {
		return append(b, `{"s":1}`...)
	}
	if bytes.HasSuffix(message, []byte(`"role":"assistant"}`)) {
		if id, found := known.ofAnswer(message); found {
			return append(strconv.AppendInt(append(b, `{"r":`...), int64(id), 10), '}')
		}
	}
	template, holes := cutHoles(message, known)
	if len(holes) == 0 {
		return append(append(append(b, `{"m":`...), message...), '}')
	}
	b = append(append(append(b, `{"t":`...), template...), `,"holes":[`...)
	for i, h := range holes {
		if i > 0 {
			b = append(b, ',')
		}
		b = ledger.AppendString(append(b, `{"at":`...), h.At)
		b = strconv.AppendInt(append(b, `,"id":`...), int64(h.ID), 10)
		if h.Quoted {
			b = append(b, `,"quoted":true`...)
		}
		b = append(b, '}')
	}
	return append(b, "]}"...)
}

// cutHoles replaces the tool results in a message that were recorded before by
// null.
func cutHoles(message json.RawMessage, known *places) (json.RawMessage, []hole) {
	if !mayHoldResult(message) {
		return message, nil
	}
	var holes []hole
	var out []byte
	done := 0
	for i, block := range ledger.Elements(ledger.Member(message, "content")) {
		for j, part := range ledger.Elements(ledger.Member(ledger.Member(block, "toolResult"), "content")) {
			for _, name := range []string{"json", "text"} {
				value := ledger.Member(part, name)
				at, found := known.ofResult(value)
				if !found {
					continue
				}
				start := offset(message, value)
				out = append(append(out, message[done:start]...), "null"...)
				done = start + len(value)
				holes = append(holes, hole{At: fmt.Sprintf("/content/%d/toolResult/content/%d/%s", i, j, name), ID: at.id, Quoted: at.quoted})
			}
		}
	}
	if len(holes) == 0 {
		return message, nil
	}
	return append(out, message[done:]...), holes
}

// mayHoldResult reports whether a message may hold a tool result. It looks at
// the names in each content block, in one pass over a message that is mostly
// one long text.
func mayHoldResult(message json.RawMessage) bool {
	const head, end = `{"content":[`, `],"role":`
	if !bytes.HasPrefix(message, []byte(head)) {
		return true
	}
	pos := len(head)
	for pos < len(message) && message[pos] == '{' {
		for pos < len(message) && message[pos] != '}' {
			pos++ // the brace or a comma
			colon := ledger.SkipValue(message, pos)
			if colon < 0 || message[pos] != '"' || string(message[pos+1:colon-1]) == "toolResult" {
				return true
			}
			if pos = ledger.SkipValue(message, colon+1); pos < 0 {
				return true
			}
		}
		if pos++; pos < len(message) && message[pos] == ',' {
			pos++
		}
	}
	return !bytes.HasPrefix(message[min(pos, len(message)):], []byte(end))
}

// offset returns where part, which is a piece of whole's memory, begins in it.
func offset(whole, part []byte) int { return cap(whole) - cap(part) }

// source gives what the items of a delta refer to.
type source interface {
	// answer returns the assistant message of a model interaction.
	answer(id int) (json.RawMessage, error)
	// result returns the canonical result of a tool interaction.
	result(id int) (json.RawMessage, error)
}

// rebuild returns the request that d stores. base is the request that it
// extends, or what run.started gives if it extends none; first is the first
// message of the run. left is how many bytes may be rebuilt in all, and what was
// rebuilt is taken off.
func (d delta) rebuild(base converse.Request, first json.RawMessage, from source, left *int64) (converse.Request, error) {
	req, err := d.extend(base, first, from, left)
	if err != nil {
		return req, err
	}
	if now := req.Digest(); now != d.Digest {
		return req, fmt.Errorf("read stored request: digest: recorded %q / rebuilt %q", d.Digest, now)
	}
	return req, nil
}

// extend is rebuild without a look at the digest.
func (d delta) extend(base converse.Request, first json.RawMessage, from source, left *int64) (converse.Request, error) {
	req := base
	if *d.Base < 0 {
		req.Messages = nil
		if d.Rest == nil && !d.RestFromStart {
			return req, fmt.Errorf(`read stored request: expected "rest" or "rest_from_start" without a base`)
		}
	}
	if d.Kept < 0 || d.Kept > req.Messages.Len() {
		return req, fmt.Errorf("read stored request: keeps %d messages of a conversation of %d", d.Kept, req.Messages.Len())
	}
	for req.Messages.Len() > d.Kept {
		req.Messages = req.Messages.Parent()
	}
	if d.Rest != nil {
		var err error
		if req.Rest, err = converse.NewRest(d.Rest); err != nil {
			return req, fmt.Errorf("read stored request: /rest: %w", err)
		}
	}
	room := room{one: maxRequest - req.Messages.Size() - len(req.Rest.JSON()), all: left}
	for i, it := range d.Add {
		message, err := it.message(first, from, &room)
		if err != nil {
			return req, fmt.Errorf("read stored request: /add/%d: %w", i, err)
		}
		req.Messages = req.Messages.Append(message)
	}
	req.Model, req.Cache = d.Model, d.Cache
	return req, nil
}

func (it item) message(first json.RawMessage, from source, room *room) (message json.RawMessage, err error) {
	switch {
	case it.Start == 1:
		message = first
	case it.Answer != nil:
		message, err = from.answer(*it.Answer)
	case it.Message != nil:
		message = it.Message
	case it.Template != nil:
		return fill(it.Template, it.Holes, from, room)
	default:
		err = fmt.Errorf(`expected one of "s", "r", "m" and "t"`)
	}
	if err == nil {
		err = room.take(len(message))
	}
	return message, err
}

// fill puts recorded results into a template.
func fill(template json.RawMessage, holes []hole, from source, room *room) (json.RawMessage, error) {
	type piece struct {
		at    int
		value json.RawMessage
	}
	size := len(template)
	if err := room.take(size); err != nil {
		return nil, err
	}
	pieces := make([]piece, 0, len(holes))
	for _, h := range holes {
		at, err := nullAt(template, h.At)
		if err != nil {
			return nil, err
		}
		value, err := from.result(h.ID)
		if err != nil {
			return nil, err
		}
		if h.Quoted {
			value = ledger.AppendString(nil, string(value))
		}
		if err := room.take(len(value)); err != nil {
			return nil, fmt.Errorf("hole %q: %w", h.At, err)
		}
		size += len(value)
		pieces = append(pieces, piece{at, value})
	}
	slices.SortFunc(pieces, func(a, b piece) int { return a.at - b.at })
	out := make([]byte, 0, size)
	done := 0
	for _, p := range pieces {
		if p.at < done {
			return nil, fmt.Errorf("two holes at one place")
		}
		out = append(append(out, template[done:p.at]...), p.value...)
		done = p.at + len("null")
	}
	return append(out, template[done:]...), nil
}

// nullAt returns the offset of the null that pointer names in a canonical
// template.
func nullAt(template json.RawMessage, pointer string) (int, error) {
	value := template
	for _, name := range strings.Split(strings.TrimPrefix(pointer, "/"), "/") {
		if len(value) > 0 && value[0] == '[' {
			n, err := strconv.Atoi(name)
			list := ledger.Elements(value)
			if err != nil || n < 0 || n >= len(list) {
				return 0, fmt.Errorf("hole %q: no element %q", pointer, name)
			}
			value = list[n]
			continue
		}
		if value = ledger.Member(value, name); value == nil {
			return 0, fmt.Errorf("hole %q: no member %q", pointer, name)
		}
	}
	if string(value) != "null" {
		return 0, fmt.Errorf("hole %q: expected null, found %.20q", pointer, value)
	}
	return offset(template, value), nil
}
