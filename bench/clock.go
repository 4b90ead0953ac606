package main

import (
	"context"
	"math"
	"slices"
	"time"
)

// task is something to measure.
type task func() error

// enough is how long one round of one side takes at least.
const enough = 20 * time.Millisecond

// rounds are the times of one side, one a round, for one execution each.
type rounds []time.Duration

func (r rounds) best() time.Duration { return slices.Min(r) }

func (r rounds) middle() time.Duration {
	sorted := slices.Sorted(slices.Values(r))
	return sorted[len(sorted)/2]
}

// trimmed is the average of the faster three quarters: what else the machine did
// in between is not ours.
func (r rounds) trimmed() time.Duration {
	sorted := slices.Sorted(slices.Values(r))
	sorted = sorted[:(3*len(sorted)+3)/4]
	var sum time.Duration
	for _, d := range sorted {
		sum += d
	}
	return sum / time.Duration(len(sorted))
}

// compare measures tasks in turn, n rounds each. A task that takes less than
// enough is repeated within its round.
func compare(ctx context.Context, n int, tasks ...task) ([]rounds, error) {
	out := make([]rounds, len(tasks))
	times := make([]int, len(tasks))
	for i, t := range tasks {
		var err error
		if times[i], err = repetitions(t); err != nil {
			return nil, err
		}
	}
	for range n {
		for i, t := range tasks {
			if err := ctx.Err(); err != nil {
				return nil, err
			}
			d, err := timed(t, times[i])
			if err != nil {
				return nil, err
			}
			out[i] = append(out[i], d)
		}
	}
	return out, nil
}

// repetitions warms a task up and finds how often it fits into a round.
func repetitions(t task) (int, error) {
	d, err := timed(t, 1)
	if err != nil {
		return 0, err
	}
	if d < enough {
		if d, err = timed(t, 3); err != nil { // what the first one paid for others
			return 0, err
		}
	}
	return max(1, int(math.Ceil(float64(enough)/float64(max(d, 1))))), nil
}

func timed(t task, n int) (time.Duration, error) {
	began := time.Now()
	for range n {
		if err := t(); err != nil {
			return 0, err
		}
	}
	return time.Since(began) / time.Duration(n), nil
}

// figures are what one side was measured at, one a round, in any unit.
type figures []float64

func (f figures) middle() float64 {
	sorted := slices.Sorted(slices.Values(f))
	return sorted[len(sorted)/2]
}

// by are the ratios to another side's figures, round by round.
func (f figures) by(theirs figures) figures {
	out := make(figures, len(f))
	for i := range f {
		out[i] = f[i] / theirs[i]
	}
	return out
}
