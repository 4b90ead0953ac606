package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"investigator/internal/bedrock/bedrocktest"
	"investigator/internal/bedrock/bedrocktest/rulescript"
	"investigator/internal/report"
)

// onTerminal runs live as if standard error were a terminal.
func onTerminal(t *testing.T, faults ...bedrocktest.Fault) (out, errs string) {
	t.Helper()
	for _, name := range awsEnvironment() {
		t.Setenv(name, "")
	}
	for name, value := range map[string]string{"AWS_ACCESS_KEY_ID": "AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY": "example", "AWS_REGION": "us-east-1",
		"AWS_CONFIG_FILE": os.DevNull, "AWS_SHARED_CREDENTIALS_FILE": os.DevNull} {
		t.Setenv(name, value)
	}
	s := bedrocktest.New(t, bedrocktest.Options{Script: rulescript.Script(true), Faults: faults})
	var o, e bytes.Buffer
	sh := &shell{in: strings.NewReader(""), out: &o, err: &e, getenv: os.Getenv, now: time.Now, errTTY: true}
	sh.speech = &speech{p: report.NewPrinter(&e, false, 0)}
	code := run(context.Background(), []string{"investigator", "live", "--endpoint-url", s.URL, "--out", filepath.Join(t.TempDir(), "a.yaml")}, sh)
	if code != exitDone {
		t.Errorf("status %d: %s", code, e.String())
	}
	return o.String(), e.String()
}

// TestSpeech: a terminal shows what the model thinks and says while it says it,
// each turn ending its line, and nothing of it goes to standard output.
func TestSpeech(t *testing.T) {
	out, errs := onTerminal(t)
	for _, said := range []string{
		"Turn 1: weighing what was seen so far.\n\nNo measurements yet. Asking for latency_p99 of checkout.\n",
		"Asking which changes of checkout came before.\nTurn 3:",
	} {
		if !strings.Contains(errs, said) {
			t.Errorf("the terminal lacks %q:\n%s", said, errs)
		}
	}
	if strings.Contains(out, "weighing") || !strings.HasSuffix(errs, "\n") {
		t.Errorf("standard output %q, the terminal ends with %q", out, errs[max(0, len(errs)-20):])
	}
}

// TestSpeechBrokenOff: a half answer is called void on a line of its own, and
// the wait is shown.
func TestSpeechBrokenOff(t *testing.T) {
	_, errs := onTerminal(t, bedrocktest.Fault{Name: "throttle-mid-stream", Times: 1})
	lines := strings.Split(errs, "\n")
	void := -1
	for i, l := range lines {
		if l == "(the answer broke off and is asked again)" {
			void = i
		}
	}
	if void < 1 || !strings.HasPrefix(lines[void+1], "ThrottlingException, waiting ") || !strings.HasSuffix(lines[void+1], "(attempt 2 of 8)") {
		t.Errorf("the terminal shows:\n%s", errs)
	}
}
