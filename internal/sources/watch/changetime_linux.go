package watch

import (
	"os"
	"syscall"
	"time"
)

// changeTime returns the inode change time. Programs cannot set it, unlike the modification time,
// so it also reveals copies that preserve times.
func changeTime(info os.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return info.ModTime()
}
