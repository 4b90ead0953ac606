package ledger

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
)

// Types of events. The first five make up every plain run; the rest are
// derived by the loop when a turn could not be taken as it came.
const (
	RunStarted     = "run.started"
	ModelResponded = "model.responded"
	ToolCalled     = "tool.called"
	ToolReturned   = "tool.returned"
	RunFinished    = "run.finished"

	ModelFailed     = "model.failed"     // the model call failed after its last retry
	ToolRefused     = "tool.refused"     // a call that was never run (malformed input, refused verdict)
	ContextTrimmed  = "context.trimmed"  // old tool results were removed to fit the model's window
	FindingsMissing = "findings.missing" // the model stopped without a verdict and was nudged
)

// Event is one line of a ledger. Seq counts from 1. In is the digest (hex) of
// what went out to the edge, or "" for an event no edge answered. Data is
// canonical JSON and must not be modified by anyone who holds the event.
type Event struct {
	Seq  int
	Type string
	In   string
	Data json.RawMessage
}

// Line returns the event's canonical JSON, without a newline. Data must be
// canonical already; Line does not look inside it.
func (e Event) Line() []byte {
	return e.AppendLine(make([]byte, 0, len(e.Data)+len(e.In)+len(e.Type)+48))
}

// AppendLine appends the event's canonical JSON to dst.
func (e Event) AppendLine(dst []byte) []byte {
	dst = append(dst, lineHead...)
	dst = append(dst, e.dataOrNull()...)
	return e.appendTail(dst)
}

// lineHead is what stands before an event's data.
const lineHead = `{"data":`

func (e Event) dataOrNull() []byte {
	if len(e.Data) == 0 {
		return []byte("null")
	}
	return e.Data
}

// appendTail appends what stands behind an event's data.
func (e Event) appendTail(dst []byte) []byte {
	dst = append(dst, `,"in":`...)
	dst = AppendString(dst, e.In)
	dst = append(dst, `,"seq":`...)
	dst = strconv.AppendInt(dst, int64(e.Seq), 10)
	dst = append(dst, `,"type":`...)
	dst = AppendString(dst, e.Type)
	return append(dst, '}')
}

// ParseLine reads one ledger line. It returns an error when the line is not
// JSON or not in canonical form, because a ledger line that is spelled in
// another way could not be compared.
func ParseLine(line []byte) (Event, error) {
	var raw struct {
		Data json.RawMessage `json:"data"`
		In   string          `json:"in"`
		Seq  int             `json:"seq"`
		Type string          `json:"type"`
	}
	if err := json.Unmarshal(line, &raw); err != nil {
		return Event{}, fmt.Errorf("read ledger line: %w", err)
	}
	e := Event{Seq: raw.Seq, Type: raw.Type, In: raw.In, Data: raw.Data}
	if want, err := Canon(line); err != nil {
		return Event{}, fmt.Errorf("read ledger line: %w", err)
	} else if string(want) != string(line) || string(e.Line()) != string(line) {
		return Event{}, fmt.Errorf("read ledger line: event %d is not in canonical form", raw.Seq)
	}
	return e, nil
}

// Sum is the chained SHA-256 over the ledger's lines up to an event. The zero
// Sum is that of the empty ledger.
type Sum [sha256.Size]byte

// Next returns the sum after one more line: SHA-256 over the previous sum
// followed by the line's bytes.
func (s Sum) Next(line []byte) Sum {
	h := sha256.New()
	h.Write(s[:])
	h.Write(line)
	var out Sum
	h.Sum(out[:0])
	return out
}

// Add returns the sum after one more event: that of its line, which is not put
// together for it.
func (s Sum) Add(e Event) Sum {
	var buf [256]byte
	h := sha256.New()
	h.Write(append(append(buf[:0], s[:]...), lineHead...))
	h.Write(e.dataOrNull())
	h.Write(e.appendTail(buf[:0]))
	var out Sum
	h.Sum(out[:0])
	return out
}

// String returns the sum as 64 hex digits.
func (s Sum) String() string { return hex.EncodeToString(s[:]) }

// ParseSum reads 64 hex digits.
func ParseSum(text string) (Sum, error) {
	var s Sum
	b, err := hex.DecodeString(text)
	if err != nil || len(b) != len(s) {
		return Sum{}, fmt.Errorf("read sum %q: expected 64 hex digits", text)
	}
	copy(s[:], b)
	return s, nil
}

// Digest returns the SHA-256 of b as 64 hex digits.
func Digest(b []byte) string {
	sum := sha256.Sum256(b)
	return hex.EncodeToString(sum[:])
}

// Total returns the sum over all events, in order.
func Total(events []Event) Sum {
	var s Sum
	for _, e := range events {
		s = s.Add(e)
	}
	return s
}
