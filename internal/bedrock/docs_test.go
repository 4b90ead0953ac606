package bedrock

import (
	"encoding/json"
	"os"
	"regexp"
	"strings"
	"testing"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/edge"
	"investigator/internal/price"
)

// guide is docs/bedrock.md.
func guide(t *testing.T) string {
	t.Helper()
	b, err := os.ReadFile("../../docs/bedrock.md")
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// troubleshooting reads the rows of the guide's table as failures.
func troubleshooting(t *testing.T) (rows []edge.Failure) {
	t.Helper()
	_, table, found := strings.Cut(guide(t), "| error | text | what to do |\n|---|---|---|\n")
	if !found {
		t.Fatal("the guide has no table of errors")
	}
	for line := range strings.Lines(table) {
		cells := strings.Split(line, "|")
		if len(cells) != 5 {
			return rows
		}
		rows = append(rows, edge.Failure{Name: strings.TrimSpace(cells[1]), Message: strings.TrimSpace(cells[2])})
	}
	return rows
}

// TestTroubleshootingTable: each row of the guide gets a hint from the program,
// and each hint of the program has a row.
func TestTroubleshootingTable(t *testing.T) {
	reached := map[string]bool{}
	rows := troubleshooting(t)
	for _, f := range rows {
		_, hint := Explain(f)
		if hint == "" {
			t.Errorf("the program has no hint for the row %s, %q", f.Name, f.Message)
		}
		reached[hint] = true
	}
	for _, a := range advice() {
		if !reached[a.hint] {
			t.Errorf("no row for the hint %q (%s, %q)", a.hint, a.names, a.text)
		}
	}
	if len(rows) < 30 {
		t.Errorf("%d rows were read", len(rows))
	}
}

// TestGuideIsCurrent: what the guide shows as JSON is JSON, its price table can
// be read, and it counts the troubles of the local Bedrock right.
func TestGuideIsCurrent(t *testing.T) {
	blocks := regexp.MustCompile("(?s)```json\n(.*?)```").FindAllStringSubmatch(guide(t), -1)
	if len(blocks) != 2 {
		t.Fatalf("%d blocks of JSON", len(blocks))
	}
	for _, b := range blocks {
		if !json.Valid([]byte(b[1])) {
			t.Errorf("no JSON: %s", b[1])
		}
	}
	table, err := price.Parse([]byte(blocks[1][1]))
	if err != nil {
		t.Fatal(err)
	}
	if p, found := table.Lookup("us.anthropic.claude-sonnet-4-6", ""); !found || p.Input != 2_700_000 {
		t.Errorf("the guide's table gives %+v, %v", p, found)
	}
	if n := len(bedrocktest.FaultNames()); n != 24 {
		t.Errorf("the guide counts twenty-four troubles, and there are %d", n)
	}
}
