package proxy

import (
	"bytes"
	"encoding/json"

	"investigator/internal/diff"
	"investigator/internal/ledger"
)

// divergences are those that the result tells one by one. Each holds parts of a
// request, which may be a conversation of many megabytes.
type divergences struct {
	list []Divergence
	size int // bytes that their changes hold
}

const (
	// maxDiverged is how many divergences are told one by one: an agent that went
	// astray may send other requests for days.
	maxDiverged = 100
	maxDetail   = 16 << 20 // bytes of changes in the result
)

func (l *divergences) add(d Divergence) {
	if l.size+sizeOf(d.Changes) > maxDetail {
		d = d.brief()
	}
	l.size += sizeOf(d.Changes)
	l.list = append(l.list, d)
}

// note takes a divergence down and tells of it, once.
func (m *replaying) note(c *call, d Divergence) {
	if m.isNew(c, d) {
		m.p.o.Notify(Note{"diverged", d.String()}) // which takes as long as a terminal takes
	}
}

// isNew takes a divergence down, unless it was or there are too many.
func (m *replaying) isNew(c *call, d Divergence) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.missed[c.key] {
		return false // the same request again, from a client that retries
	}
	if len(m.missed) >= maxDiverged {
		m.more++
		return false
	}
	m.missed[c.key] = true
	m.diverged.add(d)
	return true
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
