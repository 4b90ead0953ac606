package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"testing"

	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/recorder"
)

func exitStatus(err error) string {
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		return fmt.Sprint(exit.ExitCode())
	}
	return err.Error()
}

func TestStatusOf(t *testing.T) {
	for _, tt := range []struct {
		err  error
		want int
	}{
		{nil, exitDone},
		{errors.New("any"), exitError},
		{usagef("", "x"), exitUsage},
		{&faults.Error{Kind: faults.NoChange}, exitUsage},
		{fmt.Errorf("wrapped: %w", &engine.Diverged{}), exitDiverged},
		{&recorder.Damage{}, exitDamaged},
		{&recorder.FileError{Err: recorder.ErrNewer}, exitDamaged},
		{&recorder.FileError{Err: recorder.ErrExists}, exitError},
		{fmt.Errorf("wrapped: %w", context.Canceled), exitInterrupted},
		{status(exitLimit), exitLimit},
	} {
		if got := statusOf(tt.err); got != tt.want {
			t.Errorf("statusOf(%v) = %d, want %d", tt.err, got, tt.want)
		}
	}
}

func TestWilson(t *testing.T) {
	// Figures from the formula worked by hand for 8 of 10 and the two ends.
	for _, tt := range []struct {
		k, n      int
		low, high float64
	}{{8, 10, 0.490, 0.943}, {0, 10, 0, 0.278}, {10, 10, 0.722, 1}} {
		low, high := wilson(tt.k, tt.n)
		if apart(low, tt.low) > 0.001 || apart(high, tt.high) > 0.001 {
			t.Errorf("wilson(%d, %d) = %.3f–%.3f, want %.3f–%.3f", tt.k, tt.n, low, high, tt.low, tt.high)
		}
	}
}

func apart(a, b float64) float64 { return max(a-b, b-a) }
