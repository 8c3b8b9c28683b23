//go:build !(darwin || dragonfly || freebsd || linux || netbsd || openbsd)

package pin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

// lock prevents other processes from changing the file in a folder until unlock is called. It
// creates a lock file exclusively. If a crash leaves a lock file behind, it is removed after
// lockTimeout.
func lock(folder string) (unlock func(), err error) {
	path := filepath.Join(folder, ".toolyard-busy")
	for until := time.Now().Add(lockTimeout); ; time.Sleep(pause) {
		f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
		if err == nil {
			return func() { _ = os.Remove(path) }, f.Close()
		}
		if info, statErr := os.Stat(path); statErr == nil && time.Since(info.ModTime()) > lockTimeout {
			_ = os.Remove(path)
			continue
		}
		if !errors.Is(err, fs.ErrExist) && !errors.Is(err, fs.ErrPermission) || time.Now().After(until) {
			return nil, fmt.Errorf("cannot lock folder %s: %w", folder, err)
		}
	}
}
