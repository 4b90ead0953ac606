package engine_test

import (
	"bytes"
	"errors"
	"testing"

	"investigator/internal/engine"
	"investigator/internal/recorder"
)

// A run that was killed between a tool's call and its return replayed as
// diverged when the tool was executed for real: its return was "extra".
func TestReplayOfACutRunIsIdenticalAsFarAsItGoes(t *testing.T) {
	whole := referenceRun(t)
	tools := engine.Tools{World: demoWorld(t)}
	cuts := 0
	for at := bytes.Index(whole, []byte("\ninteractions:")) + 1; at < len(whole); at += 97 {
		c, err := recorder.Parse("cut", whole[:at])
		if err != nil {
			var none *recorder.FileError
			if errors.As(err, &none) {
				continue
			}
			t.Fatalf("cut at %d: %v", at, err)
		}
		want, err := c.EventCount()
		if err != nil {
			t.Fatal(err)
		}
		r := replayed(t, c, tools)
		if !r.Identical || r.Events < want {
			t.Fatalf("cut at byte %d, after event %d: %+v, divergence %+v", at, want, r, r.Divergence)
		}
		if !r.Unfinished && r.Events != 9 {
			t.Errorf("cut at byte %d, after event %d: the replay does not say that it is unfinished: %+v", at, want, r)
		}
		cuts++
	}
	if cuts < 20 {
		t.Errorf("replayed %d cuts, want at least 20", cuts)
	}
}
