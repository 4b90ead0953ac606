package main

import (
	"context"
	"fmt"
	"os"
	"time"

	vcr "gopkg.in/dnaeon/go-vcr.v3/cassette"

	"investigator/internal/recorder"
)

// size measures cassettes against what is in them, and against go-vcr's of the
// same runs.
func size(_ context.Context, b *bench) error {
	plain := 200
	if b.quick {
		plain = 50
	}
	perTurn := map[int]float64{}
	for _, turns := range []int{10, 50, 200, 800} {
		unique, err := uniqueBytes(turns, turnBytes)
		if err != nil {
			return err
		}
		text, err := generated(turns, turnBytes)
		if err != nil {
			return err
		}
		perTurn[turns] = float64(len(text)) / float64(turns)
		what := fmt.Sprintf("cassette of %d turns of 10 KB", turns)
		b.add(versus(what, weighs(len(text)), "its unique bytes", weighs(unique), 1.3, 0))
		if turns > plain {
			continue
		}
		name, theirs, err := b.plainVCR(turns, turnBytes)
		if err != nil {
			return err
		}
		b.add(faster(what, weighs(len(text)), "plain go-vcr v3", weighs(theirs)))
		if err := os.Remove(name + ".yaml"); err != nil {
			return err
		}
	}
	b.add(versus("bytes a turn, at 800 turns", quantity{perTurn[800], bytesUnit}, "at 50 turns", quantity{perTurn[50], bytesUnit}, 1.1, 0))
	return nil
}

// open measures opening a run of 1,000 calls. go-vcr's file of the same run
// would grow beyond a gigabyte at 10 KB a turn, so both open a run of 1 KB a
// turn.
func open(ctx context.Context, b *bench) error {
	path, _, err := b.saved(500, turnBytes)
	if err != nil {
		return err
	}
	ours, err := compare(ctx, b.rounds(20), opens(path))
	if err != nil {
		return err
	}
	b.add(within("open 1,000 calls of 10 KB", took(ours[0].best()), took(30*time.Millisecond)))
	turns := 500
	if b.quick {
		turns = 100
	}
	if path, _, err = b.saved(turns, 1<<10); err != nil {
		return err
	}
	plain, size, err := b.plainVCR(turns, 1<<10)
	if err != nil {
		return err
	}
	both, err := compare(ctx, 2, opens(path), func() error {
		_, err := vcr.Load(plain)
		return err
	})
	if err != nil {
		return err
	}
	b.add(versus(fmt.Sprintf("open %s calls of 1 KB", thousands(2*turns)), took(both[0].best()),
		"go-vcr v3 Load ("+weighs(size).String()+")", took(both[1].best()), 0, 100))
	return os.Remove(plain + ".yaml")
}

func thousands(n int) string {
	if n < 1000 {
		return fmt.Sprint(n)
	}
	return fmt.Sprintf("%d,%03d", n/1000, n%1000)
}

func opens(path string) task {
	return func() error {
		_, err := recorder.Open(path)
		return err
	}
}

// verify measures verifying a large cassette against reading its bytes.
func verify(ctx context.Context, b *bench) error {
	turns := 3200
	if b.quick {
		turns = 800
	}
	path, text, err := b.saved(turns, turnBytes)
	if err != nil {
		return err
	}
	times, err := compare(ctx, b.rounds(20), func() error {
		return recorder.Verify(text)
	}, func() error {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return recorder.Verify(text)
	}, func() error {
		_, err := os.ReadFile(path)
		return err
	})
	if err != nil {
		return err
	}
	reading := took(times[2].best())
	b.add(versus("verify "+weighs(len(text)).String()+" in memory", took(times[0].best()), "reading the file", reading, 3, 0),
		versus("read and verify it", took(times[1].best()), "reading the file", reading, 0, 0))
	return nil
}
