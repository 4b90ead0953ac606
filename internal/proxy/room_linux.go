package proxy

import (
	"os"
	"syscall"
)

// roomBeside is how many bytes are free where a file stands.
func roomBeside(f *os.File) (free int64, known bool) {
	var s syscall.Statfs_t
	if err := syscall.Fstatfs(int(f.Fd()), &s); err != nil {
		return 0, false
	}
	return int64(s.Bavail) * int64(s.Bsize), true
}
