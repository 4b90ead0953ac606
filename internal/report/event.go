package report

import (
	"encoding/json"
	"fmt"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/verdict"
)

// Event writes one event as one line: seq, type, what happened, and where it
// came from.
func (p *Printer) Event(e ledger.Event, origin edge.Origin) {
	tail := ""
	if origin != "" {
		tail = "  [" + Shorten(Clean(string(origin)), 20) + "]"
	}
	head := fmt.Sprintf("%4d  %-16s ", e.Seq, Clean(e.Type))
	room := p.width - len(head) - len(tail)
	p.Line(styleOf(e.Type, origin), "%s%s%s", head, Shorten(Clean(Summary(e)), max(room, 30)), tail)
}

func styleOf(kind string, origin edge.Origin) Style {
	switch {
	case origin == edge.Patched:
		return Yellow
	case kind == ledger.ModelFailed || kind == ledger.ToolRefused:
		return Red
	case kind == ledger.RunFinished:
		return Bold
	case kind == ledger.ModelResponded:
		return Cyan
	}
	return Plain
}

// Summary says in one line what an event holds. The text is not cleaned.
func Summary(e ledger.Event) string {
	switch e.Type {
	case ledger.RunStarted:
		var s loop.Start
		if json.Unmarshal(e.Data, &s) == nil {
			return fmt.Sprintf("%s (model %s)", s.Task, s.Model)
		}
	case ledger.ModelResponded:
		return turnSummary(e.Data)
	case ledger.ToolCalled, ledger.ToolRefused:
		var d struct {
			Tool  string          `json:"tool"`
			Input json.RawMessage `json:"input"`
		}
		if json.Unmarshal(e.Data, &d) == nil {
			return d.Tool + " " + string(d.Input)
		}
	case ledger.ToolReturned:
		return returnSummary(e.Data)
	case ledger.ModelFailed:
		if f, err := edge.ParseFailure(e.Data); err == nil {
			return f.Name + ": " + f.Message
		}
	case ledger.RunFinished:
		return outcomeSummary(e.Data)
	}
	return string(e.Data)
}

func turnSummary(data json.RawMessage) string {
	turn, err := converse.ParseTurn(data)
	if err != nil {
		return string(data) // to a foreign agent, from CountTokens or a model of another kind
	}
	var parts []string
	for _, use := range turn.ToolUses {
		if use.Name == verdict.Tool {
			parts = append(parts, "reports its findings")
			continue
		}
		parts = append(parts, "asks "+use.Name+" "+string(use.Input))
	}
	if len(parts) == 0 {
		parts = append(parts, "stops with "+turn.StopReason)
	}
	if text := strings.TrimSpace(turn.Text()); text != "" {
		parts = append(parts, text)
	}
	return strings.Join(parts, " · ")
}

func returnSummary(data json.RawMessage) string {
	var d struct {
		Tool   string          `json:"tool"`
		Status string          `json:"status"`
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(data, &d) != nil {
		return string(data)
	}
	return d.Tool + " → " + ResultSummary(d.Result, d.Status)
}

// ResultSummary says in a few words what a tool result holds: its status, an
// error's message, how many records each array has.
func ResultSummary(result json.RawMessage, status string) string {
	members, err := ledger.MemberSpans(result)
	if err != nil {
		return status + ": " + string(result)
	}
	var parts []string
	for _, m := range members {
		switch {
		case m.Name == "status":
			_ = json.Unmarshal(m.Value, &status)
		case m.Name == "error":
			parts = append(parts, errorText(m.Value))
		case m.Value[0] == '[':
			var list []json.RawMessage
			if json.Unmarshal(m.Value, &list) == nil {
				parts = append(parts, records(len(list), m.Name))
			}
		}
	}
	if len(parts) == 0 {
		parts = append(parts, string(result))
	}
	return status + ": " + strings.Join(parts, ", ")
}

// records counts what an array named by its plural holds.
func records(n int, name string) string {
	one, plural := strings.CutSuffix(name, "s")
	if n == 1 && plural && !strings.HasSuffix(one, "s") && !strings.HasSuffix(one, "ie") {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, name)
}

func errorText(v json.RawMessage) string {
	var withMessage struct {
		Message string `json:"message"`
	}
	if json.Unmarshal(v, &withMessage) == nil && withMessage.Message != "" {
		return withMessage.Message
	}
	var text string
	if json.Unmarshal(v, &text) == nil {
		return text
	}
	return string(v)
}

func outcomeSummary(data json.RawMessage) string {
	o, err := loop.ParseOutcome(data)
	if err != nil {
		return err.Error()
	}
	if o.Outcome == loop.Concluded {
		var v verdict.Verdict
		if json.Unmarshal(o.Verdict, &v) == nil {
			return Headline(v)
		}
	}
	return o.Outcome + ": " + o.Reason
}
