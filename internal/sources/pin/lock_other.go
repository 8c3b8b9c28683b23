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

// lock keeps other processes from changing a folder's file until unlock is called. It makes a file
// that only one can make. One that a crash has left behind is taken for nobody's after a while.
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
			return nil, fmt.Errorf("the folder %s cannot be locked: %w", folder, err)
		}
	}
}
