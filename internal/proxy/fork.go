package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"sync"

	"investigator/internal/converse"
	"investigator/internal/diff"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
)

// Forked is what became of a fork.
type Forked struct {
	Parent   string       `json:"parent"`
	At       int          `json:"at"`
	Type     string       `json:"type"` // of the patched event
	Patch    faults.Patch `json:"patch"`
	Cassette string       `json:"cassette,omitempty"`
	Reached  bool         `json:"reached"` // the agent came to the fork point
	Notes    []string     `json:"notes,omitempty"`
	Halt     *Halt        `json:"halt,omitempty"`
}

// Halt says what the next model call would have been. It was not made.
type Halt struct {
	Event    int           `json:"event"`              // what the answer would become
	Recorded int           `json:"recorded,omitempty"` // the parent's event it stands against
	Changes  []diff.Change `json:"changes"`            // of the model's input
	Tokens   int           `json:"tokens_not_spent"`   // about
	Model    string        `json:"model"`
}

// forking serves the parent's tape up to the fork point, patches, and goes on.
type forking struct {
	*replaying
	o      ForkOptions
	event  ledger.Event
	edited faults.Edited
	at     int // index of the call whose answer, or whose request, is patched; 0 with onStart
	place  place
	before foreign.Projector // the run before that call
	runs   *runs

	inserted *foreign.Insertion // into the patched turn and every later request; nil if nothing is
	asItCame bool               // the agent gets the recorded turn
	told     bool               // the inserted results are recorded

	fmu    sync.Mutex
	run    *run
	out    Forked
	passed bool // the fork point lies behind
}

func newForking(p *Proxy) (*forking, error) {
	o := *p.o.Fork
	if o.Live && p.o.Upstream == nil {
		return nil, errors.New("make proxy: a fork that goes on live needs an upstream")
	}
	p.o.Replay = []*recorder.Cassette{o.Parent}
	tape, err := newReplaying(p)
	if err != nil {
		return nil, err
	}
	f := &forking{replaying: tape, o: o, out: Forked{Parent: o.Parent.Name(), At: o.Patch.At, Patch: o.Patch}}
	events, err := o.Parent.Events()
	if err != nil {
		return nil, err
	}
	if err := o.Patch.CheckIn(events); err != nil {
		return nil, err
	}
	f.event = events[o.Patch.At-1]
	if f.edited, err = o.Patch.Apply(f.event); err != nil {
		return nil, err
	}
	f.out.Type, f.out.Notes = f.event.Type, f.edited.Notes
	if err := f.locate(); err != nil {
		return nil, err
	}
	if err := f.insertion(); err != nil {
		return nil, err
	}
	f.tapes[0].upTo(f.at)
	f.runs = newRuns(p, RecordOptions{Create: func(int, recorder.Header) (*recorder.Writer, error) { return nil, errors.New("a fork has one run") }, Durable: true})
	return f, nil
}

// locate finds the call at which the fork leaves the tape.
func (f *forking) locate() error {
	at := f.o.Patch.At
	if at == 1 {
		return nil
	}
	index := 0
	_, err := engine.ForeignCalls(f.o.Parent, func(c engine.ForeignCall) error {
		if c.Seq == at {
			f.at, f.before = index, c.Before
		}
		for _, a := range c.Answered {
			if a.Call.Seq == at {
				f.at, f.before = index, c.Before
				f.place = place{a.Result.Message, a.Result.Block, at, a.Call.Use.Name}
			}
		}
		index++
		return nil
	}, func(...ledger.Event) error { return nil })
	if err == nil && f.before.Turn() == 0 && f.at == 0 && f.tapes[0].calls[0].seq != at {
		return fmt.Errorf("fork %s at event %d: no request of the agent brings this result", f.o.Parent.Name(), at)
	}
	return err
}

func (f *forking) onStart() bool  { return f.o.Patch.At == 1 }
func (f *forking) onResult() bool { return f.place.seq > 0 }
func (f *forking) onTurn() bool   { return !f.onStart() && !f.onResult() }

// wholeTurn reports whether the agent never sees the patched turn, because it
// calls nothing but what was inserted: the model's next answer is the agent's.
func (f *forking) wholeTurn() bool { return f.inserted != nil && f.inserted.Whole() }

func (f *forking) serve(ctx context.Context, c *call, w *writer) {
	c = f.patch(c) // where the parent is a fork itself
	f.fmu.Lock()
	if !f.passed && !f.onStart() {
		t, d := f.take(c)
		if t == nil || t.index < f.at {
			f.fmu.Unlock()
			if t == nil {
				f.refuse(c, w, d)
			} else {
				f.answer(c, t, w)
			}
			return
		}
	}
	if f.passed && !f.belongs(c) {
		f.fmu.Unlock()
		f.refuse(c, w, Divergence{Cassette: f.o.Parent.Name(), Cause: "the request belongs to another conversation than the one that was forked"})
		return
	}
	if f.passed && f.onTurn() && !f.wholeTurn() && c.key == f.tapes[0].calls[f.at].key {
		f.fmu.Unlock()
		f.patchedTurn(c, nil, w) // the client tries again
		return
	}
	first := !f.passed
	f.passed, f.out.Reached = true, true
	patched, err := f.patchedCall(c)
	if err == nil && first {
		err = f.begin(patched)
	}
	if err == nil && first && f.onTurn() {
		err = f.turn(patched)
		if err != nil || !f.wholeTurn() {
			f.fmu.Unlock()
			f.patchedTurn(patched, err, w)
			return
		}
	}
	var lacks *Divergence
	if err == nil && f.inserted != nil {
		patched, lacks, err = f.insert(patched)
	}
	if err == nil && lacks == nil && !f.o.Live {
		f.halt(patched, w)
		f.fmu.Unlock()
		return
	}
	f.fmu.Unlock()
	switch {
	case err != nil:
		f.trouble(c, err, w)
	case lacks != nil:
		f.unplaced(c, w, *lacks)
	default:
		f.goOn(ctx, patched, w)
	}
}

func (f *forking) trouble(c *call, err error, w *writer) {
	f.p.o.Notify(Note{"trouble", err.Error()})
	f.runs.noteOnce(err.Error())
	w.fail(c.Asked, http.StatusInternalServerError, "InternalServerException", "investigator proxy: "+err.Error())
}

// belongs reports whether a request comes from the conversation that was
// forked: it begins as the fork point's request does.
func (f *forking) belongs(c *call) bool {
	if f.onStart() || len(f.tapes[0].calls) == 0 {
		return true
	}
	t := f.tapes[0].calls[f.at]
	for _, s := range c.sums {
		if s == t.sum {
			return true
		}
	}
	return len(f.tapes[0].calls) == 1 && t.sum == (ledger.Sum{})
}

// patchedCall is the request as the model gets it: the agent keeps its own,
// unpatched history, so every request of the run is patched anew.
func (f *forking) patchedCall(c *call) (*call, error) {
	a := c.Asked
	switch {
	case f.onResult():
		a = a.SetResult(foreign.Result{Message: f.place.message, Block: f.place.block}, f.edited.Return.Body, f.edited.Return.Failed)
	case f.onStart():
		var err error
		if a, err = f.restart(a); err != nil {
			return nil, err
		}
	default:
		return c, nil
	}
	return f.asPatched(c, a)
}

// asPatched is a call with another request, one that Bedrock does not refuse.
func (f *forking) asPatched(c *call, a foreign.Asked) (*call, error) {
	if a.Dialect == foreign.Converse {
		if v := faults.CheckConversation(a.Request.Messages); len(v) > 0 {
			return nil, fmt.Errorf("fork at %d: Bedrock would refuse the conversation: %s", f.o.Patch.At, v[0])
		}
	}
	return newCall(a, a.Request.Body(), c.header, c.At), nil
}

// restart puts what a patch of run.started says into a request.
func (f *forking) restart(a foreign.Asked) (foreign.Asked, error) {
	var was, now loop.Start
	if err := errors.Join(json.Unmarshal(f.event.Data, &was), json.Unmarshal(f.edited.Event.Data, &now)); err != nil {
		return a, err
	}
	var err error
	req := a.Request
	if _, same := foreign.Compare(was.Request, req.Rest.JSON()); same {
		if req.Rest, err = converse.NewRest(now.Request); err != nil {
			return a, err
		}
	} else if !bytes.Equal(was.Request, now.Request) {
		return a, errors.New("fork at 1: the agent sends other members than the recorded run began with, so the patch does not fit")
	}
	if now.Model != was.Model && req.Model == was.Model {
		req.Model = now.Model
		a.Route = a.Route.WithModel(now.Model)
	}
	a.Request = req
	if now.Task != was.Task {
		a = a.SetQuestion(now.Task)
	}
	return a, nil
}

// begin makes the fork's cassette with the history up to the fork point and
// the patched event.
func (f *forking) begin(c *call) error {
	parent := f.o.Parent
	h := parent.Header()
	total, err := parent.EventCount()
	if err != nil {
		return err
	}
	sum, err := parent.LedgerSum(total)
	if err != nil {
		return err
	}
	patch, err := f.o.Patch.JSON()
	if err != nil {
		return err
	}
	mode := "halt"
	if f.o.Live {
		mode = "live"
	}
	h.Parent = &recorder.Parent{Run: h.Run, Ledger: sum.String(), File: filepath.Base(parent.Name()), At: f.o.Patch.At, Patch: patch, Mode: mode}
	h.Tool, h.Run, h.Started = f.p.o.Tool, f.p.o.NewRun(), f.p.o.Now().UTC().Format("2006-01-02T15:04:05Z")
	if f.onStart() {
		h.Start = f.edited.Event.Data
	}
	w, err := f.o.Create(h)
	if err != nil {
		return err
	}
	f.out.Cassette = w.Path()
	project := f.before
	if !f.onStart() {
		if err := w.CopyPrefix(parent, f.o.Patch.At); err != nil {
			return err
		}
	}
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	f.run = f.runs.adopt(w, "", project)
	return f.results(c)
}

// results records the tool results of the fork point's request that were not
// copied, the patched one among them.
func (f *forking) results(c *call) error {
	next, answered := f.run.project.Results(c.Asked)
	var list []recorder.Taken
	for _, a := range answered {
		if a.Call.Seq < f.o.Patch.At {
			continue // copied
		}
		if a.Call.Seq == f.place.seq {
			a = a.WithReturn(f.edited.Return)
		} else if r, kept := f.keptReturn(a); kept {
			a = a.WithReturn(r)
		}
		list = append(list, recorder.Taken(a.Taken))
	}
	if !f.onResult() && len(list) > 0 {
		return fmt.Errorf("fork at %d: the request brings %d results that come after the model's answer", f.o.Patch.At, len(list))
	}
	f.run.project = next
	return f.run.writer.TookAll(list)
}

// turn records the patched model turn.
func (f *forking) turn(c *call) error {
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	next, taken := f.run.project.Answer(c.Request, f.edited.Return)
	taken.Return.Wire = &edge.Wire{URL: f.placeOf(c)}
	f.run.project = next
	f.runs.enter(f.run, c)
	f.run.busy--
	return f.run.writer.TookAll([]recorder.Taken{recorder.Taken(taken)})
}

// placeOf keeps the path of the recorded call, which says how it was asked.
func (f *forking) placeOf(c *call) string {
	if x, err := f.tapes[0].calls[f.at].interaction(); err == nil {
		return x.URL
	}
	return "https://model.invalid" + c.Route.Path
}

// patchedTurn serves the edited answer, framed anew.
func (f *forking) patchedTurn(c *call, err error, w *writer) {
	if err != nil {
		f.trouble(c, err, w)
		return
	}
	f.p.o.Notify(Note{"forked", fmt.Sprintf("event %d is patched", f.o.Patch.At)})
	r := f.edited.Return
	if r.Failed {
		failure, _ := edge.ParseFailure(r.Body) // the patch was checked
		w.fail(c.Asked, max(failure.Status, 400), failure.Name, failure.Message)
		return
	}
	f.asTheAgentSeesIt(c, w)
}

// halt refuses the next model call and says what it would have been.
func (f *forking) halt(c *call, w *writer) {
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
	w.fail(c.Asked, http.StatusConflict, "ConflictException", "investigator proxy: "+h.String())
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
			s += fmt.Sprintf("; %d more changes", len(h.Changes)-i)
			break
		}
		s += fmt.Sprintf("; %s %s: was %s, now %s", c.Kind, c.Path, shown(c.Old), shown(c.New))
	}
	return s
}

// goOn forwards a request of the fork.
func (f *forking) goOn(ctx context.Context, c *call, w *writer) {
	f.runs.mu.Lock()
	retry := f.run.retriedBy(c)
	if !retry {
		f.runs.release(f.run)
	}
	f.runs.enter(f.run, c)
	f.runs.mu.Unlock()
	f.p.pass(ctx, f.runs, f.run, retry, c, c.raw, c.Route.Path, w)
}

func (f *forking) close(out *Result) error {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	var tape, written Result
	_ = f.replaying.close(&tape) // it never fails
	out.Served, out.Tolerated, out.Diverged, out.Fork = tape.Served, tape.Tolerated, tape.Diverged, &f.out
	if f.run != nil && !f.o.Live {
		f.run.broken = true // a halted run stays unfinished
	}
	_ = f.runs.close(&written) // its troubles are in what was written
	out.Troubles = written.Troubles
	if !f.out.Reached {
		out.Troubles = append(out.Troubles, fmt.Sprintf("fork %s: the agent never came to event %d, so nothing was patched", f.out.Parent, f.out.At))
	}
	return troubled(out.Troubles)
}
