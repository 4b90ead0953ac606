package recorder

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

const resultSize = 1 << 20

// resent is a run of an agent whose first message is another in each of its n
// requests, so that each of them sends the one large result anew.
func resent(t *testing.T, n int) []byte {
	t.Helper()
	w, err := NewMemory(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	ask := func(i int, history ...json.RawMessage) converse.Request {
		clock := converse.Message("user", []json.RawMessage{converse.TextBlock(fmt.Sprint("it is ", i, " o'clock"))})
		return converse.Request{Model: "m", Messages: converse.NewThread(append([]json.RawMessage{clock}, history...)...)}
	}
	var p projector
	use := json.RawMessage(`{"output":{"message":{"content":[{"toolUse":{"input":{},"name":"read","toolUseId":"t"}}],"role":"assistant"}},"stopReason":"tool_use"}`)
	list := []Taken{modelTaken(&p, 2, ask(0), edge.Return{Body: use, Origin: edge.Rule})}
	call, ret := p.pending[0], edge.Return{Body: json.RawMessage(`{"rows":"` + strings.Repeat("x", resultSize) + `"}`), Origin: edge.Executed}
	call.Seq = 4
	list = append(list, Taken{call, ret, []ledger.Event{{Seq: 4, Type: ledger.ToolReturned, In: call.In, Data: loop.ReturnedData(call, ret)}}})
	told := converse.Message("user", []json.RawMessage{converse.ToolResult{ID: "t", Address: "E1", Result: ret.Body}.Block()})
	body := json.RawMessage(`{"output":{"message":{"content":[{"text":"so"}],"role":"assistant"}},"stopReason":"end_turn"}`)
	for i := 1; i < n; i++ {
		list = append(list, modelTaken(&p, 4+i, ask(i, assistantMessage(use), told), edge.Return{Body: body, Origin: edge.Rule}))
	}
	if err := w.TookAll(list); err != nil {
		t.Fatal(err)
	}
	return w.Bytes()
}

// An agent that sends all it was told again with every request is honest, however
// often it does; what is rebuilt for it is not held without end, and who asks for
// a request again does not use up what may be rebuilt.
func TestWhatIsSentAgainIsRebuilt(t *testing.T) {
	const n = 100
	text := resent(t, n)
	for _, walked := range []bool{true, false} {
		c, err := Parse("test.yaml", text)
		if err != nil {
			t.Fatal(err)
		}
		if walked {
			err = c.Walk(func(Read) error { return nil })
		} else {
			_, err = c.Events()
		}
		for i := 1; i < n && err == nil; i++ {
			_, err = c.Request(4 + i)
		}
		if err != nil {
			t.Fatalf("walked %v: %v", walked, err)
		}
		if held, size := len(c.rebuilt.requests), c.rebuilt.size; size > maxHeld || held > maxHeld/resultSize || held < 10 {
			t.Errorf("walked %v: holds %d requests of %d bytes", walked, held, size)
		}
		before := c.budget
		for i := 1; i < n; i++ {
			if _, err := c.Request(4 + i); err != nil {
				t.Fatal(err)
			}
		}
		if c.budget != before {
			t.Errorf("walked %v: asking again cost %d bytes of the budget", walked, before-c.budget)
		}
	}
}

// What a stored request names again and again counts, whatever it is.
func TestNoRequestIsLargerThanAnyThatWasSent(t *testing.T) {
	first := json.RawMessage(`"` + strings.Repeat("x", 1<<20) + `"`)
	for name, item := range map[string]string{
		"first": `{"s":1}`, "answer": `{"r":0}`, "hole": `{"t":[null],"holes":[{"at":"/0","id":0}]}`, "quoted": `{"t":[null],"holes":[{"at":"/0","id":0,"quoted":true}]}`,
	} {
		d, err := readDelta([]byte(`{"base":-1,"kept":0,"rest_from_start":true,"add":[` + strings.Repeat(item+",", 99) + item + `]}`))
		if err != nil {
			t.Fatal(err)
		}
		if _, err = d.rebuild(converse.Request{}, first, same(first), ample()); err == nil || !strings.Contains(err.Error(), "larger than 80 MB") {
			t.Errorf("%s: rebuilt 100 MB, %v", name, err)
		}
		left := int64(10 << 20)
		if _, err = d.rebuild(converse.Request{}, first, same(first), &left); err == nil || !strings.Contains(err.Error(), "than an honest recording could") {
			t.Errorf("%s: rebuilt more than 10 MB, %v", name, err)
		}
		d.Add = d.Add[:60]
		req, err := d.extend(converse.Request{}, first, same(first), ample())
		if err != nil || req.Messages.Len() != 60 {
			t.Errorf("%s: 60 MB: %v", name, err)
		}
		d.Base, d.Kept = new(int), 60
		if _, err = d.extend(req, first, same(first), ample()); err == nil {
			t.Errorf("%s: 120 MB in two steps", name)
		}
	}
}

// same gives one text for everything.
type same json.RawMessage

func (s same) answer(int) (json.RawMessage, error) { return json.RawMessage(s), nil }
func (s same) result(int) (json.RawMessage, error) { return json.RawMessage(s), nil }

// What is held of rebuilt requests is what was rebuilt last, up to a size, and at
// least one.
func TestHeldRequestsAreBounded(t *testing.T) {
	var r rebuilt
	of := func(size int) converse.Request {
		return converse.Request{Messages: converse.NewThread(make(json.RawMessage, size))}
	}
	random := rand.New(rand.NewPCG(5, 5))
	for id := range 200 {
		r.hold(id, of(random.IntN(4<<20)))
		r.drop(id - random.IntN(20))
		sum := 0
		for _, req := range r.requests {
			sum += weight(req)
		}
		if sum != r.size || sum > maxHeld || len(r.order) != len(r.requests) {
			t.Fatalf("holds %d bytes in %d requests, counts %d in %d", sum, len(r.requests), r.size, len(r.order))
		}
	}
	r.hold(7, of(2*maxHeld))
	if _, found := r.requests[7]; !found || len(r.requests) != 1 {
		t.Errorf("holds %d requests beside one that is larger than all may be", len(r.requests))
	}
}

// Damage of a request that is too large names its line.
func TestTooLargeRequestIsDamage(t *testing.T) {
	start := testStart(t)
	start.Start = json.RawMessage(`{"task":"` + strings.Repeat("x", 1<<20) + `","model":"m","request":{}}`)
	p, err := prepare(start)
	if err != nil {
		t.Fatal(err)
	}
	text := []byte(`{"base":-1,"kept":0,"rest_from_start":true,"add":[{"s":1}` + strings.Repeat(`,{"s":1}`, 99) + `]}`)
	c := &Cassette{begin: p.begin, layout: layout{lines: make([][]byte, 1)}, budget: *ample(), heads: []head{{kind: edge.Model, delta: text}}}
	var damage *Damage
	if _, err := c.requestOf(0); !errors.As(err, &damage) || damage.Line != 5 || !strings.Contains(damage.Reason, "larger than 80 MB") {
		t.Error(err)
	}
}
