//go:build !unix

package main

import (
	"os"
	"syscall"
)

// commandSignals are those that a command gets which we get while it runs.
func commandSignals() []os.Signal { return []os.Signal{os.Interrupt, syscall.SIGTERM} }

// reachesAll reports whether a signal that we got came to the command as well. A
// console tells all its processes.
func reachesAll(os.Signal, int) bool { return true }
