package proxy

import (
	"encoding/json"
	"net/http"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/faults"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// patched is what a fork did to the requests of its run: it edited how the run
// begins or a tool result, or inserted calls. The agent still sends its own
// history, so it is done again on the way to the tape.
type patched struct {
	from      int                // index of the first call whose request has it
	start     *restart           // nil where the beginning was not edited
	insertion *foreign.Insertion // nil where no call was inserted
	at        place
	body      json.RawMessage
	failed    bool
}

// apply returns the request as the fork's model got it; a request that has no
// place for the patch stays as it is.
func (p patched) apply(a foreign.Asked) foreign.Asked {
	switch {
	case p.start != nil:
		a, _ = p.start.apply(a)
	case p.insertion != nil:
		a, _ = a.Insert(*p.insertion)
	default:
		a = a.SetResult(p.at.Result, p.body, p.failed)
	}
	return a
}

// patched is a request that should have been t's, as the fork that t belongs to
// had it, so that what the fork did is not taken for what the agent changed.
func (t *taped) patched(c *call) *call {
	out := *c
	for _, p := range t.tape.patches {
		if p.from <= t.index {
			out.Asked = p.apply(out.Asked)
		}
	}
	return &out
}

// insertionAt reads which calls a fork inserted into the turn of event seq,
// which stands at a message: calls and returns are its own, and both are
// patched. It is nil for any other turn.
func insertionAt(c *recorder.Cassette, seq, message int) (*foreign.Insertion, error) {
	e, err := c.Event(seq)
	if err != nil {
		return nil, err
	}
	turn, err := converse.ParseTurn(e.Data)
	if err != nil {
		return nil, nil // a failure, or an edit that left no turn
	}
	total, err := c.EventCount()
	if err != nil {
		return nil, err
	}
	in := &foreign.Insertion{Message: message, Turn: e.Data}
	for next := seq + 1; next <= total; next++ {
		e, err := c.Event(next)
		if err != nil {
			return nil, err
		}
		if e.Type == ledger.ModelResponded || e.Type == ledger.ModelFailed {
			break
		}
		if a := addedBy(c, e, seq, turn.ToolUses); a != nil {
			in.Added = append(in.Added, *a)
		}
	}
	if len(in.Added) == 0 {
		return nil, nil
	}
	return in, nil
}

// addedBy reads a tool.returned that a fork made up at event seq, nil for other
// events.
func addedBy(c *recorder.Cassette, e ledger.Event, seq int, uses []converse.ToolUse) *foreign.Added {
	if origin, err := c.Origin(e.Seq); err != nil || origin != edge.Patched || e.Type != ledger.ToolReturned {
		return nil
	}
	ret, err := c.Return(e.Seq)
	var d struct {
		Pos int `json:"pos"`
	}
	if err != nil || json.Unmarshal(e.Data, &d) != nil || d.Pos < 0 || d.Pos >= len(uses) || !faults.IsInserted(uses[d.Pos].ID, seq) {
		return nil
	}
	return &foreign.Added{Use: uses[d.Pos], Body: ret.Body, Failed: ret.Failed}
}

// note takes down what a fork did to a call and to the requests after it.
func (t *tape) note(call *taped, results []foreign.Answered, inserted *foreign.Insertion) {
	var before *foreign.Insertion
	if call.index > 0 {
		before = t.calls[call.index-1].inserted
	}
	for _, a := range results {
		at := place{a.Result, a.Call.Seq, a.Call.Use.Name}
		call.named = append(call.named, at)
		origin, err := t.c.Origin(at.seq)
		if err == nil && origin == edge.Patched && (before == nil || !before.Holds(a.Call.Use.ID)) {
			t.patches = append(t.patches, patched{from: call.index, at: at, body: a.Result.Body, failed: a.Result.Failed})
		}
	}
	if inserted != nil {
		call.inserted, call.hidden = inserted, inserted.Whole() // which no agent asks for
		call.used = call.hidden
		t.patches = append(t.patches, patched{from: call.index + 1, insertion: inserted})
	}
}

// upTo leaves of what the parent's own forks did that which the history before
// a call holds.
func (t *tape) upTo(index int) {
	n := 0
	for n < len(t.patches) && t.patches[n].from <= index {
		n++
	}
	t.patches = t.patches[:n:n]
	for _, call := range t.calls[min(index, len(t.calls)):] {
		call.used, call.hidden = false, false
	}
}

// insertion is what the fork inserts into the patched turn: a new call, and
// those of the parent that are left in it.
func (f *forking) insertion() error {
	if !f.onTurn() || f.edited.Return.Failed {
		return nil
	}
	t := f.tapes[0].calls[f.at]
	turn, err := converse.ParseTurn(f.edited.Return.Body)
	if err != nil {
		return err
	}
	recorded, err := t.asked()
	if err != nil {
		return err
	}
	in := &foreign.Insertion{Message: recorded.Request.Messages.Len(), Turn: f.edited.Return.Body}
	for _, u := range turn.ToolUses {
		if a := t.added(u.ID); a != nil {
			in.Added = append(in.Added, *a)
		}
	}
	if n := f.edited.Inserted; n != nil {
		in.Added = append(in.Added, foreign.Added{Use: n.Use, Body: n.Return.Body, Failed: n.Return.Failed})
	}
	if len(in.Added) > 0 {
		f.inserted, f.asItCame = in, f.edited.Inserted != nil
	}
	return nil
}

// added returns the call that the tape's fork inserted under an id, nil if there
// is none.
func (t *taped) added(id string) *foreign.Added {
	if t.inserted == nil {
		return nil
	}
	for i := range t.inserted.Added {
		if t.inserted.Added[i].Use.ID == id {
			return &t.inserted.Added[i]
		}
	}
	return nil
}

// insert returns a later request with the inserted calls, and records what they
// are said to have returned beside what the agent's own did. d says what is
// wrong with a request that has no place for them.
func (f *forking) insert(c *call) (out *call, d *Divergence, err error) {
	a, err := c.Insert(*f.inserted)
	if err != nil {
		return nil, &Divergence{Cassette: f.o.Parent.Name(), Event: f.o.Patch.At, Type: ledger.ModelResponded, Cause: err.Error()}, nil
	}
	if out, err = f.asPatched(c, a); err != nil || f.told {
		return out, nil, err
	}
	f.told = true
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	next, answered := f.run.project.Results(a)
	var list []recorder.Taken
	for _, r := range answered {
		for _, added := range f.inserted.Added {
			if added.Use.ID == r.Call.Use.ID {
				r = r.WithReturn(edge.Return{Body: added.Body, Failed: added.Failed, Origin: edge.Patched})
			}
		}
		list = append(list, recorder.Taken(r.Taken))
	}
	f.run.project = next
	return out, nil, f.run.writer.TookAll(list)
}

// unplaced refuses a request that has no place for what the fork inserted.
func (f *forking) unplaced(c *call, w *writer, d Divergence) {
	f.note(c, d)
	f.refuse(c, w, d)
}

// asTheAgentSeesIt is the patched turn without what was inserted: the recorded
// bytes where nothing else was done to it, else framed anew. The fork's cassette
// keeps it, because an agent sends back what it was given.
func (f *forking) asTheAgentSeesIt(c *call) (wireAnswer, error) {
	r := f.edited.Return
	if r.Failed {
		failure, _ := edge.ParseFailure(r.Body) // the patch was checked

		// That of an answer that broke off is the status of a good one.
		if failure.Status < http.StatusBadRequest || failure.Status > 599 {
			failure.Status = http.StatusBadRequest
		}
		return failureAnswer(c.Asked, failure.Status, failure.Name, failure.Message), nil
	}
	if f.asItCame {
		out, _, err := recordedAnswer(c.Asked, f.tapes[0].calls[f.at]) // a turn is never cut
		return out, err
	}
	body := r.Body
	if f.inserted != nil {
		body = f.inserted.Without()
	}
	return encodedAnswer(c.Asked, body)
}

// keptReturn is the return of a result that the parent's own fork made, which
// this fork's history or the request of its fork point still holds.
func (f *forking) keptReturn(a foreign.Answered) (edge.Return, bool) {
	made := func(body json.RawMessage, failed bool) (edge.Return, bool) {
		return edge.Return{Body: body, Failed: failed, Origin: edge.Patched}, true
	}
	for _, p := range f.tapes[0].patches {
		if p.start == nil && p.insertion == nil && p.from == f.at && p.at.Message == a.Result.Message && p.at.Nth == a.Result.Nth {
			return made(p.body, p.failed)
		}
	}
	if f.at > 0 {
		if added := f.tapes[0].calls[f.at-1].added(a.Call.Use.ID); added != nil {
			return made(added.Body, added.Failed)
		}
	}
	return edge.Return{}, false
}
