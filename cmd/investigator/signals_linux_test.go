package main

import (
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// TestCtrlC: a key that the terminal turns into a signal comes to the command
// once, from the terminal; it came once more from us. What is sent to us alone
// comes to it from us.
func TestCtrlC(t *testing.T) {
	for _, tt := range []struct {
		name string
		send func(*background, *os.File) error
		want string
	}{
		{"key", func(_ *background, keys *os.File) error { _, err := keys.WriteString("\x03"); return err }, "INT"},
		{"quit", func(_ *background, keys *os.File) error { _, err := keys.WriteString("\x1c"); return err }, "QUIT"},
		{"signal", func(b *background, _ *os.File) error { return b.cmd.Process.Signal(syscall.SIGTERM) }, "TERM"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			keys, terminal := openTerminal(t)
			attr := &syscall.SysProcAttr{Setsid: true, Setctty: true, Ctty: 3}
			b := startOn(t, terminal, attr, "investigator", "exec", "--record", "a.yaml", "--upstream", "rule", "--", "sh", "-c",
				`for s in INT QUIT TERM; do trap "echo got $s" $s; done; echo ready; i=0; while [ $i -lt 10 ]; do sleep .1; i=$((i+1)); done; exit 5`)
			b.await("ready")
			if err := tt.send(b, keys); err != nil {
				t.Fatal(err)
			}
			if code, said := b.end(); code != 5 || strings.Count(said, "got ") != 1 || !strings.Contains(said, "got "+tt.want) {
				t.Errorf("status %d, said %q", code, said)
			}
		})
	}
}

// openTerminal returns the two ends of a new terminal.
func openTerminal(t *testing.T) (keys, terminal *os.File) {
	t.Helper()
	keys, err := os.OpenFile("/dev/ptmx", os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = keys.Close() })
	if err := unix.IoctlSetPointerInt(int(keys.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(keys.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	terminal, err = os.OpenFile(fmt.Sprintf("/dev/pts/%d", n), os.O_RDWR|syscall.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = terminal.Close() })
	return keys, terminal
}
