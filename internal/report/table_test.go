package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestTable(t *testing.T) {
	columns := []Column{{"NAME", 4, 20}, {"VERDICT", 7, 20}, {"TASK", 6, 20}}
	rows := [][]string{
		{"run_a.yaml", "cart (load)", "Why is cart slow today?"},
		{"日本.yaml", "\x1b[31m", ""},
		{"bad.yaml", "(damaged: line 5: its bytes were changed)"},
	}
	for name, tt := range map[string]struct {
		width int
		want  []string
	}{
		"a pipe": {0, []string{
			"NAME        VERDICT      TASK",
			"run_a.yaml  cart (load)  Why is cart slow to…",
			`日本.yaml   \u{1b}[31m`,
			"bad.yaml    (damaged: line 5: its bytes were changed)",
		}},
		"a terminal": {40, []string{
			"NAME        VERDICT      TASK",
			"run_a.yaml  cart (load)  Why is cart sl…",
			`日本.yaml   \u{1b}[31m`,
			"bad.yaml    (damaged: line 5: its bytes…",
		}},
		"a narrow one": {26, []string{
			"NAME       VERDICT  TASK",
			"run_a.ya…  cart (…  Why i…",
			`日本.yaml  \u{1b}…`,
			"bad.yaml   (damaged: line…",
		}},
	} {
		t.Run(name, func(t *testing.T) {
			got := strings.Split(strings.TrimSuffix(printed(false, tt.width, func(p *Printer) { p.Table(columns, rows) }), "\n"), "\n")
			if d := cmp.Diff(tt.want, got); d != "" {
				t.Errorf("want (-), got (+):\n%s", d)
			}
		})
	}
}
