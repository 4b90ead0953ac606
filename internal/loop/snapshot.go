package loop

import (
	"encoding/json"
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// snapshot is the stored form of a State. Digests and seqs of pending calls
// are derived again on Restore.
type snapshot struct {
	Start    json.RawMessage   `json:"start"`
	Model    string            `json:"model"`
	Seq      int               `json:"seq"`
	Turn     int               `json:"turn"`
	Messages []json.RawMessage `json:"messages"`
	Calls    []savedCall       `json:"calls,omitempty"`
	Answers  []json.RawMessage `json:"answers,omitempty"`
	Usage    converse.Usage    `json:"usage"`
	Nudged   bool              `json:"nudged,omitempty"`
	Finished json.RawMessage   `json:"finished,omitempty"`
	Charge   *savedCharge      `json:"charge,omitempty"` // where a fork changed it
}

type savedCharge struct {
	Price *Price         `json:"price"`
	Spent int64          `json:"spent"`
	Used  converse.Usage `json:"used"`
}

type savedCall struct {
	Pos   int             `json:"pos"`
	Seq   int             `json:"seq"`
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Snapshot returns the state as canonical JSON.
func (s State) Snapshot() (json.RawMessage, error) {
	snap := snapshot{
		Start: s.begin.data, Model: s.model, Seq: s.seq, Turn: s.turn, Messages: s.thread.Messages(),
		Answers: s.answers, Usage: s.usage, Nudged: s.nudged, Finished: s.finished,
	}
	for _, c := range s.calls {
		snap.Calls = append(snap.Calls, savedCall{c.Pos, c.Seq, c.Use.ID, c.Use.Name, c.Use.Input})
	}
	if s.charge.price != s.begin.Price {
		snap.Charge = &savedCharge{s.charge.price, s.charge.spent, s.charge.used}
	}
	return ledger.CanonValue(snap)
}

// Restore reads a snapshot. The state continues exactly as the one it was
// taken from. A snapshot no state could have given is refused.
func Restore(data json.RawMessage) (State, error) {
	var snap snapshot
	canon, err := ledger.Canon(data)
	if err != nil {
		return State{}, fmt.Errorf("read snapshot: %w", err)
	}
	if err := json.Unmarshal(canon, &snap); err != nil {
		return State{}, fmt.Errorf("read snapshot: %w", err)
	}
	if err := snap.check(); err != nil {
		return State{}, fmt.Errorf("read snapshot: %w", err)
	}
	b, err := parseStart(snap.Start)
	if err != nil {
		return State{}, fmt.Errorf("read snapshot: %w", err)
	}
	s := State{
		begin: b, model: snap.Model, seq: snap.Seq, turn: snap.Turn, thread: converse.NewThread(snap.Messages...),
		usage: snap.Usage, nudged: snap.Nudged, finished: snap.Finished, charge: charge{price: b.Price},
	}
	if c := snap.Charge; c != nil {
		s.charge = charge{c.Price, c.Spent, c.Used}
	}
	for _, a := range snap.Answers {
		if string(a) == "null" {
			a = nil
		}
		s.answers = append(s.answers, a)
	}
	for _, c := range snap.Calls {
		use := converse.ToolUse{ID: c.ID, Name: c.Name, Input: c.Input}
		s.calls = append(s.calls, edge.Call{Kind: edge.Tool, Seq: c.Seq, Turn: s.turn, Pos: c.Pos, In: edge.ToolDigest(c.Name, c.Input), Use: use})
	}
	return s.waiting(), nil
}

// check holds what every State holds: the awaited calls are exactly the gaps
// among the answers, in order, and their events follow one another.
func (snap snapshot) check() error {
	var gaps []int
	for i, a := range snap.Answers {
		if a == nil || string(a) == "null" {
			gaps = append(gaps, i)
		}
	}
	switch {
	case snap.Seq < 1:
		return fmt.Errorf("/seq: expected 1 or more, found %d", snap.Seq)
	case snap.Model == "":
		return fmt.Errorf("/model: expected a model id, found none")
	case len(snap.Messages) == 0:
		return fmt.Errorf("/messages: expected at least the question, found none")
	case len(gaps) != len(snap.Calls):
		return fmt.Errorf("/calls: expected %d, one for each answer awaited, found %d", len(gaps), len(snap.Calls))
	}
	for i, c := range snap.Calls {
		if c.Pos != gaps[i] || c.Seq != snap.Seq+1+i {
			return fmt.Errorf("/calls/%d: expected pos %d and seq %d, found %d and %d", i, gaps[i], snap.Seq+1+i, c.Pos, c.Seq)
		}
	}
	return nil
}
