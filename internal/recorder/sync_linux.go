package recorder

import (
	"os"
	"syscall"
)

// syncData makes the file's bytes and size durable. Other metadata (times) may
// wait, which saves a journal commit for each line.
func syncData(f *os.File) error {
	for {
		if err := syscall.Fdatasync(int(f.Fd())); err != syscall.EINTR {
			return err
		}
	}
}
