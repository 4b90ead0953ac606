package main

import (
	"os"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"

	"investigator/internal/faults"
)

// TestProxyDocs: docs/proxy.md, which a newcomer follows alone, names every flag
// of proxy and exec and every fault. What a patch is stood in no document once.
func TestProxyDocs(t *testing.T) {
	page, err := os.ReadFile("../../docs/proxy.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range faults.Faults() {
		if row := "| " + f.Name + " | " + f.Does + " |"; !strings.Contains(string(page), row) {
			t.Errorf("docs/proxy.md lacks the row %s", row)
		}
	}
	sh, _ := testShell()
	for _, verb := range []*cli.Command{proxyVerb(sh), execVerb(sh)} {
		for _, f := range verb.Flags {
			if name := f.Names()[0]; !strings.Contains(string(page), "--"+name) {
				t.Errorf("docs/proxy.md does not name --%s of %s", name, verb.Name)
			}
		}
	}
}
