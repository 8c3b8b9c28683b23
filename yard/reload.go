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
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/store"
)

// Reload reads the configuration again and applies it. On error the previous configuration
// stays in effect.
func (y *Yard) Reload() error {
	y.reloading.Lock()
	defer y.reloading.Unlock()
	old := y.current.Load()
	s, err := y.loader.Reload(old.Settings)
	if err != nil {
		return err
	}
	next, err := y.assembler.assemble(s, old)
	if err != nil {
		return err
	}
	same := next.sameSources(old)
	if same { // new sources have not loaded their tools yet
		if err := y.checkTools(s); err != nil {
			y.assembler.packs.discard(next.packs, old.packs)
			return err
		}
	}
	y.assembler.packs.leave(old.packs, next.packs)
	y.apply(next)
	y.tls.reload(y.publisher, &y.opts)
	closeProviders(old.providers, next.providers)
	for _, server := range next.upstreams {
		server.Retry()
	}
	if !same {
		y.catalog.Set(next.sources)
	}
	y.assembler.packs.retire(old.packs, next.packs, func() {
		y.catalog.Flush()
		y.publish()
	})
	if settings.NeedRestart(old.Config, s.Config) {
		y.log.Warn("part of the new configuration requires a restart: only scripts, servers, packs, agents, models, terms, toolsets, gates, context and call limits are reloaded")
	}
	return nil
}

// apply makes an assembly the current one and publishes it.
func (y *Yard) apply(a *assembly) {
	y.assembler.packs.use(a.packs)
	y.current.Store(a)
	for _, g := range a.Gates {
		if g.RequireAuth {
			y.access.requiresKeys.Store(true)
		}
	}
	y.access.tokens.Store(newTokenAccess(a.Settings, y.access.tokens.Load(), tokenOptions{
		seen: y.access.sightings.add, secret: y.assembler.secrets.resolve, now: y.opts.Process.Now, log: y.log,
	}))
	y.publish()
}

// pollInterval is how often the file is read even if no change is reported: changes to links and
// mounts are not always reported.
const pollInterval = 2 * time.Second

// quietPeriod is how long a file must stay unchanged before it is read, because editors write in
// steps.
const quietPeriod = 50 * time.Millisecond

// WatchConfig reloads the configuration when its file changes, and on every value from trigger,
// until ctx ends. It logs the result of each reload.
func (y *Yard) WatchConfig(ctx context.Context, trigger <-chan os.Signal) error {
	w, err := fsnotify.NewWatcher()
	if err != nil {
		return err
	}
	defer func() { _ = w.Close() }()
	file := y.opts.ConfigFile
	read := func() ([]byte, error) { return os.ReadFile(file) } //nolint:gosec // the operator's own file
	applied := y.current.Load().Overlay.File.Text()             // the file may have changed since then
	watchFile(w, file)
	var last []byte // content at the start of the quiet period
	var quiet <-chan time.Time
	check := func() {
		if quiet == nil { // other events in the directory must not extend the quiet period
			last, _ = read()
			quiet = time.After(quietPeriod)
		}
	}
	poll := time.NewTicker(pollInterval)
	defer poll.Stop()
	check()
	for {
		select {
		case <-w.Events:
			check()
		case <-poll.C:
			check()
		case <-quiet:
			quiet = nil
			if !y.pinsInStore {
				y.recheckPins()
			}
			text, err := read()
			switch {
			case err != nil: // missing or being replaced: the previous configuration stays in effect
			case !bytes.Equal(text, last): // still being written
				last, quiet = text, time.After(quietPeriod)
			case !bytes.Equal(text, applied):
				if err := y.reloadAndLog(); !errors.Is(err, store.ErrUnavailable) { // otherwise try again
					applied = text
				}
			}
			watchFile(w, file)
		case <-trigger:
			applied, _ = read()
			_ = y.reloadAndLog()
		case err := <-w.Errors:
			y.log.Warn("could not watch the configuration file; reading it every two seconds instead", "error", err)
		case <-ctx.Done():
			return nil
		}
	}
}

// watchFile watches the directories of a file and of its link target, because editors and mounts
// replace files instead of writing to them.
func watchFile(w *fsnotify.Watcher, file string) {
	if file == "" {
		return
	}
	_ = w.Add(filepath.Dir(file)) // if this fails, polling still detects changes
	if target, err := filepath.EvalSymlinks(file); err == nil && filepath.Dir(target) != filepath.Dir(file) {
		_ = w.Add(filepath.Dir(target))
	}
}

func (y *Yard) reloadAndLog() error {
	err := y.Reload()
	y.rejected.Store(rejectedProblems(err))
	if err != nil {
		y.log.Error("new configuration rejected; the previous one stays in effect", "error", err)
	} else {
		y.log.Info("configuration reloaded", "file", y.loader.ConfigName())
	}
	y.publish() // publishes the changed problems
	return err
}

// rejectedProblems returns the problems of a rejected configuration, or nil if there are none.
func rejectedProblems(err error) *[]toolyard.Problem {
	faults, ok := errors.AsType[config.Faults](err)
	switch {
	case err == nil:
		return nil
	case !ok:
		faults = config.Faults{{Subject: "configuration", Message: err.Error()}}
	}
	problems := make([]toolyard.Problem, len(faults))
	for i, p := range faults {
		p.Message += " (the configuration was rejected; the previous one stays in effect)"
		problems[i] = p
	}
	return &problems
}
