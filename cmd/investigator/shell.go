package main

import (
	"io"
	"os"
	"time"

	"golang.org/x/term"

	"investigator/internal/report"
)

// shell is the world of one command: its streams, environment and clock.
type shell struct {
	in       io.Reader
	out, err io.Writer
	getenv   func(string) string
	now      func() time.Time
	tty      bool // standard output is a terminal
	errTTY   bool
	width    int
	color    bool
	speech   *speech
}

func newShell(in *os.File, out, errs *os.File) *shell {
	sh := &shell{in: in, out: out, err: errs, getenv: os.Getenv, now: time.Now}
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

// printer writes results for people.
func (sh *shell) printer() *report.Printer { return report.NewPrinter(sh.out, sh.color, sh.width) }

// notes writes everything that is not a result.
func (sh *shell) notes() *report.Printer {
	return report.NewPrinter(sh.err, sh.color && sh.errTTY, sh.width)
}
