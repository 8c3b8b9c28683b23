package watch

import (
	"os"
	"syscall"
	"time"
)

// changeTime is when a file last changed in any way. Unlike the time of its content, nobody
// can set it: a copy that keeps the times of its original is noticed.
func changeTime(info os.FileInfo) time.Time {
	if s, ok := info.Sys().(*syscall.Stat_t); ok {
		return time.Unix(s.Ctim.Unix())
	}
	return info.ModTime()
}
