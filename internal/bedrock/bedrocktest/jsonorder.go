package bedrocktest

import (
	"bytes"
	"encoding/json"
	"fmt"
)

// object is a JSON object whose members keep the order they are written in.
// Answers are built of it because the service's member order is part of the
// bytes that recorders store.
type object []member

type member struct {
	name  string
	value any
}

// MarshalJSON writes the members in order without HTML escaping.
func (o object) MarshalJSON() ([]byte, error) {
	var b bytes.Buffer
	b.WriteByte('{')
	for i, m := range o {
		if i > 0 {
			b.WriteByte(',')
		}
		if err := write(&b, m.name); err != nil {
			return nil, err
		}
		b.WriteByte(':')
		if err := write(&b, m.value); err != nil {
			return nil, err
		}
	}
	b.WriteByte('}')
	return b.Bytes(), nil
}

func write(b *bytes.Buffer, v any) error {
	enc := json.NewEncoder(b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return err
	}
	b.Truncate(b.Len() - 1) // Encode ends with a newline
	return nil
}

// encode renders v. A value that cannot be rendered is a mistake in a test's
// script (a RawMessage that is not JSON), and the text says so to the client.
func encode(v any) []byte {
	var b bytes.Buffer
	if err := write(&b, v); err != nil {
		return fmt.Appendf(nil, `{"message":%q}`, "bedrocktest: the script's turn is not JSON: "+err.Error())
	}
	return b.Bytes()
}

// decode reads one JSON value and keeps numbers as they are written.
func decode(body []byte) (any, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.UseNumber()
	var v any
	if err := d.Decode(&v); err != nil {
		return nil, err
	}
	if d.More() {
		return nil, fmt.Errorf("extra data after the JSON value at byte %d", d.InputOffset())
	}
	return v, nil
}

// The lookups below answer the zero value for an absent or differently typed
// member: the rules ask about one thing at a time.

func mapAt(v any, path ...string) map[string]any {
	m, _ := valueAt(v, path...).(map[string]any)
	return m
}

func listAt(v any, path ...string) []any {
	l, _ := valueAt(v, path...).([]any)
	return l
}

func textAt(v any, path ...string) string {
	s, _ := valueAt(v, path...).(string)
	return s
}

func intAt(v any, path ...string) (int64, bool) {
	n, ok := valueAt(v, path...).(json.Number)
	if !ok {
		return 0, false
	}
	i, err := n.Int64()
	return i, err == nil
}

func valueAt(v any, path ...string) any {
	for _, p := range path {
		m, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = m[p]
	}
	return v
}
