//go:build unix

package safefile

import (
	"errors"
	"os"
)

// syncDir waits until the entries in a directory are on disk.
func syncDir(dir string) error {
	f, err := os.Open(dir) //nolint:gosec // the caller chose it
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
