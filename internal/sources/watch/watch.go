// Package watch watches the files in a folder. It reports all files at the start, and again
// whenever a file is added, removed or changed.
//
// File system events are only hints: editors write in several steps, mounts swap links, and events
// get lost. Once the events stop, a scan reads the whole folder and compares file contents with the
// previous scan. Only differences are reported. The folder is also scanned periodically.
package watch

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"slices"
	"time"

	"github.com/bmatcuk/doublestar/v4"
)

// ErrTooLarge is set for files larger than 1 MiB.
var ErrTooLarge = errors.New("the file is larger than 1 MiB")

// ErrTooMany is returned if a folder has more than 100,000 entries.
var ErrTooMany = errors.New("the folder contains more than 100,000 files and folders")

// Folder configures the files to watch. It skips node_modules, *.d.ts, *.test.ts, *.spec.ts and
// entries whose names start with a dot or an underscore.
//
// Symbolic links are followed. A file with several links is reported under each path. Links to a
// parent folder are ignored.
type Folder struct {
	Dir  string // a missing folder counts as empty
	Glob string // matches paths relative to Dir, with ** for any folders; **/*.ts if empty

	Quiet    time.Duration // time with no events before a scan; 20 ms if zero; see Run
	Patience time.Duration // maximum time from the first event to the scan; 500 ms if zero
	Poll     time.Duration // interval between scans if there are no events; 30 s if zero

	Log *slog.Logger // nil discards all messages
}

// File is a file in a folder.
type File struct {
	Path string   // relative to the folder, with slashes
	Abs  string   // absolute path, with links unresolved
	Sum  [32]byte // SHA-256 of the content; zero if Err is set
	Err  error    // why the file, or a folder, could not be read
}

// same reports whether a file is unchanged between two scans.
func (f File) same(g File) bool {
	return f.Path == g.Path && f.Sum == g.Sum && (f.Err == nil) == (g.Err == nil) &&
		(f.Err == nil || f.Err.Error() == g.Err.Error())
}

// List scans the folder once. The files are sorted by path.
func (f *Folder) List() ([]File, error) {
	folder, err := f.complete()
	if err != nil {
		return nil, err
	}
	found, err := folder.look(nil)
	if err != nil {
		return nil, err
	}
	return found.files, nil
}

// Run calls changed with all files at the start and after each change. changed returns the absolute
// paths of further files to watch, which the files import; they don't have to exist yet. A file
// that is too large counts as changed when its size changes.
//
// Run waits until there have been no events for Quiet, or for four times Quiet if changed was
// called less than Patience ago. As a result, a first save is reported immediately, and a series of
// saves only once.
//
// Run calls changed on its own goroutine. It returns nil when ctx ends, an error if the glob is
// invalid, and ErrTooMany if there are too many files.
func (f *Folder) Run(ctx context.Context, changed func(files []File) (also []string)) error {
	folder, err := f.complete()
	if err != nil {
		return err
	}
	w := newWatches(folder.Log)
	defer w.close()
	var last *look
	var called time.Time
	for {
		now, err := folder.look(last)
		if err != nil {
			return err
		}
		if last == nil || !now.same(last) {
			called = time.Now()
			if now.adopt(changed(slices.Clone(now.files)), called) {
				w.hint()
			}
		}
		w.set(now.wanted)
		last = now
		if !folder.await(ctx, w.hints, called) {
			return nil
		}
	}
}

// complete returns the folder with defaults applied.
func (f *Folder) complete() (*Folder, error) {
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		return nil, err
	}
	glob := cmp.Or(f.Glob, "**/*.ts")
	if !doublestar.ValidatePattern(glob) {
		return nil, fmt.Errorf("invalid glob %q", glob)
	}
	return &Folder{
		Dir:      dir,
		Glob:     glob,
		Quiet:    cmp.Or(f.Quiet, 20*time.Millisecond),
		Patience: cmp.Or(f.Patience, 500*time.Millisecond),
		Poll:     cmp.Or(f.Poll, 30*time.Second),
		Log:      cmp.Or(f.Log, slog.New(slog.DiscardHandler)),
	}, nil
}

// await returns true when a scan is due: after the events stop, or after Poll. It returns false
// when ctx ends. called is the time of the last call to changed.
func (f *Folder) await(ctx context.Context, hints <-chan struct{}, called time.Time) bool {
	select {
	case <-hints:
	case <-time.After(f.Poll):
		return true
	case <-ctx.Done():
		return false
	}
	quiet, patience := f.Quiet, time.After(f.Patience)
	if time.Since(called) < f.Patience {
		quiet *= 4
	}
	for {
		select {
		case <-hints:
		case <-time.After(quiet):
			return true
		case <-patience:
			return true
		case <-ctx.Done():
			return false
		}
	}
}
