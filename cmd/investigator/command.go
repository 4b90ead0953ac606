package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"slices"
	"syscall"
	"time"
)

const (
	// commandGrace is how long a command that was asked to end may take.
	commandGrace = 5 * time.Second
	// signalEcho is how soon after a signal the same one says nothing new:
	// programs such as timeout send it to a process and to its group, and a
	// terminal that goes away hangs up twice.
	signalEcho = 500 * time.Millisecond
)

// runCommand runs a command with our streams and returns its exit status; 128 and
// the number of a signal that ended it. Signals that we get meanwhile are the
// command's, so ctx, which they cancel, does not end it. With an error the status
// is 0 where it could not be started.
func runCommand(ctx context.Context, sh *shell, command, env []string) (int, error) {
	cmd := exec.Command(command[0], command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr, cmd.Env = sh.in, sh.terminal, sh.err, env
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, slices.DeleteFunc(commandSignals(), signal.Ignored)...) // the command ignores those too
	defer signal.Stop(signals)
	if err := ctx.Err(); err != nil {
		return 0, err
	}
	if err := cmd.Start(); err != nil {
		return 0, hint(fmt.Errorf("run %s: %w", command[0], err), "investigator exec --record FILE -- COMMAND [ARGUMENT...] runs a program, and no shell reads the line; -- sh -c 'LINE' has one read it")
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	return commandStatus(attend(cmd.Process, signals, ended))
}

// attend passes signals on to a command until it ends. One that asked it to end
// gives it some time to do so, which a second Ctrl-C cuts short.
func attend(p *os.Process, signals <-chan os.Signal, ended <-chan error) error {
	var asked os.Signal // the first that asks it to end
	var since time.Time
	var late <-chan time.Time
	for {
		select {
		case err := <-ended:
			return err
		case <-late:
			_ = p.Kill() // it may have ended by now, as below
		case s := <-signals:
			switch {
			case s == asked && time.Since(since) < signalEcho:
			case s == asked && s == os.Interrupt:
				_ = p.Kill()
			case !reachesAll(s, p.Pid):
				_ = p.Signal(s)
			}
			if asked == nil && endsCommand(s) {
				asked, since, late = s, time.Now(), time.After(commandGrace)
			}
		}
	}
}

func endsCommand(s os.Signal) bool {
	return s == os.Interrupt || s == syscall.SIGTERM || s == syscall.SIGHUP
}

func commandStatus(err error) (int, error) {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitDone, nil
	case !errors.As(err, &exit):
		return exitError, fmt.Errorf("wait for the command: %w", err)
	}
	if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
		return 128 + int(ws.Signal()), nil
	}
	return exit.ExitCode(), nil
}
