package engine

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"investigator/internal/diff"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

// Divergence is where a replay stopped being the recorded run.
type Divergence struct {
	Seq      int             `json:"event"`
	Type     string          `json:"type"`
	Problem  string          `json:"problem"`            // different, missing or extra
	In       string          `json:"in"`                 // what differs: "model request", "tool call" or "event data"
	Changes  []diff.Change   `json:"changes,omitempty"`  // smallest differing parts, recorded as old and now as new
	Cause    string          `json:"cause,omitempty"`    // the likely cause
	Recorded json.RawMessage `json:"recorded,omitempty"` // whole values where there is nothing smaller
	Now      json.RawMessage `json:"now,omitempty"`
}

// Diverged is the error by which a sink or an edge ends a replay at a
// divergence.
type Diverged struct{ Divergence Divergence }

func (d *Diverged) Error() string {
	return fmt.Sprintf("event %d: %s is %s", d.Divergence.Seq, d.Divergence.In, d.Divergence.Problem)
}

// requestDiverged explains a model call whose request is not the recorded one,
// unless the recorded one is damaged, which explains nothing about the call.
func requestDiverged(c *recorder.Cassette, call edge.Call) error {
	d := Divergence{Seq: call.Seq, Type: ledger.ModelResponded, Problem: "different", In: "model request"}
	recorded, err := c.Request(call.Seq)
	var damage *recorder.Damage
	if errors.As(err, &damage) {
		return err
	}
	if err != nil {
		d.Problem = "extra"
		d.Cause = "the recorded run makes no model call here"
		return &Diverged{d}
	}
	d.Changes = RequestChanges(recorded, call.Request)
	d.Cause = likelyCause(d.Changes)
	return &Diverged{d}
}

// callDivergence explains a tool call that is not the recorded one.
func callDivergence(c *recorder.Cassette, call edge.Call) Divergence {
	d := Divergence{Seq: call.Seq, Type: ledger.ToolReturned, Problem: "extra", In: "tool call"}
	d.Now, _ = ledger.CanonValue(map[string]any{"tool": call.Use.Name, "input": call.Use.Input})
	e, err := c.Event(call.Seq)
	if err != nil || e.Type != ledger.ToolReturned {
		d.Cause = "the recorded run makes no such call"
		return d
	}
	d.Problem, d.Cause = "different", "the model asked for another call: code or model turn changed"
	return d
}

// eventDivergence explains an event that is not the recorded one.
func eventDivergence(recorded, now ledger.Event) Divergence {
	d := Divergence{Seq: now.Seq, Type: now.Type, Problem: "different", In: "event data"}
	if recorded.Type != now.Type {
		d.In = "event type"
		d.Recorded, d.Now = quote(recorded.Type), quote(now.Type)
		d.Cause = "the loop takes another path: code changed"
		return d
	}
	changes, err := diff.Values(recorded.Data, now.Data)
	if err != nil || len(changes) == 0 {
		d.Recorded, d.Now = recorded.Data, now.Data
	}
	d.Changes = changes
	switch now.Type {
	case ledger.ToolReturned:
		d.Cause = "the tool's output changed: its code or the world behind it"
	case ledger.RunStarted:
		d.Cause = likelyCause(changes)
	default:
		d.Cause = "code changed"
	}
	return d
}

func quote(s string) json.RawMessage { return ledger.AppendString(nil, s) }

// likelyCause names the part of a model request in which a change lies.
func likelyCause(changes []diff.Change) string {
	if len(changes) == 0 {
		return ""
	}
	p := changes[0].Path
	switch {
	case strings.Contains(p, "/modelId"), strings.HasPrefix(p, "/model"):
		return "another model id"
	case strings.Contains(p, "/system"):
		return "the prompt changed"
	case strings.Contains(p, "/toolConfig"):
		return "a tool definition changed"
	case strings.Contains(p, "/inferenceConfig"):
		return "inference settings changed"
	case strings.Contains(p, "/toolResult"):
		return "a tool result changed"
	case strings.Contains(p, "/messages"):
		return "the conversation changed: task, context or code"
	}
	return "a request parameter changed"
}
