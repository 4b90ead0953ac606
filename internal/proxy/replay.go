package proxy

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"sync"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/foreign"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// taped is a recorded model call. Its request is rebuilt when it is needed.
type taped struct {
	tape  *tape
	index int
	seq   int
	route foreign.Route
	exact string // the digest of its request
	key   ledger.Sum
	sum   ledger.Sum // over its conversation
	named []place    // its tool results
	made  bool       // its answer never went over a wire and has to be encoded
	fails bool       // a failure is what was recorded
	began string     // when it was asked for first, "" if that is not known
	tries int        // attempts that were recorded of it
	used  bool
	given int // times that it was

	hidden   bool               // no agent sees its answer, so none asks again
	inserted *foreign.Insertion // what a fork added to its answer
}

// place says which event a result in a request came from.
type place struct {
	foreign.Result
	seq  int
	tool string
}

// tape is a cassette being served.
type tape struct {
	c       *recorder.Cassette
	calls   []*taped
	patches []patched           // of a fork, by event
	carry   map[ledger.Sum]bool // the conversations that hold one of them
}

// replaying answers from cassettes.
type replaying struct {
	p     *Proxy
	tapes []*tape
	byKey map[ledger.Sum][]*taped
	bySum map[ledger.Sum]*taped // the first call with that conversation
	exact map[string]*taped     // a call with that request, by exactOf

	mu        sync.Mutex
	byCall    map[string]*taped // by invocation id
	tolerated map[foreign.Change]int
	diverged  divergences
	missed    map[ledger.Sum]bool
	more      int // requests that diverged after so many
	served    int
}

func newReplaying(p *Proxy) (*replaying, error) {
	m := &replaying{
		p: p, byKey: map[ledger.Sum][]*taped{}, bySum: map[ledger.Sum]*taped{}, exact: map[string]*taped{}, byCall: map[string]*taped{},
		tolerated: map[foreign.Change]int{}, missed: map[ledger.Sum]bool{},
	}
	for _, c := range p.o.Replay {
		if err := m.load(c); err != nil {
			return nil, err
		}
	}
	return m, nil
}

// load indexes a cassette's model calls and checks its events on the way.
func (m *replaying) load(c *recorder.Cassette) error {
	if c.Foreign() == nil {
		return fmt.Errorf("replay %s: it is a run of investigator's own loop: investigator replay %s", c.Name(), c.Name())
	}
	t, err := newTape(c)
	if err != nil {
		return fmt.Errorf("replay %s: %w", c.Name(), err)
	}
	sums := map[ledger.Sum]ledger.Sum{}
	_, err = engine.ForeignCalls(c, func(f engine.ForeignCall) error {
		call := &taped{tape: t, index: len(t.calls), seq: f.Seq, route: f.Asked.Route, exact: exactOf(f.Asked), made: f.Made, fails: f.Return.Failed, tries: len(f.Wire.Attempts)}
		if call.tries > 0 {
			call.began = f.Wire.Attempts[0].At
		}
		call.sum = threadSum(sums, f.Asked.Request.Messages)
		call.key = foreign.Key(f.Asked, call.sum)
		var inserted *foreign.Insertion
		if f.Wire.Origin == edge.Patched {
			var err error
			if inserted, err = insertionAt(c, f.Seq, f.Asked.Request.Messages.Len()); err != nil {
				return err
			}
		}
		t.note(call, f.Answered, inserted)
		if len(t.patches) > 0 && call.index >= t.patches[0].from {
			t.carry[call.sum] = true
		}
		t.calls = append(t.calls, call)
		m.byKey[call.key] = inOrder(m.byKey[call.key], call)
		m.exact[call.exact] = call
		if m.bySum[call.sum] == nil {
			m.bySum[call.sum] = call
		}
		return nil
	}, func(...ledger.Event) error { return nil })
	m.tapes = append(m.tapes, t)
	if err != nil {
		return fmt.Errorf("replay %s: %w", c.Name(), err)
	}
	return nil
}

// threadSum is the sum of foreign.Sums for a thread, computed once a message.
// known holds it by the thread's own sum.
func threadSum(known map[ledger.Sum]ledger.Sum, t *converse.Thread) ledger.Sum {
	var todo []*converse.Thread
	for t != nil {
		if _, found := known[t.Sum()]; found {
			break
		}
		todo = append(todo, t)
		t = t.Parent()
	}
	s := known[t.Sum()]
	for i := len(todo) - 1; i >= 0; i-- {
		s = foreign.NextSum(s, todo[i])
		known[todo[i].Sum()] = s
	}
	return s
}

// asked rebuilds the recorded request.
func (t *taped) asked() (foreign.Asked, error) {
	req, err := t.tape.c.Request(t.seq)
	return foreign.FromRequest(t.route, req), err
}

// exactOf identifies a request by every byte of its canonical form.
func exactOf(a foreign.Asked) string { return string(a.Route.Op) + a.Request.Digest() }

// identify finds out what c means; where it is a recorded request to the byte,
// that is known.
func (m *replaying) identify(c *call) {
	if t := m.exact[exactOf(c.Asked)]; t != nil {
		c.key = t.key
		return
	}
	c.sum()
}

func (m *replaying) serve(_ context.Context, c *call, w *writer) {
	if !m.p.parsed(c, w) {
		return
	}
	lent := c.memory
	m.identify(c)
	c = m.patch(c)
	found, d := m.take(c)
	if found == nil {
		m.refuse(c, w, d) // parts of the request are shown in the end
		return
	}
	m.answer(c, found, w)
	m.p.lender.giveBack(lent)
}

// patch is the request as a fork's model got it, where a tape is a fork that
// the request belongs to; else c itself, as where a fork lies beside its parent
// and the parent's is the one that waits for it.
func (m *replaying) patch(c *call) *call {
	if !slices.ContainsFunc(m.tapes, func(t *tape) bool { return len(t.patches) > 0 }) {
		return c
	}
	best, fit := c, m.fits(c)
	for _, t := range m.tapes {
		if len(t.patches) == 0 {
			continue
		}
		p := t.patch(c)
		if n := m.fits(p); n > fit {
			best, fit = p, n
		} else if fit < waits && best == c && (len(m.byKey[p.key]) > 0 || t.follows(p)) {
			best = p
		}
	}
	return best
}

// patch is a request as the fork's model got it.
func (t *tape) patch(c *call) *call {
	if len(t.patches) == 0 {
		return c
	}
	a := c.Asked
	for _, p := range t.patches {
		a = p.apply(a)
	}
	return newCall(a, a.Request.Body(), c.header, c.At)
}

// How well a request fits: a recorded one of the same meaning waits for it, or
// the same one does.
const (
	waits = 1 + iota
	waitsExactly
)

func (m *replaying) fits(c *call) (fit int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.retried(c) != nil {
		return waitsExactly
	}
	exact := exactOf(c.Asked)
	for _, t := range m.byKey[c.key] {
		if !t.used && t.exact == exact {
			return waitsExactly
		}
		if !t.used {
			fit = waits
		}
	}
	return fit
}

// follows reports whether a request's conversation goes on from a patched one,
// or from the last recorded one.
func (t *tape) follows(c *call) bool {
	if len(t.calls) == 0 {
		return false
	}
	last := t.calls[len(t.calls)-1].sum
	return slices.ContainsFunc(c.sums, func(s ledger.Sum) bool { return s == last || t.carry[s] })
}

// take finds the recorded call of a request and marks it as used. Where there is
// none it says why; other calls do not wait while that is found out.
func (m *replaying) take(c *call) (*taped, Divergence) {
	m.mu.Lock()
	t, why := m.find(c)
	m.mu.Unlock()
	if t != nil {
		return t, Divergence{}
	}
	d := why()
	m.note(c, d)
	return nil, d
}

// find is take under the lock; why compares requests, and is called without it.
func (m *replaying) find(c *call) (found *taped, why func() Divergence) {
	if again := m.retried(c); again != nil {
		again.given++
		return again, nil
	}
	var other *taped // of the same meaning, where that is not enough
	exact := exactOf(c.Asked)
	for _, t := range m.byKey[c.key] {
		if t.used {
			continue
		}
		if t.exact != exact {
			changes, same := m.tolerates(t, c)
			if !same {
				other = t
				continue
			}
			for _, change := range changes {
				m.tolerated[change]++
			}
		}
		m.use(c, t)
		return t, nil
	}
	if other != nil {
		return nil, func() Divergence { return other.differs(c, m.p.o.Strict) }
	}
	return nil, m.nearest(c)
}

func (m *replaying) use(c *call, t *taped) {
	t.used, t.given = true, 1
	m.served++
	if c.Invocation != "" {
		m.byCall[c.Invocation] = t
	}
}

func (m *replaying) refuse(c *call, w *writer, d Divergence) {
	w.fail(c.Asked, http.StatusConflict, "ConflictException", "investigator proxy: "+d.String())
}

// answer gives the recorded answer as it came.
func (m *replaying) answer(c *call, t *taped, w *writer) {
	e, cut, err := recordedAnswer(c.Asked, t)
	if err != nil {
		w.fail(c.Asked, http.StatusInternalServerError, "InternalServerException", "investigator proxy: "+err.Error())
		return
	}
	if !cut {
		w.whole(e.status, e.header, e.body)
		return
	}
	w.head(e.status, e.header)
	_, _ = w.Write(e.body)
	w.flush()
	panic(http.ErrAbortHandler) // it was cut off here when it was recorded
}

type wireAnswer struct {
	status int
	header map[string]string
	body   []byte
}

// recordedAnswer is what a client gets for a recorded call. cut says that it
// ends before its end. What never went over a wire is encoded: of a patched turn
// the response is the event itself, unless what the agent was given was kept.
func recordedAnswer(a foreign.Asked, t *taped) (out wireAnswer, cut bool, err error) {
	x, err := t.interaction()
	if err != nil {
		return out, false, err
	}
	out = wireAnswer{status: x.Code, header: x.Header, body: x.Response}
	if !t.made && !t.fails {
		return out, false, nil
	}
	event, err := t.tape.c.Event(t.seq)
	if err != nil {
		return out, false, err
	}
	if x.Origin == edge.Patched && !bytes.Equal(x.Response, event.Data) {
		return out, false, nil
	}
	if t.fails {
		return recordedFailure(a, x, event)
	}
	body := event.Data
	if t.inserted != nil {
		body = t.inserted.Without()
	}
	out, err = encodedAnswer(a, body)
	return out, false, err
}

func encodedAnswer(a foreign.Asked, turn json.RawMessage) (wireAnswer, error) {
	e, err := foreign.Encode(a, turn)
	return wireAnswer{http.StatusOK, map[string]string{"Content-Type": e.ContentType}, e.Body}, err
}

func failureAnswer(a foreign.Asked, status int, name, message string) wireAnswer {
	e := foreign.EncodeFailure(a, name, message)
	return wireAnswer{status, map[string]string{"Content-Type": e.ContentType, "X-Amzn-Errortype": name}, e.Body}
}

func recordedFailure(a foreign.Asked, x recorder.Interaction, event ledger.Event) (out wireAnswer, cut bool, err error) {
	out = wireAnswer{status: x.Code, header: x.Header, body: x.Response}
	f, err := edge.ParseFailure(event.Data)
	if err != nil {
		return out, false, err
	}
	if n := len(x.Attempts); x.Code == http.StatusOK && n > 0 && x.Attempts[n-1].Err != "" {
		return out, true, nil
	}
	if x.Code == 0 || x.Origin == edge.Patched {
		if f.Status == 0 {
			f.Name, f.Status, f.Message = "ServiceUnavailableException", http.StatusServiceUnavailable, unreachable+f.Message
		}
		return failureAnswer(a, f.Status, f.Name, f.Message), false, nil
	}
	return out, false, nil
}

func (t *taped) interaction() (recorder.Interaction, error) {
	return t.tape.c.AnswerOf(t.seq)
}

func (m *replaying) close(out *Result) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	out.Served, out.Tolerated, out.Diverged = m.served, m.tolerated, slices.Clip(m.diverged.list)
	if m.more > 0 {
		out.Diverged = append(out.Diverged, Divergence{Cause: fmt.Sprintf("%d more requests diverged", m.more)})
	}
	for _, t := range m.tapes {
		for _, call := range t.calls {
			if !call.used {
				out.LeftOver = append(out.LeftOver, LeftOver{t.c.Name(), call.seq})
			}
		}
	}
	return nil
}
