package main

import (
	"context"
	"errors"
	"fmt"

	"investigator/internal/bedrock"
	"investigator/internal/engine"
	"investigator/internal/faults"
	"investigator/internal/recorder"
	"investigator/internal/report"
)

// Exit statuses, the same for every verb.
const (
	exitDone        = 0
	exitError       = 1
	exitUsage       = 2
	exitDiverged    = 3
	exitDamaged     = 4
	exitLimit       = 5
	exitInterrupted = 130
)

const exitText = `Exit status:
   0 done, identical, same finding     3 diverged, different
   1 error                             4 cassette damaged or not replayable
   2 usage                             5 budget or limit reached
                                     130 interrupted`

// usageError is a mistake on the command line.
type usageError struct{ problem, hint string }

func (u *usageError) Error() string { return u.problem }

func usagef(hint, format string, args ...any) error {
	return &usageError{fmt.Sprintf(format, args...), hint}
}

// hinted adds what to do next to an error.
type hinted struct {
	err  error
	hint string
}

func (h *hinted) Error() string { return h.err.Error() }
func (h *hinted) Unwrap() error { return h.err }

func hint(err error, format string, args ...any) error {
	return &hinted{err, fmt.Sprintf(format, args...)}
}

// silent ends the command with a status after its result was printed.
type silent struct{ status int }

func (s *silent) Error() string { return fmt.Sprintf("status %d", s.status) }

// ended is an error that is told after a result was printed, with the status that
// the command ends with.
type ended struct {
	err    error
	status int
}

func (e *ended) Error() string { return e.err.Error() }
func (e *ended) Unwrap() error { return e.err }

// statusOf maps an error to an exit status.
func statusOf(err error) int {
	var quiet *silent
	var after *ended
	var usage *usageError
	var patch *faults.Error
	var diverged *engine.Diverged
	var foreign *engine.ForeignRun
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &quiet):
		return quiet.status
	case errors.As(err, &after):
		return after.status
	case errors.As(err, &usage), errors.As(err, &patch), errors.As(err, &foreign):
		return exitUsage
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &diverged):
		return exitDiverged
	case recorder.Unusable(err):
		return exitDamaged
	}
	return exitError
}

// complain writes an error and its hint.
func complain(p *report.Printer, err error) {
	var quiet *silent
	if err == nil || errors.As(err, &quiet) {
		return
	}
	if errors.Is(err, context.Canceled) {
		p.Line(report.Plain, "investigator: interrupted; what was recorded is kept")
	} else {
		p.Line(report.Plain, "investigator: %s", err.Error())
	}
	if h := hintOf(err); h != "" {
		p.Line(report.Plain, "hint: %s", h)
	}
}

func hintOf(err error) string {
	var usage *usageError
	if errors.As(err, &usage) && usage.hint != "" {
		return usage.hint
	}
	var with *hinted
	if errors.As(err, &with) {
		return with.hint
	}
	var patch *faults.Error
	if errors.As(err, &patch) {
		return patch.Hint
	}
	var foreign *engine.ForeignRun
	if errors.As(err, &foreign) {
		return foreignHint(foreign)
	}
	var file *recorder.FileError
	if errors.As(err, &file) {
		return file.Hint
	}
	var setup *bedrock.SetupError
	if errors.As(err, &setup) {
		_, advice := bedrock.ExplainError(err)
		return advice
	}
	return ""
}

// foreignHint says how the run of another's agent is replayed or forked.
func foreignHint(f *engine.ForeignRun) string {
	flags := "--replay " + shellQuote(f.Name)
	if f.Verb == "fork" {
		flags = "--fork " + shellQuote(f.Name) + " --at SEQ"
	}
	return "run its agent behind the proxy: investigator exec " + flags + " -- COMMAND"
}
