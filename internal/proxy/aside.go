package proxy

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"

	"investigator/internal/converse"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// root is how the conversation of a fork is known: by the agent's request at the
// fork point.
type root struct {
	sum, key ledger.Sum
	tag      string
	prompt   string
	asked    ledger.Sum // the messages of its first request, without a prompt
}

func (f *forking) rootOf(c *call) root {
	first := c.Asked
	if calls := f.tapes[0].calls; !f.onStart() && len(calls) > 0 {
		if recorded, err := calls[0].asked(); err == nil {
			first = recorded
		}
	}
	r := root{sum: c.last(), key: c.key, tag: c.Tag, prompt: promptOf(c.Asked)}
	if sums := askedSums(first); len(sums) > 0 {
		r.asked = sums[len(sums)-1]
	}
	return r
}

// askedSums are the sums of a conversation without a prompt.
func askedSums(a foreign.Asked) []ledger.Sum {
	_, messages := a.Prompt()
	return foreign.Sums(messages)
}

// promptOf is what an agent sends in each request of a conversation, and its
// sub-agents do not: the prompt, the tools and the model.
func promptOf(a foreign.Asked) string {
	members, err := converse.Members(foreign.Meaning(a.Request.Rest.JSON()))
	if err != nil {
		return ""
	}
	list := []json.RawMessage{members["system"], members["toolConfig"], members["tools"]}
	leading, _ := a.Prompt()
	for _, m := range leading {
		list = append(list, foreign.Meaning(m))
	}
	text, err := json.Marshal(list)
	if err != nil {
		return ""
	}
	return a.Request.Model + string(text)
}

// others are the runs beside the forked one. Those on tape answer; where the
// fork is live the rest goes to the upstream as it came, and into cassettes of
// its own.
type others struct {
	recording *recording // nil: what is on no tape is refused
	sides     bool       // the forked run itself is one of calls that are no turns

	told map[ledger.Sum]bool // conversations that were answered
}

// besides are the cassettes other than the parent's own.
func besides(parent *recorder.Cassette, all []*recorder.Cassette) []*recorder.Cassette {
	return slices.DeleteFunc(slices.Clone(all), func(c *recorder.Cassette) bool { return c.Header().Run == parent.Header().Run })
}

func (f *forking) newOthers() {
	f.others.told = map[ledger.Sum]bool{}
	calls := f.tapes[0].calls
	f.others.sides = len(calls) > 0 && !slices.ContainsFunc(calls, func(t *taped) bool { return !sideCall(t.route.Op) })
	if f.o.Live && f.o.Beside != nil {
		f.others.recording = &recording{p: f.p, runs: newRuns(f.p, RecordOptions{Create: f.o.Beside, Durable: true})}
	}
}

// side reports whether a call is no turn of the forked run. One that the
// parent's tape holds up to the fork point is: its agent named the run.
func (f *forking) side(c *call) bool {
	if !sideCall(c.Route.Op) || f.others.sides {
		return false
	}
	return f.passed || f.onStart() || !slices.ContainsFunc(f.byKey[c.key], func(t *taped) bool { return t.tape == f.tapes[0] })
}

// own is a request as the forked run has it, if it is one of that run's.
func (f *forking) own(c *call) *call {
	p := f.tapes[0].patch(c)
	if f.passed && !f.belongs(p) && f.belongs(c) || !f.passed && !f.expects(p) && f.expects(c) {
		return c // of an agent that was changed to send what the parent patched
	}
	return p
}

// expects reports whether the forked tape holds the answer to a request.
func (f *forking) expects(c *call) bool { return f.waits(c, true) }

// waits reports whether the forked tape, or one beside it, holds the answer to a
// request.
func (f *forking) waits(c *call, forked bool) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.retried(c); t != nil {
		return (t.tape == f.tapes[0]) == forked
	}
	return slices.ContainsFunc(f.byKey[c.key], func(t *taped) bool { return !t.used && (t.tape == f.tapes[0]) == forked })
}

// begins reports whether a request is the first of the run that is forked at its
// start: it asks what was asked then. A sub-agent with the same prompt and tools
// asks something else.
func (f *forking) begins(c *call) bool {
	calls := f.tapes[0].calls
	if len(calls) > 0 && c.last() == calls[0].sum {
		return true
	}
	task := c.Task()
	return slices.ContainsFunc(f.ways, func(r *restart) bool { return task == r.was.Task || task == r.now.Task })
}

// misfit says why a request that is not the first of a run that is forked at its
// start must not reach the model unpatched: it may be, of an agent that was
// changed, and then the patch of the question does not fit.
func (f *forking) misfit(c *call) error {
	r := f.starts
	if !f.onStart() || f.passed || f.side(c) || r.now.Task == r.was.Task || c.Request.Model != r.was.Model {
		return nil
	}
	if _, same := foreign.Compare(r.was.Request, c.Request.Rest.JSON()); !same || !f.prompts(c) {
		return nil
	}
	return r.begins(c.Asked)
}

// prompts reports whether the messages before any turn are those of the run, as
// far as is known.
func (f *forking) prompts(c *call) bool {
	calls := f.tapes[0].calls
	if len(calls) == 0 {
		return true // it was halted before the first
	}
	recorded, err := calls[0].asked()
	if err != nil {
		return true
	}
	was, _ := recorded.Prompt()
	now, _ := c.Prompt()
	return slices.Equal(foreign.Sums(was), foreign.Sums(now))
}

// belongs reports whether a request comes from the conversation that was forked:
// it begins as the fork point's request does.
func (f *forking) belongs(c *call) bool {
	if f.root.sum != (ledger.Sum{}) {
		return slices.Contains(c.sums, f.root.sum)
	}
	return c.last() == f.root.sum && (c.key == f.root.key || c.Tag != "" && c.Tag == f.root.tag || len(f.tapes[0].calls) == 1 && !f.onStart())
}

// stranger reports whether a request is surely none of the forked conversation
// with another history, which an agent may shorten or rewrite: it asks something
// else, with another prompt, tools or model, and brings no result that the run
// waits for. A request that would not be patched must not reach the model as if
// it had been.
func (f *forking) stranger(c *call) bool {
	if promptOf(c.Asked) == f.root.prompt || slices.Contains(askedSums(c.Asked), f.root.asked) {
		return false
	}
	f.runs.mu.Lock()
	defer f.runs.mu.Unlock()
	return !f.run.project.WaitsFor(c.results)
}

// known reports whether a request that does not belong to the fork surely is
// another conversation's, whatever its prompt: it goes on from one that was
// answered, or a tape beside the forked one waits for it.
func (f *forking) known(c *call) bool {
	return slices.ContainsFunc(c.sums, func(s ledger.Sum) bool { return f.others.told[s] }) || f.waits(c, false)
}

// aside answers a call that is not of the forked run.
func (f *forking) aside(c *call) reply {
	if t := f.onTape(f.patch(c)); t != nil { // which may be a fork of another run
		f.tell(c)
		return func(_ context.Context, w *writer) { f.answer(c, t, w) }
	}
	if err := f.misfit(c); err != nil {
		f.failed = true
		return f.failing(c, err)
	}
	if r := f.others.recording; r != nil {
		f.out.PassedOn++
		f.tell(c)
		return func(ctx context.Context, w *writer) { durably{r}.serve(ctx, c, w) }
	}
	f.out.Refused++
	what := "the request belongs to another conversation than the one that was forked"
	if sideCall(c.Route.Op) {
		what = fmt.Sprintf("%s is no turn of the forked run", c.Route.Op)
	}
	text := what + " and is on no tape: --replay FOLDER adds the runs that were recorded beside it, --mode live passes such calls on"
	return func(_ context.Context, w *writer) {
		f.p.o.Notify(Note{"refused", text})
		w.fail(c.Asked, http.StatusConflict, "ConflictException", "investigator proxy: "+text)
	}
}

func (f *forking) tell(c *call) {
	if !sideCall(c.Route.Op) {
		f.others.told[c.last()] = true
	}
}

// onTape finds the recorded answer to a call that is not of the forked run. The
// same side call has the same answer, however often it is made.
func (f *forking) onTape(c *call) *taped {
	f.mu.Lock()
	defer f.mu.Unlock()
	if t := f.retried(c); t != nil {
		t.given++
		return t
	}
	var last *taped
	exact := exactOf(c.Asked)
	for _, t := range f.byKey[c.key] {
		switch {
		case f.p.o.Strict && t.exact != exact:
		case !t.used:
			f.use(c, t)
			return t
		default:
			last = t
		}
	}
	if sideCall(c.Route.Op) {
		return last
	}
	return nil
}

// close ends the runs beside the forked one.
func (o others) close(out *Result) error {
	if o.recording == nil {
		return nil
	}
	return o.recording.close(out)
}
