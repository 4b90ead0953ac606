package engine

import (
	"encoding/json"

	"investigator/internal/converse"
	"investigator/internal/diff"
	"investigator/internal/ledger"
)

// RequestChanges compares two model requests and returns what differs as
// pointers into the Converse body. The model id, which travels in the path,
// appears as /modelId, the cache rule as /cachePoints.
func RequestChanges(recorded, now converse.Request) []diff.Change {
	if recorded.Digest() == now.Digest() {
		return nil
	}
	changes, err := diff.Values(describe(recorded), describe(now))
	if err != nil {
		return nil // both are canonical JSON written here
	}
	return changes
}

// describe is a request as one document. Cache points are named by their rule
// instead of standing in the messages, where a moving one would hide what
// really changed.
func describe(r converse.Request) json.RawMessage {
	rule := r.Cache
	r.Cache = converse.CacheNone
	members, err := converse.Members(r.Body())
	if err != nil {
		return json.RawMessage(`{}`)
	}
	members["modelId"] = quote(r.Model)
	if rule != converse.CacheNone {
		members["cachePoints"] = quote(string(rule))
	}
	doc, err := ledger.CanonValue(members)
	if err != nil {
		return json.RawMessage(`{}`)
	}
	return doc
}
