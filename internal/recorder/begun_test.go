package recorder

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"investigator/internal/loop"
)

// A header that a cassette was read with begins a new one like a header made
// anew, whatever was changed in it since.
func TestHeadersOfCassettesBeginOthers(t *testing.T) {
	w, err := NewMemory(testStart(t))
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("parent.yaml", w.Bytes())
	if err != nil {
		t.Fatal(err)
	}
	other, err := loop.Start{Task: "why else \u2028", Model: "rule"}.JSON()
	if err != nil {
		t.Fatal(err)
	}
	for name, change := range map[string]func(*Header){
		"nothing": func(*Header) {},
		"run":     func(h *Header) { h.Run, h.Started = "other", "2026-01-15T08:00:00Z" },
		"parent": func(h *Header) {
			h.Parent = &Parent{Run: "r", File: `a\b/c.yaml`, At: 1, Patch: json.RawMessage(`{"start":null,"x":"\u2029"}`)}
		},
		"extra":    func(h *Header) { h.Extra = map[string]json.RawMessage{"z": json.RawMessage(`{"start":null}`)} },
		"start":    func(h *Header) { h.Start = other },
		"spelling": func(h *Header) { h.Start = append(json.RawMessage(" "), h.Start...) },
	} {
		read := c.Header()
		change(&read)
		anew := read
		anew.begun, anew.Start = nil, bytes.Clone(read.Start)
		a, err := NewMemory(read)
		if err != nil {
			t.Fatal(err)
		}
		b, err := NewMemory(anew)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(a.Bytes(), b.Bytes()) || a.Sum() != b.Sum() || a.chain != b.chain {
			t.Errorf("%s: %s\nanew: %s", name, a.Bytes(), b.Bytes())
		}
		if again, err := Parse("child.yaml", a.Bytes()); err != nil || !bytes.Equal(again.Start(), a.header.Start) {
			t.Errorf("%s: %v", name, err)
		}
		if shared := a.header.begun == c.header.begun; shared != (name != "start" && name != "spelling") {
			t.Errorf("%s: shares the beginning: %v", name, shared)
		}
	}
}

// A parent that somebody else wrote may hold what we would not have written.
func TestABeginningWithASecretIsRefusedToForks(t *testing.T) {
	h := testStart(t)
	h.Start = json.RawMessage(strings.Replace(string(h.Start), "why", "why AKIA"+strings.Repeat("Z", 16), 1))
	var err error
	if h.begun, err = begin(h.Start); err != nil {
		t.Fatal(err)
	}
	h.Format, h.StartSum = Format, h.begun.sum.String()
	text, _, err := encodeHeader(h)
	if err != nil {
		t.Fatal(err)
	}
	c, err := Parse("theirs.yaml", text)
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if _, err := NewMemory(c.Header()); err == nil || !strings.Contains(err.Error(), "run.started holds a secret") {
			t.Errorf("NewMemory: %v", err)
		}
	}
}
