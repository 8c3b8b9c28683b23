// Package safefile reads files with a size limit and replaces them atomically.
package safefile

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrNotRegular is returned for directories, pipes and devices: opening one could block.
var ErrNotRegular = errors.New("not a regular file")

// TooLargeError is returned for a file that exceeds its limit.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string {
	if e.Max < 1<<20 {
		return fmt.Sprintf("larger than %d KiB", e.Max>>10)
	}
	return fmt.Sprintf("larger than %d MiB", e.Max>>20)
}

// Read reads a regular file of at most max bytes. Its errors do not name the path, which callers
// may not be allowed to see.
func Read(path string, max int64) ([]byte, error) {
	var b bytes.Buffer
	if err := ReadTo(&b, path, max); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReadTo is Read into a buffer.
func ReadTo(b *bytes.Buffer, path string, max int64) error {
	return readTo(b, path, max, os.Stat, os.Open)
}

// ReadIn is Read for a name below root.
func ReadIn(root *os.Root, name string, max int64) ([]byte, error) {
	var b bytes.Buffer
	if err := readTo(&b, name, max, root.Stat, root.Open); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

func readTo(b *bytes.Buffer, name string, max int64, stat func(string) (fs.FileInfo, error), open func(string) (*os.File, error)) error {
	info, err := stat(name)
	if err != nil {
		return withoutPath(err)
	}
	if !info.Mode().IsRegular() {
		return ErrNotRegular
	}
	if info.Size() > max {
		return &TooLargeError{max}
	}
	f, err := open(name)
	if err != nil {
		return withoutPath(err)
	}
	defer func() { _ = f.Close() }()
	b.Grow(int(info.Size()) + bytes.MinRead)
	n, err := b.ReadFrom(io.LimitReader(f, max+1))
	if err == nil && n > max { // it grew after Stat
		return &TooLargeError{max}
	}
	return withoutPath(err)
}

// withoutPath returns the reason of a file system error.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
