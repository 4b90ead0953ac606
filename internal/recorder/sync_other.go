//go:build !linux

package recorder

import "os"

// syncData makes the file durable.
func syncData(f *os.File) error { return f.Sync() }
