package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

// load is how much traffic the rows of the proxy are measured with.
type load struct {
	times         int // rounds
	warm, burst   int // calls of a round, before and while it is measured
	slow          int // calls of a round through mitmdump
	streams       int // streams of a round
	short, tall   int // lengths of runs whose replay is compared
	replays       int // calls of a round of that
	long          int // calls that one process records
	aside         int // calls of a round of the rows without a target
	conversations int // of a round
}

func fullLoad() load {
	return load{times: 5, warm: 1000, burst: 20_000, slow: 2000, streams: 60, short: 100, tall: 2000, replays: 10_000,
		long: 100_000, aside: 4000, conversations: 400}
}

func quickLoad() load {
	return load{times: 3, warm: 200, burst: 4000, slow: 300, streams: 20, short: 100, tall: 2000, replays: 4000,
		long: 5000, aside: 400, conversations: 40}
}

// against is what the proxy is compared with.
const against = "ReverseProxy, body read first"

// proxies measures the proxy against others, each in a process of its own and
// one at a time, round by round. The client and the upstream are in this one.
func proxies(ctx context.Context, b *bench) error {
	l := fullLoad()
	if b.quick {
		l = quickLoad()
	}
	return b.proxies(ctx, l)
}

func (b *bench) proxies(ctx context.Context, l load) (err error) {
	bin, err := b.program(ctx)
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	up, err := newUpstream()
	if err != nil {
		return err
	}
	defer up.Close()                       // nothing is expected of it any more
	ctx, cancel := context.WithCancel(ctx) // ends what an error left running
	defer cancel()
	c := &contest{bench: b, load: l, bin: bin.path, self: self, up: up}
	for _, measure := range []task{
		func() error { return c.race(ctx) },
		func() error { return c.firstChunk(ctx) },
		func() error { return c.lengths(ctx) },
		func() error { return c.manyCalls(ctx) },
		func() error { return c.asides(ctx) },
	} {
		if err := measure(); err != nil {
			return cmp.Or(ctx.Err(), err) // an interrupt shows as a proxy that was killed
		}
	}
	return nil
}

// contest is the measurement of the proxy under way.
type contest struct {
	*bench
	load
	bin, self string // the program, and this one
	up        *upstream
	plain     quantity // the reverse proxy's rate in the race
	folders   int
}

func (c *contest) folder() (string, error) {
	c.folders++
	path := filepath.Join(c.dir, fmt.Sprintf("proxy-%d", c.folders))
	return path, os.Mkdir(path, 0o700)
}

// reverse starts the reverse proxy.
func (c *contest) reverse(ctx context.Context, more ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, c.self)
	cmd.Env = cleanEnvironment(append(more, reverseVariable+"="+c.up.url())...)
	return startChild(ctx, "the reverse proxy", "", cmd)
}

// recorder starts a recording proxy.
func (c *contest) recorder(ctx context.Context, folder string, more ...string) (*child, error) {
	args := append([]string{"--record", folder, "--upstream", c.up.url()}, more...)
	return c.ours(ctx, "the recording proxy", nil, args...)
}

func (c *contest) ours(ctx context.Context, what string, environment []string, args ...string) (*child, error) {
	cmd := exec.CommandContext(ctx, c.bin, append([]string{"proxy", "--addr", "127.0.0.1:0", "--json"}, args...)...)
	cmd.Env = cleanEnvironment(environment...)
	return startChild(ctx, what, "", cmd)
}

// both starts the reverse proxy and a recording one.
func (c *contest) both(ctx context.Context) (out [2]*child, err error) {
	if out[0], err = c.reverse(ctx); err != nil {
		return out, err
	}
	folder, err := c.folder()
	if err != nil {
		return out, err
	}
	out[1], err = c.recorder(ctx, folder)
	return out, err
}

func (c *contest) endBoth(sides [2]*child) error {
	_, err := sides[0].end()
	_, more := sides[1].end()
	return errors.Join(err, more)
}

// measured is a burst through a proxy that was started for it.
type measured struct {
	burst
	ending time.Duration // between the interrupt and the process's end
	child  *child
}

// sustained is the rate with all that was put off.
func (m measured) sustained() float64 {
	return float64(m.calls) / (m.took + m.ending).Seconds()
}

// through warms a proxy up, sends a burst and ends it. A call that fails is an
// error.
func through(c *child, err error, warm, run func(addr string) burst) (measured, error) {
	if err != nil {
		return measured{}, err
	}
	m := measured{child: c}
	err = warm(c.addr).whole()
	if err == nil {
		m.burst = run(c.addr)
		err = m.whole()
	}
	var ended error
	m.ending, ended = c.end()
	if err = errors.Join(err, ended); err != nil {
		err = fmt.Errorf("through %s: %w", c.what, err)
	}
	return m, err
}

// warmth and flow are the calls of a round.
func (c *contest) warmth(ctx context.Context, run string) func(string) burst {
	return func(addr string) burst { return c.up.calls(ctx, addr, run, numbers(1, c.warm)) }
}

func (c *contest) flow(ctx context.Context, run string, order []int) func(string) burst {
	return func(addr string) burst { return c.up.calls(ctx, addr, run, order) }
}

// rates are calls a second, one figure a round.
type rates struct {
	reverse, reverseEnded, recording, sustained, appending, durable, replay, loading, mitm figures
}

// race measures bursts of calls through each proxy in turn.
func (c *contest) race(ctx context.Context) error {
	other, missing := c.mitmdump(ctx)
	var r rates
	for n := range c.times {
		if err := c.ourRound(ctx, n, &r); err != nil {
			return err
		}
		if missing == nil {
			missing = c.mitmRound(ctx, other, &r)
		}
	}
	c.plain = quantity{r.reverse.middle(), perSecond}
	n := thousands(c.burst)
	c.add(paired("recording, as its clients see "+n+" calls", perSecond, r.recording, against, r.reverse, 0, 0.95),
		paired("recording, "+n+" calls and the end of its process", perSecond, r.sustained, against+", ended", r.reverseEnded, 0, 0))
	if missing != nil {
		c.lacks("recording", "mitmdump", 7, missing)
	} else {
		c.add(paired("recording", perSecond, r.recording, other.name+" -w", r.mitm, 0, 7))
	}
	c.add(paired("recording, durable before an answer's last byte", perSecond, r.durable, against, r.reverse, 0, 0.75),
		paired("the same", perSecond, r.durable, "ReverseProxy, all bodies as they are appended to a file, durably", r.appending, 0, 0),
		paired("replay of these calls, in any order", perSecond, r.replay, against, r.reverse, 0, 2),
		row{What: "its start, with " + thousands(c.warm+c.burst) + " calls on tape", Ours: quantity{r.loading.middle(), nanoseconds}})
	return nil
}

// ourRound measures the reverse proxy and each way of ours once.
func (c *contest) ourRound(ctx context.Context, n int, r *rates) error {
	order, warm := numbers(1+c.warm, c.burst), c.warmth(ctx, "bench")
	rev, err := c.reverse(ctx)
	m, err := through(rev, err, warm, c.flow(ctx, "bench", order))
	if err != nil {
		return err
	}
	r.reverse, r.reverseEnded = append(r.reverse, m.rate()), append(r.reverseEnded, m.sustained())
	behind, tape, err := c.recordRound(ctx, order)
	if err != nil {
		return err
	}
	r.recording, r.sustained = append(r.recording, behind.rate()), append(r.sustained, behind.sustained())
	if m, err = c.appendRound(ctx, warm, c.flow(ctx, "bench", order)); err != nil {
		return err
	}
	r.appending = append(r.appending, m.rate())
	durable, discard, err := c.recordRound(ctx, order, "--durable")
	if err != nil {
		return err
	}
	r.durable = append(r.durable, durable.rate())
	if err := os.RemoveAll(discard); err != nil {
		return err
	}
	rand.New(rand.NewPCG(uint64(n), 0)).Shuffle(len(order), func(i, k int) { order[i], order[k] = order[k], order[i] })
	began := time.Now()
	rep, err := c.ours(ctx, "the replaying proxy", nil, "--replay", tape)
	r.loading = append(r.loading, float64(time.Since(began)))
	if m, err = through(rep, err, warm, c.flow(ctx, "", order)); err != nil {
		return err
	}
	r.replay = append(r.replay, m.rate())
	if got, err := m.child.result(); err != nil || got.Served != c.warm+c.burst {
		return fmt.Errorf("replay: expected %d calls served, found %d, error %v", c.warm+c.burst, got.Served, err)
	}
	return os.RemoveAll(tape)
}

// appendRound measures the reverse proxy that appends to a file, and checks that
// all bodies are there.
func (c *contest) appendRound(ctx context.Context, warm, run func(string) burst) (measured, error) {
	folder, err := c.folder()
	if err != nil {
		return measured{}, err
	}
	file := filepath.Join(folder, "bodies")
	rev, err := c.reverse(ctx, appendVariable+"="+file)
	m, err := through(rev, err, warm, run)
	if err != nil {
		return m, err
	}
	want := int64(c.warm+m.calls) * (askBytes + answerBytes)
	if info, err := os.Stat(file); err != nil || info.Size() != want {
		return m, fmt.Errorf("%s: expected %d bytes in its file, found %v, error %v", rev.what, want, info, err)
	}
	return m, os.RemoveAll(folder)
}

// recordRound measures a recording proxy and checks what it wrote.
func (c *contest) recordRound(ctx context.Context, order []int, more ...string) (measured, string, error) {
	folder, err := c.folder()
	if err != nil {
		return measured{}, folder, err
	}
	rec, err := c.recorder(ctx, folder, more...)
	m, err := through(rec, err, c.warmth(ctx, "bench"), c.flow(ctx, "bench", order))
	if err != nil {
		return m, folder, err
	}
	return m, folder, onTape(folder, c.warm+len(order), 1)
}

func (c *contest) mitmRound(ctx context.Context, other mitm, r *rates) error {
	folder, err := c.folder()
	if err != nil {
		return err
	}
	child, err := other.start(ctx, c.up.url(), folder)
	m, err := through(child, err, c.flow(ctx, "", numbers(1, c.slow/10)), c.flow(ctx, "", numbers(1, c.slow)))
	if err != nil {
		return err
	}
	if info, err := os.Stat(filepath.Join(folder, "flows")); err != nil || info.Size() < int64(c.slow)*(askBytes+answerBytes) {
		return fmt.Errorf("%s did not write what it saw: %v, error %v", other.name, info, err)
	}
	r.mitm = append(r.mitm, m.rate())
	return os.RemoveAll(folder)
}

// lacks adds a row that could not be measured, and says so at once.
func (c *contest) lacks(what, against string, least float64, why error) {
	c.add(row{What: what, Against: against, Least: least, Missing: why.Error()})
	fmt.Fprintf(c.notes, "\n*** NOT MEASURED: %s against %s: %v\n\n", what, against, why)
}

// proxied is what our proxy prints in the end.
type proxied struct {
	Calls    int      `json:"calls"`
	Recorded []string `json:"recorded"`
	Served   int      `json:"served"`
}

func (c *child) result() (proxied, error) {
	var p proxied
	if err := json.Unmarshal(c.out.Bytes(), &p); err != nil {
		return p, fmt.Errorf("read the result of %s: %w", c.what, err)
	}
	return p, nil
}
