package loop

import (
	"encoding/json"
	"fmt"
	"slices"
	"strconv"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/verdict"
)

// State is a run between two returns. It is a value and immutable: Apply
// returns a new one, and older ones stay valid.
type State struct {
	begin    *begin
	model    string // model id of the next calls
	seq      int    // of the last event
	turn     int    // model turns taken
	thread   *converse.Thread
	calls    []edge.Call       // tool calls not yet answered
	answers  []json.RawMessage // toolResult blocks of this turn, in call order; nil where the return is awaited
	next     []edge.Call       // calls, or the model call to come; derived by waiting
	usage    converse.Usage
	charge   charge
	nudged   bool
	failure  *edge.Failure // of the model call that ended the run
	finished json.RawMessage
}

// New begins a run. data is the run.started data, canonical or not.
func New(data json.RawMessage) (State, ledger.Event, error) {
	b, err := parseStart(data)
	if err != nil {
		return State{}, ledger.Event{}, err
	}
	s := State{begin: b, model: b.Model, seq: 1, thread: converse.NewThread(b.question), charge: charge{price: b.Price}}.waiting()
	return s, ledger.Event{Seq: 1, Type: ledger.RunStarted, Data: b.data}, nil
}

// Done reports whether the run has finished.
func (s State) Done() bool { return s.finished != nil }

// Finished returns the data of run.finished, nil before it.
func (s State) Finished() json.RawMessage { return s.finished }

// Failure returns how the model call failed that ended the run, if one did.
func (s State) Failure() (edge.Failure, bool) {
	if s.failure == nil {
		return edge.Failure{}, false
	}
	return *s.failure, true
}

// Seq returns the seq of the last event.
func (s State) Seq() int { return s.seq }

// Turn returns how many model turns were taken.
func (s State) Turn() int { return s.turn }

// Usage returns the tokens used so far.
func (s State) Usage() converse.Usage { return s.usage }

// Start returns the run's beginning. The caller must not modify it.
func (s State) Start() Start { return s.begin.Start }

// Thread returns the conversation so far.
func (s State) Thread() *converse.Thread { return s.thread }

// WithModel returns the state with another model in the chair for the calls to
// come. Only a fork does this, at its fork point, and it records it. price is
// what counts against the run's limit on money from here on; nil keeps the price
// there was.
func (s State) WithModel(id string, price *Price) State {
	s.model = id
	if price != nil {
		s.charge = charge{price: price, spent: s.cost(), used: s.usage}
	}
	return s.waiting()
}

// Next returns the calls the run waits for: one model call, or the unanswered
// tool calls of the last turn, in call order. It returns nil when the run is
// done. The slice is the caller's.
func (s State) Next() []edge.Call { return slices.Clone(s.next) }

// waiting derives the calls that the state waits for. It is done once a state,
// because a request's digest is asked for by everyone it comes by.
func (s State) waiting() State {
	switch {
	case s.Done():
		s.next = nil
	case len(s.calls) > 0:
		s.next = s.calls
	default:
		req := s.Request()
		s.next = []edge.Call{{Kind: edge.Model, Seq: s.seq + 1, Turn: s.turn + 1, In: req.Digest(), Request: req}}
	}
	return s
}

// Request returns the model request that the conversation so far would send.
func (s State) Request() converse.Request {
	return converse.Request{Model: s.model, Messages: s.thread, Rest: s.begin.rest, Cache: s.begin.Cache}
}

// Apply takes the return of the first call of Next and gives the next State
// with the events that follow from it. The error says that the return is not
// one a world could give, which is a fault of the edge.
func (s State) Apply(r edge.Return) (State, []ledger.Event, error) {
	if len(s.next) == 0 {
		return s, nil, fmt.Errorf("apply return: the run has finished at event %d", s.seq)
	}
	call, step := s.next[0], step{State: s}
	var err error
	if call.Kind == edge.Model {
		err = step.model(call, r)
	} else {
		err = step.tool(call, r)
	}
	if err != nil {
		return s, nil, fmt.Errorf("apply return of %s call at event %d: %w", call.Kind, call.Seq, err)
	}
	return step.State.waiting(), step.events, nil
}

// step is one Apply under way.
type step struct {
	State
	events []ledger.Event
}

func (s *step) emit(kind, in string, data json.RawMessage) {
	s.seq++
	s.events = append(s.events, ledger.Event{Seq: s.seq, Type: kind, In: in, Data: data})
}

func (s *step) model(call edge.Call, r edge.Return) error {
	s.turn++
	if r.Failed {
		s.emit(ledger.ModelFailed, call.In, r.Body)
		return s.modelFailed(r.Body)
	}
	turn, err := converse.ParseTurn(r.Body)
	if err != nil {
		return err
	}
	s.usage = s.usage.Plus(turn.Usage)
	s.emit(ledger.ModelResponded, call.In, turn.Raw)
	return s.answered(turn)
}

// answered decides what follows from a model's answer by its stop reason.
func (s *step) answered(turn converse.Turn) error {
	switch turn.StopReason {
	case converse.StopToolUse, converse.EndTurn, converse.StopSequence:
		if len(turn.ToolUses) > 0 {
			return s.toolTurn(turn)
		}
		if turn.StopReason == converse.StopToolUse {
			return s.finish(Outcome{Outcome: Stopped, Reason: "the model stopped for a tool call but made none"})
		}
		return s.withoutVerdict(turn)
	case converse.ContextWindowLimit:
		return s.overflow()
	case converse.MaxTokens, converse.Guardrail, converse.ContentFiltered, converse.MalformedOutput, converse.MalformedToolUse:
		return s.finish(Outcome{Outcome: Stopped, Reason: "the model stopped with " + turn.StopReason, Text: turn.Text()})
	}
	return s.finish(Outcome{Outcome: Stopped, Reason: fmt.Sprintf("unknown stop reason %q", turn.StopReason), Text: turn.Text()})
}

// toolTurn takes a turn that calls tools. A valid report_findings ends the run;
// calls made beside it are never run.
func (s *step) toolTurn(turn converse.Turn) error {
	message, ids := converse.Echo(turn)
	refusals := make([][]string, len(turn.ToolUses))
	for i, use := range turn.ToolUses {
		if use.Malformed != "" {
			refusals[i] = []string{"the input is not a JSON object; send the call again with a complete JSON object"}
			continue
		}
		if use.Name != verdict.Tool {
			continue
		}
		v, problems := verdict.Parse(use.Input)
		if len(problems) == 0 {
			return s.finish(Outcome{Outcome: Concluded, Verdict: v.JSON(), Dropped: len(turn.ToolUses) - 1})
		}
		refusals[i] = problems
	}
	s.thread = s.thread.Append(message)
	s.answers = make([]json.RawMessage, len(turn.ToolUses))
	s.calls = nil
	for i, use := range turn.ToolUses {
		use.ID = ids[i]
		if refusals[i] != nil {
			s.refuse(i, use, refusals[i])
			continue
		}
		s.emit(ledger.ToolCalled, "", CalledData(s.turn, i, use))
		s.calls = append(s.calls, edge.Call{Kind: edge.Tool, Turn: s.turn, Pos: i, In: edge.ToolDigest(use.Name, use.Input), Use: use})
	}
	for i := range s.calls {
		s.calls[i].Seq = s.seq + 1 + i
	}
	return s.afterTools()
}

// refuse answers a call without running it.
func (s *step) refuse(pos int, use converse.ToolUse, reasons []string) {
	result, _ := ledger.CanonValue(map[string]any{"error": map[string]any{"message": "the call was not run", "reasons": reasons}, "status": "error"})
	data, _ := ledger.CanonValue(map[string]any{
		"input": use.Input, "malformed": use.Malformed, "pos": pos, "result": result, "tool": use.Name, "toolUseId": use.ID, "turn": s.turn,
	})
	s.emit(ledger.ToolRefused, "", data)
	s.answers[pos] = converse.ToolResult{ID: use.ID, Result: result, Error: true}.Block()
}

func (s *step) tool(call edge.Call, r edge.Return) error {
	if len(r.Body) == 0 {
		return fmt.Errorf("expected a result in canonical JSON, found no bytes")
	}
	s.emit(ledger.ToolReturned, call.In, ReturnedData(call, r))
	s.answers = slices.Clone(s.answers)
	s.answers[call.Pos] = converse.ToolResult{
		ID: call.Use.ID, Address: "E" + strconv.Itoa(s.seq), Result: r.Body, Error: r.Failed,
	}.Block()
	s.calls = s.calls[1:]
	return s.afterTools()
}

// afterTools puts the answers into the conversation once all are there.
func (s *step) afterTools() error {
	if len(s.calls) > 0 {
		return nil
	}
	s.thread = s.thread.Append(converse.Message("user", s.answers))
	s.calls, s.answers = nil, nil
	return s.checkLimits()
}
