package recorder

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
)

// BenchmarkTook records into memory and into a file that does not sync, which
// leaves what a line costs beside the disk:
//
//	go test -run '^$' -bench Took/ -benchmem ./internal/recorder
//
// "tool" is a tool return of 5 KB, "turn" a model turn of 10 KB with a call,
// "pair" a request of 20 KB and its answer of 5 KB as a proxy sees them, and
// "pairs" sixteen of these with one write.
func BenchmarkTook(b *testing.B) {
	shapes := []struct {
		name  string
		batch int
		make  func() (before, list []Taken)
	}{
		{"tool", 1, toolReturns}, {"turn", 1, modelTurns}, {"pair", 1, proxyPairs}, {"pairs", 16, proxyPairs},
	}
	for _, s := range shapes {
		before, list := s.make()
		for name, open := range map[string]func(*testing.B) *Writer{"memory": memoryWriter, "file": unsyncedWriter} {
			b.Run(s.name+"/"+name, func(b *testing.B) {
				b.ReportAllocs()
				for done := 0; done < b.N; {
					b.StopTimer()
					w := open(b)
					if err := w.TookAll(before); err != nil {
						b.Fatal(err)
					}
					b.StartTimer()
					done += recordAll(b, w, list, s.batch, b.N-done)
				}
			})
		}
	}
}

// recordAll records n returns of the list, or all of them, and says how many.
func recordAll(b *testing.B, w *Writer, list []Taken, batch, n int) int {
	n = min(n, len(list))
	for at := 0; at < n; at += batch {
		if err := recordBatch(w, list[at:min(n, at+batch)]); err != nil {
			b.Fatal(err)
		}
	}
	return n
}

// recordBatch records returns with one write, a single one by Took.
func recordBatch(w *Writer, list []Taken) error {
	if len(list) == 1 {
		return w.Took(list[0].Call, list[0].Return, list[0].Events)
	}
	return w.TookAll(list)
}

func memoryWriter(b *testing.B) *Writer {
	w, err := NewMemory(testStart(b))
	if err != nil {
		b.Fatal(err)
	}
	return w
}

// unsynced is a file that the system may write when it likes.
type unsynced struct{ *os.File }

func (unsynced) Push(offset, size int64) {}
func (unsynced) Sync() error             { return nil }
func (unsynced) Trim() error             { return nil }

func unsyncedWriter(b *testing.B) *Writer {
	f, err := os.Create(filepath.Join(b.TempDir(), "run.yaml"))
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { f.Close() })
	p, err := prepare(testStart(b))
	if err != nil {
		b.Fatal(err)
	}
	w := newWriter("run.yaml", unsynced{f}, p)
	if err := w.writeHeader(p.text); err != nil {
		b.Fatal(err)
	}
	return w
}

const benchReturns = 256

// rowsOf is a result of about n bytes, in lines.
func rowsOf(random *rand.Rand, n int) json.RawMessage {
	b, _ := ledger.CanonValue(map[string]any{"rows": strings.Split(prose(random, n), "\n")})
	return b
}

func prose(random *rand.Rand, n int) string {
	words := strings.Fields("checkout payment pool exhausted waiting connection timeout after p99 db region")
	var b strings.Builder
	for b.Len() < n {
		for range 8 {
			b.WriteString(words[random.IntN(len(words))] + " ")
		}
		fmt.Fprintf(&b, "id=%x\n", random.Uint32())
	}
	return b.String()
}

// modelTaken is an answer to req with the calls it makes.
func modelTaken(p *projector, seq int, req converse.Request, ret edge.Return) Taken {
	p.turn++
	call := edge.Call{Kind: edge.Model, Seq: seq, Turn: p.turn, In: req.Digest(), Request: req}
	events := []ledger.Event{{Seq: seq, Type: ledger.ModelResponded, In: call.In, Data: ret.Body}}
	turn, err := converse.ParseTurn(ret.Body)
	if err != nil {
		panic(err) // made by the caller
	}
	_, ids := converse.Echo(turn)
	p.pending = nil
	for i, use := range turn.ToolUses {
		use.ID = ids[i]
		events = append(events, ledger.Event{Seq: seq + 1 + i, Type: ledger.ToolCalled, Data: loop.CalledData(p.turn, i, use)})
		p.pending = append(p.pending, edge.Call{Kind: edge.Tool, Turn: p.turn, Pos: i, In: edge.ToolDigest(use.Name, use.Input), Use: use})
	}
	return Taken{call, ret, events}
}

func toolReturns() (before, list []Taken) {
	random := rand.New(rand.NewPCG(1, 1))
	var blocks []string
	for i := range benchReturns {
		blocks = append(blocks, fmt.Sprintf(`{"toolUse":{"input":{"part":%d},"name":"read","toolUseId":"t%d"}}`, i, i))
	}
	body := json.RawMessage(`{"output":{"message":{"content":[` + strings.Join(blocks, ",") + `],"role":"assistant"}},"stopReason":"tool_use"}`)
	req := converse.Request{Model: "m", Messages: converse.NewThread(converse.Message("user", []json.RawMessage{converse.TextBlock("why?")}))}
	var p projector
	asked := modelTaken(&p, 2, req, edge.Return{Body: body, Origin: edge.Rule})
	seq := 2 + len(asked.Events)
	for _, call := range p.pending {
		call.Seq = seq
		ret := edge.Return{Body: rowsOf(random, 5<<10), Origin: edge.Executed, At: "2026-01-15T08:00:03Z", Took: "541ms"}
		list = append(list, Taken{call, ret, []ledger.Event{{Seq: seq, Type: ledger.ToolReturned, In: call.In, Data: loop.ReturnedData(call, ret)}}})
		seq++
	}
	return []Taken{asked}, list
}

func modelTurns() (before, list []Taken) {
	random := rand.New(rand.NewPCG(2, 2))
	thread := converse.NewThread(converse.Message("user", []json.RawMessage{converse.TextBlock("why?")}))
	var p projector
	seq := 2
	for i := range benchReturns {
		text := ledger.AppendString(nil, prose(random, 10<<10))
		body := json.RawMessage(fmt.Sprintf(`{"output":{"message":{"content":[{"text":%s},{"toolUse":{"input":{"part":%d},"name":"read","toolUseId":"t%d"}}],"role":"assistant"}},`+
			`"stopReason":"tool_use","usage":{"inputTokens":10,"outputTokens":40,"totalTokens":50}}`, text, i, i))
		t := modelTaken(&p, seq, converse.Request{Model: "m", Messages: thread}, edge.Return{Body: body, Origin: edge.Rule, At: "2026-01-15T08:00:01Z", Took: "1.5ms"})
		list = append(list, t)
		seq += len(t.Events)
		result := converse.ToolResult{ID: fmt.Sprint("t", i), Address: "E7", Result: json.RawMessage(`{"rows":[]}`)}
		thread = thread.Append(assistantMessage(body)).Append(converse.Message("user", []json.RawMessage{result.Block()}))
	}
	return nil, list
}

func proxyPairs() (before, list []Taken) {
	random := rand.New(rand.NewPCG(3, 3))
	var p projector
	rest, err := converse.NewRest(json.RawMessage(`{"system":[{"text":"Be brief."}]}`))
	if err != nil {
		panic(err) // it is a literal
	}
	for i := range benchReturns {
		question := converse.Message("user", []json.RawMessage{converse.TextBlock(prose(random, 20<<10))})
		answer := ledger.AppendString(nil, prose(random, 5<<10))
		sent := fmt.Appendf(nil, `{"metrics":{"latencyMs":12},"output":{"message":{"content":[{"text":%s}],"role":"assistant"}},`+
			`"stopReason":"end_turn","usage":{"inputTokens":1,"outputTokens":1,"totalTokens":2}}`, answer)
		body, err := converse.Normalize(sent)
		if err != nil {
			panic(err) // made above
		}
		wire := &edge.Wire{URL: "https://bedrock-runtime.us-east-1.amazonaws.com/model/m/converse", Attempts: []edge.Attempt{{Code: 200,
			Header: map[string]string{"Content-Type": "application/json"}, Body: sent, At: "2026-01-15T08:00:02Z", Took: "12ms"}}}
		ret := edge.Return{Body: body, Origin: edge.Live, Wire: wire, At: "2026-01-15T08:00:02Z", Took: "12ms"}
		list = append(list, modelTaken(&p, 2+i, converse.Request{Model: "m", Messages: converse.NewThread(question), Rest: rest}, ret))
	}
	return nil, list
}
