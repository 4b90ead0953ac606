package proxy

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// Forked is what became of a fork.
type Forked struct {
	Parent   string       `json:"parent"`
	At       int          `json:"at"`
	Type     string       `json:"type"` // of the patched event
	Patch    faults.Patch `json:"patch"`
	Cassette string       `json:"cassette,omitempty"`
	Reached  bool         `json:"reached"` // the agent came to the fork point, and the fork was made
	Notes    []string     `json:"notes,omitempty"`
	// Calls that are not of the forked run and on no tape: passed on to the
	// upstream as they came, or refused.
	PassedOn int   `json:"passed_on,omitempty"`
	Refused  int   `json:"refused,omitempty"`
	Halt     *Halt `json:"halt,omitempty"`
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
	others others
	starts *restart   // with onStart
	ways   []*restart // in which its agent may begin, that of starts first

	inserted *foreign.Insertion // into the patched turn and every later request; nil if nothing is
	asItCame bool               // the agent gets the recorded turn
	given    wireAnswer         // the patched turn as the agent gets it, each time that it asks
	told     bool               // the inserted results are recorded

	fmu    sync.Mutex
	run    *run
	out    Forked
	came   bool // to the fork point; the fork may still fail
	failed bool // it did once
	passed bool // the fork was made
	root   root // once it was
}

func newForking(p *Proxy) (*forking, error) {
	o := *p.o.Fork
	if o.Live && p.o.Upstream == nil {
		return nil, errors.New("make proxy: a fork that goes on live needs an upstream")
	}
	p.o.Replay = append([]*recorder.Cassette{o.Parent}, besides(o.Parent, p.o.Replay)...)
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
	f.newOthers()
	if f.onStart() {
		if err := f.newStarts(); err != nil {
			return nil, err
		}
	}
	f.runs = newRuns(p, RecordOptions{Durable: true}) // one, which begin makes
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
				f.place = place{a.Result, at, a.Call.Use.Name}
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
	f.next(c)(ctx, w)
}

// reply answers a call.
type reply func(context.Context, *writer)

// next decides under the lock what becomes of a call; the answer is given
// without it, since a client may be slow. Where the parent is a fork itself, a
// request of its run is patched as it was, though the tape of the run that it was
// forked from may lie beside it and hold the request as the agent sends it.
func (f *forking) next(sent *call) reply {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	c := f.own(sent)
	switch {
	case f.passed:
		return f.after(c, sent)
	case f.side(c), f.onStart() && !f.begins(c):
		return f.aside(sent)
	case f.onStart(), f.came && c.key == f.tapes[0].calls[f.at].key:
		return f.fork(c)
	case !f.expects(c):
		c = f.patch(sent)
	}
	t, d := f.take(c)
	switch {
	case t == nil:
		return f.refusal(c, d)
	case t.index < f.at, t.tape != f.tapes[0]:
		return func(_ context.Context, w *writer) { f.answer(c, t, w) }
	case t.index > f.at:
		d := Divergence{Cassette: f.o.Parent.Name(), Event: t.seq, Type: ledger.ModelResponded, Cause: fmt.Sprintf("the request comes after event %d, which is to be patched and was not asked for", f.o.Patch.At)}
		return f.unplacing(c, d)
	}
	f.came = true
	return f.fork(c)
}

// fork begins the fork with the call at the fork point. Where it cannot, nothing
// has changed and the next attempt tries again.
func (f *forking) fork(c *call) reply {
	patched, err := f.patchedCall(c)
	if err == nil {
		err = f.begin(patched)
	}
	if err != nil {
		f.failed = true
		return f.failing(c, err)
	}
	f.passed, f.out.Reached, f.root = true, true, f.rootOf(c)
	if f.onTurn() && !f.wholeTurn() {
		return f.turned
	}
	return f.ask(patched)
}

// after is next behind the fork point.
func (f *forking) after(c, sent *call) reply {
	switch {
	case f.onTurn() && !f.wholeTurn() && c.key == f.root.key:
		return f.turned // the client tries again
	case f.side(c), !f.belongs(c) && (f.stranger(c) || f.known(f.patch(sent))):
		return f.aside(sent)
	case !f.belongs(c):
		d := Divergence{Cassette: f.o.Parent.Name(), Cause: "the request does not go on from the fork point's, so the patch has no place in it"}
		return f.unplacing(c, d)
	}
	patched, err := f.patchedCall(c)
	if err != nil {
		return f.failing(c, err)
	}
	return f.ask(patched)
}

// ask asks the model, or says what it would have been asked.
func (f *forking) ask(c *call) reply {
	if f.inserted != nil {
		told := f.told
		with, lacks, err := f.insert(c)
		if err != nil {
			if f.told != told { // what it was to record is not
				f.breakOff(err)
			}
			return f.failing(c, err)
		}
		if lacks != nil {
			return f.unplacing(c, *lacks)
		}
		c = with
	}
	if f.o.Live {
		return func(ctx context.Context, w *writer) { f.goOn(ctx, c, w) }
	}
	h := f.halt(c)
	return func(_ context.Context, w *writer) {
		w.fail(c.Asked, http.StatusConflict, "ConflictException", "investigator proxy: "+h.String())
	}
}

func (f *forking) unplacing(c *call, d Divergence) reply {
	return func(_ context.Context, w *writer) { f.unplaced(c, w, d) }
}

func (f *forking) refusal(c *call, d Divergence) reply {
	return func(_ context.Context, w *writer) { f.refuse(c, w, d) }
}

func (f *forking) failing(c *call, err error) reply {
	return func(_ context.Context, w *writer) { f.trouble(c, err, w) }
}

// turned serves the edited answer.
func (f *forking) turned(_ context.Context, w *writer) {
	f.p.o.Notify(Note{"forked", fmt.Sprintf("event %d is patched", f.o.Patch.At)})
	w.whole(f.given.status, f.given.header, f.given.body)
}

// trouble refuses a call for a reason of our own. The same one is told once,
// however often the client tries again.
func (f *forking) trouble(c *call, err error, w *writer) {
	text := clean(fmt.Sprintf("fork %s at event %d: %v", f.o.Parent.Name(), f.o.Patch.At, err))
	if f.runs.noteOnce(text) {
		f.p.o.Notify(Note{"trouble", text})
	}
	w.fail(c.Asked, http.StatusInternalServerError, "InternalServerException", "investigator proxy: "+text)
}

// patchedCall is the request as the model gets it: the agent keeps its own,
// unpatched history, so every request of the run is patched anew.
func (f *forking) patchedCall(c *call) (*call, error) {
	a := c.Asked
	switch {
	case f.onResult():
		a = a.SetResult(f.place.Result, f.edited.Return.Body, f.edited.Return.Failed)
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

// asPatched is a call with another request, one that Bedrock does not refuse. What
// is wrong with the agent's own is not the patch's doing, and the model may take it.
func (f *forking) asPatched(c *call, a foreign.Asked) (*call, error) {
	if a.Dialect == foreign.Converse {
		own := faults.CheckConversation(c.Request.Messages)
		for _, v := range faults.CheckConversation(a.Request.Messages) {
			if !slices.Contains(own, v) {
				return nil, fmt.Errorf("Bedrock would refuse the conversation: %s", v)
			}
		}
	}
	return newCall(a, a.Request.Body(), c.header, c.At), nil
}

// restart puts what a patch of run.started says into a request.
func (f *forking) restart(a foreign.Asked) (foreign.Asked, error) {
	if f.run != nil {
		return f.starts.apply(a)
	}
	var errs []error
	for _, r := range f.ways {
		if err := r.begins(a); err != nil {
			errs = append(errs, err)
			continue
		}
		out, err := r.apply(a)
		if err == nil {
			f.starts = r
			return out, nil
		}
		errs = append(errs, err)
	}
	return a, errs[0]
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
		return fmt.Errorf("the request brings %d results that come after the model's answer", len(list))
	}
	f.run.project = next
	return f.run.writer.TookAll(list)
}

// turn records the patched model turn.
func (f *forking) turn(c *call) (err error) {
	wire := &edge.Wire{URL: f.placeOf(c)}
	if !f.wholeTurn() {
		if f.given, err = f.asTheAgentSeesIt(c); err != nil {
			return err
		}
		wire.Attempts, wire.Given = []edge.Attempt{{Code: f.given.status, Header: f.given.header, Body: f.given.body}}, true
	}
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	next, taken := f.run.project.Answer(c.Request, f.edited.Return)
	taken.Return.Wire = wire
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

// goOn forwards a request of the fork.
func (f *forking) goOn(ctx context.Context, c *call, w *writer) {
	retry, err := f.enter(c)
	if err != nil {
		f.trouble(c, err, w)
		return
	}
	f.p.pass(ctx, f.runs, f.run, retry, c, c.raw, c.Route.Path, w)
}

// enter makes a call one of the fork's run, if that can still be written: what
// would not be recorded should cost nothing.
func (f *forking) enter(c *call) (retry bool, err error) {
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	if f.run.broken {
		return false, fmt.Errorf("%s takes no more, so the model is not asked", f.out.Cassette)
	}
	retry = f.run.retriedBy(c)
	if !retry {
		f.runs.release(f.run)
	}
	f.runs.enter(f.run, c)
	return retry, nil
}

func (f *forking) close(out *Result) error {
	f.fmu.Lock()
	defer f.fmu.Unlock()
	var tape, written Result
	_ = f.replaying.close(&tape) // it never fails
	out.Served, out.Tolerated, out.Diverged, out.Fork = tape.Served, tape.Tolerated, tape.Diverged, &f.out
	f.leaveOpen()
	_, _ = f.runs.close(&written), f.others.close(out) // their errors are about their troubles
	out.Troubles = append(written.Troubles, out.Troubles...)
	if !f.out.Reached && !f.failed { // if it failed, that is one of the troubles
		out.Troubles = append(out.Troubles, fmt.Sprintf("fork %s: the agent never came to event %d, so nothing was patched", f.out.Parent, f.out.At))
	}
	return troubled(out.Troubles)
}

// leaveOpen keeps a halted run from being sealed: it stays unfinished.
func (f *forking) leaveOpen() {
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	if f.run != nil && !f.o.Live {
		f.run.broken = true
	}
}
