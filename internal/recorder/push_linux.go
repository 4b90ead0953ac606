//go:build linux && !arm

package recorder

import (
	"os"
	"syscall"
)

// pushData lets the file's bytes go to the disk while other work is done, which
// syncData then need not wait for. Errors are syncData's to report.
func pushData(f *os.File, offset, size int64) {
	const write = 2 // SYNC_FILE_RANGE_WRITE
	_ = syscall.SyncFileRange(int(f.Fd()), offset, size, write)
}
