package proxy

import (
	"context"
	"errors"
	"net/http"

	"investigator/internal/edge"
)

// recording forwards every call and records the runs.
type recording struct {
	p    *Proxy
	runs *runs
}

func newRecording(p *Proxy) (*recording, error) {
	if p.o.Upstream == nil || p.o.Record.Create == nil {
		return nil, errors.New("make proxy: expected an upstream and a place to record")
	}
	return &recording{p, newRuns(p, *p.o.Record)}, nil
}

func (m *recording) serve(ctx context.Context, c *call, w *writer) {
	u, retry, err := m.runs.begin(ctx, c)
	if err != nil {
		text := "a run cannot be recorded: " + err.Error()
		m.p.o.Notify(Note{"trouble", text})
		w.fail(c.Asked, http.StatusInternalServerError, "InternalServerException", "investigator proxy: "+text)
		return
	}
	m.p.pass(ctx, m.runs, u, retry, c, c.raw, c.Route.Path, w)
}

// pass forwards a call of a run and records what came back.
func (p *Proxy) pass(ctx context.Context, runs *runs, u *run, retry bool, c *call, body []byte, path string, w *writer) {
	earlier := runs.earlier(u, retry)
	done := false
	took := func(a attempt) {
		done = true
		runs.took(u, c, returnOf(c, earlier, a, p.origin()), retry)
	}
	defer func() { // an upstream that panics must not leave the run waiting
		if !done {
			took(attempt{Attempt: edge.Attempt{Err: "the proxy broke off"}, url: p.o.Upstream.Place(path)})
		}
	}()
	if runs.o.Durable {
		p.forward(ctx, c, body, path, w, took)
		return
	}
	var got attempt
	defer func() { took(got) }()
	p.forward(ctx, c, body, path, w, func(a attempt) { got = a })
}

// origin says who answers at the upstream.
func (p *Proxy) origin() edge.Origin {
	if _, is := p.o.Upstream.(RuleUpstream); is {
		return edge.Rule
	}
	return edge.Live
}

func (m *recording) close(out *Result) error { return m.runs.close(out) }
