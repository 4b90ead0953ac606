package converse

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	"investigator/internal/ledger"
)

// ErrTruncated is wrapped by the error about a stream that ended before its
// messageStop: what it said is the beginning of an answer, not an answer.
var ErrTruncated = errors.New("the stream ended before messageStop, so the answer is cut off")

// StreamError is an exception inside a stream. Name is spelled as the same
// exception is outside of one (ThrottlingException); Status is the HTTP status
// it has there, 0 if it is not known.
type StreamError struct {
	Name    string
	Message string
	Status  int
}

func (e *StreamError) Error() string {
	return fmt.Sprintf("read model stream: %s: %s", e.Name, e.Message)
}

func streamError(f Frame) *StreamError {
	name := f.Type
	if name != "" && name[0] >= 'a' && name[0] <= 'z' {
		name = strings.ToUpper(name[:1]) + name[1:]
	}
	return &StreamError{Name: name, Message: payloadMessage(f.Payload), Status: exceptionStatus(name)}
}

// exceptionStatus is the HTTP status the service gives an exception that comes
// before the stream.
func exceptionStatus(name string) int {
	switch name {
	case "ValidationException":
		return 400
	case "ModelTimeoutException":
		return 408
	case "ModelStreamErrorException", "ModelErrorException":
		return 424
	case "ThrottlingException", "ModelNotReadyException":
		return 429
	case "InternalServerException":
		return 500
	case "ServiceUnavailableException":
		return 503
	}
	return 0
}

// Assemble turns the events of a ConverseStream answer into the canonical
// response that Normalize gives for the same answer of Converse. What this build
// does not know is kept raw in the extension; a tool input that is no JSON object
// is kept there as text. The error is a *StreamError for an exception in the
// stream, wraps ErrTruncated when messageStop is missing, and else names the
// event that cannot be read.
func Assemble(frames []Frame) (json.RawMessage, error) {
	var a Assembler
	for _, f := range frames {
		if _, err := a.Add(f); err != nil {
			return nil, err
		}
	}
	return a.Response()
}

// PieceKind says what a Piece is a piece of.
type PieceKind string

// The kinds of pieces.
const (
	TextPiece      PieceKind = "text"
	ReasoningPiece PieceKind = "reasoning"
	ToolPiece      PieceKind = "tool" // Text is the name of a tool about to be called
)

// Piece is what one event adds to what a reader can see. Its zero value is
// nothing.
type Piece struct {
	Kind  PieceKind
	Block int // the contentBlockIndex
	Text  string
}

// Assembler is Assemble one event at a time. The zero value is ready for use.
type Assembler struct {
	events  int
	stopped bool
	role    string
	blocks  map[int]*block
	top     map[string]json.RawMessage // members of the response beside output
	unknown []json.RawMessage
	err     error
}

// Stopped reports whether messageStop has come: the answer is whole, and only
// its usage may still be missing.
func (a *Assembler) Stopped() bool { return a.stopped }

// Add takes the next event. After an error it returns that error again.
func (a *Assembler) Add(f Frame) (Piece, error) {
	if a.err != nil {
		return Piece{}, a.err
	}
	var p Piece
	a.events++
	p, a.err = a.add(f)
	return p, a.err
}

func (a *Assembler) add(f Frame) (Piece, error) {
	if f.Kind != EventFrame {
		return Piece{}, streamError(f)
	}
	payload, err := ledger.Canon(f.Payload)
	if err != nil {
		return Piece{}, a.unreadable(f.Type, err)
	}
	var p Piece
	switch f.Type {
	case "messageStart":
		err = a.start(payload)
	case "contentBlockStart", "contentBlockDelta", "contentBlockStop":
		p, err = a.block(f.Type, payload)
	case "messageStop":
		a.stopped = true
		err = a.keep(payload)
	case "metadata":
		err = a.keep(payload)
	default:
		err = a.keepUnknown(f.Type, payload)
	}
	if err != nil {
		return Piece{}, a.unreadable(f.Type, err)
	}
	return p, nil
}

func (a *Assembler) unreadable(kind string, err error) error {
	return fmt.Errorf("read model stream: event %d, %s: %w", a.events, kind, err)
}

func (a *Assembler) start(payload []byte) error {
	var e struct {
		Role string `json:"role"`
	}
	err := json.Unmarshal(payload, &e)
	a.role = e.Role
	return err
}

// keep takes the members of messageStop or metadata into the response. p is
// padding, and durations are not part of a response.
func (a *Assembler) keep(payload []byte) error {
	members, err := Members(payload)
	if err != nil {
		return err
	}
	if a.top == nil {
		a.top = map[string]json.RawMessage{}
	}
	for _, name := range sortedKeys(members) {
		switch name {
		case "p", "metrics", "output", extension:
		default:
			a.top[name] = members[name]
		}
	}
	return nil
}

// keepUnknown keeps an event without its padding, which differs at every call.
func (a *Assembler) keepUnknown(kind string, payload json.RawMessage) error {
	if members, err := Members(payload); err == nil {
		delete(members, "p")
		if payload, err = ledger.CanonValue(members); err != nil {
			return err
		}
	}
	event, err := ledger.CanonValue(map[string]any{"type": kind, "payload": payload})
	a.unknown = append(a.unknown, event)
	return err
}

// block takes one of the three contentBlock events.
func (a *Assembler) block(kind string, payload []byte) (Piece, error) {
	var e struct {
		Index *int                       `json:"contentBlockIndex"`
		Start map[string]json.RawMessage `json:"start"`
		Delta map[string]json.RawMessage `json:"delta"`
	}
	if err := json.Unmarshal(payload, &e); err != nil {
		return Piece{}, err
	}
	if e.Index == nil {
		return Piece{}, fmt.Errorf("expected a contentBlockIndex, found none")
	}
	b := a.at(*e.Index)
	p := Piece{Block: *e.Index}
	for _, name := range sortedKeys(e.Start) {
		if !b.begin(name, e.Start[name], &p) {
			b.strange = true
			return p, a.keepUnknown(kind, payload)
		}
	}
	for _, name := range sortedKeys(e.Delta) {
		known, err := b.add(name, e.Delta[name], &p)
		if err != nil {
			return p, err
		}
		if !known {
			b.strange = true
			return p, a.keepUnknown(kind, payload)
		}
	}
	return p, nil
}

func (a *Assembler) at(index int) *block {
	if a.blocks == nil {
		a.blocks = map[int]*block{}
	}
	if a.blocks[index] == nil {
		a.blocks[index] = &block{}
	}
	return a.blocks[index]
}

// Response returns the canonical response once the stream has ended.
func (a *Assembler) Response() (json.RawMessage, error) {
	if a.err != nil {
		return nil, a.err
	}
	if !a.stopped {
		return nil, fmt.Errorf("read model stream of %d events: %w", a.events, ErrTruncated)
	}
	ext := Extension{Unknown: a.unknown}
	content := []json.RawMessage{}
	for _, index := range sortedKeys(a.blocks) {
		parts, malformed, err := a.blocks[index].content()
		if err != nil {
			return nil, fmt.Errorf("read model stream: content block %d: %w", index, err)
		}
		content = append(content, parts...)
		if malformed != "" {
			if ext.Malformed == nil {
				ext.Malformed = map[string]string{}
			}
			ext.Malformed[fmt.Sprint(len(content)-1)] = malformed // the call is the last part of its block
		}
	}
	return a.finish(content, ext)
}

func (a *Assembler) finish(content []json.RawMessage, ext Extension) (json.RawMessage, error) {
	role := a.role
	if role == "" {
		role = "assistant"
	}
	members := map[string]any{"output": map[string]any{"message": map[string]any{"content": content, "role": role}}}
	for _, name := range sortedKeys(a.top) {
		members[name] = a.top[name]
	}
	if ext.Malformed != nil || ext.Unknown != nil {
		members[extension] = ext
	}
	body, err := ledger.CanonValue(members)
	if err != nil {
		return nil, err
	}
	if _, err = ParseTurn(body); err != nil {
		return nil, err
	}
	return body, nil
}

func sortedKeys[K int | string, V any](m map[K]V) []K {
	keys := make([]K, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}
