package main

import (
	"bufio"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"investigator/internal/edge"
	"investigator/internal/ledger"
	"investigator/internal/loop"
	"investigator/internal/recorder"
	"investigator/internal/recorder/recordertest"
)

//go:embed native/durable.c
var durableSource []byte

// record measures recording durable events against writing lines of the same
// sizes and making each durable, nothing else. Both go to one disk, in turn,
// line by line: a disk that is busy is so for both.
func record(ctx context.Context, b *bench) error {
	blocks, lines := b.rounds(1000), 1
	turns := blocks*lines/2 + 2
	text, err := generated(turns, turnBytes)
	if err != nil {
		return err
	}
	bare, against, err := b.bareWriter(ctx)
	if err != nil {
		return err
	}
	defer bare.Close() // an error of it shows in what it wrote
	w, err := recorder.Create(filepath.Join(b.dir, "durable.yaml"), recordertest.Header())
	if err != nil {
		return err
	}
	defer w.Close()
	r := race{sizes: lineSizes(text), lines: lines, blocks: blocks, ours: w, theirs: bare}
	if _, err := recordertest.Generate(recordertest.Options{Turns: turns, Bytes: turnBytes}, loop.SinkFunc(r.took)); !errors.Is(err, errEnough) {
		return fmt.Errorf("expected %d blocks of %d lines: %w", blocks, lines, err)
	}
	b.add(versus("record one durable event, 5 KB on average", took(r.mine.middle()), against, took(r.bare.middle()), 0, 0.85))
	return nil
}

// lineSizes are the sizes of a cassette's lines, without those before the first
// interaction.
func lineSizes(text []byte) []int {
	var out []int
	for _, line := range strings.SplitAfter(string(text), "\n")[4:] {
		out = append(out, len(line))
	}
	return out
}

var errEnough = errors.New("enough was recorded")

// race is two writers that take turns, a block of lines each.
type race struct {
	sizes         []int
	lines, blocks int
	ours          *recorder.Writer
	theirs        bareWriter

	n          int
	spent      time.Duration
	mine, bare rounds // for one line
}

// took records an event and, after each block, lets the other side write lines
// of the sizes ours had.
func (r *race) took(call edge.Call, ret edge.Return, events []ledger.Event) error {
	began := time.Now()
	err := r.ours.Took(call, ret, events)
	r.spent += time.Since(began)
	if r.n++; err != nil || r.n%r.lines != 0 {
		return err
	}
	r.mine, r.spent = append(r.mine, r.spent/time.Duration(r.lines)), 0
	d, err := r.theirs.write(r.sizes[r.n-r.lines : r.n])
	r.bare = append(r.bare, d/time.Duration(r.lines))
	if err == nil && len(r.mine) == r.blocks {
		err = errEnough
	}
	return err
}

// bareWriter writes lines of the given sizes, each durable before the next, and
// returns how long that took.
type bareWriter interface {
	write(sizes []int) (time.Duration, error)
	io.Closer
}

// bareWriter compiles the C program, or takes the same loop in Go where there
// is no compiler.
func (b *bench) bareWriter(ctx context.Context) (bareWriter, string, error) {
	path := filepath.Join(b.dir, "bare")
	compiler, err := exec.LookPath("cc")
	if err != nil {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL|os.O_APPEND, 0o600)
		return goWriter{f}, "write and sync in Go (no C compiler here)", err
	}
	source, bin := filepath.Join(b.dir, "durable.c"), filepath.Join(b.dir, "durable")
	if err := os.WriteFile(source, durableSource, 0o600); err != nil {
		return nil, "", err
	}
	if text, err := exec.CommandContext(ctx, compiler, "-O2", "-o", bin, source).CombinedOutput(); err != nil {
		return nil, "", fmt.Errorf("compile durable.c: %w\n%s", err, text)
	}
	c := exec.CommandContext(ctx, bin, path)
	c.Stderr = os.Stderr
	in, err := c.StdinPipe()
	if err != nil {
		return nil, "", err
	}
	out, err := c.StdoutPipe()
	if err != nil {
		return nil, "", err
	}
	return &cWriter{c, in, bufio.NewReader(out)}, "write and fdatasync in C", c.Start()
}

type cWriter struct {
	process *exec.Cmd
	in      io.WriteCloser
	out     *bufio.Reader
}

func (w *cWriter) write(sizes []int) (time.Duration, error) {
	if _, err := fmt.Fprintln(w.in, strings.Trim(fmt.Sprint(sizes), "[]")); err != nil {
		return 0, err
	}
	var n int64
	if _, err := fmt.Fscan(w.out, &n); err != nil {
		return 0, fmt.Errorf("read how long durable.c took: %w", err)
	}
	return time.Duration(n), nil
}

func (w *cWriter) Close() error { return errors.Join(w.in.Close(), w.process.Wait()) }

type goWriter struct{ *os.File }

func (w goWriter) write(sizes []int) (time.Duration, error) {
	text := make([]byte, 1<<20)
	began := time.Now()
	for _, n := range sizes {
		if _, err := w.Write(text[:n]); err != nil {
			return 0, err
		}
		if err := w.Sync(); err != nil {
			return 0, err
		}
	}
	return time.Since(began), nil
}
