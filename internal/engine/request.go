package engine

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/diff"
	"investigator/internal/ledger"
)

// RequestChanges compares two model requests and returns what differs as
// pointers into the Converse body. The model id, which travels in the path,
// appears as /modelId, the cache rule as /cachePoints. Its cost is that of what
// differs: messages that both begin with are not looked at.
func RequestChanges(recorded, now converse.Request) []diff.Change {
	rest := !bytes.Equal(recorded.Rest.JSON(), now.Rest.JSON())
	if !rest && recorded.Messages.Sum() == now.Messages.Sum() && recorded.Model == now.Model && recorded.Cache == now.Cache {
		return nil
	}
	shared := sharedMessages(recorded.Messages, now.Messages)
	changes, err := diff.Values(describe(recorded, shared, rest), describe(now, shared, rest))
	if err != nil {
		return nil // both are canonical JSON written here
	}
	for i := range changes {
		changes[i].Path = behind(changes[i].Path, shared)
	}
	return changes
}

// bodySize is the length of a request's body, which is not put together for it.
func bodySize(r converse.Request) int {
	messages := r.Wire()
	size := len(r.Rest.JSON()) + len(`"messages":[]`) + max(len(messages)-1, 0)
	if len(r.Rest.JSON()) > len(`{}`) {
		size++ // the comma beside the other members
	}
	for _, m := range messages {
		size += len(m)
	}
	return size
}

// sharedMessages returns what both threads begin with, nil where one of them is
// all of it: that the one ends there is then the change.
func sharedMessages(a, b *converse.Thread) *converse.Thread {
	short := min(a.Len(), b.Len())
	for a.Len() > b.Len() {
		a = a.Parent()
	}
	for b.Len() > a.Len() {
		b = b.Parent()
	}
	for a.Sum() != b.Sum() {
		a, b = a.Parent(), b.Parent()
	}
	if a.Len() == short {
		return nil
	}
	return a
}

// describe is what a request has beyond shared messages, as one document, with
// or without the members that are neither. Cache points are named by their rule
// instead of standing in the messages, where a moving one would hide what
// really changed.
func describe(r converse.Request, shared *converse.Thread, rest bool) json.RawMessage {
	doc := []byte{'{'}
	if members := r.Rest.JSON(); rest && len(members) > len(`{}`) {
		doc = append(append(doc, members[1:len(members)-1]...), ',')
	}
	doc = ledger.AppendString(append(doc, `"modelId":`...), r.Model)
	if r.Cache != converse.CacheNone {
		doc = ledger.AppendString(append(doc, `,"cachePoints":`...), string(r.Cache))
	}
	doc = append(doc, `,"messages":[`...)
	for i, m := range r.Messages.Since(shared) {
		if i > 0 {
			doc = append(doc, ',')
		}
		doc = append(doc, m...)
	}
	return append(doc, `]}`...)
}

const messagesPath = "/messages/"

// behind moves a pointer to a message by the messages that were left out.
func behind(path string, shared *converse.Thread) string {
	rest, found := strings.CutPrefix(path, messagesPath)
	if !found || shared.Len() == 0 {
		return path
	}
	index, rest, more := strings.Cut(rest, "/")
	n, err := strconv.Atoi(index)
	if err != nil {
		return path // an array's elements have numbers
	}
	path = messagesPath + strconv.Itoa(n+shared.Len())
	if more {
		path += "/" + rest
	}
	return path
}
