package yard

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/sources/pin"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/safefile"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// Documents in the store that all replicas share, in addition to those in package settings.
const (
	pinsDocument = "toolyard.lock" // approved tool definitions
	sealDocument = "seal"          // the key that seals cookies and request states
)

// pinsInStore reports whether approved definitions are stored in the store: there may be other
// replicas, or the configuration is in the store too.
func pinsInStore(loader *settings.Loader, c *config.Source) bool {
	return loader.FromStore() || strings.HasPrefix(c.Store, "postgres")
}

// openPins opens the approved definitions, in the store or in a file next to the configuration
// file.
func openPins(configFile string, inStore bool, s *store.Store, log *slog.Logger) (*pin.Book, error) {
	path := ""
	if configFile != "" {
		path = LockFile(configFile)
	}
	if !inStore {
		return pin.Open(path)
	}
	d := document{s, pinsDocument}
	if path != "" {
		if err := importPins(path, d, log); err != nil {
			return nil, err
		}
	}
	return pin.OpenIn(d)
}

// importPins copies the approved definitions from a lock file into a store that has none.
func importPins(path string, d document, log *slog.Logger) error {
	ctx, cancel := context.WithTimeout(context.Background(), settings.StoreTimeout)
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
		return nil // another replica imported first
	}
	if err == nil {
		log.Info("imported the lock file into the store; the lock file is now ignored", "file", path)
	}
	return err
}

// document is a document in the store. It implements [pin.Document].
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

// followStore applies changes that other replicas and commands write to the store, until ctx ends.
func (y *Yard) followStore(ctx context.Context) {
	if y.enforcement.store == nil {
		return
	}
	if y.pinsInStore {
		y.forgetEndedSessions(ctx)
	}
	_ = y.enforcement.store.Follow(ctx, y.replica, func(name string) { // returns only when ctx ends
		switch name {
		case store.KeysDocument:
			y.enforcement.verifier.Refresh()
			return
		case store.PeopleDocument:
			y.access.blocked.Refresh()
			return
		}
		if !y.pinsInStore {
			return // no other process writes the remaining documents
		}
		switch version := awaitDocument(ctx, y.enforcement.store, name); {
		case ctx.Err() != nil:
		case name == pinsDocument:
			y.recheckPins()
		case name == settings.ConfigDocument && y.loader.FromStore() && version != y.loader.Version():
			_ = y.reloadAndLog()
		case name == settings.EditsDocument && version != y.current.Load().Overlay.Version:
			_ = y.reloadAndLog()
		}
	}, func(message []byte) {
		if !y.assembler.governor.operators.Receive(message) {
			y.server.Receive(message)
		}
	})
}

// bus connects the MCP server to the other replicas' MCP servers.
type bus struct{ *store.Store }

// EndSession implements [mcpserver.ReplicaBus].
func (b bus) EndSession(ctx context.Context, id string, owner toolyard.Caller, expires time.Time) error {
	return b.Store.EndSession(ctx, id, owner.Account+" "+owner.ID, expires)
}

// bus returns the connection to the other replicas, or nil if the store supports only one replica.
func (e *enforcement) bus() mcpserver.ReplicaBus {
	if e.store == nil || e.store.Kind() != "postgres" {
		return nil
	}
	return bus{e.store}
}

// maxEndedSessions limits how many ended MCP sessions a replica reads at startup.
const maxEndedSessions = 100_000

// forgetEndedSessions reads which MCP sessions ended before this replica began to listen.
func (y *Yard) forgetEndedSessions(ctx context.Context) {
	ended, err := y.enforcement.store.EndedSessions(ctx, maxEndedSessions)
	if err != nil {
		y.log.Warn("could not read ended MCP sessions; they stay valid on this replica until they expire", "error", err)
	}
	y.server.Forget(ended...)
}

// recheckPins rechecks the servers whose approved definitions changed.
func (y *Yard) recheckPins() {
	changed, err := y.pins.Changed()
	if err != nil {
		y.log.Error("could not read the approved definitions; the previous ones stay in effect", "error", err)
	}
	servers := y.current.Load().upstreams
	for _, id := range changed {
		if s := servers[id]; s != nil {
			s.Recheck()
		}
	}
}

// storeRetry is the pause between attempts to read from a store that is not responding.
const storeRetry = 50 * time.Millisecond

// awaitDocument waits until a changed document can be read, and returns its version. It retries
// because the store reports each change only once.
func awaitDocument(ctx context.Context, s *store.Store, name string) (version int64) {
	for ctx.Err() == nil {
		_, version, err := s.Document(ctx, name)
		if !errors.Is(err, store.ErrUnavailable) {
			return version
		}
		select {
		case <-time.After(storeRetry):
		case <-ctx.Done():
		}
	}
	return 0
}

// sealTimeout limits how long reading the seal key from the store may take.
const sealTimeout = 5 * time.Second

// newSealKey returns the keys with which all replicas seal cookies and the state of unfinished
// calls: the configured keys, or a key that the replicas share in the store.
func newSealKey(s *store.Store, log *slog.Logger) httpapi.SealKey {
	return seal.NewKeyring(func() [][]byte { return [][]byte{loadSealKey(s, log)} })
}

// loadSealKey returns the key in the store. If there is no store, or it is not responding, the key
// is valid only in this process.
func loadSealKey(s *store.Store, log *slog.Logger) []byte {
	own := make([]byte, sealKeySize)
	_, _ = rand.Read(own) // never fails
	if s == nil {
		return own
	}
	ctx, cancel := context.WithTimeout(context.Background(), sealTimeout)
	defer cancel()
	body, version, err := s.Document(ctx, sealDocument)
	if err == nil && version == 0 {
		_, writeErr := s.SetDocument(ctx, sealDocument, own, 0) // fails if another replica wrote its key first
		body, _, err = s.Document(ctx, sealDocument)
		err = errors.Join(err, writeErr)
	}
	if len(body) != sealKeySize {
		log.Warn("could not read the shared seal key; sign-ins and open questions are valid only on this replica", "error", err)
		return own
	}
	return body
}

// sealKeySize is the size of a seal key in bytes, and the minimum length of a configured one.
const sealKeySize = 32
