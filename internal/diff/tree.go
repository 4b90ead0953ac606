package diff

import (
	"bytes"
	"encoding/json"
)

// tree notes where every value of a canonical text stands, in the order in
// which they begin. A value's children follow it: the first is the node behind
// it, and next leads from one to its sibling.
type tree struct {
	text  []byte
	nodes []node
}

type node struct {
	key, keyEnd int // a member's name as it is spelled, without quotes; equal for an element
	start, end  int
	next        int // the node behind this one's last descendant
}

func newTree(text []byte) *tree {
	// A node for every eight bytes is about what records of short members need.
	t := &tree{text: text, nodes: make([]node, 0, len(text)/8+1)}
	t.read(0, 0, 0)
	return t
}

// read notes the value at pos and all in it, and returns the offset behind it.
// The text is canonical, so every byte is where it is expected, and no deeper
// than the ledger's bound.
func (t *tree) read(key, keyEnd, pos int) int {
	at := len(t.nodes)
	t.nodes = append(t.nodes, node{key: key, keyEnd: keyEnd, start: pos})
	end := 0
	switch t.text[pos] {
	case '{':
		end = t.readObject(pos)
	case '[':
		end = t.readArray(pos)
	case '"':
		end = t.stringEnd(pos)
	default:
		for end = pos; end < len(t.text) && !closes(t.text[end]); end++ {
		}
	}
	t.nodes[at].end, t.nodes[at].next = end, len(t.nodes)
	return end
}

func closes(b byte) bool { return b == ',' || b == '}' || b == ']' }

func (t *tree) readObject(pos int) int {
	if t.text[pos+1] == '}' {
		return pos + 2
	}
	for {
		key := pos + 1
		keyEnd := t.stringEnd(key)
		pos = t.read(key+1, keyEnd-1, keyEnd+1)
		if t.text[pos] == '}' {
			return pos + 1
		}
	}
}

func (t *tree) readArray(pos int) int {
	if t.text[pos+1] == ']' {
		return pos + 2
	}
	for {
		pos = t.read(0, 0, pos+1)
		if t.text[pos] == ']' {
			return pos + 1
		}
	}
}

// stringEnd returns the offset behind the string that begins at pos.
func (t *tree) stringEnd(pos int) int {
	for pos++; ; pos++ {
		switch t.text[pos] {
		case '\\':
			pos++
		case '"':
			return pos + 1
		}
	}
}

func (t *tree) raw(i int) []byte { return t.text[t.nodes[i].start:t.nodes[i].end] }

// copy returns the value apart from the text, so that a small change does not
// hold a large document in memory.
func (t *tree) copy(i int) json.RawMessage { return bytes.Clone(t.raw(i)) }

// name returns a member's decoded name.
func (t *tree) name(i int) []byte {
	n := t.nodes[i]
	spelled := t.text[n.key:n.keyEnd]
	if bytes.IndexByte(spelled, '\\') < 0 {
		return spelled
	}
	var name string
	_ = json.Unmarshal(t.text[n.key-1:n.keyEnd+1], &name) // canonical strings decode
	return []byte(name)
}

func (t *tree) children(i int) []int {
	var out []int
	for k := i + 1; k < t.nodes[i].next; k = t.nodes[k].next {
		out = append(out, k)
	}
	return out
}
