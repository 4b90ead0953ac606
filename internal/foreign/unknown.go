package foreign

import (
	"encoding/json"
	"slices"
	"strings"

	"investigator/internal/converse"
)

// unknown is an event of a stream that this build does not know, kept raw when
// the answer was read. Where it stood among the known ones was not kept: only
// its order among its like, and the block it names.
type unknown struct {
	kind    string
	payload json.RawMessage
	block   int // -1 where it is about no block
	starts  bool
}

// unknownEvents are those of a turn, in order.
type unknownEvents struct {
	list []unknown
	name string // of the member that holds the block's index
}

// keptUnknown reads the events that were kept beside a turn, in the form of its
// dialect. What a patch made of them need not be events; such are left out.
func keptUnknown(turn converse.Turn, d Dialect) unknownEvents {
	u := unknownEvents{name: "index"}
	about := "content_block_"
	if d == Converse {
		u.name, about = "contentBlockIndex", "contentBlock"
	}
	list, _ := elements(member(member(turn.Raw, "investigator"), "unknownEvents"))
	for _, raw := range list {
		e := unknown{kind: stringOf(member(raw, "type")), payload: raw, block: -1}
		if d == Converse {
			e.payload = member(raw, "payload")
		}
		if !plainKind(e.kind) || len(e.payload) == 0 || partlyKnown(e.payload, d) {
			continue
		}
		var index *int
		if strings.HasPrefix(e.kind, about) && json.Unmarshal(member(e.payload, u.name), &index) == nil && index != nil && *index >= 0 {
			e.block, e.starts = *index, e.kind == "contentBlockStart"
		}
		u.list = append(u.list, e)
	}
	return u
}

// starts reports whether the next block known by its number began with an event
// that is unknown: nothing else of it was understood.
func (u *unknownEvents) starts(block int) bool {
	for _, e := range u.list {
		if e.block >= 0 {
			return e.starts && e.block <= block
		}
	}
	return false
}

// next returns the number of the block that the next such event names, -1 if
// there is none.
func (u *unknownEvents) next() int {
	for _, e := range u.list {
		if e.block >= 0 {
			return e.block
		}
	}
	return -1
}

// opens reports whether readers make a block of the events that name one: an
// event of a kind that they do not know makes none.
func (u *unknownEvents) opens(block int) bool {
	return slices.ContainsFunc(u.list, func(e unknown) bool {
		return e.block == block && (e.kind == "contentBlockStart" || e.kind == "contentBlockDelta")
	})
}

// upTo takes the events away that come with a block, numbered anew as it is
// sent, and what stands between them.
func (u *unknownEvents) upTo(block, sentAs int) []unknown {
	n := 0
	for i, e := range u.list {
		if e.block > block {
			break
		}
		if e.block >= 0 {
			n = i + 1
		}
	}
	out := u.list[:n:n]
	u.list = u.list[n:]
	for i, e := range out {
		if e.block >= 0 {
			out[i].payload = with(e.payload, u.name, encode(sentAs))
		}
	}
	return out
}

// partlyKnown reports whether a part of an event went into a block when it was
// read: sent again, it would be there twice. Services send one part in each. It
// decodes as the readers do.
func partlyKnown(payload json.RawMessage, d Dialect) bool {
	if d == Anthropic {
		var e struct {
			Delta struct {
				Text, Thinking, Signature string
				Input                     string `json:"partial_json"`
			} `json:"delta"`
		}
		return json.Unmarshal(payload, &e) != nil || e.Delta.Text+e.Delta.Thinking+e.Delta.Signature+e.Delta.Input != ""
	}
	var e struct {
		Start map[string]json.RawMessage `json:"start"`
		Delta map[string]json.RawMessage `json:"delta"`
	}
	if json.Unmarshal(payload, &e) != nil {
		return false // of an event that is about no block
	}
	thoughts, _ := converse.Members(e.Delta["reasoningContent"])
	results, _ := elements(e.Delta["toolResult"])
	return len(e.Start) > 1 || len(e.Delta) > 1 || len(thoughts) > 1 || len(results) > 1
}

// plainKind reports whether a text can stand as an event's type in a header and
// on a line.
func plainKind(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return 0 < len(s) && len(s) <= 128
}
