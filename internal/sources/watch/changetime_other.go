//go:build !linux

package watch

import (
	"os"
	"time"
)

// changeTime returns the modification time, because there is no portable change time.
func changeTime(info os.FileInfo) time.Time { return info.ModTime() }
