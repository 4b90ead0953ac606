package recorder

import (
	"encoding/json"
	"fmt"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Interaction is one call-and-return as it stands in the file.
type Interaction struct {
	ID, Line    int // Line counts from 1
	First, Last int // the seqs of its events, run.finished not among them
	Kind        edge.Kind
	Origin      edge.Origin
	At, Took    string
	Method, URL string
	Request     []byte // the stored body: for a model call what the request adds to an earlier one
	Status      string
	Code        int
	Header      map[string]string
	Response    []byte
	Attempts    []edge.Attempt // the last one gave the response; empty when nothing went over a network
}

// Interaction decodes the i-th interaction, from 0.
func (c *Cassette) Interaction(i int) (Interaction, error) {
	if i < 0 || i >= c.Len() {
		return Interaction{}, fmt.Errorf("cassette %q: expected an interaction from 0 to %d, found %d", c.name, c.Len()-1, i)
	}
	l, err := decodeLine(c.layout.lines[i])
	if err != nil {
		return Interaction{}, c.damage(i, err)
	}
	return interactionOf(l, l.X.Seq+len(l.X.Events)-1), nil
}

// AnswerOf is the interaction that an event came with, without its Request. It
// costs what the Response costs.
func (c *Cassette) AnswerOf(seq int) (Interaction, error) {
	_, m, err := c.at(seq)
	if err != nil {
		return Interaction{}, err
	}
	if m.interaction < 0 {
		return Interaction{}, fmt.Errorf("cassette %q: event %d came with no interaction", c.name, seq)
	}
	h := c.heads[m.interaction]
	l := *h.line
	if l.answer != nil {
		if l.Response.Body, err = bodyOf(l.answer); err != nil {
			return Interaction{}, c.damage(m.interaction, err)
		}
	}
	return interactionOf(&l, h.end), nil
}

func interactionOf(l *line, last int) Interaction {
	out := Interaction{
		ID: l.ID, Line: firstLineNo + l.ID, First: l.X.Seq, Last: last, Kind: l.kind(),
		Origin: edge.Origin(l.X.Origin), At: l.X.At, Took: l.X.Took, Method: l.Request.Method, URL: l.Request.URL,
		Request: l.Request.Body, Status: l.Response.Status, Code: l.Response.Code,
		Header: flat(l.Response.Headers), Response: l.Response.Body,
	}
	if out.Kind == edge.Model && l.wired() {
		out.Attempts = attempts(l)
	}
	return out
}

func flat(headers map[string][]string) map[string]string {
	out := map[string]string{}
	for name, values := range headers {
		if len(values) > 0 {
			out[name] = values[0]
		}
	}
	return out
}

func attempts(l *line) []edge.Attempt {
	var out []edge.Attempt
	for _, a := range l.X.Attempts {
		out = append(out, edge.Attempt{Code: a.Code, Header: a.Header, Body: a.Body, Err: a.Err, At: a.At, Took: a.Took, Wait: a.Wait})
	}
	final := edge.Attempt{Code: l.Response.Code, Header: flat(l.Response.Headers), Body: l.Response.Body}
	if l.X.Last != nil {
		final.Err, final.At, final.Took, final.Wait = l.X.Last.Err, l.X.Last.At, l.X.Last.Took, l.X.Last.Wait
	}
	return append(out, final)
}

// Return gives the recorded return behind a model.responded, model.failed or
// tool.returned event.
func (c *Cassette) Return(seq int) (edge.Return, error) {
	e, m, err := c.at(seq)
	if err != nil {
		return edge.Return{}, err
	}
	if m.interaction < 0 || c.heads[m.interaction].seq != seq {
		return edge.Return{}, fmt.Errorf("cassette %q: event %d (%s) is not the return of a call", c.name, seq, e.Type)
	}
	h := c.heads[m.interaction]
	out := edge.Return{Body: e.Data, Failed: e.Type == ledger.ModelFailed, Origin: m.origin, At: h.at, Took: h.took}
	if h.kind == edge.Tool {
		out.Body, out.Failed = resultIn(e.Data)
	}
	if h.wired {
		x, err := c.AnswerOf(seq)
		if err != nil {
			return edge.Return{}, err
		}
		out.Wire = &edge.Wire{URL: x.URL, Attempts: x.Attempts}
	}
	return out, nil
}

// resultIn reads the data of tool.returned.
func resultIn(data json.RawMessage) (result json.RawMessage, failed bool) {
	_ = ledger.EachMember(data, func(name []byte, value json.RawMessage) { // written by loop.ReturnedData
		switch string(name) {
		case "result":
			result = value
		case "status":
			failed = string(value) == `"error"`
		}
	})
	return result, failed
}

// Request rebuilds the model request behind a model.responded or model.failed
// event and checks it against its digest.
func (c *Cassette) Request(seq int) (converse.Request, error) {
	e, m, err := c.at(seq)
	if err != nil {
		return converse.Request{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if m.interaction < 0 || c.heads[m.interaction].kind != edge.Model || c.heads[m.interaction].seq != seq {
		return converse.Request{}, fmt.Errorf("cassette %q: event %d (%s) has no model request", c.name, seq, e.Type)
	}
	return c.requestOf(m.interaction)
}

// requestOf rebuilds the request of a model interaction and those it extends;
// c.mu is held and the events are loaded.
func (c *Cassette) requestOf(id int) (converse.Request, error) {
	var todo []int
	var deltas []delta
	for at := id; at >= 0; {
		if _, done := c.request[at]; done {
			break
		}
		d, err := readDelta(c.heads[at].delta)
		if err != nil || d.Base == nil || *d.Base < -1 || *d.Base >= at {
			return converse.Request{}, c.damage(at, extendsNothing(err))
		}
		todo, deltas = append(todo, at), append(deltas, d)
		if at = *d.Base; at >= 0 && c.heads[at].kind != edge.Model {
			return converse.Request{}, c.damage(id, fmt.Errorf("the stored request extends interaction %d, which is no model call", at))
		}
	}
	for i := len(todo) - 1; i >= 0; i-- {
		req, err := deltas[i].rebuild(c.baseRequest(*deltas[i].Base), recorded{c, todo[i]}, &c.budget)
		if err != nil {
			return req, c.damage(todo[i], err)
		}
		c.request[todo[i]] = req
	}
	return c.request[id], nil
}

// extendsNothing is the error about a stored request that cannot be read, or
// that does not say what it extends.
func extendsNothing(err error) error {
	if err != nil {
		return err
	}
	return fmt.Errorf(`the stored request: expected "base" to name an earlier interaction`)
}

func (c *Cassette) damage(i int, err error) error {
	return &Damage{File: c.name, Line: firstLineNo + i, Interaction: i, Reason: err.Error()}
}

func (c *Cassette) baseRequest(id int) converse.Request {
	if id < 0 {
		return c.begin.Request()
	}
	return c.request[id]
}

// recorded is the source for the request of interaction limit: it gives what
// was recorded before.
type recorded struct {
	c     *Cassette
	limit int
}

func (r recorded) event(id int, kind edge.Kind) (ledger.Event, error) {
	if id < 0 || id >= r.limit || r.c.heads[id].kind != kind {
		return ledger.Event{}, fmt.Errorf("expected an earlier %s interaction, found %d", kind, id)
	}
	return r.c.events[r.c.heads[id].seq-1], nil
}

func (r recorded) answer(id int) (json.RawMessage, error) {
	e, err := r.event(id, edge.Model)
	if err != nil {
		return nil, err
	}
	if m := assistantMessage(e.Data); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("interaction %d holds no message", id)
}

func (r recorded) result(id int) (json.RawMessage, error) {
	e, err := r.event(id, edge.Tool)
	if err != nil {
		return nil, err
	}
	if m := ledger.Member(e.Data, "result"); m != nil {
		return m, nil
	}
	return nil, fmt.Errorf("interaction %d holds no result", id)
}
