package proxy

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"

	"investigator/internal/converse"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// restart is what a patch of run.started does to every request of a run: the
// agent goes on beginning as it does.
type restart struct {
	was, now loop.Start      // as the agent begins, and as the run does
	start    json.RawMessage // was as it was read
	members  []string        // of the request that differ

	wasRest, nowRest map[string]json.RawMessage
}

func newRestart(was, now json.RawMessage) (*restart, error) {
	r := &restart{start: was}
	err := errors.Join(json.Unmarshal(was, &r.was), json.Unmarshal(now, &r.now))
	if err != nil {
		return nil, fmt.Errorf("read run.started: %w", err)
	}
	if r.wasRest, err = converse.Members(r.was.Request); err != nil {
		return nil, fmt.Errorf("read run.started: /request: %w", err)
	}
	if r.nowRest, err = converse.Members(r.now.Request); err != nil {
		return nil, fmt.Errorf("read run.started: /request: %w", err)
	}
	all := maps.Clone(r.wasRest)
	maps.Copy(all, r.nowRest)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !bytes.Equal(r.wasRest[name], r.nowRest[name]) {
			r.members = append(r.members, name)
		}
	}
	return r, nil
}

// newTape is the tape of a cassette. A fork of the first event, or a fork of
// such a fork, begins otherwise than its agent does; builds that did not keep how
// the agent begins made forks that only an agent that was changed can replay.
func newTape(c *recorder.Cassette) (*tape, error) {
	t := &tape{c: c, carry: map[ledger.Sum]bool{}}
	start := c.Foreign().Start
	if start == nil {
		return t, nil
	}
	was, err := ledger.Canon(start)
	if err != nil {
		return nil, fmt.Errorf("read header: /%s/start: %w", recorder.ForeignMember, err)
	}
	r, err := newRestart(was, c.Start())
	t.patches = []patched{{start: r}}
	return t, err
}

// newStarts finds out what a fork of the first event does to requests. Where the
// parent is such a fork itself, what it did and what this one does are one
// patch of what the agent sends, which may also have been changed to begin as
// the parent does.
func (f *forking) newStarts() error {
	t := f.tapes[0]
	for _, p := range t.patches {
		if p.start != nil {
			r, err := newRestart(p.start.start, f.edited.Event.Data)
			if err != nil {
				return err
			}
			f.ways = append(f.ways, r)
		}
	}
	t.patches = nil
	r, err := newRestart(f.event.Data, f.edited.Event.Data)
	f.ways = append(f.ways, r)
	if err != nil {
		return err
	}
	f.starts = f.ways[0]
	return r.oneModel(f.starts)
}

// oneModel says why a fork's start would not tell which model is asked, nil where
// it does: an agent whose requests name their model has it in run.started twice,
// as /model and as /request/model. What is patched is /model, or both alike. first
// is how the agent begins.
func (r *restart) oneModel(first *restart) error {
	const member = "model"
	was, named := ledger.PlainString(first.wasRest[member])
	if !named || was != first.was.Model || r.now.Model == r.was.Model && !slices.Contains(r.members, member) {
		return nil
	}
	now, named := ledger.PlainString(r.nowRest[member])
	if named && (now == r.now.Model || now == was && r.now.Model != r.was.Model) {
		return nil
	}
	return fmt.Errorf("fork at event 1: run.started would name two models, /model %q and /request/model %s: --set /model alone, or both to the same", r.now.Model, shown(r.nowRest[member]))
}

// startIn puts the fork's run.started into its header, beside how the agent
// begins: the parent's file may be gone when the fork is replayed.
func (f *forking) startIn(h recorder.Header) (recorder.Header, error) {
	h.Start = f.edited.Event.Data
	members, err := converse.Members(h.Extra[recorder.ForeignMember])
	if err != nil {
		return h, fmt.Errorf("read header: /%s: %w", recorder.ForeignMember, err)
	}
	members["start"] = f.starts.start
	h.Extra = maps.Clone(h.Extra)
	h.Extra[recorder.ForeignMember], err = ledger.CanonValue(members)
	return h, err
}

// begins says why a request does not begin the run that was patched, nil where
// it does. The agent may begin as the fork does, too.
func (r *restart) begins(a foreign.Asked) error {
	if task := a.Task(); r.now.Task != r.was.Task && task != r.was.Task && task != r.now.Task {
		return fmt.Errorf("the agent asks another question than the recorded run began with, so the patch does not fit: recorded %.80q / now %.80q", r.was.Task, task)
	}
	if m := a.Request.Model; r.now.Model != r.was.Model && m != r.was.Model && m != r.now.Model {
		return fmt.Errorf("the agent asks for another model than the recorded run began with, so the patch does not fit: recorded %q / now %q", r.was.Model, m)
	}
	return nil
}

// apply puts what differs into a request. What the agent sends beside it stays,
// and so does a history that does not hold the question. The error names a
// member for which the patch was not made.
func (r *restart) apply(a foreign.Asked) (foreign.Asked, error) {
	rest, err := r.rest(a)
	if err != nil {
		return a, err
	}
	out := a
	if out.Request.Rest, err = converse.NewRest(rest); err != nil {
		return a, err
	}
	if r.now.Model != r.was.Model && a.Request.Model == r.was.Model {
		out.Request.Model = r.now.Model
		out.Route = a.Route.WithModel(r.now.Model)
	}
	if m, plain := ledger.PlainString(r.nowRest["model"]); a.Route.Model == "" && plain && slices.Contains(r.members, "model") {
		out.Request.Model = m
	}
	if r.now.Task != r.was.Task && a.Task() == r.was.Task {
		out = out.SetQuestion(r.now.Task)
	}
	return out, nil
}

// rest is apply for what a request holds beside messages.
func (r *restart) rest(a foreign.Asked) (json.RawMessage, error) {
	rest, err := converse.Members(a.Request.Rest.JSON())
	if err != nil {
		return nil, err
	}
	for _, name := range r.members {
		switch {
		case sameMember(name, rest[name], r.wasRest[name]):
			if rest[name] = r.nowRest[name]; rest[name] == nil {
				delete(rest, name)
			}
		case !sameMember(name, rest[name], r.nowRest[name]): // as it is where the agent begins as the fork does
			return nil, fmt.Errorf("the agent sends another /%s than the recorded run began with, so the patch does not fit", name)
		}
	}
	if was := ledger.AppendString(nil, r.was.Model); r.now.Model != r.was.Model && bytes.Equal(rest["model"], was) {
		rest["model"] = ledger.AppendString(nil, r.now.Model) // where the path does not name it
	}
	return ledger.CanonValue(rest)
}

// sameMember compares two values of a member by what they mean.
func sameMember(name string, a, b json.RawMessage) bool {
	_, same := foreign.Compare(memberAlone(name, a), memberAlone(name, b))
	return same
}

func memberAlone(name string, value json.RawMessage) json.RawMessage {
	if value == nil {
		return json.RawMessage(`{}`)
	}
	return append(append(append(ledger.AppendString([]byte{'{'}, name), ':'), value...), '}')
}
