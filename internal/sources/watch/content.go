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

// maxSize is the maximum size of a file in bytes.
const maxSize = 1 << 20

// coarse exceeds the time resolution of any file system. If two changes occur within this time, the
// second may not alter the file's times.
const coarse = 2 * time.Second

// tick exceeds the delay of the kernel's coarse clock, which sets file times.
const tick = 10 * time.Millisecond

// contents caches file contents between scans and reads only files that may have changed.
type contents struct {
	before   map[string]reading // previous scan, by absolute path
	readings map[string]reading // this scan
	taken    time.Time
	buffer   bytes.Buffer
}

// reading is the result of reading a file.
type reading struct {
	info os.FileInfo // obtained before the read; nil if that failed
	sum  [32]byte
	err  error
	firm bool // any later change would alter info
}

// read reads a file, at most once per scan.
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

// unchanged reports whether a and b describe the same file with the same size and times.
func unchanged(a, b os.FileInfo) bool {
	return os.SameFile(a, b) && a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && changeTime(a).Equal(changeTime(b))
}

// sum returns a file's SHA-256 hash.
func (c *contents) sum(path string, info os.FileInfo) (sum [32]byte, err error) {
	c.buffer.Reset()
	if err := safefile.ReadTo(&c.buffer, path, maxSize); errors.As(err, new(*safefile.TooLargeError)) {
		return sum, fmt.Errorf("%w: %d bytes", ErrTooLarge, info.Size())
	} else if err != nil {
		return sum, err
	}
	return sha256.Sum256(c.buffer.Bytes()), nil
}

// after reports whether the file may have been written after the given time.
func (r reading) after(since time.Time) bool {
	since = since.Add(-tick)
	return r.info != nil && (r.info.ModTime().After(since) || changeTime(r.info).After(since))
}
