// Package watch watches the files of a folder. It reports all files at the start, and again whenever
// a file is added, removed or changed.
//
// File system events are only hints: editors write in steps, mounts swap links, and events get lost.
// Once the events cease, a scan reads the whole folder and compares file contents with the previous
// scan. Only differences are reported. The folder is also scanned periodically without a hint.
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

// ErrTooLarge is the Err of a file of more than 1 MiB.
var ErrTooLarge = errors.New("the file is larger than 1 MiB")

// ErrTooMany is returned if a folder has more than 100,000 entries.
var ErrTooMany = errors.New("more than 100000 files and folders")

// Folder configures the files to watch. Entries whose names begin with a dot or an underscore,
// node_modules, *.d.ts, *.test.ts and *.spec.ts are skipped.
//
// Symbolic links are followed. A file with several links is reported under each path. Links to a
// parent folder are ignored.
type Folder struct {
	Dir  string // a missing folder counts as empty
	Glob string // of files relative to Dir, with ** for any folders; **/*.ts if empty

	Quiet    time.Duration // time without events before a scan; 20 ms if zero; see Run
	Patience time.Duration // maximum time from the first event to the scan; 500 ms if zero
	Poll     time.Duration // interval of scans without events; 30 s if zero

	Log *slog.Logger // discarded if nil
}

// File is one file of a folder.
type File struct {
	Path string   // relative to the folder, with slashes
	Abs  string   // absolute, with links unresolved
	Sum  [32]byte // the SHA-256 of its content; zero if Err is set
	Err  error    // why the file, or a folder, could not be read
}

// same reports whether a file is unchanged between two scans.
func (f File) same(g File) bool {
	return f.Path == g.Path && f.Sum == g.Sum && (f.Err == nil) == (g.Err == nil) &&
		(f.Err == nil || f.Err.Error() == g.Err.Error())
}

// List scans the folder once. The files are ordered by path.
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

// Run calls changed with all files at the start, and again with all files after each change that
// has settled. changed returns the absolute paths of further files to watch, which the files import;
// they need not exist yet. A file that is too large counts as changed when its size changes.
//
// A change has settled after Quiet, or after four times Quiet if changed was called less than
// Patience ago: a first save is reported immediately, and a series of saves only once.
//
// Run calls changed on its own goroutine, and returns nil when ctx ends. It returns an error
// if the glob is invalid, and ErrTooMany.
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

// await returns true when a scan is due: after hints have ceased, or after Poll. It returns false when
// ctx ends. called is the time of the last call of changed.
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
