package yard

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/safefile"
	"github.com/toolyard/toolyard/internal/trust/secret"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// connections manages people's connections to the yard's servers. It implements
// [httpapi.Connections].
type connections struct {
	yard  *publisher
	store *store.Store // nil if there is no store
	vault func() *secret.Vault
	opts  *Options
	name  string
	log   *slog.Logger

	mu  sync.Mutex
	own []byte // used if no keys are configured
}

// options returns the options for servers whose sign-in links start with address.
func (c *connections) options(address string) serverauth.Options {
	document := ""
	if strings.HasPrefix(address, "https://") {
		document = address + serverauth.DocumentPath
	}
	return serverauth.Options{
		Document: document, Store: c.store, Keys: c.keys, URL: address, Name: c.name, Now: c.opts.Process.Now, Log: c.log,
		Hide: func(text string) { c.vault().HideToken(text) },
		OnConnect: func(server string) {
			if s := c.yard.current.Load().upstreams[server]; s != nil {
				s.Refresh()
			}
		},
	}
}

// address returns the URL at which people reach this process, or "" if there is none.
func (c *connections) address(configured string) string {
	return cmp.Or(c.opts.Command.URL, configured)
}

// connector returns the connector that completes sign-ins when people are redirected back to
// address.
func (c *connections) connector(address string) *serverauth.Connector {
	return &serverauth.Connector{Options: c.options(address), Person: c.person}
}

// person returns the authorizer of a server, or nil.
func (c *connections) person(server string) *serverauth.Person {
	return c.yard.current.Load().people[server]
}

// signIns returns the stored sign-ins at an issuer, or nil if no server needs them.
func (c *connections) signIns(issuer string) *serverauth.SignIns {
	return c.yard.current.Load().signIns[issuer]
}

// refreshSignedIn refreshes the tool lists of servers that are called with people's sign-ins at an
// issuer.
func (c *connections) refreshSignedIn(issuer string) {
	a := c.yard.current.Load()
	for id, s := range a.Servers {
		if s.Auth.UsesSignIns() && s.Auth.At == issuer && a.upstreams[id] != nil && !a.upstreams[id].Up() {
			a.upstreams[id].Refresh()
		}
	}
}

// minKey is the minimum length of an encryption key, in bytes.
const minKey = 32

// keys returns the keys that encrypt connections.
func (c *connections) keys() (keys serverauth.Keys, err error) {
	refs := c.yard.current.Load().Connections.Keys
	for _, ref := range refs {
		text, err := c.vault().Resolve(ref)
		if err != nil {
			return nil, fmt.Errorf("connections.keys: %w", err)
		}
		if len(text.Reveal()) < minKey {
			return nil, fmt.Errorf("connections.keys: a key must be at least %d characters long", minKey)
		}
		keys = append(keys, []byte(text.Reveal()))
	}
	if len(keys) > 0 {
		return keys, nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.own == nil {
		if c.own, err = c.ownKey(); err != nil {
			return nil, err
		}
	}
	return serverauth.Keys{c.own}, nil
}

// ownKey reads or creates the encryption key of a single-machine yard, in a file next to the
// configuration. If there is no configuration file, the key lasts only as long as the process, like
// the store.
func (c *connections) ownKey() ([]byte, error) {
	fresh := []byte(hex.EncodeToString([]byte(rand.Text() + rand.Text())))
	switch {
	case c.store.Kind() == "postgres":
		return nil, errors.New("connections.keys is required because connections are stored in PostgreSQL")
	case c.opts.ConfigFile == "" || c.store.Kind() == "memory":
		return fresh, nil
	}
	path := strings.TrimSuffix(c.opts.ConfigFile, filepath.Ext(c.opts.ConfigFile)) + ".key"
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600) //nolint:gosec // next to the operator's own file
	if errors.Is(err, fs.ErrExist) {
		key, err := safefile.Read(path, 1<<10)
		if err == nil && len(key) < minKey {
			err = fmt.Errorf("%s: the key is too short", path)
		}
		return key, err
	}
	if err != nil {
		return nil, fmt.Errorf("connection key: %w", err)
	}
	_, err = f.Write(fresh)
	return fresh, errors.Join(err, f.Sync(), f.Close())
}

// Connections implements [httpapi.Connections].
func (c *connections) Connections(ctx context.Context, caller toolyard.Caller) (list []httpapi.Connection, err error) {
	owner, ok := serverauth.OwnerOf(caller)
	if !ok {
		return nil, nil
	}
	stored, err := c.store.Connections(ctx, owner)
	if err != nil {
		return nil, err
	}
	people := c.yard.current.Load().people
	for _, id := range slices.Sorted(maps.Keys(people)) {
		p := people[id]
		shown := httpapi.Connection{Server: id, State: "none", Key: p.TakesKey()}
		if i := slices.IndexFunc(stored, func(s serverauth.Connection) bool { return s.Server == id }); i >= 0 {
			shown.State, shown.Issuer, shown.Scopes, shown.Since = stored[i].State, stored[i].Issuer, stored[i].Scopes, stored[i].Created
			shown.Expires, shown.Renewed = p.Lifetime(&stored[i])
		}
		list = append(list, shown)
	}
	return list, nil
}

// maxListed limits how many connections to a server are listed.
const maxListed = 500

// ServerConnections implements [httpapi.Connections].
func (c *connections) ServerConnections(ctx context.Context, server string) (list []httpapi.ServerConnection, more bool, err error) {
	if c.person(server) == nil {
		return nil, false, errNotPerPerson(server)
	}
	stored, err := c.store.ServerConnections(ctx, server, maxListed+1)
	for _, s := range stored[:min(len(stored), maxListed)] {
		list = append(list, httpapi.ServerConnection{Caller: s.Caller, Account: s.Account, State: s.State, Issuer: s.Issuer, Scopes: s.Scopes, Since: s.Created})
	}
	return list, len(stored) > maxListed, err
}

func errNotPerPerson(server string) error {
	return toolyard.Errorf(toolyard.NotFound, "Server %.64q does not exist, or does not require users to connect.", server)
}

// personFor returns the authorizer for a server named by a caller.
func (c *connections) personFor(server string) (*serverauth.Person, error) {
	p := c.person(server)
	switch {
	case p == nil:
		return nil, errNotPerPerson(server)
	case p.URL == "":
		return nil, toolyard.Errorf(toolyard.Unavailable, "Users cannot sign in because Toolyard's own URL is not configured: set url in the configuration, or run: toolyard connect %s", server)
	}
	return p, nil
}

// Link implements [httpapi.Connections].
func (c *connections) Link(caller toolyard.Caller, server string) (string, error) {
	p, err := c.personFor(server)
	if err != nil {
		return "", err
	}
	return p.Link(caller)
}

// Review implements [httpapi.Connections].
func (c *connections) Review(ctx context.Context, caller toolyard.Caller, server, ticket string) (*httpapi.ConnectionReview, error) {
	p, err := c.personFor(server)
	if err != nil {
		return nil, err
	}
	r, err := p.Review(ctx, caller, ticket)
	if err != nil {
		return nil, err
	}
	return &httpapi.ConnectionReview{Server: server, Caller: caller.ID, Key: r.Key, Host: r.Host, Scopes: r.Scopes}, nil
}

// BeginSignIn implements [httpapi.Connections].
func (c *connections) BeginSignIn(ctx context.Context, caller toolyard.Caller, server, ticket string) (address, cookie string, err error) {
	p, err := c.personFor(server)
	if err != nil {
		return "", "", err
	}
	return p.BeginSignIn(ctx, caller, ticket)
}

// EnterKey implements [httpapi.Connections].
func (c *connections) EnterKey(ctx context.Context, caller toolyard.Caller, server, ticket, key string) error {
	p, err := c.personFor(server)
	if err != nil {
		return err
	}
	return p.EnterKey(ctx, caller, ticket, key)
}

// Complete implements [httpapi.Connections].
func (c *connections) Complete(ctx context.Context, caller toolyard.Caller, cookies []string, response string) (string, error) {
	return c.connector("").Complete(ctx, caller, cookies, response)
}

// Disconnect implements [httpapi.Connections].
func (c *connections) Disconnect(ctx context.Context, caller toolyard.Caller, server string) error {
	p := c.person(server)
	if p == nil {
		return errNotPerPerson(server)
	}
	_, err := p.Disconnect(ctx, caller)
	return err
}
