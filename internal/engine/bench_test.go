package engine_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"testing"

	"investigator/internal/edge"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

// generated is an open cassette of a generated run, with its bytes.
func generated(b *testing.B, turns int) (*recorder.Cassette, []byte) {
	b.Helper()
	text, err := recordertest.Cassette(recordertest.Options{Turns: turns, Bytes: 10 << 10})
	if err != nil {
		b.Fatal(err)
	}
	c, err := recorder.Parse("generated.yaml", text)
	if err != nil {
		b.Fatal(err)
	}
	return c, text
}

// BenchmarkReplay replays runs of growing length from the tape; ns/event is to
// stay flat.
func BenchmarkReplay(b *testing.B) {
	for _, turns := range []int{50, 200, 800} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			c, _ := generated(b, turns)
			events := 0
			for b.Loop() {
				r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{})
				if err != nil || !r.Identical {
					b.Fatalf("identical %v, error %v", r.Identical, err)
				}
				events += r.Events
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

// BenchmarkReplayOpened replays from the file's bytes: verify, decode, replay.
func BenchmarkReplayOpened(b *testing.B) {
	for _, turns := range []int{50, 200, 800} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			_, text := generated(b, turns)
			events := 0
			for b.Loop() {
				c, err := recorder.Parse("generated.yaml", text)
				if err != nil {
					b.Fatal(err)
				}
				r, err := engine.Replay(context.Background(), c, engine.ReplayOptions{})
				if err != nil || !r.Identical {
					b.Fatalf("identical %v, error %v", r.Identical, err)
				}
				events += r.Events
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(events), "ns/event")
		})
	}
}

// BenchmarkFork forks the reference run at its seventh event, without one
// record: to a halt and to its other verdict, from a point made anew each time
// and from one made once, and recorded. "hash" is the bare cost of hashing and
// copying the cassette's bytes.
func BenchmarkFork(b *testing.B) {
	w := demoWorld(b)
	text := referenceRun(b)
	c, err := recorder.Parse("run", text)
	if err != nil {
		b.Fatal(err)
	}
	patch := faults.Drop("/deploys/1").For(7)
	live := liveFork(w)
	live.Patch = patch
	ways := map[string]engine.ForkOptions{"halt": {Patch: patch}, "live": live, "canned": canned(b, c, live)}
	for _, name := range []string{"halt", "canned", "live"} {
		o := ways[name]
		o.Patch = patch
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				forkOnce(b, pointAt(b, c), o)
			}
		})
		point := pointAt(b, c)
		b.Run(name+"-same-point", func(b *testing.B) {
			for b.Loop() {
				forkOnce(b, point, o)
			}
		})
		b.Run(name+"-recorded", func(b *testing.B) {
			for b.Loop() {
				forkRecorded(b, c, o)
			}
		})
	}
	b.Run("hash", func(b *testing.B) {
		for b.Loop() {
			copied := bytes.Clone(text)
			if sha256.Sum256(copied) == [32]byte{} {
				b.Fatal("no sum")
			}
		}
	})
}

// canned are the options of the same fork with its model's and its tools'
// answers at hand.
func canned(b *testing.B, c *recorder.Cassette, o engine.ForkOptions) engine.ForkOptions {
	answers := map[string]edge.Return{}
	keeping := func(e edge.Edge) edge.Edge {
		return edge.Func(func(ctx context.Context, call edge.Call) (edge.Return, error) {
			r, err := e.Do(ctx, call)
			answers[call.In] = r
			return r, err
		})
	}
	first := o
	first.Model, first.Tools = keeping(o.Model), keeping(o.Tools)
	forkOnce(b, pointAt(b, c), first)
	memory := edge.Func(func(_ context.Context, call edge.Call) (edge.Return, error) { return answers[call.In], nil })
	o.Model, o.Tools = memory, memory
	return o
}

func pointAt(b *testing.B, c *recorder.Cassette) *engine.Point {
	point, err := engine.At(context.Background(), c, 7)
	if err != nil {
		b.Fatal(err)
	}
	return point
}

func forkOnce(b *testing.B, point *engine.Point, o engine.ForkOptions) {
	out, err := point.Fork(context.Background(), o)
	if err != nil || (out.Halt == nil) == (o.Model == nil) {
		b.Fatalf("halt %v, error %v", out.Halt, err)
	}
}

func forkRecorded(b *testing.B, c *recorder.Cassette, o engine.ForkOptions) {
	rec, err := recorder.NewMemory(c.Header())
	if err != nil {
		b.Fatal(err)
	}
	if err := rec.CopyPrefix(c, 7); err != nil {
		b.Fatal(err)
	}
	o.Sink = rec
	forkOnce(b, pointAt(b, c), o)
}

// BenchmarkPoint makes a fork point deep in runs of growing length.
func BenchmarkPoint(b *testing.B) {
	for _, turns := range []int{50, 200, 800} {
		b.Run(fmt.Sprint(turns), func(b *testing.B) {
			c, _ := generated(b, turns)
			n, err := c.EventCount()
			if err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if _, err := engine.At(context.Background(), c, n-1); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*n), "ns/event")
		})
	}
}
