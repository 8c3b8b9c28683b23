// Package watch follows the files of a folder: it tells all of them at once, and again
// whenever one comes, goes or holds something else.
//
// The events of the file system are only hints. Editors write in steps, mounts swap links,
// and events get lost. So a hint only leads to a look, once the events have ceased: the look
// goes through the whole folder and compares what the files hold with what they held before.
// Only a difference is told. A look that nothing hinted at is taken now and then as a net.
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
var ErrTooMany = errors.New("there are more than 100000 files and folders")

// Folder says what to follow. Entries whose names begin with a dot or an underscore,
// node_modules, *.d.ts, *.test.ts and *.spec.ts are passed over.
//
// Links are followed. What several links lead to is told under each of their paths, but a
// link back to a folder that it is in leads nowhere.
type Folder struct {
	Dir  string // need not exist yet: until then it is empty
	Glob string // which files, relative to Dir, with ** for any folders; empty for **/*.ts

	Quiet    time.Duration // without an event, before a look; zero for 20 ms; see Run
	Patience time.Duration // from the first event to the look at the latest; zero for 500 ms
	Poll     time.Duration // to a look that nothing hinted at; zero for 30 s

	Log *slog.Logger // nil for none
}

// File is one file of a folder.
type File struct {
	Path string   // relative to the folder, with slashes
	Abs  string   // absolute, as reached through the folder: links are not resolved
	Sum  [32]byte // the SHA-256 of what it holds; zero if Err is set
	Err  error    // why it was not read; also that of a folder that cannot be read
}

// same reports whether two looks found the same in one place.
func (f File) same(g File) bool {
	return f.Path == g.Path && f.Sum == g.Sum && (f.Err == nil) == (g.Err == nil) &&
		(f.Err == nil || f.Err.Error() == g.Err.Error())
}

// List is one look at the folder. The files are ordered by path.
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

// Run calls changed with all files at once, and again with all files after each change that
// has settled. What changed returns are absolute paths of more files: those that the files
// import. A change of one of them counts as a change, and one that does not exist is waited
// for. A file that is too large counts as changed when its size changes.
//
// A change has settled after Quiet, or after four times that if changed was called less than
// Patience ago: the first save is told at once, and a row of saves is not told one by one.
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

// complete returns the folder with its defaults.
func (f *Folder) complete() (*Folder, error) {
	dir, err := filepath.Abs(f.Dir)
	if err != nil {
		return nil, err
	}
	glob := cmp.Or(f.Glob, "**/*.ts")
	if !doublestar.ValidatePattern(glob) {
		return nil, fmt.Errorf("the glob %q is invalid", glob)
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

// await returns when it is time for a look: hints have come and ceased, or none came for
// long. It returns false if ctx ended. The last call was at called.
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
