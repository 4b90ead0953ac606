package engine_test

import (
	"bytes"
	"strings"
	"testing"

	"investigator/internal/engine"
	"investigator/internal/ledger"
	"investigator/internal/recorder"
)

func TestVerdictsOfTheRepositoryAreSupported(t *testing.T) {
	everyCassette(t, func(t *testing.T, file string, c *recorder.Cassette) {
		events, err := c.Events()
		if err != nil {
			t.Fatal(err)
		}
		for _, flag := range engine.CheckVerdict(events) {
			t.Errorf("%s", flag)
		}
	})
}

func TestCheckVerdictFlags(t *testing.T) {
	events, err := recordRun(t).Events()
	if err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct{ from, to, want string }{
		{"2410 ms", "2999 ms", "summary: 2999 occurs in no cited result"},
		{"E7#/deploys/1", "E7#/deploys/8", "evidence E7#/deploys/8: /deploys/8 leads nowhere"},
		{"E7#/deploys/1", "E99", "evidence E99: event 99 is no tool result"},
		{"E7#/deploys/1", "E6", "evidence E6: event 6 is no tool result"},
	} {
		changed := append([]ledger.Event{}, events...)
		last := changed[len(changed)-1]
		last.Data = bytes.Replace(last.Data, []byte(tt.from), []byte(tt.to), 1)
		if bytes.Equal(last.Data, events[len(events)-1].Data) {
			t.Fatalf("%q does not occur in the verdict", tt.from)
		}
		changed[len(changed)-1] = last
		if got := strings.Join(engine.CheckVerdict(changed), "\n"); !strings.Contains(got, tt.want) {
			t.Errorf("%s → %s: flagged %q, want %q", tt.from, tt.to, got, tt.want)
		}
	}
}
