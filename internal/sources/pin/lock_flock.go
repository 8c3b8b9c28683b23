//go:build darwin || dragonfly || freebsd || linux || netbsd || openbsd

package pin

import (
	"errors"
	"fmt"
	"os"
	"syscall"
	"time"
)

// lock prevents other processes from changing the file in a folder until unlock is called. It locks
// the folder itself, so no lock file is needed, and the kernel releases the lock if the process
// dies.
func lock(folder string) (unlock func(), err error) {
	f, err := os.Open(folder) //nolint:gosec // the configuration's folder
	if err != nil {
		return nil, err
	}
	for until := time.Now().Add(lockTimeout); ; time.Sleep(pause) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		if err == nil {
			return func() { _ = f.Close() }, nil
		}
		busy := errors.Is(err, syscall.EWOULDBLOCK) || errors.Is(err, syscall.EINTR)
		if !busy || time.Now().After(until) {
			_ = f.Close()
			return nil, fmt.Errorf("cannot lock folder %s: %w", folder, err)
		}
	}
}
