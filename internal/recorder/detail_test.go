package recorder_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io/fs"
	"strings"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"

	"github.com/google/go-cmp/cmp"
)

// frame is one message of an event stream.
func frame(kind, payload string) []byte {
	var headers []byte
	for _, h := range [][2]string{{":event-type", kind}, {":content-type", "application/json"}, {":message-type", "event"}} {
		headers = append(append(headers, byte(len(h[0]))), h[0]...)
		headers = binary.BigEndian.AppendUint16(append(headers, 7), uint16(len(h[1])))
		headers = append(headers, h[1]...)
	}
	b := binary.BigEndian.AppendUint32(nil, uint32(16+len(headers)+len(payload)))
	b = binary.BigEndian.AppendUint32(b, uint32(len(headers)))
	b = binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
	b = append(append(b, headers...), payload...)
	return binary.BigEndian.AppendUint32(b, crc32.ChecksumIEEE(b))
}

const streamed = `{"output":{"message":{"content":[{"text":"hello"}],"role":"assistant"}},"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`

func stream() []byte {
	return bytes.Join([][]byte{
		frame("messageStart", `{"role":"assistant"}`),
		frame("contentBlockDelta", `{"contentBlockIndex":0,"delta":{"text":"hello"}}`),
		frame("contentBlockStop", `{"contentBlockIndex":0}`),
		frame("messageStop", `{"stopReason":"end_turn"}`),
		frame("metadata", `{"metrics":{"latencyMs":9},"usage":{"inputTokens":1,"outputTokens":2,"totalTokens":3}}`),
	}, nil)
}

func wireOf(code int, body []byte, contentType, failure string) *edge.Wire {
	return &edge.Wire{URL: "https://bedrock-runtime.eu-west-1.amazonaws.com/model/scripted/converse", Attempts: []edge.Attempt{
		{Code: code, Header: map[string]string{"content-type": contentType}, Body: body, Err: failure},
	}}
}

func failed(name, message string, status int, w *edge.Wire) edge.Return {
	return edge.Return{Failed: true, Origin: edge.Live, Wire: w, Body: edge.FailureBody(edge.Failure{Name: name, Message: message, Status: status})}
}

// troubled is a run in which everything rare happens: the context overflows in
// both of its ways, the model stops without a verdict, and fails at last.
func troubled(last edge.Return) edge.Edge {
	o := recordertest.Options{Turns: 100, Bytes: 200, Parallel: 2}
	return edge.Func(func(ctx context.Context, call edge.Call) (edge.Return, error) {
		r, err := recordertest.Edge(o).Do(ctx, call)
		if call.Kind == edge.Tool {
			return r, err
		}
		switch call.Turn {
		case 5:
			r.Body = []byte(`{"output":{"message":{"content":[],"role":"assistant"}},"stopReason":"model_context_window_exceeded"}`)
		case 7:
			return failed("ValidationException", "Input is too long for requested model.", 400, nil), nil
		case 8:
			return edge.Return{Origin: edge.Live, Body: []byte(streamed), Wire: wireOf(200, stream(), "application/vnd.amazon.eventstream", "")}, nil
		case 9:
			return last, nil
		}
		return r, err
	})
}

// inMemory begins a run whose recording is in memory.
func inMemory(t testing.TB) (*recorder.Writer, loop.State, ledger.Event) {
	t.Helper()
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	s, first, err := loop.New(recordertest.Start())
	if err != nil {
		t.Fatal(err)
	}
	return w, s, first
}

func TestRareEventsAreGivenBack(t *testing.T) {
	for name, last := range map[string]edge.Return{
		"refused":        failed("AccessDeniedException", "no", 403, wireOf(403, []byte(`{"message":"no"}`), "application/json", "")),
		"no answer":      failed("ConnectionError", "reset", 0, wireOf(0, []byte{}, "", "connection reset by peer")),
		"cut stream":     failed("StreamError", "cut off", 200, wireOf(200, stream()[:150], "application/vnd.amazon.eventstream", "unexpected EOF")),
		"not on a wire":  failed("RunTimeout", "time is over", 0, nil),
		"odd status":     failed("Odd", "status 7", 7, nil),
		"patched answer": {Origin: edge.Patched, Body: []byte(streamed), Wire: wireOf(200, []byte(`{"other":1}`), "text/plain", "")},
	} {
		t.Run(name, func(t *testing.T) {
			w, s, first := inMemory(t)
			run := taken{events: []ledger.Event{first}}
			if _, err := loop.Run(t.Context(), s, troubled(last), sinkOf(&run, w)); err != nil {
				t.Fatal(err)
			}
			types := ""
			for _, e := range run.events {
				types += e.Type + " "
			}
			for _, rare := range []string{ledger.ContextTrimmed, ledger.ModelFailed, ledger.FindingsMissing} {
				if !strings.Contains(types, rare) {
					t.Fatalf("no %s in %s", rare, types)
				}
			}
			c := parse(t, w.Bytes())
			events, err := c.Events()
			if err != nil {
				t.Fatal(err)
			}
			sameEvents(t, "read", run.events, events)
			for i, call := range run.calls {
				if run.rets[i].Origin == edge.Patched {
					run.rets[i].Wire.Attempts[0].Body = run.rets[i].Body
					run.rets[i].Wire.Attempts[0].Header = map[string]string{"content-type": "application/json"}
				}
				checkCall(t, c, call, run.rets[i])
			}
			checkVCR(t, c, w.Bytes(), c.Len())
			want := map[edge.Origin]int{}
			for _, r := range run.rets {
				want[r.Origin]++
			}
			got, err := c.Origins()
			if d := cmp.Diff(want, got); d != "" || err != nil {
				t.Errorf("origins (-want +got):\n%s%v", d, err)
			}
			for origin, n := range c.Seal().Origins {
				if want[edge.Origin(origin)] != n {
					t.Errorf("the seal counts %d %s, want %d", n, origin, want[edge.Origin(origin)])
				}
			}
		})
	}
}

// An event stream is stored as it came; the event is read from it, not stored
// beside it.
func TestStreamsAreStoredOnce(t *testing.T) {
	w, s, _ := inMemory(t)
	e := edge.Func(func(context.Context, edge.Call) (edge.Return, error) {
		return edge.Return{Origin: edge.Live, Body: []byte(streamed), Wire: wireOf(200, stream(), "application/vnd.amazon.eventstream", "")}, nil
	})
	if _, err := loop.Run(t.Context(), s, e, w); err != nil {
		t.Fatal(err)
	}
	if b := w.Bytes(); strings.Contains(string(b), `\"output\"`) || !bytes.Contains(b, []byte("!!binary")) {
		t.Errorf("the stream is not what is stored:\n%s", b)
	}
}

func TestCassetteAnswersAboutEvents(t *testing.T) {
	run := record(t, recordertest.Options{Turns: 3, Bytes: 50})
	c := parse(t, run.bytes)
	if c.Base() != "test.yaml" || c.Begin().Seq() != 1 || !bytes.Equal(c.Start(), run.events[0].Data) || !bytes.Equal(c.Finished(), run.events[len(run.events)-1].Data) {
		t.Errorf("base %q, begins at %d, start %s, finished %s", c.Base(), c.Begin().Seq(), c.Start(), c.Finished())
	}
	var sum ledger.Sum
	origins := map[string]edge.Origin{ledger.ModelResponded: edge.Rule, ledger.ToolReturned: edge.Executed,
		ledger.RunStarted: edge.Derived, ledger.ToolCalled: edge.Derived, ledger.RunFinished: edge.Derived}
	for _, want := range run.events {
		sum = sum.Add(want)
		got, err := c.Event(want.Seq)
		origin, errO := c.Origin(want.Seq)
		now, errS := c.LedgerSum(want.Seq)
		if err := errors.Join(err, errO, errS); err != nil || !cmp.Equal(want, got) || now != sum || origin != origins[want.Type] {
			t.Errorf("event %d: %+v, origin %q, sum %s, %v", want.Seq, got, origin, now, err)
		}
	}
	for _, seq := range []int{-1, 0, 1, 3, len(run.events), len(run.events) + 1} {
		if r, err := c.Return(seq); err == nil {
			t.Errorf("event %d is no return, but gave %+v", seq, r)
		}
		if _, err := c.Request(seq); err == nil {
			t.Errorf("event %d has a request", seq)
		}
	}
	for _, i := range []int{-1, c.Len()} {
		if _, err := c.Interaction(i); err == nil {
			t.Errorf("interaction %d was found", i)
		}
	}
}

func TestWriterSaysHowFarItCame(t *testing.T) {
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	var run taken
	if _, err := recordertest.Generate(recordertest.Options{Turns: 2, Bytes: 5}, sinkOf(&run, w)); err != nil {
		t.Fatal(err)
	}
	c := parse(t, w.Bytes())
	if w.Path() != "" || w.Seq() != len(run.events)+1 || w.Sum().String() != c.Seal().Ledger || w.Header().StartSum != c.Header().StartSum {
		t.Errorf("path %q, seq %d, sum %s", w.Path(), w.Seq(), w.Sum())
	}
	if err := w.Close(); err != nil {
		t.Error(err)
	}
}

func TestPrefixesThatCannotBeCopied(t *testing.T) {
	run := record(t, recordertest.Options{Turns: 3, Bytes: 50})
	parent := parse(t, run.bytes)
	h := recordertest.Header()
	h.Start = bytes.Replace(h.Start, []byte("Checkout"), []byte("Cart"), 1)
	other, err := recorder.NewMemory(h)
	if err != nil {
		t.Fatal(err)
	}
	if err := other.CopyPrefix(parent, 5); err == nil || !strings.Contains(err.Error(), "another beginning") {
		t.Errorf("under another start: %v", err)
	}
	if err := other.CopyPrefix(parent, 1); err != nil {
		t.Errorf("nothing to copy: %v", err)
	}
	begun, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	if err := begun.CopyPrefix(parent, 5); err != nil {
		t.Fatal(err)
	}
	if err := begun.CopyPrefix(parent, 5); err == nil {
		t.Error("a prefix was copied behind another")
	}
}

// What a fork edited and what a guard answered stays so called in a fork of it.
func TestCopiesKeepWhatNobodySaid(t *testing.T) {
	w, err := recorder.NewMemory(recordertest.Header())
	if err != nil {
		t.Fatal(err)
	}
	origins := []edge.Origin{edge.Executed, edge.Patched, edge.Refused}
	o := recordertest.Options{Turns: 4, Bytes: 10}
	s, _, err := loop.New(recordertest.Start())
	if err != nil {
		t.Fatal(err)
	}
	_, err = loop.Run(t.Context(), s, edge.Func(func(ctx context.Context, call edge.Call) (edge.Return, error) {
		r, err := recordertest.Edge(o).Do(ctx, call)
		if call.Kind == edge.Tool {
			r.Origin = origins[call.Turn-1]
		}
		return r, err
	}), w)
	if err != nil {
		t.Fatal(err)
	}
	parent := parse(t, w.Bytes())
	child := parse(t, fork(t, parent, o, 100))
	var got []edge.Origin
	for _, seq := range []int{4, 7, 10} {
		origin, err := child.Origin(seq)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, origin)
	}
	if d := cmp.Diff([]edge.Origin{edge.Tape, edge.Patched, edge.Refused}, got); d != "" {
		t.Error(d)
	}
	if !child.Sealed() || child.Seal().Ledger != parent.Seal().Ledger {
		t.Error("the copy of a whole run does not end as it did")
	}
}

// Errors name the file, the place, both values, and what to do.
func TestErrorTexts(t *testing.T) {
	for want, err := range map[string]error{
		`open cassette "a.yaml": line 3: written by a newer investigator: format 2`: &recorder.FileError{
			Verb: "open", File: "a.yaml", Line: 3, Err: recorder.ErrNewer, Found: "format 2", Hint: "upgrade"},
		`create cassette "a.yaml": file does not exist`:                                                                     &recorder.FileError{Verb: "create", File: "a.yaml", Err: fs.ErrNotExist},
		`cassette is damaged: line 4: r; restore the file from where it was committed, or record again`:                     &recorder.Damage{Line: 4, Interaction: -1, Reason: "r"},
		`cassette "a" is damaged: line 6 (interaction 1): r; restore the file from where it was committed, or record again`: &recorder.Damage{File: "a", Line: 6, Interaction: 1, Reason: "r"},
		`line 6 was cut off after 10 bytes (at byte 99); everything before it is intact`:                                    &recorder.Torn{Line: 6, Offset: 99, Dropped: 10},
		`record event 7 in "a": e; events 1 to 6 are kept`:                                                                  &recorder.WriteError{File: "a", Event: 7, Kept: 6, Err: errors.New("e")},
		`record event 7 in "a": e; events 1 to 6 are kept, with the beginning of an unfinished line after them, which readers drop`: &recorder.WriteError{
			File: "a", Event: 7, Kept: 6, Err: errors.New("e"), Ragged: true},
		`event 7: the tool call differs: recorded aa / now bb`:             &recorder.Mismatch{Seq: 7, Recorded: "aa", Now: "bb", Call: edge.Call{Kind: edge.Tool}},
		`event 7: cassette "a" holds no model call at turn 3, position 0`:  &recorder.Missing{Name: "a", Call: edge.Call{Kind: edge.Model, Seq: 7, Turn: 3}},
		`cassette "a": no recorded answer to POST /x: the request differs`: &recorder.Unmatched{Name: "a", Method: "POST", Path: "/x", Reason: "the request differs"},
	} {
		if got := err.Error(); got != want {
			t.Errorf("got  %s\nwant %s", got, want)
		}
	}
}

// TestGivenIsKept: where an agent was given another answer than its event says,
// the line holds both, and the event is read as it was.
func TestGivenIsKept(t *testing.T) {
	given := wireOf(200, []byte(`{"choices": []}`), "application/json", "")
	given.Given = true
	w, s, _ := inMemory(t)
	if _, err := loop.Run(t.Context(), s, troubled(edge.Return{Origin: edge.Patched, Body: []byte(streamed), Wire: given}), w); err != nil {
		t.Fatal(err)
	}
	c, err := recorder.Parse("given", w.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	x, err := c.Interaction(c.Len() - 1)
	if err != nil {
		t.Fatal(err)
	}
	e, err := c.Event(x.First)
	if err != nil {
		t.Fatal(err)
	}
	if string(x.Response) != `{"choices": []}` || string(e.Data) != streamed {
		t.Errorf("response %s, event %s", x.Response, e.Data)
	}
}
