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

// watches are the folders that the system tells about. All that comes of an event is a hint.
type watches struct {
	hints chan struct{} // holds one hint at most

	log     *slog.Logger
	system  *fsnotify.Watcher // nil if the system has none to give
	wanted  atomic.Pointer[watchList]
	held    map[string]os.FileInfo // the watched folders, as they were
	failing bool                   // some folder could not be watched, and it was said
	wg      sync.WaitGroup
}

// newWatches starts to listen. If the system has no watcher to give there will be no hints.
func newWatches(log *slog.Logger) *watches {
	w := &watches{hints: make(chan struct{}, 1), log: log, held: make(map[string]os.FileInfo)}
	w.wanted.Store(&watchList{})
	system, err := fsnotify.NewWatcher()
	if err != nil {
		w.log.Warn("file watching is unavailable; changes are detected with a delay", "error", err)
		return w
	}
	w.system = system
	w.wg.Go(w.listen)
	return w
}

// close stops listening.
func (w *watches) close() {
	if w.system != nil {
		_ = w.system.Close() // it has nothing to lose
	}
	w.wg.Wait()
}

// listen makes hints of events until close. It must never wait for anything else: while an
// event or error is not taken, fsnotify may hold the lock that its other methods need.
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
		case err, ok := <-w.system.Errors: // events may be lost, most likely in a flood
			if !ok {
				return
			}
			w.log.Debug("events may be lost", "error", err)
			w.hint()
		}
	}
}

// hint asks for a look.
func (w *watches) hint() {
	select {
	case w.hints <- struct{}{}:
	default: // one is due already
	}
}

// set makes these the watched folders. A new one is a hint: what happened in it between the
// look and now was not seen.
func (w *watches) set(wanted watchList) {
	w.wanted.Store(&wanted)
	if w.system == nil {
		return
	}
	w.drop(wanted) // first, since a folder that was moved is still watched under its old path
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

// drop ends the watches of folders that are no longer wanted, or are others by now.
func (w *watches) drop(wanted watchList) {
	for dir, was := range w.held {
		_, ok := wanted[dir]
		if is, err := os.Lstat(dir); ok && err == nil && os.SameFile(was, is) {
			continue
		}
		_ = w.system.Remove(dir) // it fails if the folder is gone, and the watch with it
		delete(w.held, dir)
	}
}

// add watches a folder, even one that is held: it may have been removed and made anew.
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

// say logs that a folder cannot be watched, when that begins.
func (w *watches) say(failure error) {
	if failure != nil && !w.failing {
		w.log.Warn("some folders cannot be watched; changes there are detected with a delay", "error", failure)
	}
	w.failing = failure != nil
}
