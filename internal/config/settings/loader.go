// Package settings turns a configuration into the objects that a yard enforces: gates, tool terms
// and limits, with operators' edits applied. Its Loader reads the configuration from a file or from
// the store.
package settings

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/store"
)

// Documents in the store that contain configuration. All replicas share them.
const (
	ConfigDocument = config.File // for yards that have no file
	EditsDocument  = "edits"     // the overlay
)

// StoreTimeout is the time limit for opening the store and for reading documents from it.
const StoreTimeout = 30 * time.Second

// Options configures a Loader.
type Options struct {
	File   string // may be empty
	Store  string // overrides the store in the file; if there is no file, the configuration is read from it
	Text   []byte // if not nil, parsed instead of the content of File, with an in-memory store
	Getenv func(string) (string, bool)

	Gates         []gates.Gate      // the program's gates; gates in the configuration with the same names replace them
	SourceNotes   gates.SourceNotes // default for gates that do not set it
	Sources       []string          // names of the program's own sources
	Providers     []string          // kinds of context that the program provides
	ProviderKinds []string          // kinds of context that the configuration can enable
}

// Loader reads a configuration and opens the store that it specifies.
type Loader struct {
	opts    Options
	store   *store.Store // nil until opened, or if no store is needed
	version atomic.Int64 // version of the configuration that was last read from the store
}

// NewLoader returns a Loader. The caller must close it.
func NewLoader(opts Options) *Loader { return &Loader{opts: opts} }

// ReadConfig reads the configuration specified by the options, without the overlay.
func ReadConfig(opts Options) (*config.Source, error) {
	l := NewLoader(opts)
	source, err := l.Read()
	return source, errors.Join(err, l.Close())
}

// Close closes the store.
func (l *Loader) Close() error {
	if l.store == nil {
		return nil
	}
	return l.store.Close()
}

// FromStore reports whether the configuration is read from the store.
func (l *Loader) FromStore() bool { return l.opts.File == "" && l.opts.Store != "" }

// Partial reports whether the configuration is only validated, possibly without its secrets.
func (l *Loader) Partial() bool { return l.opts.Text != nil }

// Version returns the version of the configuration that was last read from the store.
func (l *Loader) Version() int64 { return l.version.Load() }

// ConfigName returns the name of the configuration for messages.
func (l *Loader) ConfigName() string {
	if l.FromStore() {
		return fmt.Sprintf("%s (version %d in the store)", ConfigDocument, l.version.Load())
	}
	return l.opts.File
}

// Read reads and checks the configuration, without the overlay.
func (l *Loader) Read() (*config.Source, error) {
	switch {
	case l.FromStore():
		return l.readStore()
	case l.opts.File == "":
		return &config.Source{Config: config.Default()}, nil
	case l.opts.Text != nil:
		source, err := config.Parse(l.opts.File, l.opts.Text, l.opts.Getenv)
		if err == nil {
			source.Store = "memory"
		}
		return source, err
	}
	source, err := config.Load(l.opts.File, l.opts.Getenv)
	if err == nil && l.opts.Store != "" {
		source.UseStore(l.opts.Store)
	}
	return source, err
}

// readStore reads the configuration from the store. The address with which this replica reaches the
// store replaces the one in the configuration.
func (l *Loader) readStore() (source *config.Source, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	if l.store == nil {
		if l.store, err = store.Open(ctx, l.opts.Store); err != nil {
			return nil, err
		}
	}
	body, version, err := l.store.Document(ctx, ConfigDocument)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		return nil, errors.New("the store contains no configuration: add one with toolyard apply, or specify a file with --config")
	}
	l.version.Store(version)
	if source, err = config.Parse(l.ConfigName(), body, l.opts.Getenv); err != nil {
		return nil, err
	}
	source.Store = l.opts.Store
	return source, nil
}

// OpenStore opens the store that a configuration needs, unless it is already open. It returns nil
// if the configuration needs no store.
func (l *Loader) OpenStore(c *config.Source) (_ *store.Store, err error) {
	if l.store != nil || !c.NeedsStore() {
		return l.store, nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	if l.store, err = store.Open(ctx, c.StoreAddress()); err != nil {
		return nil, config.Faults{c.At(toolyard.Problem{
			Subject: "store", Message: strings.TrimPrefix(err.Error(), "store: "),
			Fix: "Check that the database is running and accepts the user, or use another store: postgres://user@host/database or sqlite:path.",
		}, "store")}
	}
	return l.store, nil
}

// Load applies the overlay to a configuration if it allows edits. It reuses the terms of unchanged
// tools from old, which may be nil.
func (l *Loader) Load(source *config.Source, old *Settings) (*Settings, error) {
	o := Overlay{File: source, Edits: &config.Edits{}}
	if len(source.Editable) == 0 || l.store == nil {
		return l.settings(source, o, old)
	}
	ctx, cancel := context.WithTimeout(context.Background(), StoreTimeout)
	defer cancel()
	body, version, err := l.store.Document(ctx, EditsDocument)
	if err != nil {
		return nil, err
	}
	merged := source
	if o.Edits, err = config.ParseEdits(body); err == nil {
		merged, err = source.With(o.Edits)
	}
	if err != nil {
		return nil, overlayFault(source, version, err)
	}
	o.Version = version
	return l.settings(merged, o, old)
}

// Reload reads the configuration again. It returns an error if a running yard must not switch to it
// from old.
func (l *Loader) Reload(old *Settings) (*Settings, error) {
	source, err := l.Read()
	if err != nil {
		return nil, err
	}
	if source.NeedsStore() && l.store == nil {
		return nil, config.Faults{source.At(toolyard.Problem{Subject: "store", Message: "the new configuration requires a store, but none is open", Fix: "Restart to open one."})}
	}
	s, err := l.Load(source, old)
	if err != nil {
		return nil, err
	}
	return s, old.CheckNext(s)
}

func overlayFault(source *config.Source, version int64, err error) error {
	lines := []string{err.Error()}
	for _, i := range toolyard.AsError(err).Issues {
		lines = append(lines, i.Path+" "+i.Message)
	}
	return config.Faults{source.At(toolyard.Problem{
		Subject: "editable", Message: fmt.Sprintf("edits made through the API (version %d) conflict with this file: %s", version, strings.Join(lines, "\n")),
		Fix: "Correct the file, or remove editable from it to continue without the edits.",
	}, "editable")}
}
