package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// Spaces before the lines of deeply nested data were thousands of times the data.
func TestDeepDocumentsAreNotIndented(t *testing.T) {
	deep := strings.Repeat("[", 9000) + strings.Repeat("]", 9000)
	wide := strings.Repeat("[", 90) + strings.Repeat("1,", 1<<20) + "1" + strings.Repeat("]", 90)
	for name, doc := range map[string]string{"deep": deep, "wide": wide} {
		var shown, printed bytes.Buffer
		if err := writeIndented(&shown, json.RawMessage(doc)); err != nil || shown.String() != doc+"\n" {
			t.Errorf("%s: shown in %d bytes of %d, %v", name, shown.Len(), len(doc), err)
		}
		if err := printJSON(&printed, json.RawMessage(doc)); err != nil || printed.String() != doc+"\n" {
			t.Errorf("%s: printed in %d bytes of %d, %v", name, printed.Len(), len(doc), err)
		}
	}
}

// What people read is indented, and indentOf counts the spaces.
func TestDocumentsAreIndented(t *testing.T) {
	doc := `{"a":[1,{"b":"x, [y] \" {"},[2,3]],"c":{"d":null}}`
	var want bytes.Buffer
	if err := json.Indent(&want, []byte(doc), "", "  "); err != nil {
		t.Fatal(err)
	}
	spaces := 0
	for line := range strings.Lines(want.String()) {
		spaces += len(line) - len(strings.TrimLeft(line, " "))
	}
	if got := indentOf(json.RawMessage(doc)); got != spaces {
		t.Errorf("counts %d spaces of %d", got, spaces)
	}
	want.WriteByte('\n')
	var shown, printed bytes.Buffer
	if err := writeIndented(&shown, json.RawMessage(doc)); err != nil || shown.String() != want.String() {
		t.Errorf("shown %s, %v", shown.String(), err)
	}
	if err := printJSON(&printed, json.RawMessage(doc)); err != nil || printed.String() != want.String() {
		t.Errorf("printed %s, %v", printed.String(), err)
	}
}
