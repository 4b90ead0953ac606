package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"time"
)

// root is the top of the repository, where the committed cassettes are.
func root() string {
	_, file, _, _ := runtime.Caller(0)
	return filepath.Dir(filepath.Dir(file))
}

// built is the program, stripped.
type built struct {
	path string
	size int64
}

// program builds the program once.
func (b *bench) program(ctx context.Context) (*built, error) {
	if b.built != nil {
		return b.built, nil
	}
	path := filepath.Join(b.dir, "investigator")
	if err := goBuild(ctx, path, "./cmd/investigator"); err != nil {
		return nil, err
	}
	info, err := os.Stat(path)
	if err != nil {
		return nil, err
	}
	b.built = &built{path, info.Size()}
	return b.built, nil
}

func goBuild(ctx context.Context, out, what string) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", out, what)
	c.Dir = root()
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("build %s: %w\n%s", what, err, text)
	}
	return nil
}

// run executes the program in the repository. Only status 0 is no error.
func (p *built) run(ctx context.Context, args ...string) error {
	c := exec.CommandContext(ctx, p.path, args...)
	c.Dir = root()
	if text, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("run %v: %w\n%s", args, err, text)
	}
	return nil
}

// empty is a program that does nothing: what a process costs at least.
const empty = "package main\n\nfunc main() {}\n"

// process measures the program's start and size.
func process(ctx context.Context, b *bench) error {
	bin, err := b.program(ctx)
	if err != nil {
		return err
	}
	source := filepath.Join(b.dir, "empty.go")
	if err := os.WriteFile(source, []byte(empty), 0o600); err != nil {
		return err
	}
	none := &built{path: filepath.Join(b.dir, "empty")}
	if err := goBuild(ctx, none.path, source); err != nil {
		return err
	}
	commands := []task{
		func() error { return bin.run(ctx, "--help") },
		func() error { return bin.run(ctx, "replay", referenceFile) },
		func() error { return none.run(ctx) },
	}
	times, err := compare(ctx, b.rounds(40), commands...)
	if err != nil {
		return err
	}
	limit, least := took(15*time.Millisecond), took(times[2].best())
	b.add(within("investigator --help, wall", took(times[0].best()), limit),
		within("investigator replay "+referenceFile+", wall", took(times[1].best()), limit),
		versus("investigator --help, wall", took(times[0].best()), "a Go program that does nothing", least, 0, 0),
		within("binary, stripped", weighs(bin.size), weighs(int64(20_000_000))))
	return nil
}
