// Command investigator records, replays and forks the runs of tool-using agents
// on Amazon Bedrock, and investigates incidents with one of its own.
//
// Each verb has a file that builds its flags and calls one function. Results go
// to standard output, everything else to standard error; the exit status is
// decided in one place, exit.go.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() { os.Exit(program()) }

// program runs the command line. An interrupt ends what is under way and leaves
// what was recorded; a second one, a moment later, ends the program at once. So
// does a hangup, of which there may be several, unless nohup has it ignored. A
// reader of our output that goes away, as head does, must not end a recording:
// writes to it fail instead.
func program() int {
	ending := []os.Signal{os.Interrupt, syscall.SIGTERM}
	deaf := make(chan os.Signal, 1)
	if !signal.Ignored(syscall.SIGHUP) {
		ending = append(ending, syscall.SIGHUP)
		signal.Notify(deaf, syscall.SIGHUP)
	}
	signal.Notify(deaf, syscall.SIGPIPE) // not Ignore, which the commands that we start would inherit
	ctx, stop := signal.NotifyContext(context.Background(), ending...)
	defer stop()
	context.AfterFunc(ctx, func() {
		time.Sleep(signalEcho)
		stop()
	})
	return run(ctx, os.Args, newShell(os.Stdin, os.Stdout, os.Stderr))
}
