package recorder_test

import (
	"bytes"
	"slices"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"

	"github.com/google/go-cmp/cmp"
)

// variants are the generated runs that the laws are tested over.
func variants() map[string]recordertest.Options {
	return map[string]recordertest.Options{
		"plain":    {Turns: 4, Bytes: 300},
		"verdict":  {Turns: 1},
		"odd":      {Turns: 8, Bytes: 200, Parallel: 2, Odd: true},
		"wire":     {Turns: 7, Bytes: 150, Wire: true},
		"odd wire": {Turns: 7, Bytes: 120, Parallel: 3, Odd: true, Wire: true},
	}
}

// taken is a run as the loop saw it.
type taken struct {
	bytes  []byte
	events []ledger.Event
	calls  []edge.Call
	rets   []edge.Return
}

func record(t *testing.T, o recordertest.Options) taken {
	t.Helper()
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	var out taken
	_, first, err := loop.New(recordertest.Start())
	if err != nil {
		t.Fatal(err)
	}
	out.events = append(out.events, first)
	if _, err = recordertest.Generate(o, sinkOf(&out, w)); err != nil {
		t.Fatal(err)
	}
	out.bytes = w.Bytes()
	return out
}

// sinkOf notes what w takes.
func sinkOf(out *taken, w *recorder.Writer) loop.Sink {
	return loop.SinkFunc(func(call edge.Call, ret edge.Return, events []ledger.Event) error {
		out.events = append(out.events, events...)
		out.calls, out.rets = append(out.calls, call), append(out.rets, ret)
		return w.Took(call, ret, events)
	})
}

func parse(t *testing.T, b []byte) *recorder.Cassette {
	t.Helper()
	c, err := recorder.Parse("test.yaml", b)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// Law 11: what is read from the cassette is what the loop saw.
func TestCassetteGivesBackTheRun(t *testing.T) {
	for name, o := range variants() {
		t.Run(name, func(t *testing.T) {
			run := record(t, o)
			c := parse(t, run.bytes)
			events, err := c.Events()
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(run.events, events); d != "" {
				t.Errorf("events (-taken +read):\n%s", d)
			}
			if o.Odd && !slices.ContainsFunc(events, func(e ledger.Event) bool { return e.Type == ledger.ToolRefused }) {
				t.Error("no call was refused, so the variant is not odd enough")
			}
			if !c.Sealed() || c.Torn() != nil || c.Seal().Ledger != ledger.Total(run.events).String() {
				t.Errorf("seal: %+v, torn %v", c.Seal(), c.Torn())
			}
			for i, call := range run.calls {
				checkCall(t, c, call, run.rets[i])
			}
			var text, want bytes.Buffer
			if err := c.WriteLedger(&text); err != nil {
				t.Fatal(err)
			}
			for _, e := range run.events {
				want.Write(append(e.Line(), '\n'))
			}
			if d := cmp.Diff(want.String(), text.String()); d != "" {
				t.Error(d)
			}
		})
	}
}

func checkCall(t *testing.T, c *recorder.Cassette, call edge.Call, ret edge.Return) {
	t.Helper()
	got, err := c.Return(call.Seq)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(allowed(ret), got); d != "" {
		t.Errorf("event %d: return (-taken +read):\n%s", call.Seq, d)
	}
	if call.Kind != edge.Model {
		return
	}
	req, err := c.Request(call.Seq)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(call.Request.Body()), string(req.Body())); d != "" {
		t.Errorf("event %d: request (-taken +read):\n%s", call.Seq, d)
	}
	if req.Model != call.Request.Model || req.Digest() != call.In {
		t.Errorf("event %d: model %q digest %s, want %q %s", call.Seq, req.Model, req.Digest(), call.Request.Model, call.In)
	}
}

// allowed is ret as a cassette keeps it.
func allowed(ret edge.Return) edge.Return {
	if ret.Wire == nil {
		return ret
	}
	w := edge.Wire{URL: ret.Wire.URL}
	for _, a := range ret.Wire.Attempts {
		header := map[string]string{}
		for name, v := range a.Header {
			switch name {
			case "content-type":
				header["Content-Type"] = v
			case "X-Amzn-Errortype":
				header[name] = v
			}
		}
		a.Header = header
		w.Attempts = append(w.Attempts, a)
	}
	ret.Wire = &w
	return ret
}
