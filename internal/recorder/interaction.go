package recorder

import (
	"encoding/json"
	"fmt"
	"math"

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
	c.mu.Lock()
	_, m, h, err := c.found(seq)
	c.mu.Unlock()
	if err != nil {
		return Interaction{}, err
	}
	if m.interaction < 0 {
		return Interaction{}, fmt.Errorf("cassette %q: event %d came with no interaction", c.name, seq)
	}
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
	c.mu.Lock()
	_, _, h, err := c.found(seq)
	c.mu.Unlock()
	if err != nil || m.interaction < 0 || h.seq != seq {
		return edge.Return{}, fmt.Errorf("cassette %q: event %d (%s) is not the return of a call", c.name, seq, e.Type)
	}
	out := h.returned(e, m)
	if h.wired {
		x, err := c.AnswerOf(seq)
		if err != nil {
			return edge.Return{}, err
		}
		out.Wire = &edge.Wire{URL: x.URL, Attempts: x.Attempts}
	}
	return out, nil
}

// returned is the return behind an interaction's first event, but for what went
// over a network.
func (h head) returned(e ledger.Event, m mark) edge.Return {
	out := edge.Return{Body: e.Data, Failed: e.Type == ledger.ModelFailed, Origin: m.origin, At: h.at, Took: h.took}
	if h.kind == edge.Tool {
		out.Body, out.Failed = resultIn(e.Data)
	}
	return out
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
	c.mu.Lock()
	defer c.mu.Unlock()
	e, m, h, err := c.found(seq)
	if err != nil {
		return converse.Request{}, err
	}
	if m.interaction < 0 || h.kind != edge.Model || h.seq != seq {
		return converse.Request{}, fmt.Errorf("cassette %q: event %d (%s) has no model request", c.name, seq, e.Type)
	}
	return c.requestOf(m.interaction)
}

// links say where the parts of a rebuilt request stand, so that another time
// those that it takes nothing from are passed over.
type links struct {
	known bool
	kept  int // messages of another request
	from  int // the interaction that added the last of them, -1 if there is none
	rest  int // the interaction whose stored request gives the rest, -1 for run.started
}

// requestOf rebuilds the request of a model interaction and those it takes
// messages from; c.mu is held and the events are loaded.
func (c *Cassette) requestOf(id int) (converse.Request, error) {
	var todo []part
	at, keep := id, math.MaxInt
	req, found := c.rebuilt.requests[at]
	for ; at >= 0 && !found; req, found = c.rebuilt.requests[at] {
		d, err := c.stored(at)
		if err != nil {
			return req, err
		}
		p := c.partOf(at, d, keep)
		todo, keep = append(todo, p), p.d.Kept
		if at = c.extends(at, d); at >= 0 && c.heads[at].kind != edge.Model {
			return req, c.damage(id, fmt.Errorf("the stored request extends interaction %d, which is no model call", at))
		}
	}
	if !found {
		req = c.begin.Request()
	}
	left := &c.budget
	if c.heads[id].links.known {
		left = ample() // it was paid for, and who asks again wants to know it
	}
	var err error
	for i := len(todo) - 1; i >= 0 && err == nil; i-- {
		req, err = c.rebuild(todo[i], req, left)
	}
	return req, err
}

// part is what is taken of a stored request.
type part struct {
	id  int
	d   delta
	cut bool // not all of its messages are wanted
}

// partOf cuts a stored request to so many messages, unless it has to be rebuilt
// whole because its digest was not checked yet.
func (c *Cassette) partOf(id int, d delta, keep int) part {
	if !c.heads[id].links.known || keep >= d.Kept+len(d.Add) {
		return part{id: id, d: d}
	}
	d.Add = d.Add[:max(0, keep-d.Kept)]
	d.Kept = min(d.Kept, keep)
	return part{id, d, true}
}

// stored reads the stored request of a model interaction.
func (c *Cassette) stored(id int) (delta, error) {
	if err := c.recall(id); err != nil {
		return delta{}, err
	}
	d, err := readDelta(c.heads[id].delta)
	if err != nil || d.Base == nil || *d.Base < -1 || *d.Base >= id {
		return d, c.damage(id, extendsNothing(err))
	}
	return d, nil
}

// extends is the interaction whose request has the messages that d keeps.
func (c *Cassette) extends(id int, d delta) int {
	if l := c.heads[id].links; l.known {
		return l.from
	}
	return *d.Base
}

// rebuild rebuilds one request from that which it extends.
func (c *Cassette) rebuild(p part, base converse.Request, left *int64) (converse.Request, error) {
	id, d := p.id, p.d
	h := &c.heads[id]
	var err error
	if h.links.known && d.Rest == nil {
		if base.Rest, err = c.restAt(h.links.rest); err != nil {
			return base, err
		}
	}
	build := d.rebuild
	if p.cut {
		build = d.extend
	}
	req, err := build(base, c.begin.Request().Messages.Last(), recorded{c, id}, left)
	if err != nil {
		return req, c.damage(id, err)
	}
	if p.cut {
		return req, nil
	}
	c.link(id, d)
	if !h.gone {
		c.rebuilt.hold(id, req)
	}
	return req, nil
}

// restAt is what the stored request of an interaction gives beside messages.
func (c *Cassette) restAt(id int) (converse.Rest, error) {
	if id < 0 {
		return c.begin.Request().Rest, nil
	}
	if req, done := c.rebuilt.requests[id]; done {
		return req.Rest, nil
	}
	d, err := c.stored(id)
	if err != nil {
		return converse.Rest{}, err
	}
	return converse.NewRest(d.Rest)
}

// link notes where the parts of a request stand that was rebuilt.
func (c *Cassette) link(id int, d delta) {
	h := &c.heads[id]
	if h.links.known {
		return
	}
	h.links = links{known: true, kept: d.Kept, from: *d.Base, rest: -1}
	if *d.Base >= 0 {
		h.links.rest = c.heads[*d.Base].links.rest
	}
	if d.Rest != nil {
		h.links.rest = id
	}
	for at := &h.links.from; *at >= 0 && c.heads[*at].links.kept >= d.Kept; {
		*at = c.heads[*at].links.from
	}
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
	err := r.c.recall(id)
	return r.c.events[r.c.heads[id].seq-1], err
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
