package pin

import (
	"io/fs"
	"os"
	"path/filepath"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// folder returns the directory of the lock file. A symbolic link at path is kept.
func folder(path string) string { return filepath.Dir(safefile.Target(path)) }

// replace writes the file atomically and keeps its mode. The caller holds the lock of the folder.
func replace(path string, data []byte) (os.FileInfo, error) {
	path = safefile.Target(path)
	mode := fs.FileMode(0o644) // it holds no secrets and is committed
	if info, err := os.Stat(path); err == nil {
		mode = info.Mode().Perm()
	}
	safefile.RemoveTemporary(path)
	if err := safefile.Write(path, data, mode); err != nil {
		return nil, err
	}
	return os.Stat(path)
}
