package proxy

import (
	"bytes"
	"encoding/json"

	"investigator/internal/diff"
	"investigator/internal/ledger"
)

// divergences are those of a proxy's life, which may be long: an agent that
// diverged can send one other request after the other, each as large as its
// whole conversation.
type divergences struct {
	list []Divergence
	more int // that are not in list
	size int // bytes that the changes in list hold
}

const (
	maxDiverged = 1000     // told of in the result; the others are counted
	maxDetail   = 16 << 20 // bytes of changes in the result
)

func (l *divergences) add(d Divergence) {
	if len(l.list) == maxDiverged {
		l.more++
		return
	}
	if l.size+sizeOf(d.Changes) > maxDetail {
		d = d.brief()
	}
	l.size += sizeOf(d.Changes)
	l.list = append(l.list, d)
}

// note takes a divergence down and tells of it, once.
func (m *replaying) note(c *call, d Divergence) {
	m.mu.Lock()
	known := m.missed[c.key] // the same request again, from a client that retries
	if !known {
		m.missed[c.key] = true
		m.diverged.add(d)
	}
	m.mu.Unlock()
	if !known {
		m.p.o.Notify(Note{"diverged", d.String()})
	}
}

// sizeOf is about how much memory changes hold.
func sizeOf(changes []diff.Change) int {
	const each = 128 // beside the texts
	n := 0
	for _, c := range changes {
		n += each + len(c.Path) + len(c.Old) + len(c.New)
	}
	return n
}

// brief is a divergence with no more than its first change, and of that no more
// than is shown in a line.
func (d Divergence) brief() Divergence {
	if len(d.Changes) == 0 {
		return d
	}
	c := d.Changes[0]
	d.More += len(d.Changes) - 1
	c.Old, c.New = briefly(c.Old), briefly(c.New)
	d.Changes = []diff.Change{c}
	return d
}

// briefly is a value itself, or the beginning of its JSON as a text.
func briefly(v json.RawMessage) json.RawMessage {
	if len(v) <= maxShown {
		return bytes.Clone(v)
	}
	return ledger.AppendString(nil, shown(v))
}
