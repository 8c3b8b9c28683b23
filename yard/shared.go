package yard

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/safefile"
)

// What replicas share are documents of their store: the approved definitions, what was changed
// of the configuration through the API, and, for those that have no file of their own, the
// configuration.
const (
	bookDocument   = "toolyard.lock"
	configDocument = config.File
	editsDocument  = "edits"
	sealDocument   = "seal" // what is sealed with that others keep for us
)

// LoadConfig reads the configuration that the options name: a file, or else what is in a
// store, or else what the absence of both means.
func LoadConfig(opts Options) (*config.Source, error) {
	y := &Yard{opts: opts}
	source, err := y.load()
	return source, errors.Join(err, y.release())
}

// CheckConfig finds what is wrong with the text of a configuration, as far as can be told without
// starting anything or opening its store. The options name the file that it is from.
func CheckConfig(opts Options, text []byte) error {
	opts.dry, opts.text = true, text
	y, err := New(opts)
	if err != nil {
		return err
	}
	y.server.Close()
	return y.release()
}

// release gives back what a yard holds that does not run.
func (y *Yard) release() error {
	err := errors.Join(y.contract.close(), y.tracer.Close(context.Background()))
	if y.found != nil {
		err = errors.Join(err, y.found.Close())
	}
	return err
}

// fromStore reports whether the configuration is the one in the store.
func (y *Yard) fromStore() bool { return y.opts.ConfigFile == "" && y.opts.Store != "" }

// loadStored reads the configuration in the store. The store is where it was found, by the
// address that this replica knows it by.
func (y *Yard) loadStored() (*config.Source, error) {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	body, version, err := y.readStored(ctx)
	if err != nil {
		return nil, err
	}
	if version == 0 {
		return nil, errors.New("there is no configuration in the store; put one there with toolyard apply, or name a file with --config")
	}
	y.loaded.Store(version)
	source, err := config.Parse(y.configName(), body, y.opts.Getenv)
	if err != nil {
		return nil, err
	}
	source.Store = y.opts.Store
	return source, nil
}

// readStored reads the text of the configuration from the store, which it opens when the yard
// is made.
func (y *Yard) readStored(ctx context.Context) (body []byte, version int64, err error) {
	if y.contract != nil {
		return y.contract.store.Document(ctx, configDocument)
	}
	if y.found, err = store.Open(ctx, y.opts.Store); err != nil {
		return nil, 0, err
	}
	return y.found.Document(ctx, configDocument)
}

// openStore opens a store, unless it is open because the configuration was there.
func (y *Yard) openStore(ctx context.Context, address string) (s *store.Store, err error) {
	if s, y.found = y.found, nil; s != nil {
		return s, nil
	}
	return store.Open(ctx, address)
}

// configName is what messages call the configuration.
func (y *Yard) configName() string {
	if y.fromStore() {
		return fmt.Sprintf("%s (version %d in the store)", configDocument, y.loaded.Load())
	}
	return y.opts.ConfigFile
}

// openBook reads what was approved: in the store if there may be other replicas, or if the
// configuration is there too, else in a file beside the configuration.
func (y *Yard) openBook(c *config.Source) (err error) {
	path := ""
	if y.opts.ConfigFile != "" {
		path = LockFile(y.opts.ConfigFile)
	}
	y.sharing = y.fromStore() || strings.HasPrefix(c.Store, "postgres")
	if !y.sharing {
		y.book, err = pin.Open(path)
		return err
	}
	d := document{y.contract.store, bookDocument}
	if path != "" {
		if err := y.takeOver(path, d); err != nil {
			return err
		}
	}
	y.book, err = pin.OpenIn(d)
	return err
}

// takeOver puts the definitions that a file says are approved into a store that has none.
func (y *Yard) takeOver(path string, d document) error {
	ctx, cancel := context.WithTimeout(context.Background(), openTime)
	defer cancel()
	_, version, err := d.Read(ctx)
	if err != nil || version > 0 {
		return err
	}
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := pin.Open(path); err != nil {
		return err
	}
	data, err := safefile.Read(path, store.MaxDocument)
	if err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	_, err = d.Write(ctx, data, 0)
	if errors.Is(err, pin.ErrChanged) {
		return nil // another replica was faster
	}
	if err == nil {
		y.log.Info("the approved definitions were taken over into the store; from now on only those there count", "file", path)
	}
	return err
}

// document is a document of the store as a book sees it.
type document struct {
	store *store.Store
	name  string
}

// Read implements [pin.Document].
func (d document) Read(ctx context.Context) (body []byte, version int64, err error) {
	return d.store.Document(ctx, d.name)
}

// Write implements [pin.Document].
func (d document) Write(ctx context.Context, body []byte, version int64) (next int64, err error) {
	next, err = d.store.SetDocument(ctx, d.name, body, version)
	if e, ok := errors.AsType[*toolyard.Error](err); ok && e.Code == toolyard.VersionConflict {
		return 0, pin.ErrChanged
	}
	return next, err
}

// followStore takes over what other replicas and commands write into the store, until ctx
// ends.
func (y *Yard) followStore(ctx context.Context) {
	if !y.sharing {
		return
	}
	y.forgetEnded(ctx)
	_ = y.contract.store.Follow(ctx, y.id, func(name string) { // it ends only with ctx
		switch version := y.await(ctx, name); {
		case ctx.Err() != nil:
		case name == bookDocument:
			y.recheckChanged()
		case name == configDocument && y.fromStore() && version != y.loaded.Load():
			_ = y.reloadAndLog()
		case name == editsDocument && version != y.config.Load().edits.version:
			_ = y.reloadAndLog()
		}
	}, y.server.Receive)
}

// fleet connects the MCP server with those of the other replicas.
type fleet struct{ *store.Store }

// EndSession implements [mcpserver.Fleet].
func (f fleet) EndSession(ctx context.Context, id string, owner toolyard.Caller, expires time.Time) error {
	return f.Store.EndSession(ctx, id, owner.Account+" "+owner.ID, expires)
}

// fleet is how this replica reaches the others; nil if there are none.
func (k *contract) fleet() mcpserver.Fleet {
	if k.store == nil || k.store.Kind() != "postgres" {
		return nil
	}
	return fleet{k.store}
}

// maxForgotten is how many ended sessions a replica reads when it starts.
const maxForgotten = 100_000

// forgetEnded reads which MCP sessions have ended before this replica listened.
func (y *Yard) forgetEnded(ctx context.Context) {
	ended, err := y.contract.store.EndedSessions(ctx, maxForgotten)
	if err != nil {
		y.log.Warn("cannot read which MCP sessions have ended; they are valid here until they expire", "error", err)
	}
	y.server.Forget(ended...)
}

// recheckChanged makes the servers look again of which somebody has approved something.
func (y *Yard) recheckChanged() {
	changed, err := y.book.Changed()
	if err != nil {
		y.log.Error("the approved definitions cannot be read; those of before count", "error", err)
	}
	servers := y.config.Load().servers
	for _, id := range changed {
		if s := servers[id]; s != nil {
			s.Recheck()
		}
	}
}

// awaitPause is how long to wait before a store that is away is asked again.
const awaitPause = 50 * time.Millisecond

// await waits until a document that has changed can be read, and returns its version: nobody
// tells of the same change twice.
func (y *Yard) await(ctx context.Context, name string) (version int64) {
	for ctx.Err() == nil {
		_, version, err := y.contract.store.Document(ctx, name)
		if !errors.Is(err, store.ErrAway) {
			return version
		}
		select {
		case <-time.After(awaitPause):
		case <-ctx.Done():
		}
	}
	return 0
}
