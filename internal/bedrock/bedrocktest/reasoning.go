package bedrocktest

import (
	"sync"
)

// reasoningMemory holds the reasoning the server issued (rule 14,
// opencode#18078): signed text must come back as it was, in its order, whole.
// Reasoning the server never issued is not judged, so that a conversation
// recorded elsewhere can be continued here.
type reasoningMemory struct {
	mu     sync.Mutex
	turns  [][]Block        // one per distinct turn that held reasoning
	bySign map[string][]int // signature or redacted bytes → turns
	byText map[string][]int // text → turns
	seen   map[string]bool  // rendered turns, so that repeats cost nothing
}

func newReasoningMemory() *reasoningMemory {
	return &reasoningMemory{bySign: map[string][]int{}, byText: map[string][]int{}, seen: map[string]bool{}}
}

func reasoningOf(blocks []Block) []Block {
	var out []Block
	for _, b := range blocks {
		if b.Kind == KindReasoning || b.Kind == KindRedacted {
			out = append(out, Block{Kind: b.Kind, Text: b.Text, Signature: b.Signature, Redacted: b.Redacted})
		}
	}
	return out
}

// issue remembers a turn that is about to be sent.
func (m *reasoningMemory) issue(blocks []Block) {
	turn := reasoningOf(blocks)
	if len(turn) == 0 {
		return
	}
	key := string(encode(turn))
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.seen[key] {
		return
	}
	m.seen[key] = true
	n := len(m.turns)
	m.turns = append(m.turns, turn)
	for _, b := range turn {
		sign := mark(b)
		m.bySign[sign] = append(m.bySign[sign], n)
		if b.Text != "" {
			m.byText[b.Text] = append(m.byText[b.Text], n)
		}
	}
}

func mark(b Block) string {
	if b.Kind == KindRedacted {
		return "redacted:" + string(b.Redacted)
	}
	return "signed:" + b.Signature
}

// check refuses a conversation whose latest assistant message brings back
// altered reasoning. Leaving all of it out is another rule's business (13).
func (m *reasoningMemory) check(r Request) *APIError {
	for i := len(r.Messages) - 1; i >= 0; i-- {
		if r.Messages[i].Role != "assistant" {
			continue
		}
		if m.altered(reasoningOf(r.Messages[i].Blocks)) {
			c := conversation{anthropic: r.Op != OpConverse && r.Op != OpConverseStream}
			return c.refuse("messages.%d.content.0: `thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified. These blocks must remain as they were in the original response.", i)
		}
		return nil
	}
	return nil
}

// altered says whether came stems from issued turns but equals none of them.
func (m *reasoningMemory) altered(came []Block) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	related := false
	want := string(encode(came))
	for _, b := range came {
		for _, n := range append(append([]int(nil), m.bySign[mark(b)]...), m.byText[b.Text]...) {
			related = true
			if string(encode(m.turns[n])) == want {
				return false
			}
		}
	}
	return related
}
