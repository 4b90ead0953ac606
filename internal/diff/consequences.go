package diff

import (
	"encoding/json"
	"slices"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Kinds of consequences.
const (
	Same         = "same"          // both runs have the event
	DataChanged  = "changed"       // both have it, with other data
	InputChanged = "input-changed" // what went out to the edge changed, what came back did not
	OnlyA        = "only-a"
	OnlyB        = "only-b"
)

// shownChanges bounds the changes a consequence lists.
const shownChanges = 3

// Consequence is one event behind the divergence, or two that correspond.
type Consequence struct {
	Kind    string      `json:"kind"`
	A       int         `json:"a,omitempty"` // seq in a, 0 if only b has it
	B       int         `json:"b,omitempty"`
	Type    string      `json:"type"`
	Tool    string      `json:"tool,omitempty"`
	OriginA edge.Origin `json:"origin_a,omitempty"`
	OriginB edge.Origin `json:"origin_b,omitempty"`
	// Count is the number of changes in data. Changes and Beside are the first
	// of them, split as in Divergence. The turn, position and id of a tool's
	// events do not count: an inserted turn moves them all.
	Count   int      `json:"count"`
	Changes []Change `json:"changes,omitempty"`
	Beside  []Change `json:"beside,omitempty"`
}

// consequences aligns what follows the n shared events. The diverging events
// themselves are left out if they correspond; if not, one of them may
// correspond to a later event of the other run.
func consequences(a, b Run, n int) []Consequence {
	x, y := entries(a.Events[n:]), entries(b.Events[n:])
	if len(x) > 0 && len(y) > 0 && x[0].key == y[0].key {
		x, y = x[1:], y[1:]
	}
	out := []Consequence{}
	i, j := 0, 0
	for _, m := range append(match(x, y), pair{len(x), len(y)}) {
		for ; i < m.a; i++ {
			s := a.side(x[i].event)
			out = append(out, Consequence{Kind: OnlyA, A: x[i].event.Seq, Type: s.Type, Tool: s.Tool, OriginA: s.Origin})
		}
		for ; j < m.b; j++ {
			s := b.side(y[j].event)
			out = append(out, Consequence{Kind: OnlyB, B: y[j].event.Seq, Type: s.Type, Tool: s.Tool, OriginB: s.Origin})
		}
		if m.a < len(x) {
			out = append(out, both(a, b, x[m.a].event, y[m.b].event))
		}
		i, j = m.a+1, m.b+1
	}
	return out
}

// both describes two events that correspond.
func both(a, b Run, x, y ledger.Event) Consequence {
	s, o := a.side(x), b.side(y)
	c := Consequence{A: x.Seq, B: y.Seq, Type: s.Type, Tool: s.Tool, OriginA: s.Origin, OriginB: o.Origin}
	changes, err := Values(dataOf(x), dataOf(y))
	changes = significant(x.Type, changes)
	c.Count = len(changes)
	c.Changes, c.Beside = split(x.Type, changes)
	c.Changes = c.Changes[:min(len(c.Changes), shownChanges)]
	c.Beside = c.Beside[:min(len(c.Beside), shownChanges)]
	switch {
	case err != nil || c.Count > 0:
		c.Kind = DataChanged
	case x.In != y.In:
		c.Kind = InputChanged
	default:
		c.Kind = Same
	}
	return c
}

// significant drops the changes that only say that a tool's event stands
// elsewhere.
func significant(kind string, changes []Change) []Change {
	if !ofTool(kind) {
		return changes
	}
	return slices.DeleteFunc(changes, func(c Change) bool {
		return c.Path == "/pos" || c.Path == "/turn" || c.Path == "/toolUseId"
	})
}

func ofTool(kind string) bool {
	return kind == ledger.ToolCalled || kind == ledger.ToolReturned || kind == ledger.ToolRefused
}

// entry is an event with what it is aligned by: events with equal keys may
// correspond, and they do so rather if what they ask for is equal too.
type entry struct {
	event ledger.Event
	key   string
	asks  string
}

func entries(events []ledger.Event) []entry {
	out := make([]entry, len(events))
	for k, e := range events {
		out[k] = entry{event: e, key: e.Type}
		switch e.Type {
		case ledger.ToolReturned: // its In is the digest of tool and input
			out[k].key += "\x00" + e.In
		case ledger.ToolCalled, ledger.ToolRefused:
			tool, input := asked(e)
			out[k].key += "\x00" + edge.ToolDigest(tool, input)
		case ledger.ModelResponded:
			out[k].asks = askedTools(e)
		}
	}
	return out
}

// asked reads the tool and the input of an event about a tool.
func asked(e ledger.Event) (tool string, input json.RawMessage) {
	var data struct {
		Tool  string          `json:"tool"`
		Input json.RawMessage `json:"input"`
	}
	_ = json.Unmarshal(e.Data, &data) // data that cannot be read names no tool
	return data.Tool, data.Input
}

func toolOf(e ledger.Event) string {
	if !ofTool(e.Type) {
		return ""
	}
	tool, _ := asked(e)
	return tool
}

// askedTools returns the names of the tools a turn asks for.
func askedTools(e ledger.Event) string {
	turn, err := converse.ParseTurn(e.Data)
	if err != nil {
		return ""
	}
	var names strings.Builder
	for _, use := range turn.ToolUses {
		names.WriteString(use.Name + "\x00")
	}
	return names.String()
}

// maxTable bounds the table for matching two runs. Longer ones are matched by
// their keys alone.
const maxTable = 1 << 22

// match returns the pairs of corresponding entries: as many as possible, and
// among as many those most alike.
func match(x, y []entry) []pair {
	if (len(x)+1)*(len(y)+1) > maxTable {
		return common(keyNumbers(x, y))
	}
	best := weights(x, y)
	at := func(i, j int) int32 { return best[i*(len(y)+1)+j] }
	var out []pair
	for i, j := 0, 0; i < len(x) && j < len(y); {
		w := weight(x[i], y[j])
		switch {
		case w > 0 && at(i, j) == at(i+1, j+1)+w:
			out = append(out, pair{i, j})
			i, j = i+1, j+1
		case at(i, j) == at(i+1, j):
			i++
		default:
			j++
		}
	}
	return out
}

// weights fills a table of the greatest weight of pairs from (i, j) on.
func weights(x, y []entry) []int32 {
	n, m := len(x), len(y)
	best := make([]int32, (n+1)*(m+1))
	for i := n - 1; i >= 0; i-- {
		for j := m - 1; j >= 0; j-- {
			most := max(best[(i+1)*(m+1)+j], best[i*(m+1)+j+1])
			if w := weight(x[i], y[j]); w > 0 {
				most = max(most, best[(i+1)*(m+1)+j+1]+w)
			}
			best[i*(m+1)+j] = most
		}
	}
	return best
}

// keyWeight exceeds what likeness alone can sum up to over a table's length,
// so that likeness never costs a pair.
const keyWeight = 1 << 16

// weight is what a pair of entries is worth, 0 if they cannot correspond.
func weight(x, y entry) int32 {
	switch {
	case x.key != y.key:
		return 0
	case x.asks != y.asks:
		return keyWeight
	}
	return keyWeight + 1
}

func keyNumbers(x, y []entry) (a, b []int) {
	numbers := map[string]int{}
	number := func(entries []entry) []int {
		out := make([]int, len(entries))
		for k, e := range entries {
			id, found := numbers[e.key]
			if !found {
				id = len(numbers)
				numbers[e.key] = id
			}
			out[k] = id
		}
		return out
	}
	return number(x), number(y)
}
