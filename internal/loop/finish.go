package loop

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/edge"
	"investigator/internal/ledger"
)

// Outcomes of a run.
const (
	Concluded = "verdict" // the model reported a typed verdict
	Untyped   = "untyped" // the model stopped with text instead of a verdict
	Limit     = "limit"   // a limit was reached
	Failed    = "failed"  // the model could not be reached or refused the request
	Stopped   = "stopped" // the model ended its turn in a way that cannot go on
)

// Outcome is the data of run.finished.
type Outcome struct {
	Outcome string          `json:"outcome"`
	Reason  string          `json:"reason,omitempty"`
	Verdict json.RawMessage `json:"verdict,omitempty"`
	Text    string          `json:"text,omitempty"`          // what the model said instead of a verdict
	Dropped int             `json:"dropped_calls,omitempty"` // calls made beside report_findings, never run
	Turns   int             `json:"turns"`
	Usage   converse.Usage  `json:"usage"`
}

// ParseOutcome reads the data of run.finished.
func ParseOutcome(data json.RawMessage) (Outcome, error) {
	var o Outcome
	if err := json.Unmarshal(data, &o); err != nil {
		return o, fmt.Errorf("read run.finished: %w", err)
	}
	return o, nil
}

// JSON returns the outcome as canonical JSON; the verdict is canonical already.
func (o Outcome) JSON() json.RawMessage {
	b := append(make([]byte, 0, len(o.Verdict)+len(o.Reason)+len(o.Text)+256), '{')
	if o.Dropped != 0 {
		b = append(appendCount(b, `"dropped_calls":`, int64(o.Dropped)), ',')
	}
	b = ledger.AppendString(append(b, `"outcome":`...), o.Outcome)
	if o.Reason != "" {
		b = ledger.AppendString(append(b, `,"reason":`...), o.Reason)
	}
	if o.Text != "" {
		b = ledger.AppendString(append(b, `,"text":`...), o.Text)
	}
	b = appendCount(b, `,"turns":`, int64(o.Turns))
	b = appendUsage(append(b, `,"usage":`...), o.Usage)
	if len(o.Verdict) > 0 {
		b = append(append(b, `,"verdict":`...), o.Verdict...)
	}
	return append(b, '}')
}

func appendUsage(b []byte, u converse.Usage) []byte {
	b = append(b, '{')
	if u.CacheRead != 0 {
		b = append(appendCount(b, `"cacheReadInputTokens":`, u.CacheRead), ',')
	}
	if u.CacheWrite != 0 {
		b = append(appendCount(b, `"cacheWriteInputTokens":`, u.CacheWrite), ',')
	}
	b = appendCount(b, `"inputTokens":`, u.Input)
	b = appendCount(b, `,"outputTokens":`, u.Output)
	return append(appendCount(b, `,"totalTokens":`, u.Total), '}')
}

func appendCount(b []byte, name string, n int64) []byte {
	return strconv.AppendInt(append(b, name...), n, 10)
}

func (s *step) finish(o Outcome) error {
	o.Turns, o.Usage = s.turn, s.usage
	data := o.JSON()
	s.emit(ledger.RunFinished, "", data)
	s.finished, s.calls, s.answers = data, nil, nil
	return nil
}

// Nudge is what a model is told that stopped without a verdict.
const Nudge = "You stopped without reporting. If you have enough evidence, call report_findings now; " +
	`if not, either go on investigating or report an inconclusive verdict (component "", confidence "none").`

// withoutVerdict takes a turn that ended in text: one nudge, then the text
// stands as an untyped verdict.
func (s *step) withoutVerdict(turn converse.Turn) error {
	if s.nudged || !s.begin.reports {
		return s.finish(Outcome{Outcome: Untyped, Reason: "the model ended without report_findings", Text: turn.Text()})
	}
	message, _ := converse.Echo(turn)
	data, err := ledger.CanonValue(map[string]string{"nudge": Nudge})
	if err != nil {
		return err
	}
	s.nudged = true
	s.emit(ledger.FindingsMissing, "", data)
	s.thread = s.thread.Append(message).Append(converse.Message("user", []json.RawMessage{converse.TextBlock(Nudge)}))
	return s.checkLimits()
}

// checkLimits ends the run if it may not make another model call.
func (s *step) checkLimits() error {
	l, u := s.begin.Limits, s.usage
	tokens := u.Input + u.Output + u.CacheRead + u.CacheWrite
	switch {
	case l.MaxTurns > 0 && s.turn >= l.MaxTurns:
		return s.finish(Outcome{Outcome: Limit, Reason: fmt.Sprintf("max turns reached: %d of %d", s.turn, l.MaxTurns)})
	case l.MaxTokens > 0 && tokens >= l.MaxTokens:
		return s.finish(Outcome{Outcome: Limit, Reason: fmt.Sprintf("max tokens reached: %d of %d", tokens, l.MaxTokens)})
	case l.MaxCost > 0 && s.cost() >= l.MaxCost:
		return s.finish(Outcome{Outcome: Limit, Reason: fmt.Sprintf("max cost reached: %s of %s", Dollars(s.cost()), Dollars(l.MaxCost))})
	}
	return nil
}

// charge is by what the tokens of a run count against its limit on money.
type charge struct {
	price *Price         // of the model in the chair, nil if it is not known
	spent int64          // on the models before it, micro-dollars
	used  converse.Usage // by them
}

// cost is what the run has cost so far, in micro-dollars, as far as prices are
// known.
func (s State) cost() int64 {
	c, u := s.charge, s.usage
	if c.price == nil {
		return c.spent
	}
	return c.spent + c.price.Cost(converse.Usage{
		Input: u.Input - c.used.Input, Output: u.Output - c.used.Output,
		CacheRead: u.CacheRead - c.used.CacheRead, CacheWrite: u.CacheWrite - c.used.CacheWrite,
	})
}

// Dollars formats micro-dollars.
func Dollars(micro int64) string {
	return fmt.Sprintf("$%d.%06d", micro/1_000_000, micro%1_000_000)
}

// RunTimeout is the name of the failure by which an edge reports that the
// run's time is over.
const RunTimeout = "RunTimeout"

// CallTimeout is the name of the failure by which an edge reports that one call
// used up its own time. Both end a run at a limit, since a person set them.
const CallTimeout = "CallTimeout"

// modelFailed decides what follows from a model call that failed for good.
func (s *step) modelFailed(body json.RawMessage) error {
	f, err := edge.ParseFailure(body)
	if err != nil {
		return fmt.Errorf("read failure: %w", err)
	}
	switch {
	case f.Name == RunTimeout:
		return s.finish(Outcome{Outcome: Limit, Reason: f.Message})
	case f.Name == CallTimeout:
		s.failure = &f
		return s.finish(Outcome{Outcome: Limit, Reason: "model call: " + f.Message})
	case tooLong(f):
		return s.overflow()
	}
	s.failure = &f
	return s.finish(Outcome{Outcome: Failed, Reason: fmt.Sprintf("%s: %s", f.Name, f.Message)})
}

// tooLong recognises the texts by which Bedrock says that a request exceeds
// the model's window (public texts, as gathered by strands-agents).
func tooLong(f edge.Failure) bool {
	if f.Name != "ValidationException" && f.Name != "ModelErrorException" {
		return false
	}
	for _, text := range []string{"Input is too long", "prompt is too long", "exceed context limit", "too many total text bytes", "too many input tokens"} {
		if strings.Contains(strings.ToLower(f.Message), strings.ToLower(text)) {
			return true
		}
	}
	return false
}
