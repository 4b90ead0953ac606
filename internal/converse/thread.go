package converse

import (
	"encoding/json"

	"investigator/internal/ledger"
)

// Thread is an immutable conversation: a list of messages, each the canonical
// JSON of {"content":[…],"role":…}. A nil *Thread is the empty conversation.
// Threads share their past and may be used from many goroutines.
type Thread struct {
	parent  *Thread
	message json.RawMessage
	sum     ledger.Sum
	n       int
	size    int
}

// Append returns the thread with one more message, which must be canonical and
// must not be modified afterwards.
func (t *Thread) Append(message json.RawMessage) *Thread {
	return &Thread{parent: t, message: message, sum: t.Sum().Next(message), n: t.Len() + 1, size: t.Size() + len(message)}
}

// Len returns the number of messages.
func (t *Thread) Len() int {
	if t == nil {
		return 0
	}
	return t.n
}

// Size returns how many bytes the messages are, at no cost.
func (t *Thread) Size() int {
	if t == nil {
		return 0
	}
	return t.size
}

// Sum returns the digest chained over the messages.
func (t *Thread) Sum() ledger.Sum {
	if t == nil {
		return ledger.Sum{}
	}
	return t.sum
}

// Parent returns the thread without its last message, nil for the empty one.
func (t *Thread) Parent() *Thread {
	if t == nil {
		return nil
	}
	return t.parent
}

// Last returns the last message, nil for the empty thread.
func (t *Thread) Last() json.RawMessage {
	if t == nil {
		return nil
	}
	return t.message
}

// Messages returns all messages in order. The slice is fresh, the messages are
// shared.
func (t *Thread) Messages() []json.RawMessage { return t.Since(nil) }

// Since returns the messages that t has beyond its ancestor, in order. A nil
// ancestor means all of them.
func (t *Thread) Since(ancestor *Thread) []json.RawMessage {
	out := make([]json.RawMessage, t.Len()-ancestor.Len())
	for i, node := len(out)-1, t; i >= 0; i, node = i-1, node.parent {
		out[i] = node.message
	}
	return out
}

// NewThread builds a thread from canonical messages.
func NewThread(messages ...json.RawMessage) *Thread {
	var t *Thread
	for _, m := range messages {
		t = t.Append(m)
	}
	return t
}
