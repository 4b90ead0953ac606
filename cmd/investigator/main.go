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
// what was recorded.
func program() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args, newShell(os.Stdin, os.Stdout, os.Stderr))
}
