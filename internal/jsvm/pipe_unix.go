//go:build unix

package jsvm

import (
	"os"
	"syscall"
)

// pipeFile returns one of the streams connected to the parent, in non-blocking mode for the poller.
func pipeFile(fd int) *os.File {
	_ = syscall.SetNonblock(fd, true)
	return os.NewFile(uintptr(fd), "parent")
}
