package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"
	"time"

	"investigator/internal/engine"
	"investigator/internal/proxy"
	"investigator/internal/recorder"
)

// cassettes lists those in a folder.
func cassettes(folder string) ([]string, error) {
	return filepath.Glob(filepath.Join(folder, "*.yaml"))
}

// intact counts the interactions on the cassettes of a folder that are whole
// and sealed. The error is about those that are not.
func intact(folder string) (interactions, runs int, err error) {
	paths, err := cassettes(folder)
	for _, path := range paths {
		c, openErr := recorder.Open(path)
		switch {
		case openErr != nil:
			err = errors.Join(err, openErr)
		case c.Torn() != nil:
			err = errors.Join(err, fmt.Errorf("%s is torn: %w", path, c.Torn()))
		case !c.Sealed():
			err = errors.Join(err, fmt.Errorf("%s is not sealed", path))
		default:
			interactions, runs = interactions+c.Len(), runs+1
		}
	}
	return interactions, runs, err
}

// onTape expects so many independent calls on so many intact cassettes.
func onTape(folder string, calls, runs int) error {
	n, files, err := intact(folder)
	if err == nil && (n != calls || files != runs) {
		err = fmt.Errorf("expected %d calls in %d runs, found %d in %d", calls, runs, n, files)
	}
	return err
}

// manyCalls records a long run and looks at what went wrong, what is on the
// disk, and how much memory it took.
func (c *contest) manyCalls(ctx context.Context) error {
	folder, err := c.folder()
	if err != nil {
		return err
	}
	rec, err := c.recorder(ctx, folder)
	if err != nil {
		return err
	}
	quarter := c.long / 4
	first := c.up.calls(ctx, rec.addr, "bench", numbers(1, quarter))
	early, noPeak := rec.peak()
	rest := c.up.calls(ctx, rec.addr, "bench", numbers(1+quarter, c.long-quarter))
	late := make(chan quantity)
	ended := make(chan struct{})
	go func() { late <- rec.peaks(ended) }()
	ending, endErr := rec.end()
	close(ended)
	peak := <-late
	on, _, damage := intact(folder)
	for _, trouble := range []error{first.first, rest.first, endErr, damage} {
		if trouble != nil {
			fmt.Fprintf(c.notes, "recording %d calls: %v\n", c.long, trouble)
		}
	}
	n := thousands(c.long)
	c.add(within("failures in "+n+" recorded calls", counted(first.failed+rest.failed), counted(0)),
		within("of these, on no intact and sealed cassette", counted(c.long-on), counted(0)))
	if noPeak != nil {
		c.add(row{What: "peak memory while they are recorded", Missing: noPeak.Error()})
	} else {
		c.add(within("peak memory while they are recorded", peak, weighs(64_000_000)),
			versus("the same", peak, "after a quarter of them", early, 0, 0))
	}
	whole := float64(c.long) / (first.took + rest.took + ending).Seconds()
	c.add(row{What: "the end of that process, all written", Ours: took(ending)},
		versus("recording, all of "+n+" calls and that end", quantity{whole, perSecond}, against+", above", c.plain, 0, 0))
	return os.RemoveAll(folder)
}

// peaks follows the peak of a child until it has ended.
func (c *child) peaks(ended <-chan struct{}) quantity {
	var most quantity
	for {
		if q, err := c.peak(); err == nil && q.Value > most.Value { // a process that ended has none
			most = q
		}
		select {
		case <-ended:
			return most
		case <-time.After(5 * time.Millisecond):
		}
	}
}

// lengths compares the replay of a call of a long run with that of a short one,
// without HTTP: what a client and its connections cost would hide it.
func (c *contest) lengths(ctx context.Context) error {
	var sides [2]*proxy.Proxy
	lengths := [2]int{c.short, c.tall}
	for i, n := range lengths {
		var err error
		if sides[i], err = c.replaying(ctx, n); err != nil {
			return err
		}
	}
	var times [2]figures
	for round := range c.times + 1 {
		for i, p := range sides {
			each, err := c.replayAll(p, lengths[i])
			if err != nil {
				return err
			}
			if round > 0 { // the first one warms up
				times[i] = append(times[i], each)
			}
		}
	}
	c.add(paired("replay of a call of a run of "+thousands(c.tall), nanoseconds, times[1], "of a run of "+thousands(c.short), times[0], 1.3, 0))
	return nil
}

// replaying records a run and makes a proxy that replays it.
func (c *contest) replaying(ctx context.Context, calls int) (*proxy.Proxy, error) {
	folder, err := c.folder()
	if err != nil {
		return nil, err
	}
	rec, err := c.recorder(ctx, folder)
	none := func(string) burst { return burst{} }
	if _, err := through(rec, err, none, c.flow(ctx, "bench", numbers(0, calls))); err != nil {
		return nil, err
	}
	paths, err := cassettes(folder)
	if err != nil || len(paths) != 1 {
		return nil, fmt.Errorf("expected one cassette, found %d, error %v", len(paths), err)
	}
	tape, err := recorder.Open(paths[0])
	if err != nil {
		return nil, err
	}
	return proxy.New(proxy.Options{Replay: []*recorder.Cassette{tape}})
}

// replayAll has calls of a run of that length replayed and returns what one takes.
// So many are under way at once that the wait before each answer's first byte does
// not count.
func (c *contest) replayAll(p *proxy.Proxy, length int) (float64, error) {
	var next, failed atomic.Int64
	var group sync.WaitGroup
	began := time.Now()
	for range 4 * connections {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < c.replays; i = int(next.Add(1)) - 1 {
				if err := c.replayOne(p, i%length); err != nil {
					failed.Add(1)
				}
			}
		})
	}
	group.Wait()
	if n := failed.Load(); n > 0 {
		return 0, fmt.Errorf("replay: %d of %d calls got another answer", n, c.replays)
	}
	return float64(time.Since(began)) / float64(c.replays), nil
}

// replayOne asks for a recorded answer, as a client does that tries again: so it
// can be had more than once.
func (c *contest) replayOne(p *proxy.Proxy, n int) error {
	r, err := http.NewRequest(http.MethodPost, "http://127.0.0.1"+askPath, bytes.NewReader(c.up.ask.with(n)))
	if err != nil {
		return err
	}
	r.Header.Set("X-Stainless-Retry-Count", "1")
	w := &kept{header: http.Header{}}
	p.ServeHTTP(w, r)
	if w.status != http.StatusOK || !bytes.Equal(w.body, c.up.answer.with(n)) {
		return fmt.Errorf("status %d: %.100q", w.status, w.body)
	}
	return nil
}

// kept is an answer in memory.
type kept struct {
	header http.Header
	status int
	body   []byte
}

func (k *kept) Header() http.Header  { return k.header }
func (k *kept) WriteHeader(code int) { k.status = code }
func (k *kept) Write(b []byte) (int, error) {
	k.body = append(k.body, b...)
	return len(b), nil
}

// aside is traffic that is measured through the reverse proxy and through a
// recording one, for comparison.
type aside struct {
	what        string
	environment []string
	warm, run   func(addr string) burst
	check       func(folder string) error
}

// asides are rows without a target; each takes the end of the process in.
func (c *contest) asides(ctx context.Context) error {
	some := numbers(1+c.warm, c.aside)
	few := c.conversations/10 + 1
	for _, a := range []aside{
		{
			"the same, signed with AWS keys", []string{"AWS_ACCESS_KEY_ID=AKIDEXAMPLE", "AWS_SECRET_ACCESS_KEY=KEYEXAMPLE"},
			c.warmth(ctx, "bench"), c.flow(ctx, "bench", some),
			func(folder string) error { return onTape(folder, c.warm+c.aside, 1) },
		},
		{
			"the same, every call a run of its own", nil, c.flow(ctx, "", numbers(1, c.aside/10)), c.flow(ctx, "", some),
			func(folder string) error { return onTape(folder, c.aside/10+c.aside, c.aside/10+c.aside) },
		},
		{
			fmt.Sprintf("the same, conversations of %d calls, 12 to 57 KB", talkCalls), nil,
			func(addr string) burst { return talks(ctx, addr, 0, few) },
			func(addr string) burst { return talks(ctx, addr, few, c.conversations) },
			func(folder string) error { return talksOnTape(ctx, folder, few+c.conversations) },
		},
	} {
		if err := c.beside(ctx, a); err != nil {
			return fmt.Errorf("%s: %w", a.what, err)
		}
	}
	return nil
}

func (c *contest) beside(ctx context.Context, a aside) error {
	var ours, theirs figures
	for range (c.times + 1) / 2 {
		rev, err := c.reverse(ctx)
		m, err := through(rev, err, a.warm, a.run)
		if err != nil {
			return err
		}
		theirs = append(theirs, m.rate())
		folder, err := c.folder()
		if err != nil {
			return err
		}
		rec, err := c.ours(ctx, "the recording proxy", a.environment, "--record", folder, "--upstream", c.up.url())
		if m, err = through(rec, err, a.warm, a.run); err != nil {
			return err
		}
		ours = append(ours, m.sustained())
		if err := errors.Join(a.check(folder), os.RemoveAll(folder)); err != nil {
			return err
		}
	}
	c.add(paired(a.what, perSecond, ours, against, theirs, 0, 0))
	return nil
}

// talksOnTape expects each conversation to be a run that obeys the laws.
func talksOnTape(ctx context.Context, folder string, conversations int) error {
	paths, err := cassettes(folder)
	if err != nil || len(paths) != conversations {
		return fmt.Errorf("expected %d cassettes, found %d, error %v", conversations, len(paths), err)
	}
	for _, path := range paths {
		c, err := recorder.Open(path)
		if err != nil {
			return err
		}
		r, err := engine.Replay(ctx, c, engine.ReplayOptions{})
		if err != nil || !r.Identical || !c.Sealed() || r.ModelTurns != talkCalls {
			return fmt.Errorf("%s: expected a sealed run of %d turns that is replayed to the byte, found sealed %t, %+v, error %v", path, talkCalls, c.Sealed(), r, err)
		}
	}
	return nil
}
