package main

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/term"

	"investigator/internal/report"
)

// shell is the world of one command: its streams, environment and clock.
type shell struct {
	in       io.Reader
	out, err io.Writer
	terminal io.Writer // what stands behind out, for programs that we start
	getenv   func(string) string
	now      func() time.Time
	tty      bool // standard output is a terminal
	errTTY   bool
	width    int
	color    bool
	speech   *speech
}

func newShell(in *os.File, out, errs *os.File) *shell {
	sh := &shell{in: in, out: &output{w: out}, terminal: out, err: errs, getenv: os.Getenv, now: time.Now}
	sh.tty, sh.errTTY = term.IsTerminal(int(out.Fd())), term.IsTerminal(int(errs.Fd()))
	if w, _, err := term.GetSize(int(out.Fd())); err == nil {
		sh.width = w
	}
	_, noColor := os.LookupEnv("NO_COLOR")
	sh.color = sh.tty && !noColor && os.Getenv("TERM") != "dumb"
	sh.speech = &speech{}
	if sh.errTTY {
		sh.speech.p = sh.notes()
	}
	return sh
}

// output remembers whether a result could be written. A reader that has gone
// away wanted no more of it, which is no error.
type output struct {
	w   io.Writer
	err error // the first
}

func (o *output) Write(b []byte) (int, error) {
	if o.err != nil {
		return len(b), nil
	}
	if _, err := o.w.Write(b); err != nil && !errors.Is(err, syscall.EPIPE) {
		o.err = err
	} else if err != nil {
		o.w = io.Discard
	}
	return len(b), nil
}

// lost says that a result could not be written, nil if all of it was.
func (sh *shell) lost() error {
	if o, ok := sh.out.(*output); ok && o.err != nil {
		return hint(fmt.Errorf("write result: %w", o.err), "the command itself has ended; make room for its output, and run it again")
	}
	return nil
}

// stamp is the time now as headers hold it.
func (sh *shell) stamp() string { return sh.now().UTC().Format(time.RFC3339) }

// printer writes results for people.
func (sh *shell) printer() *report.Printer { return report.NewPrinter(sh.out, sh.color, sh.width) }

// notes writes everything that is not a result.
func (sh *shell) notes() *report.Printer {
	return report.NewPrinter(sh.err, sh.color && sh.errTTY, sh.width)
}
