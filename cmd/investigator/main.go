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
)

func main() { os.Exit(program()) }

// program runs the command line. An interrupt ends what is under way and leaves
// what was recorded; a second one ends the program at once. A reader of our
// output that goes away, as head does, must not end a recording: writes to it
// fail instead.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	context.AfterFunc(ctx, stop)
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE) // not Ignore, which the commands that we start would inherit
	return run(ctx, os.Args, newShell(os.Stdin, os.Stdout, os.Stderr))
}
