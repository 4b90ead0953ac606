package foreign

import (
	"bytes"
	"encoding/json"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// Change is a kind of difference between two requests that does not change what
// the model is asked. Each is declared here and counted where it occurs.
// Spelling (order of members, white space, escapes) is no Change: requests are
// compared in canonical JSON.
type Change string

// The changes that honest clients make.
const (
	RoundedNumbers Change = "rounded-numbers"      // 9007199254740993 echoed as …992, 1.0 as 1
	SuccessStatus  Change = "success-status"       // "status":"success" added to a tool result
	AutoToolChoice Change = "auto-tool-choice"     // toolChoice auto, which is the default
	ResponsePaths  Change = "response-field-paths" // additionalModelResponseFieldPaths
	BlankText      Change = "blank-text"           // text blocks of white space alone, outside of tool results
	CachePoints    Change = "cache-points"         // where the prompt cache is written
	EmptyMembers   Change = "empty-members"        // null members, an empty inferenceConfig
	Metadata       Change = "request-metadata"     // requestMetadata, which no model sees
)

// Changes lists all of them.
func Changes() []Change {
	return []Change{RoundedNumbers, SuccessStatus, AutoToolChoice, ResponsePaths, BlankText, CachePoints, EmptyMembers, Metadata}
}

// set is a set of changes, by their place in Changes.
type set uint16

const (
	roundedNumbers set = 1 << iota
	successStatus
	autoToolChoice
	responsePaths
	blankText
	cachePoints
	emptyMembers
	metadata
	everything = metadata<<1 - 1
)

func (s set) has(o set) bool { return s&o != 0 }

// Meaning returns a canonical message or the members beside the messages
// without what the changes make different. It returns value itself where there
// is nothing to take out.
func Meaning(value json.RawMessage) json.RawMessage { return meaning(value, everything) }

func meaning(value json.RawMessage, s set) json.RawMessage {
	plain, results := survey(value)
	if plain {
		return value
	}
	return rewritten(value, s, results)
}

// Compare reports whether two canonical values mean the same, and by which
// changes they differ: the fewest that explain it.
func Compare(recorded, now json.RawMessage) (changes []Change, same bool) {
	if bytes.Equal(recorded, now) {
		return nil, true
	}
	if !bytes.Equal(meaning(recorded, everything), meaning(now, everything)) {
		return nil, false
	}
	used := everything
	for i, c := range Changes() {
		without := used &^ (1 << i)
		if bytes.Equal(meaning(recorded, without), meaning(now, without)) {
			used = without
			continue
		}
		changes = append(changes, c)
	}
	return changes, true
}

// CompareRequests is Compare over whole requests.
func CompareRequests(recorded, now Asked) (changes []Change, same bool) {
	if recorded.Route.Op != now.Route.Op || recorded.Request.Model != now.Request.Model {
		return nil, false
	}
	changes, same = Compare(recorded.Request.Rest.JSON(), now.Request.Rest.JSON())
	a, b := recorded.Request.Messages.Messages(), now.Request.Messages.Messages()
	if !same || len(a) != len(b) {
		return nil, false
	}
	for i := range a {
		more, same := Compare(a[i], b[i])
		if !same {
			return nil, false
		}
		changes = append(changes, more...)
	}
	return changes, true
}

// Sums returns the digest chained over the meanings of the messages, one for
// each beginning of the conversation.
func Sums(messages []json.RawMessage) []ledger.Sum {
	out := make([]ledger.Sum, len(messages))
	var s ledger.Sum
	for i, m := range messages {
		s = s.Next(Meaning(m))
		out[i] = s
	}
	return out
}

// SumsOf is Sums over the messages of a thread. It costs less: as long as the
// meanings are the messages themselves, the sums are the thread's own.
func SumsOf(t *converse.Thread) []ledger.Sum {
	nodes := make([]*converse.Thread, t.Len())
	for i := len(nodes) - 1; i >= 0; i, t = i-1, t.Parent() {
		nodes[i] = t
	}
	out := make([]ledger.Sum, len(nodes))
	var s ledger.Sum
	for i, node := range nodes {
		s = NextSum(s, node)
		out[i] = s
	}
	return out
}

// NextSum is the sum after the thread's last message, given the one before it.
func NextSum(before ledger.Sum, t *converse.Thread) ledger.Sum {
	if before == t.Parent().Sum() && plain(t.Last()) {
		return t.Sum()
	}
	return before.Next(Meaning(t.Last()))
}

// Key identifies a request by its meaning: operation, model, members and
// conversation. sum is the last of its Sums.
func Key(a Asked, sum ledger.Sum) ledger.Sum {
	return sum.Next([]byte(a.Route.Op)).Next([]byte(a.Request.Model)).Next(Meaning(a.Request.Rest.JSON()))
}
