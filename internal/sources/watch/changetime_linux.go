package watch

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns the inode change time. Unlike the modification time, programs cannot set it, so
// that a copy that preserves times is detected.
func changeTime(info os.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return info.ModTime()
}
