package converse

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"investigator/internal/ledger"
)

// Rest is the part of a Converse body beside the messages, canonical JSON with
// its digest. It is made once per run and shared by every request of it.
type Rest struct {
	body   json.RawMessage
	sum    string
	points int // cache points in system and tools, which share Bedrock's limit
}

// NewRest canonicalises the members beside "messages". It refuses a body that
// is not an object or that holds "messages".
func NewRest(object json.RawMessage) (Rest, error) {
	if len(object) == 0 {
		object = json.RawMessage(`{}`)
	}
	body, err := ledger.Canon(object)
	if err != nil {
		return Rest{}, fmt.Errorf("read request members: %w", err)
	}
	if body[0] != '{' {
		return Rest{}, fmt.Errorf("read request members: expected an object, found %.20s", body)
	}
	if member(body, "messages") != nil {
		return Rest{}, fmt.Errorf(`read request members: "messages" belongs to the thread`)
	}
	return Rest{body: body, sum: ledger.Digest(body), points: cachePoints(body)}, nil
}

// maxCachePoints is how many cache points Bedrock takes in one request.
const maxCachePoints = 4

// cachePoints counts the cache points of system and tools. Elements that are
// no objects are Bedrock's to refuse.
func cachePoints(body json.RawMessage) int {
	n := 0
	for _, list := range []json.RawMessage{member(body, "system"), member(member(body, "toolConfig"), "tools")} {
		for _, b := range ledger.Elements(list) {
			if member(b, "cachePoint") != nil {
				n++
			}
		}
	}
	return n
}

// JSON returns the canonical members. The caller must not modify it.
func (r Rest) JSON() json.RawMessage {
	if r.body == nil {
		return json.RawMessage(`{}`)
	}
	return r.body
}

// CacheRule says where a request's body carries cache points in its messages.
type CacheRule string

// The rules. CacheNone places none. CacheTail ends each of the last two user
// messages with a cache point, so that a turn reads what the turn before
// wrote and writes what the next will read; fewer where system and tools leave
// less of Bedrock's four. CacheTail1h asks for the one-hour lifetime.
const (
	CacheNone   CacheRule = ""
	CacheTail   CacheRule = "tail-5m"
	CacheTail1h CacheRule = "tail-1h"
)

// Request is one model call.
type Request struct {
	Model    string
	Messages *Thread
	Rest     Rest
	Cache    CacheRule
}

// Digest identifies the whole request (64 hex digits): the model id, every
// message, every other member and the cache rule. Its cost does not depend on
// the length of the conversation.
func (r Request) Digest() string {
	head := ledger.AppendString([]byte(`{"cache":`), string(r.Cache))
	head = append(head, `,"messages":"`...)
	head = append(head, r.Messages.Sum().String()...)
	head = append(head, `","model":`...)
	head = ledger.AppendString(head, r.Model)
	head = append(head, `,"rest":"`...)
	head = append(head, r.restSum()...)
	return ledger.Digest(append(head, `"}`...))
}

func (r Request) restSum() string {
	if r.Rest.body == nil {
		return ledger.Digest([]byte(`{}`))
	}
	return r.Rest.sum
}

// Body returns the canonical JSON of the Converse body, cache points included.
// The model id is not part of it (it travels in the path).
func (r Request) Body() json.RawMessage {
	messages := r.Wire()
	size := len(r.Rest.body) + 32
	for _, m := range messages {
		size += len(m) + 1
	}
	list := append(make([]byte, 0, size), `"messages":[`...)
	for i, m := range messages {
		if i > 0 {
			list = append(list, ',')
		}
		list = append(list, m...)
	}
	return insertMember(r.Rest.JSON(), "messages", append(list, ']'))
}

// Wire returns the messages as they go out: those of the thread, with cache
// points where the rule puts them.
func (r Request) Wire() []json.RawMessage {
	messages := r.Messages.Messages()
	if r.Cache == CacheNone {
		return messages
	}
	point := `,{"cachePoint":{"type":"default"}}]`
	if r.Cache == CacheTail1h {
		point = `,{"cachePoint":{"ttl":"1h","type":"default"}}]`
	}
	room := min(2, maxCachePoints-r.Rest.points)
	for i := len(messages) - 1; i >= 0 && room > 0; i-- {
		if end, found := bytes.CutSuffix(messages[i], []byte(userEnd)); found && !bytes.HasSuffix(end, []byte{'['}) {
			messages[i] = slices.Concat(end, []byte(point), []byte(userEnd[1:]))
			room--
		}
	}
	return messages
}

// userEnd is how every canonical user message ends. It must be looked for at
// the end alone: a tool's input may hold the same text.
const userEnd = `],"role":"user"}`

// insertMember adds a member to a canonical object at its sorted place. member
// is `"name":value`.
func insertMember(object json.RawMessage, name string, member []byte) json.RawMessage {
	at, _ := ledger.MemberSpans(object)
	pos := len(object) - 1
	for _, m := range at {
		if string(m.Name) > name {
			pos = m.Start
			break
		}
	}
	out := append(make([]byte, 0, len(object)+len(member)+1), object[:pos]...)
	if pos == len(object)-1 {
		if len(at) > 0 {
			out = append(out, ',')
		}
		out = append(out, member...)
	} else {
		out = append(append(out, member...), ',')
	}
	return append(out, object[pos:]...)
}

// Members splits an object into its members, values raw. The error quotes the
// beginning of what is no object.
func Members(object json.RawMessage) (map[string]json.RawMessage, error) {
	var m map[string]json.RawMessage
	if err := json.Unmarshal(object, &m); err != nil || m == nil {
		return nil, fmt.Errorf("expected an object, found %.20s", object)
	}
	return m, nil
}

// SplitBody divides a whole Converse body into its messages and the rest. It
// is the inverse of Body for a request without cache points.
func SplitBody(body json.RawMessage) (*Thread, Rest, error) {
	canon, err := ledger.Canon(body)
	if err != nil {
		return nil, Rest{}, fmt.Errorf("read request body: %w", err)
	}
	members, err := Members(canon)
	if err != nil {
		return nil, Rest{}, fmt.Errorf("read request body: %w", err)
	}
	var messages []json.RawMessage
	if raw, found := members["messages"]; found {
		if err := json.Unmarshal(raw, &messages); err != nil {
			return nil, Rest{}, fmt.Errorf("read request body: /messages: expected an array: %w", err)
		}
		delete(members, "messages")
	}
	other, err := ledger.CanonValue(members)
	if err != nil {
		return nil, Rest{}, err
	}
	rest, err := NewRest(other)
	return NewThread(messages...), rest, err
}
