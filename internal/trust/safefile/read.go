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

// ErrNotRegular is returned for directories, pipes and devices, because opening them could block.
var ErrNotRegular = errors.New("the path is not a regular file")

// TooLargeError is returned for a file that exceeds its limit.
type TooLargeError struct{ Max int64 }

func (e *TooLargeError) Error() string {
	if e.Max < 1<<20 {
		return fmt.Sprintf("the file is larger than %d KiB", e.Max>>10)
	}
	return fmt.Sprintf("the file is larger than %d MiB", e.Max>>20)
}

// Read reads a regular file of at most max bytes. Errors do not contain the path, because callers
// may not be allowed to see it.
func Read(path string, max int64) ([]byte, error) {
	var b bytes.Buffer
	if err := ReadTo(&b, path, max); err != nil {
		return nil, err
	}
	return b.Bytes(), nil
}

// ReadTo is like Read, but reads into a buffer.
func ReadTo(b *bytes.Buffer, path string, max int64) error {
	return readTo(b, path, max, os.Stat, os.Open)
}

// ReadIn is like Read, but for a name below root.
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
	if err == nil && n > max { // the file grew after Stat
		return &TooLargeError{max}
	}
	return withoutPath(err)
}

// withoutPath returns the cause of a file system error.
func withoutPath(err error) error {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err
	}
	return err
}
