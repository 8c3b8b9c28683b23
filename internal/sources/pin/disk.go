package pin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// file stores a book in a file.
type file struct {
	path     string
	unlocked time.Time // when this process last released the lock
}

func (f *file) name() string { return f.path }

func (f *file) lock() (unlock func(), err error) {
	time.Sleep(yieldPause - time.Since(f.unlocked))
	release, err := lock(folder(f.path))
	if err != nil {
		return nil, err
	}
	return func() { release(); f.unlocked = time.Now() }, nil
}

func (f *file) read(last revision) (data []byte, now revision, same bool, err error) {
	now.at = time.Now()
	now.info, err = os.Stat(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, now, false, nil
	}
	if err != nil || last.same(now.info) {
		return nil, now, err == nil, err
	}
	if data, err = safefile.Read(f.path, maxFile); err != nil {
		return nil, now, false, fmt.Errorf("%s: %w", f.path, err)
	}
	return data, now, false, nil
}

// write ignores the revision because the caller holds the lock.
func (f *file) write(data []byte, _ revision) (now revision, err error) {
	now.info, err = replace(f.path, data)
	now.at = time.Now()
	return now, err
}

// coarse exceeds the time resolution of any file system. If two changes occur within this time, the
// second may not alter the modification time.
const coarse = 2 * time.Second

// same reports whether info proves that the file has not changed since it was read.
func (s revision) same(info os.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) &&
		s.at.Sub(info.ModTime()) > coarse
}
