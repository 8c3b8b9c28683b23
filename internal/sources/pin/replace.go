package pin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// folder is where the file lies, or will. A symbolic link stays one: what it leads to is replaced.
func folder(path string) string { return filepath.Dir(target(path)) }

func target(path string) string {
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	return path
}

// replace writes a file such that after a crash at any moment there is the old one or the new one.
// It keeps the mode. Whoever calls holds the lock of the folder, so the new file can have a name
// that is always the same, and what a crash leaves behind does not pile up.
func replace(path string, data []byte) (os.FileInfo, error) {
	path = target(path)
	mode := fs.FileMode(0o644) // it holds no secrets and is committed
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	temporary := filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".new")
	if err := os.Remove(temporary); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err := write(temporary, data, mode); err != nil {
		_ = os.Remove(temporary)
		return nil, err
	}
	if err := os.Rename(temporary, path); err != nil {
		_ = os.Remove(temporary)
		return nil, err
	}
	if err := syncFolder(filepath.Dir(path)); err != nil {
		return nil, err
	}
	return os.Stat(path)
}

// write writes a new file and waits until it is on the disk.
func write(path string, data []byte, mode fs.FileMode) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // beside the configuration
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	return errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}
