package yard

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"
)

// settleTime is how long a file must rest before it is read: editors write in steps.
const settleTime = 50 * time.Millisecond

// WatchConfig reloads the configuration when its file changes, until ctx ends. It
// watches the folder, since editors and mounts replace files rather than write them.
func (y *Yard) WatchConfig(ctx context.Context) error {
	file := y.opts.ConfigFile
	if file == "" {
		return nil
	}
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	if err := w.Add(filepath.Dir(file)); err != nil {
		return err
	}
	seen, _ := os.ReadFile(file) //nolint:gosec // the operator's own file
	rest := time.NewTimer(settleTime)
	for {
		select {
		case <-w.Events:
			rest.Reset(settleTime)
		case err := <-w.Errors:
			y.log.Warn("the configuration file is not watched as it should be", "error", err)
		case <-rest.C:
			now, err := os.ReadFile(file) //nolint:gosec // the operator's own file
			if err == nil && !bytes.Equal(now, seen) {
				seen = now
				y.reloadAndLog()
			}
		case <-ctx.Done():
			return nil
		}
	}
}

// reloadAndLog reloads and says how it went.
func (y *Yard) reloadAndLog() {
	if err := y.Reload(); err != nil {
		y.log.Error("the new configuration is not used; the old one goes on", "error", err)
		return
	}
	y.log.Info("configuration reloaded", "file", y.opts.ConfigFile)
}
