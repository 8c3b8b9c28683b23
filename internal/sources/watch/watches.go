package watch

import (
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/fsnotify/fsnotify"
)

// watches holds the file system watches. Each relevant event produces a hint.
type watches struct {
	hints chan struct{} // capacity 1

	log     *slog.Logger
	system  *fsnotify.Watcher // nil if unavailable
	wanted  atomic.Pointer[watchList]
	held    map[string]os.FileInfo // watched folders and their identity when the watch was added
	failing bool                   // a folder could not be watched; already logged
	wg      sync.WaitGroup
}

// newWatches starts a watcher. If the system does not support watching, there are no hints.
func newWatches(log *slog.Logger) *watches {
	w := &watches{hints: make(chan struct{}, 1), log: log, held: make(map[string]os.FileInfo)}
	w.wanted.Store(&watchList{})
	system, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("file watching is unavailable; changes will be detected with a delay", "error", err)
		return w
	}
	w.system = system
	w.wg.Go(w.listen)
	return w
}

// close stops listening.
func (w *watches) close() {
	if w.system != nil {
		_ = w.system.Close() // an error would have no effect
	}
	w.wg.Wait()
}

// listen converts events to hints until close. It must not block, because fsnotify may hold a lock
// that its other methods need until an event or error is received.
func (w *watches) listen() {
	for {
		select {
		case e, ok := <-w.system.Events:
			if !ok {
				return
			}
			if w.wanted.Load().concern(e) {
				w.hint()
			}
		case err, ok := <-w.system.Errors: // the queue may have overflowed
			if !ok {
				return
			}
			w.log.Debug("file change events may have been lost", "error", err)
			w.hint()
		}
	}
}

// hint requests a scan.
func (w *watches) hint() {
	select {
	case w.hints <- struct{}{}:
	default: // a hint is already pending
	}
}

// set replaces the watched folders. A new folder produces a hint, because changes between the scan
// and now were missed.
func (w *watches) set(wanted watchList) {
	w.wanted.Store(&wanted)
	if w.system == nil {
		return
	}
	w.drop(wanted) // must be first, because a moved folder is still watched under its old path
	before := w.system.WatchList()
	slices.Sort(before)
	var failure error
	for dir := range wanted {
		if err := w.add(dir); errors.Is(err, fs.ErrNotExist) {
			w.hint()
		} else if err != nil {
			failure = fmt.Errorf("%s: %w", dir, err)
		}
	}
	for _, dir := range w.system.WatchList() {
		if _, ok := slices.BinarySearch(before, dir); !ok {
			w.hint()
		}
	}
	w.say(failure)
}

// drop removes watches of folders that are no longer needed or have been replaced.
func (w *watches) drop(wanted watchList) {
	for dir, was := range w.held {
		_, ok := wanted[dir]
		if is, err := os.Lstat(dir); ok && err == nil && os.SameFile(was, is) {
			continue
		}
		_ = w.system.Remove(dir) // fails if the folder was removed, which also removes the watch
		delete(w.held, dir)
	}
}

// add watches a folder, even if it is already watched, because it may have been removed and
// recreated.
func (w *watches) add(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return err
	}
	if err := w.system.Add(dir); err != nil {
		return err
	}
	w.held[dir] = info
	return nil
}

// say logs the first of several consecutive failures to watch a folder.
func (w *watches) say(failure error) {
	if failure != nil && !w.failing {
		w.log.Warn("some folders cannot be watched; changes there will be detected with a delay", "error", failure)
	}
	w.failing = failure != nil
}
