package foreign

import (
	"encoding/json"
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// Taken is a return and the events that follow from it, as a recorder takes
// them.
type Taken struct {
	Call   edge.Call
	Return edge.Return
	Events []ledger.Event
}

// Projector derives the events of one run from its model calls. It is a value:
// the methods return the next one. The zero Projector stands after run.started.
type Projector struct {
	seq     int // events after run.started
	turn    int
	pending []open
	usage   converse.Usage
	last    json.RawMessage // the last answer
	failure *edge.Failure
}

// open is a call that was not answered yet. id is the model's own; Use.ID is
// repaired where Bedrock would refuse it.
type open struct {
	call edge.Call
	id   string
}

// Seq returns the seq of the last event.
func (p Projector) Seq() int { return p.seq + 1 }

// Turn returns how many model turns were taken.
func (p Projector) Turn() int { return p.turn }

// Waits reports whether the agent owes results of tools.
func (p Projector) Waits() bool { return len(p.pending) > 0 }

// WaitsFor reports whether one of these results belongs to a call not answered.
func (p Projector) WaitsFor(results []Result) bool {
	for _, r := range results {
		for _, o := range p.pending {
			if o.id == r.ID {
				return true
			}
		}
	}
	return false
}

// Answered is a result beside the call it answers.
type Answered struct {
	Result Result
	Taken
}

// Results takes the tool results that a request brings, in call order.
func (p Projector) Results(a Asked) (Projector, []Answered) {
	results := a.Results()
	used := make([]bool, len(results))
	var out []Answered
	for _, o := range p.pending {
		for i, r := range results {
			if used[i] || r.ID != o.id {
				continue
			}
			used[i] = true
			p.seq++
			call := o.call
			call.Seq = p.seq + 1
			ret := edge.Return{Body: r.Body, Failed: r.Failed, Origin: edge.Executed}
			out = append(out, Answered{r, Taken{call, ret, []ledger.Event{returned(call, ret)}}})
			break
		}
	}
	p.pending = nil
	return p, out
}

func returned(call edge.Call, ret edge.Return) ledger.Event {
	return ledger.Event{Seq: call.Seq, Type: ledger.ToolReturned, In: call.In, Data: loop.ReturnedData(call, ret)}
}

// WithReturn is the same result with another return, which a fork made.
func (a Answered) WithReturn(ret edge.Return) Answered {
	a.Return = ret
	a.Events = []ledger.Event{returned(a.Call, ret)}
	return a
}

// Answer takes the model's answer to a request.
func (p Projector) Answer(req converse.Request, ret edge.Return) (Projector, Taken) {
	p.turn++
	p.seq++
	call := edge.Call{Kind: edge.Model, Seq: p.seq + 1, Turn: p.turn, In: req.Digest(), Request: req}
	t := Taken{Call: call, Return: ret}
	p.failure, p.last, p.pending = nil, nil, nil
	if ret.Failed {
		f, _ := edge.ParseFailure(ret.Body) // a failure without a name is one still
		p.failure = &f
		t.Events = []ledger.Event{{Seq: call.Seq, Type: ledger.ModelFailed, In: call.In, Data: ret.Body}}
		return p, t
	}
	t.Events = []ledger.Event{{Seq: call.Seq, Type: ledger.ModelResponded, In: call.In, Data: ret.Body}}
	turn, err := converse.ParseCanonical(ret.Body)
	if err != nil {
		return p, t // an answer that is no turn calls no tools
	}
	p.usage, p.last = p.usage.Plus(turn.Usage), turn.Raw
	_, ids := converse.Echo(turn)
	for i, use := range turn.ToolUses {
		id := use.ID
		use.ID = ids[i]
		p.seq++
		t.Events = append(t.Events, ledger.Event{Seq: p.seq + 1, Type: ledger.ToolCalled, Data: loop.CalledData(p.turn, i, use)})
		c := edge.Call{Kind: edge.Tool, Turn: p.turn, Pos: i, In: edge.ToolDigest(use.Name, use.Input), Use: use}
		p.pending = append(p.pending, open{c, id})
	}
	return p, t
}

// Finished is the run.finished of a run whose traffic ends here. There is none
// before the first answer.
func (p Projector) Finished() (ledger.Event, bool) {
	if p.turn == 0 {
		return ledger.Event{}, false
	}
	o := p.outcome()
	o.Turns, o.Usage = p.turn, p.usage
	data, err := ledger.CanonValue(o)
	return ledger.Event{Seq: p.seq + 2, Type: ledger.RunFinished, Data: data}, err == nil
}

// outcome reads how a run ended from its last turn. Agents that report by a
// last tool call never answer it.
func (p Projector) outcome() loop.Outcome {
	for _, o := range p.pending {
		if o.call.Use.Name != verdict.Tool {
			continue
		}
		if v, problems := verdict.Parse(o.call.Use.Input); len(problems) == 0 {
			return loop.Outcome{Outcome: loop.Concluded, Verdict: v.JSON(), Dropped: len(p.pending) - 1}
		}
	}
	switch {
	case p.failure != nil:
		return loop.Outcome{Outcome: loop.Failed, Reason: fmt.Sprintf("%s: %s", p.failure.Name, p.failure.Message)}
	case p.Waits():
		return loop.Outcome{Outcome: loop.Stopped, Reason: fmt.Sprintf("the agent sent no results for %d tool calls", len(p.pending)), Text: p.text()}
	}
	return loop.Outcome{Outcome: loop.Untyped, Reason: "a foreign agent reports no typed verdict", Text: p.text()}
}

func (p Projector) text() string {
	turn, err := converse.ParseCanonical(p.last)
	if err != nil {
		return ""
	}
	return turn.Text()
}

// Start is the run.started of the run that begins with a request.
func Start(a Asked) (json.RawMessage, error) {
	s := loop.Start{Task: a.Task(), Model: a.Request.Model, Request: a.Request.Rest.JSON()}
	return s.JSON()
}

// Task is what run.started says a run is about that begins with a request.
func (a Asked) Task() string {
	if task := a.Question(); !blank(task) {
		return task
	}
	return string(a.Route.Op)
}
