//go:build unix

package watch

import (
	"bytes"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/fsnotify/fsnotify"
	"github.com/google/go-cmp/cmp"
)

func TestOverflowIsAHint(t *testing.T) {
	w := newWatches(slog.New(slog.DiscardHandler))
	defer w.close()
	w.system.Errors <- fsnotify.ErrEventOverflow
	select {
	case <-w.hints:
	case <-time.After(patience):
		t.Error("no hint was sent")
	}
}

func TestWatchesOfDeletedFoldersAreRemoved(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	f, err := (&Folder{Dir: dir}).complete()
	must(t, err)
	w := newWatches(f.Log)
	defer w.close()
	watch := func() []string {
		l, err := f.look(nil)
		must(t, err)
		w.set(l.wanted)
		list := w.system.WatchList()
		slices.Sort(list)
		return list
	}
	alone := []string{filepath.Dir(dir), dir}
	if diff := cmp.Diff(alone, watch()); diff != "" {
		t.Error(diff)
	}
	for range 3 {
		write(t, filepath.Join(dir, "x/y/a.ts"), "a")
		write(t, filepath.Join(dir, "z/a.ts"), "a")
		if list := watch(); len(list) != 5 || len(w.held) != 5 {
			t.Errorf("watched: %v", list)
		}
		must(t, os.Rename(filepath.Join(dir, "x"), filepath.Join(dir, "z/x")))
		if list := watch(); len(list) != 5 || !slices.Contains(list, filepath.Join(dir, "z/x/y")) {
			t.Errorf("watched: %v", list)
		}
		must(t, os.RemoveAll(filepath.Join(dir, "z")))
		if diff := cmp.Diff(alone, watch()); diff != "" || len(w.held) != 2 {
			t.Error(diff)
		}
	}
}

// A folder that cannot be watched is logged once and does not cause repeated scans.
func TestFolderThatCannotBeWatched(t *testing.T) {
	var log bytes.Buffer
	w := newWatches(slog.New(slog.NewTextHandler(&log, nil)))
	defer w.close()
	must(t, w.system.Close())
	for range 3 {
		w.set(watchList{t.TempDir(): nil})
	}
	if n := strings.Count(log.String(), "some folders cannot be watched"); n != 1 {
		t.Errorf("said %d times: %s", n, log.String())
	}
	select {
	case <-w.hints:
		t.Error("a hint was sent")
	default:
	}
}

// Watching a folder again does not trigger a scan; otherwise, scans would never end.
func TestOnlyANewFolderIsAHint(t *testing.T) {
	w := newWatches(slog.New(slog.DiscardHandler))
	defer w.close()
	x, y := t.TempDir(), t.TempDir()
	for i, test := range []struct {
		wanted watchList
		hints  int
	}{
		{watchList{x: nil}, 1},
		{watchList{x: nil}, 0},
		{watchList{x: nil, y: {"a.ts": true}}, 1},
		{watchList{y: nil}, 0},
		{watchList{x: nil, filepath.Join(y, "gone"): nil}, 1},
	} {
		w.set(test.wanted)
		if len(w.hints) != test.hints {
			t.Errorf("%d: %d hints", i, len(w.hints))
		}
		for range len(w.hints) {
			<-w.hints
		}
	}
}

func TestSystemWithoutWatches(_ *testing.T) {
	w := &watches{}
	w.set(watchList{"/": nil})
	w.close()
}
