package yard

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/store"
)

// lookAgain is how often the file is read although nothing was seen: not every change of
// links and mounts can be watched.
const lookAgain = 2 * time.Second

// settleTime is how long a file must be the same before it is used: editors write in steps.
const settleTime = 50 * time.Millisecond

// WatchConfig reloads the configuration when its file changes, and whenever now delivers,
// until ctx ends. How each reload went is logged. It watches the folder of the file, and of
// what the file links to, since editors and mounts replace files rather than write them.
func (y *Yard) WatchConfig(ctx context.Context, now <-chan os.Signal) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	file := y.opts.ConfigFile
	read := func() ([]byte, error) { return os.ReadFile(file) } //nolint:gosec // the operator's own file
	used, _ := read()
	watchFile(w, file)
	var last []byte // what the file held when the timer was set
	var settle <-chan time.Time
	look := func() {
		if settle == nil { // what else happens in the folder does not put it off
			last, _ = read()
			settle = time.After(settleTime)
		}
	}
	again := time.NewTicker(lookAgain)
	defer again.Stop()
	for {
		select {
		case <-w.Events:
			look()
		case <-again.C:
			look()
		case <-settle:
			settle = nil
			if !y.sharing {
				y.recheckChanged()
			}
			text, err := read()
			switch {
			case err != nil: // it is being replaced, or gone; the old one goes on
			case !bytes.Equal(text, last): // it is being written
				last, settle = text, time.After(settleTime)
			case !bytes.Equal(text, used):
				if err := y.reloadAndLog(); !errors.Is(err, store.ErrAway) { // then it is tried again
					used = text
				}
			}
			watchFile(w, file)
		case <-now:
			used, _ = read()
			_ = y.reloadAndLog()
		case err := <-w.Errors:
			y.log.Warn("the configuration file is not watched as it should be", "error", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// watchFile watches the folders that a file is in: its own, and that of what it links to.
func watchFile(w *fsnotify.Watcher, file string) {
	if file == "" {
		return
	}
	_ = w.Add(filepath.Dir(file)) // it was read from there
	if target, err := filepath.EvalSymlinks(file); err == nil && filepath.Dir(target) != filepath.Dir(file) {
		_ = w.Add(filepath.Dir(target))
	}
}

// reloadAndLog reloads and says how it went.
func (y *Yard) reloadAndLog() error {
	err := y.Reload()
	y.refused.Store(refusedFile(err))
	if err != nil {
		y.log.Error("the new configuration is not used; the old one goes on", "error", err)
	} else {
		y.log.Info("configuration reloaded", "file", y.configName())
	}
	y.publish() // people are told, too
	return err
}

// refusedFile are the problems of a configuration that is not used.
func refusedFile(err error) *[]toolyard.Problem {
	faults, ok := errors.AsType[config.Faults](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		faults = config.Faults{{Subject: "configuration", Message: err.Error()}}
	}
	problems := make([]toolyard.Problem, len(faults))
	for i, p := range faults {
		p.Message += " (the configuration is not used; the one before goes on)"
		problems[i] = p
	}
	return &problems
}
