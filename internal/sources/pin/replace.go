package pin

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// folder returns the directory to lock. If path is a symbolic link, it is the target's directory.
func folder(path string) string { return filepath.Dir(safefile.Target(path)) }

// replace writes the file atomically and keeps its mode. The caller holds the folder's lock.
func replace(path string, data []byte) (os.FileInfo, error) {
	path = safefile.Target(path)
	mode := fs.FileMode(0o644) // the file contains no secrets and is meant to be committed
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	safefile.RemoveTemporary(path)
	if err := safefile.Write(path, data, mode); err != nil {
		return nil, err
	}
	return os.Stat(path)
}
