// Command bench measures what this project promises to be fast at, side by side
// with what it is measured against, in one run, and prints a table.
//
//	go run ./bench                 everything, about eight minutes
//	go run ./bench --quick         smaller runs, about a minute and a half
//	go run ./bench --only fork     the rows of one section
//	go run ./bench --json          the rows as JSON
//
// Both sides of a ratio are measured in turn, round by round, on the same
// machine at the same time, so that a busy machine slows both. For work of the
// processor the best round of either side counts, for work of the disk the
// middle one. A ratio that shall stay below a bound is ours by theirs; one that
// shall stay above it ("times faster") is theirs by ours.
//
// The exit status is 3 if a target was missed or could not be measured. Files go
// into a temporary folder, which --dir moves to another disk. Nothing leaves the
// machine, but that mitmproxy is installed there if --mitmproxy names no folder
// that has it already (--mitmproxy none does without that comparison).
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"slices"
	"strings"
)

func main() {
	if target := os.Getenv(reverseVariable); target != "" {
		os.Exit(reverseMain(target))
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	code := run(ctx, os.Args[1:], os.Stdout, os.Stderr)
	stop()
	os.Exit(code)
}

// Exit statuses.
const (
	exitDone   = 0
	exitError  = 1
	exitUsage  = 2
	exitMissed = 3
)

type options struct {
	quick, json, markdown bool
	only, dir, mitm       string
}

func parse(args []string, complaints io.Writer) (options, error) {
	var o options
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.SetOutput(complaints)
	f.BoolVar(&o.quick, "quick", false, "smaller runs and fewer rounds")
	f.BoolVar(&o.json, "json", false, "print the rows as JSON")
	f.BoolVar(&o.markdown, "markdown", false, "print the rows as a Markdown table")
	f.StringVar(&o.only, "only", "", "measure one `SECTION`: "+strings.Join(names(), ", "))
	f.StringVar(&o.dir, "dir", "", "a `FOLDER` on the disk to measure (default: the system's temporary one)")
	f.StringVar(&o.mitm, "mitmproxy", "", "a `FOLDER` with a virtual environment of Python that has mitmproxy, made if it is not there;\nnone does not compare with it (default: a temporary one)")
	if err := f.Parse(args); err != nil {
		return o, err
	}
	if f.NArg() > 0 {
		return o, fmt.Errorf("expected flags alone, found %q", f.Arg(0))
	}
	if o.only != "" && !slices.Contains(names(), o.only) {
		return o, fmt.Errorf("unknown section %q, expected one of %s", o.only, strings.Join(names(), ", "))
	}
	return o, nil
}

func run(ctx context.Context, args []string, out, notes io.Writer) int {
	o, err := parse(args, notes)
	if errors.Is(err, flag.ErrHelp) {
		return exitDone
	}
	if err != nil {
		fmt.Fprintf(notes, "bench: %v\n", err)
		return exitUsage
	}
	rows, err := measure(ctx, o, notes)
	if err == nil {
		err = print(out, o, rows)
	}
	if err != nil {
		fmt.Fprintf(notes, "bench: %v\n", err)
		return exitError
	}
	if slices.ContainsFunc(rows, func(r row) bool { return !r.OK }) {
		return exitMissed
	}
	return exitDone
}

func print(out io.Writer, o options, rows []row) error {
	switch {
	case o.json:
		enc := json.NewEncoder(out)
		enc.SetEscapeHTML(false)
		enc.SetIndent("", "  ")
		return enc.Encode(rows)
	case o.markdown:
		return markdown(out, rows)
	}
	return table(out, rows)
}
