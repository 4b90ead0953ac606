package engine

import (
	"fmt"
	"net/url"

	"investigator/internal/edge"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// ForeignRun is the error of asking for the loop of a run that is not ours.
type ForeignRun struct{ Name, Verb string }

func (f *ForeignRun) Error() string {
	return fmt.Sprintf("%s %s: it is the run of a foreign agent, whose loop is not here", f.Verb, f.Name)
}

// ForeignCall is a model call of a foreign agent's cassette as it was read.
type ForeignCall struct {
	Asked    foreign.Asked
	Before   foreign.Projector  // the run before its tool results
	Answered []foreign.Answered // the results that the request brought
	Seq      int                // of the model's event
	Wire     recorder.Interaction
	Return   edge.Return
	Made     bool // no answer that can be read came over a network
}

// ForeignCalls reads the model calls of a foreign agent's cassette and derives
// its events from them. each is called for every model call; what has to be
// compared with the recording is given to check in order. Of a cassette that was
// not read before, no more is held than recorder.Walk holds.
func ForeignCalls(c *recorder.Cassette, each func(ForeignCall) error, check func(...ledger.Event) error) (foreign.Projector, error) {
	var p foreign.Projector
	var tools []ledger.Event
	err := c.Walk(func(r recorder.Read) error {
		if r.Kind == edge.Tool {
			tools = append(tools, r.Events[0])
			return nil
		}
		call, next, events, err := readForeign(c, r, p, tools)
		if err != nil {
			return err
		}
		if err := check(events...); err != nil {
			return err
		}
		p, tools = next, nil
		return each(call)
	})
	if err != nil {
		return p, err
	}
	return p, check(tools...) // a halted fork ends with results nobody was told of
}

func readForeign(c *recorder.Cassette, r recorder.Read, p foreign.Projector, tools []ledger.Event) (ForeignCall, foreign.Projector, []ledger.Event, error) {
	call := ForeignCall{Before: p, Seq: r.First, Wire: r.Interaction, Return: r.Return}
	u, err := url.Parse(r.URL)
	if err != nil {
		return call, p, nil, fmt.Errorf("read %s: event %d: %w", c.Name(), r.First, err)
	}
	route, _ := foreign.ParseRoute(u.EscapedPath()) // an unknown one is opaque
	call.Asked = foreign.FromRequest(route, r.Asked)
	var events []ledger.Event
	p, call.Answered = p.Results(call.Asked)
	for i, a := range call.Answered {
		e := a.Events[0]
		if i < len(tools) && r.First > tools[i].Seq {
			if origin, err := c.Origin(tools[i].Seq); err == nil && origin == edge.Patched {
				e = tools[i] // what the patch made of it need not read back as it was written
			}
		}
		events = append(events, e)
	}
	p, taken := p.Answer(r.Asked, call.derive())
	return call, p, append(events, taken.Events...), nil
}

// derive reads the answer again from the recorded bytes, where they are an
// answer that came over a network.
func (call *ForeignCall) derive() edge.Return {
	r := call.Return
	if call.Made = r.Failed || call.Wire.Origin == edge.Patched; call.Made {
		return r
	}
	body, err := foreign.ReadAnswer(call.Asked.Dialect, call.Wire.Response)
	if call.Made = err != nil; !call.Made {
		r.Body = body
	}
	return r
}

// replayForeign derives the events of a foreign run again from its recorded
// traffic and compares them. No loop is run and no agent asked.
func replayForeign(c *recorder.Cassette, o ReplayOptions) (Replayed, error) {
	if o.Model != nil || o.Tools != nil || o.Start != nil || o.Sink != nil {
		return Replayed{}, &ForeignRun{c.Name(), "replay"}
	}
	cmp := &comparer{cassette: c}
	check := func(events ...ledger.Event) error {
		for _, e := range events {
			if err := cmp.compare(e); err != nil {
				return err
			}
		}
		return nil
	}
	err := check(ledger.Event{Seq: 1, Type: ledger.RunStarted, Data: c.Start()})
	var p foreign.Projector
	if err == nil {
		p, err = ForeignCalls(c, func(call ForeignCall) error {
			cmp.result.ModelTurns++
			cmp.result.FromTape += len(call.Answered)
			return nil
		}, check)
	}
	if finished, ends := p.Finished(); err == nil && ends && c.Sealed() {
		err = check(finished)
	}
	out := cmp.result
	if err == nil {
		out.Divergence, err = cmp.leftOver()
	}
	if diverged, is := err.(*Diverged); is {
		out.Divergence = &diverged.Divergence
	} else if err != nil {
		return out, fmt.Errorf("replay %s: %w", c.Name(), err)
	}
	out.Unfinished = !c.Sealed()
	out.Identical, out.Ledger = out.Divergence == nil, cmp.sum.String()
	return out, nil
}
