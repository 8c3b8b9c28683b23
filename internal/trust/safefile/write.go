package safefile

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
)

// Write replaces the file at path. After a crash at any time, the file contains either the old or
// the new content, never part of it. A symbolic link at path is replaced, not followed; see
// [Target].
func Write(path string, data []byte, mode fs.FileMode) error {
	if err := replace(path, data, mode, true); err != nil {
		return err
	}
	return syncDir(filepath.Dir(path))
}

// WriteCache is like Write, but for content that can be regenerated. Other processes see either the
// old or the new content, but after a power failure the file may be damaged.
func WriteCache(path string, data []byte) error {
	return replace(path, data, 0o600, false)
}

// Target returns the path that Write should replace in order to preserve symbolic links at path.
func Target(path string) string {
	if target, err := filepath.EvalSymlinks(path); err == nil {
		return target
	}
	return path
}

// RemoveTemporary removes files that interrupted calls to Write left next to path. The caller must
// ensure that no call is in progress.
func RemoveTemporary(path string) {
	left, _ := filepath.Glob(filepath.Join(filepath.Dir(path), temporaryName(path)))
	for _, name := range left {
		_ = os.Remove(name)
	}
}

func temporaryName(path string) string { return "." + filepath.Base(path) + ".*.tmp" }

func replace(path string, data []byte, mode fs.FileMode, sync bool) error {
	f, err := os.CreateTemp(filepath.Dir(path), temporaryName(path))
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	err = errors.Join(err, f.Chmod(mode))
	if sync {
		err = errors.Join(err, f.Sync())
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}
