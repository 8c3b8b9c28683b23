package pin

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// file is a book's place on the disk.
type file struct {
	path     string
	unlocked time.Time // when the last change of it ended
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

// write needs no revision: whoever writes holds the lock.
func (f *file) write(data []byte, _ revision) (now revision, err error) {
	now.info, err = replace(f.path, data)
	now.at = time.Now()
	return now, err
}

// coarse is more than the unit of time of any file system. Of two changes within it the second may
// leave no trace in the time of a file.
const coarse = 2 * time.Second

// same reports whether info is surely that of the file that was read, unchanged.
func (s revision) same(info os.FileInfo) bool {
	return s.info != nil && os.SameFile(s.info, info) && s.info.Size() == info.Size() && s.info.ModTime().Equal(info.ModTime()) &&
		s.at.Sub(info.ModTime()) > coarse
}
