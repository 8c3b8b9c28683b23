// Package safefile reads files with a size limit.
package safefile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// Read reads a regular file of at most max bytes. Its errors do not name the path, which
// may say more of the machine than whoever reads them should know.
func Read(path string, max int64) ([]byte, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, withoutPath(err)
	}
	if !info.Mode().IsRegular() { // to open a pipe would wait for whoever writes
		return nil, errors.New("it is not a file")
	}
	f, err := os.Open(path) //nolint:gosec // whoever calls has chosen it
	if err != nil {
		return nil, withoutPath(err)
	}
	defer func() { _ = f.Close() }()
	data, err := io.ReadAll(io.LimitReader(f, max+1))
	if err == nil && int64(len(data)) > max {
		return nil, fmt.Errorf("it is larger than %d KiB", max>>10)
	}
	return data, withoutPath(err)
}

// withoutPath keeps the reason of an error of the file system.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
