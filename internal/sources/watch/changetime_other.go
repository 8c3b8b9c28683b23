//go:build !linux

package watch

import (
	"os"
	"time"
)

// changeTime returns the modification time, for lack of a portable change time.
func changeTime(info os.FileInfo) time.Time { return info.ModTime() }
