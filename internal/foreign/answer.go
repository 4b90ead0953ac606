package foreign

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"investigator/internal/converse"
	"investigator/internal/ledger"
)

// ErrCut is wrapped by the error about a stream that ended before its end was
// said.
var ErrCut = errors.New("the stream ended before the answer was whole")

// ReadAnswer turns what came over the wire with a good status into a canonical
// Converse response. An answer of an opaque dialect becomes its own canonical
// JSON, or {"bytes":…}. The error is a *converse.StreamError for an exception
// in the stream, wraps ErrCut or converse.ErrTruncated when the end is missing,
// and else says what cannot be read.
func ReadAnswer(d Dialect, body []byte) (json.RawMessage, error) {
	framed := len(body) > 0 && body[0] == 0
	switch {
	case d == Converse && !framed:
		return converse.Normalize(body)
	case d == Converse:
		frames, rest, err := converse.DecodeFrames(body)
		if err != nil {
			return nil, err
		}
		if rest > 0 {
			return nil, fmt.Errorf("read model stream: inside a frame: %w", ErrCut)
		}
		return converse.Assemble(frames)
	case d == Opaque:
		return opaque(body), nil
	}
	events, whole, err := eventsOf(body)
	if err != nil {
		return nil, err
	}
	if d == OpenAI {
		return readOpenAI(events, whole, byIndex())
	}
	return readAnthropic(events, whole)
}

func opaque(body []byte) json.RawMessage {
	if canon, err := ledger.Canon(body); err == nil {
		return canon
	}
	b, _ := ledger.CanonValue(map[string][]byte{"bytes": body})
	return b
}

// eventsOf splits an answer into its JSON events: whole says that the one event
// is the whole answer and not a part of a stream.
func eventsOf(body []byte) (events []json.RawMessage, whole bool, err error) {
	switch trimmed := bytes.TrimSpace(body); {
	case len(trimmed) == 0:
		return nil, false, fmt.Errorf("read model stream: empty: %w", ErrCut)
	case body[0] == 0:
		events, err = chunks(body)
		return events, false, err
	case trimmed[0] == '{':
		canon, err := ledger.Canon(trimmed)
		return []json.RawMessage{canon}, true, err
	}
	for _, data := range sseData(body) {
		if data = bytes.TrimSpace(data); len(data) == 0 || string(data) == "[DONE]" {
			continue
		}
		canon, err := ledger.Canon(data)
		if err != nil {
			return nil, false, fmt.Errorf("read model stream: event %d: %w", len(events)+1, err)
		}
		events = append(events, canon)
	}
	return events, false, nil
}

// chunks unwraps an InvokeModelWithResponseStream answer.
func chunks(body []byte) ([]json.RawMessage, error) {
	frames, rest, err := converse.DecodeFrames(body)
	if err != nil {
		return nil, err
	}
	var out []json.RawMessage
	for i, f := range frames {
		if f.Kind != converse.EventFrame {
			_, err := converse.Assemble([]converse.Frame{f}) // names the exception
			return nil, err
		}
		var c struct {
			Bytes []byte `json:"bytes"`
		}
		if err := json.Unmarshal(f.Payload, &c); err != nil {
			return nil, fmt.Errorf("read model stream: chunk %d: %w", i+1, err)
		}
		canon, err := ledger.Canon(c.Bytes)
		if err != nil {
			return nil, fmt.Errorf("read model stream: chunk %d: %w", i+1, err)
		}
		out = append(out, canon)
	}
	if rest > 0 {
		return nil, fmt.Errorf("read model stream: inside a frame: %w", ErrCut)
	}
	return out, nil
}

// answer collects a Converse response.
type answer struct {
	content []json.RawMessage
	ext     converse.Extension
	stop    string
	usage   converse.Usage
}

func (a *answer) text(s string) {
	a.content = append(a.content, append(ledger.AppendString([]byte(`{"text":`), s), '}'))
}

// call adds a toolUse block; input is the text of its JSON.
func (a *answer) call(id, name, input string) {
	canon, err := ledger.Canon([]byte(input))
	if strings.TrimSpace(input) == "" {
		canon, err = []byte(`{}`), nil
	}
	if err != nil || canon[0] != '{' {
		if a.ext.Malformed == nil {
			a.ext.Malformed = map[string]string{}
		}
		a.ext.Malformed[fmt.Sprint(len(a.content))] = input
		canon = []byte(`{}`)
	}
	b := append([]byte(`{"toolUse":{"input":`), canon...)
	b = ledger.AppendString(append(b, `,"name":`...), name)
	b = ledger.AppendString(append(b, `,"toolUseId":`...), id)
	a.content = append(a.content, append(b, "}}"...))
}

func (a *answer) block(kind string, value any) {
	b, err := ledger.CanonValue(map[string]any{kind: value})
	if err == nil {
		a.content = append(a.content, b)
	}
}

func (a *answer) response() (json.RawMessage, error) {
	content := a.content
	if content == nil {
		content = []json.RawMessage{}
	}
	a.usage.Total = a.usage.Input + a.usage.Output + a.usage.CacheRead + a.usage.CacheWrite
	members := map[string]any{
		"output":     map[string]any{"message": map[string]any{"content": content, "role": "assistant"}},
		"stopReason": a.stop, "usage": a.usage,
	}
	if a.ext.Malformed != nil || a.ext.Unknown != nil {
		members["investigator"] = a.ext
	}
	body, err := ledger.CanonValue(members)
	if err != nil {
		return nil, err
	}
	_, err = converse.ParseCanonical(body)
	return body, err
}

// Clean returns wire bytes without secrets: bytes itself when there are none.
// scrub works on text; the payloads of frames are taken out and framed again.
func Clean(body []byte, scrub func([]byte) ([]byte, int)) []byte {
	if len(body) == 0 || body[0] != 0 {
		clean, _ := scrub(body)
		return clean
	}
	frames, rest, err := converse.DecodeFrames(body)
	if err != nil {
		return body
	}
	changed := false
	var out []byte
	for _, f := range frames {
		payload, n := scrubPayload(f, scrub)
		changed = changed || n > 0
		f.Payload = payload
		out = append(out, converse.EncodeFrame(f)...)
	}
	if !changed {
		return body
	}
	return append(out, body[len(body)-rest:]...)
}

func scrubPayload(f converse.Frame, scrub func([]byte) ([]byte, int)) (json.RawMessage, int) {
	encoded := stringOf(member(f.Payload, "bytes"))
	inner, err := base64.StdEncoding.DecodeString(encoded)
	if f.Type != "chunk" || err != nil || encoded == "" {
		return scrub(f.Payload)
	}
	clean, n := scrub(inner)
	if n == 0 {
		return f.Payload, 0
	}
	payload, err := ledger.CanonValue(map[string][]byte{"bytes": clean})
	if err != nil {
		return f.Payload, 0
	}
	return payload, n
}
