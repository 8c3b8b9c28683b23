package watch

import (
	"bytes"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// maxSize is the size of the largest file that is read.
const maxSize = 1 << 20

// coarse is more than the unit of time of any file system. Of two changes within it the
// second may leave no trace in the times of a file.
const coarse = 2 * time.Second

// tick is more than what the clock of the kernel, which dates files, lags behind.
const tick = 10 * time.Millisecond

// contents knows what files hold, and reads only those that it has to.
type contents struct {
	before   map[string]reading // by absolute path, of the look before
	readings map[string]reading // of this look
	taken    time.Time
	buffer   bytes.Buffer
}

// reading is what a file held when it was read.
type reading struct {
	info os.FileInfo // taken before it was read; nil if that failed
	sum  [32]byte
	err  error
	firm bool // a later change is sure to show in info
}

// read reads a file, unless nothing can have changed.
func (c *contents) read(path string) reading {
	r, ok := c.readings[path]
	if !ok {
		r = c.readAnew(path)
		c.readings[path] = r
	}
	return r
}

func (c *contents) readAnew(path string) reading {
	info, err := os.Stat(path)
	if err != nil {
		return reading{err: err}
	}
	if old, ok := c.before[path]; ok && old.firm && unchanged(old.info, info) {
		return old
	}
	sum, err := c.sum(path, info)
	firm := err == nil && c.taken.Sub(info.ModTime()) > coarse && c.taken.Sub(changeTime(info)) > coarse
	return reading{info: info, sum: sum, err: err, firm: firm}
}

// unchanged reports whether it is the same file, of the same size and times.
func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changeTime(a).Equal(changeTime(b))
}

// sum is the SHA-256 of a file.
func (c *contents) sum(path string, info os.FileInfo) (sum [32]byte, err error) {
	c.buffer.Reset()
	if err := safefile.ReadTo(&c.buffer, path, maxSize); errors.As(err, new(*safefile.TooLargeError)) {
		return sum, fmt.Errorf("%w: %d bytes", ErrTooLarge, info.Size())
	} else if err != nil {
		return sum, err
	}
	return sha256.Sum256(c.buffer.Bytes()), nil
}

// after reports whether the file may have been written after a moment.
func (r reading) after(since time.Time) bool {
	since = since.Add(-tick)
	return r.info != nil && (r.info.ModTime().After(since) || changeTime(r.info).After(since))
}
