package proxy

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"

	"investigator/internal/edge"
)

// recording forwards every call and records the runs: before an answer's last
// byte where it has to be durable, else behind the traffic.
type recording struct {
	p       *Proxy
	runs    *runs
	behind  *follower // nil when durable
	serial  atomic.Int64
	refused atomic.Int64 // calls of which no run could be made
	once    sync.Once
}

const brokeOff = "the proxy broke off"

func newRecording(p *Proxy) (*recording, error) {
	o := p.o.Record
	if p.o.Upstream == nil || o.Create == nil {
		return nil, errors.New("make proxy: expected an upstream and a place to record")
	}
	m := &recording{p: p, runs: newRuns(p, *o)}
	if o.Durable {
		return m, nil
	}
	rest, err := newSpool(o.Spool)
	if err != nil {
		return nil, err
	}
	m.behind = newFollower(p, m.runs, newBacklog(memoryBacklog, diskBacklog, rest))
	return m, nil
}

func (m *recording) serve(ctx context.Context, c *call, w *writer) {
	if m.behind == nil {
		reading{m.p, durably{m}}.serve(ctx, c, w)
		return
	}
	if text := bytes.TrimSpace(c.raw); len(text) < 2 || text[0] != '{' || text[len(text)-1] != '}' {
		if err := c.read(); err != nil { // the rest is found out behind the traffic
			w.fail(c.Asked, http.StatusBadRequest, "ValidationException", "investigator proxy: "+err.Error())
			return
		}
	}
	m.p.calls.Add(1)
	if m.runs.stuck.Load() {
		m.carefully(ctx, c, w)
		return
	}
	id := m.serial.Add(1)
	m.push(step{call: id, began: c.bare()})
	m.p.forward(ctx, c, c.raw, c.Route.Path, w, func(a attempt) { m.push(step{call: id, ended: &a}) })
}

// carefully serves while no run can be made: calls that would begin one are
// refused before they cost anything, and those of other runs go on.
func (m *recording) carefully(ctx context.Context, c *call, w *writer) {
	m.behind.backlog.drain()
	if err := c.read(); err != nil {
		w.fail(c.Asked, http.StatusBadRequest, "ValidationException", "investigator proxy: "+err.Error())
		return
	}
	durably{m}.serve(ctx, c, w)
}

func (m *recording) push(s step) {
	if err := m.behind.backlog.push(s); err != nil {
		m.p.o.Notify(Note{"trouble", "calls wait for the recorder: " + err.Error()})
	}
}

// durably records each call before the last byte of its answer is passed on.
type durably struct{ *recording }

func (m durably) serve(ctx context.Context, c *call, w *writer) {
	u, retry, err := m.runs.begin(ctx, c)
	if err != nil {
		text := clean("a run cannot be recorded: " + err.Error())
		if m.refused.Add(1) <= maxTold {
			m.p.o.Notify(Note{"trouble", text})
		}
		w.fail(c.Asked, http.StatusInternalServerError, "InternalServerException", "investigator proxy: "+text)
		return
	}
	m.p.pass(ctx, m.runs, u, retry, c, c.raw, c.Route.Path, w)
}

// pass forwards a call of a run and records what came back before its end is
// passed on. An answer that is on no cassette is not passed on whole.
func (p *Proxy) pass(ctx context.Context, runs *runs, u *run, retry bool, c *call, body []byte, path string, w *writer) {
	w.durable = true
	p.forward(ctx, c, body, path, w, func(a attempt) {
		if err := runs.took(u, c, returnOf(c, a, p.origin()), retry); err != nil {
			w.withhold(c.shape(), clean("the answer cannot be recorded: "+err.Error()))
		}
	})
}

// origin says who answers at the upstream.
func (p *Proxy) origin() edge.Origin {
	if _, is := p.o.Upstream.(RuleUpstream); is {
		return edge.Rule
	}
	return edge.Live
}

func (m *recording) close(out *Result) error {
	if m.behind != nil {
		m.once.Do(func() {
			m.behind.close()
			m.behind.backlog.rest.close()
		})
	}
	if n := m.refused.Swap(0); n > 0 {
		m.runs.note(fmt.Sprintf("calls refused, because no run could be made for them: %d", n))
	}
	return m.runs.close(out)
}
