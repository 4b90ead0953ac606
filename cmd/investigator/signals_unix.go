//go:build unix

package main

import (
	"os"
	"syscall"

	"golang.org/x/sys/unix"
)

// commandSignals are those that a command gets which we get while it runs.
func commandSignals() []os.Signal {
	return []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}
}

// reachesAll reports whether a signal that we got most likely came to the command
// as well, because a key was pressed: a terminal sends those of its keys to every
// process of its foreground group. Nothing tells that from a signal sent to us
// alone there, which is why this asks only where both of us are in that group.
func reachesAll(s os.Signal, command int) bool {
	if s != os.Interrupt && s != syscall.SIGQUIT {
		return false
	}
	terminal, err := os.Open("/dev/tty")
	if err != nil {
		return false // we have none
	}
	defer terminal.Close()
	front, err := unix.IoctlGetInt(int(terminal.Fd()), unix.TIOCGPGRP)
	if err != nil {
		return false
	}
	group, err := unix.Getpgid(command)
	return err == nil && group == front && front == unix.Getpgrp()
}
