package recorder

import (
	"bytes"
	"encoding/json"
	"errors"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

func foreignHeaderOf(t *testing.T) Header {
	t.Helper()
	return Header{Run: "r", Start: json.RawMessage(`{"task":"t","model":"m","request":{}}`),
		Extra: map[string]json.RawMessage{ForeignMember: json.RawMessage(`{"client":"boto3/1","tag":"x"}`)}}
}

// answered is a model call at event seq, asked with n messages.
func answered(seq, n int) Taken {
	var thread *converse.Thread
	for range n {
		thread = thread.Append(converse.Message("user", []json.RawMessage{converse.TextBlock("why?")}))
	}
	body := json.RawMessage(`{"output":{"message":{"content":[{"text":"so"}],"role":"assistant"}},"stopReason":"end_turn","usage":{}}`)
	req := converse.Request{Model: "m", Messages: thread}
	call := edge.Call{Kind: edge.Model, Seq: seq, Turn: seq - 1, In: req.Digest(), Request: req}
	return Taken{call, edge.Return{Body: body, Origin: edge.Live}, []ledger.Event{{Seq: seq, Type: ledger.ModelResponded, In: call.In, Data: body}}}
}

// TestTookAllWritesWhatTookWrites: one sync for several returns gives the same
// bytes, and Finish seals them.
func TestTookAllWritesWhatTookWrites(t *testing.T) {
	one, err := NewMemory(foreignHeaderOf(t))
	if err != nil {
		t.Fatal(err)
	}
	all, err := NewMemory(foreignHeaderOf(t))
	if err != nil {
		t.Fatal(err)
	}
	list := []Taken{answered(2, 1), answered(3, 2), answered(4, 3)}
	for _, x := range list {
		if err := one.Took(x.Call, x.Return, x.Events); err != nil {
			t.Fatal(err)
		}
	}
	if err := all.TookAll(list); err != nil {
		t.Fatal(err)
	}
	finished := ledger.Event{Seq: 5, Type: ledger.RunFinished, Data: json.RawMessage(`{"outcome":"untyped","turns":3,"usage":{"inputTokens":0,"outputTokens":0,"totalTokens":0}}`)}
	for _, w := range []*Writer{one, all} {
		if err := w.Finish(finished); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(string(one.Bytes()), string(all.Bytes())); d != "" {
		t.Errorf("(-Took +TookAll)\n%s", d)
	}
	c, err := Parse("x", all.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	events, err := c.Events()
	if err != nil || len(events) != 5 || !c.Sealed() {
		t.Errorf("%d events, sealed %v, %v", len(events), c.Sealed(), err)
	}
	if d := cmp.Diff(&Foreign{Client: "boto3/1", Tag: "x"}, c.Foreign()); d != "" {
		t.Error(d)
	}
	if x, err := c.AnswerOf(3); err != nil || x.ID != 1 || x.Request != nil {
		t.Errorf("interaction of event 3: %d, %v", x.ID, err)
	}
}

// TestTookAllTakesAllOrNothing: a bad return among good ones leaves the file as
// it was, and ends the recording.
func TestTookAllTakesAllOrNothing(t *testing.T) {
	w, err := NewMemory(foreignHeaderOf(t))
	if err != nil {
		t.Fatal(err)
	}
	before := w.Bytes()
	if err := w.TookAll([]Taken{answered(2, 1), answered(4, 2)}); err == nil {
		t.Error("took events with a gap")
	}
	if !bytes.Equal(before, w.Bytes()) || w.Seq() != 1 {
		t.Errorf("something was written; seq %d", w.Seq())
	}
	if err := w.Finish(ledger.Event{Seq: 2, Type: ledger.RunFinished, Data: json.RawMessage(`{}`)}); err == nil {
		t.Error("sealed a run in which nothing returned")
	}
	if err := w.TookAll([]Taken{answered(2, 1)}); err == nil {
		t.Error("went on after an error")
	}
	if c, err := Parse("x", w.Bytes()); err != nil || c.Len() != 0 {
		t.Errorf("%v", err)
	}
}

// batchWriter is a new Writer over a file, with the returns of many pieces.
func batchWriter(t *testing.T, f *faulty) (*Writer, []Taken) {
	t.Helper()
	p, err := prepare(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	w := newWriter("run.yaml", f, p)
	if err := w.writeHeader(p.text); err != nil {
		t.Fatal(err)
	}
	_, list := proxyPairs()
	return w, list[:12]
}

// TestTookAllTakesBackWhatItHandedOver: returns that are more than one piece are
// none of them kept when a later one cannot be made or written.
func TestTookAllTakesBackWhatItHandedOver(t *testing.T) {
	f := &faulty{after: 100}
	w, list := batchWriter(t, f)
	before := w.Bytes()
	if before != nil || f.Len() == 0 {
		t.Fatal("the writer is not over the file")
	}
	size := f.Len()
	list[11].Events = nil
	if err := w.TookAll(list); err == nil || f.writes < 3 {
		t.Fatalf("%d writes, %v", f.writes, err)
	}
	if f.Len() != size || w.Seq() != 1 {
		t.Errorf("%d bytes are left of what could not be made, seq %d", f.Len()-size, w.Seq())
	}
	if err := w.TookAll(list[:1]); err == nil {
		t.Error("went on after an error")
	}

	for after := 1; after < 5; after++ {
		for name, fault := range map[string]faulty{"write": {write: syscall.ENOSPC, partial: 100}, "short": {partial: 7}, "sync": {partial: -1, sync: syscall.EIO}} {
			fault.after = after
			w, list := batchWriter(t, &fault)
			err := w.TookAll(list)
			var fail *WriteError
			if !errors.As(err, &fail) || fail.Event != 2 || fail.Kept != 1 || fail.Ragged != (name == "sync") {
				t.Fatalf("%s fails after %d writes: %v", name, after, err)
			}
			if fault.Len() != size {
				t.Errorf("%s fails after %d writes: %d bytes are left", name, after, fault.Len()-size)
			}
			if again := w.TookAll(list); !errors.Is(again, fail.Err) {
				t.Errorf("%s: after the fault: %v", name, again)
			}
		}
	}
}
