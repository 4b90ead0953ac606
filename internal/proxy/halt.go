package proxy

import (
	"fmt"

	"investigator/internal/diff"
)

// Halt says what the next model call would have been. It was not made.
type Halt struct {
	Event    int           `json:"event"`              // what the answer would become
	Recorded int           `json:"recorded,omitempty"` // the parent's event it stands against
	Changes  []diff.Change `json:"changes"`            // of the model's input
	Tokens   int           `json:"tokens_not_spent"`   // about
	Model    string        `json:"model"`
}

// halt says what the next model call would have been.
func (f *forking) halt(c *call) *Halt {
	h := &Halt{Event: f.run.project.Seq() + 1, Model: c.Request.Model, Tokens: (len(c.raw) + 3) / 4, Changes: []diff.Change{}}
	if t := f.counterpart(); t != nil {
		h.Recorded = t.seq
		if recorded, err := t.asked(); err == nil {
			if changes, err := diff.Values(documentOf(recorded, true), documentOf(c.Asked, true)); err == nil && changes != nil {
				h.Changes = changes
			}
		}
	}
	if f.out.Halt == nil {
		f.out.Halt = h
		f.p.o.Notify(Note{"halted", h.String()})
	}
	return h
}

// counterpart is the parent's call in the place of the halted one.
func (f *forking) counterpart() *taped {
	at := f.at
	if f.onTurn() && !f.wholeTurn() {
		at++
	}
	if calls := f.tapes[0].calls; at < len(calls) {
		return calls[at]
	}
	return nil
}

// String says it in one line.
func (h *Halt) String() string {
	s := fmt.Sprintf("halted before the model call of event %d, as asked: about %d input tokens of %s not spent", h.Event, h.Tokens, h.Model)
	for i, c := range h.Changes {
		if i == 3 {
			s += fmt.Sprintf("; and %d more", len(h.Changes)-i)
			break
		}
		s += fmt.Sprintf("; %s %s: was %s, now %s", c.Kind, c.Path, shown(c.Old), shown(c.New))
	}
	return s
}
