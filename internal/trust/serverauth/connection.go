package serverauth

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/seal"
)

// Owner is the person who owns a connection.
type Owner struct {
	Account string // account of an API key; empty for a person with an access token, whose ID is unique
	Caller  string
}

// OwnerOf returns the owner of a caller's connections. ok is false for unauthenticated callers.
func OwnerOf(c toolyard.Caller) (o Owner, ok bool) {
	if !c.Authenticated() {
		return Owner{}, false
	}
	if identity.IssuerOf(c) != "" {
		return Owner{Caller: c.ID}, true
	}
	account := c.Account
	if account == "" {
		account = c.ID
	}
	return Owner{Account: account, Caller: c.ID}, true
}

// The states of a connection.
const (
	Active = "active"
	Stale  = "stale" // the person has to sign in again
)

// Connection is a person's authorization for a server.
type Connection struct {
	Owner
	Server  string
	State   string
	Issuer  string // issuer of the tokens; empty if the person entered a secret
	Scopes  []string
	Sealed  string // sealed grant
	Version int64  // increases with each change, even if the connection is deleted and made again
	Created time.Time
	Changed time.Time
	Used    time.Time // last call by the owner, to within a day
}

// Store stores connections for all replicas.
type Store interface {
	// Connection returns a person's connection to a server, or nil.
	Connection(ctx context.Context, o Owner, server string) (*Connection, error)
	// FirstConnection returns the oldest active connection to a server, or nil.
	FirstConnection(ctx context.Context, server string) (*Connection, error)
	// Connections returns all of a person's connections, sorted by server.
	Connections(ctx context.Context, o Owner) ([]Connection, error)
	// ServerConnections returns up to limit connections to a server, newest first.
	ServerConnections(ctx context.Context, server string, limit int) ([]Connection, error)
	// PutConnection stores a connection if the stored version is before (zero if there is none),
	// and if the lease is held or empty. It reports whether the connection was stored.
	PutConnection(ctx context.Context, c *Connection, before int64, lease string) (bool, error)
	// LeaseConnection reserves a version of a connection for one replica, which may then replace
	// it.
	LeaseConnection(ctx context.Context, c *Connection, holder string, lasts time.Duration) (bool, error)
	ReleaseConnection(ctx context.Context, c *Connection, holder string) error
	// UseConnection records that the owner used a connection. It has no effect if a replica has
	// recorded a use since the connection was read.
	UseConnection(ctx context.Context, c *Connection, at time.Time) error
	// MarkStale marks a version of a connection as unusable.
	MarkStale(ctx context.Context, c *Connection) error
	DeleteConnection(ctx context.Context, o Owner, server string) (bool, error)

	// PutFlow stores a sign-in in progress. TakeFlow returns and deletes it.
	PutFlow(ctx context.Context, id, sealed string, now, expires time.Time) error
	TakeFlow(ctx context.Context, id string) (sealed string, err error)

	// RegisteredClient returns the client registered at an issuer, or "".
	RegisteredClient(ctx context.Context, issuer, redirect string) (sealed string, err error)
	PutRegisteredClient(ctx context.Context, issuer, redirect, sealed string) error

	// Consume marks a link as used and reports whether this was the first use.
	Consume(ctx context.Context, id, owner string, until time.Time) (user string, first bool, err error)
}

// grant is a connection's secret part.
type grant struct {
	Server    *oauthclient.Server      `json:"server,omitempty"`
	Resource  *oauthclient.Resource    `json:"resource,omitempty"`
	Own       *oauthclient.Credentials `json:"own,omitempty"`
	Token     *oauthclient.Token       `json:"token,omitempty"`
	Renew     time.Time                `json:"renew,omitzero"`
	Requested []string                 `json:"requested,omitempty"` // requested scopes
	Secret    string                   `json:"secret,omitempty"`    // secret that the person entered, instead of a token

	connection *Connection
}

// never is the expiry time for sealed values in the store.
var never = time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)

// Keys encrypt stored values. The first key encrypts, and all keys decrypt.
type Keys [][]byte

// seal seals a text for a purpose. It can only be opened with the same binding.
func (k Keys) seal(purpose, text string, until time.Time, binding ...any) string {
	return seal.New(k[0], purpose).Seal(text, bind(binding), until)
}

func (k Keys) open(purpose, sealed string, now time.Time, binding ...any) (text string, id seal.Nonce, ok bool) {
	for _, key := range k {
		if text, id, ok = seal.New(key, purpose).Open(sealed, bind(binding), now); ok {
			return text, id, true
		}
	}
	return "", id, false
}

func bind(parts []any) []byte {
	raw, _ := json.Marshal(parts) // cannot fail
	return raw
}

// The purposes of sealed values.
const (
	sealGrant  = "toolyard connection"
	sealFlow   = "toolyard sign-in at a server"
	sealClient = "toolyard client"
	sealLink   = "toolyard connect link"
)

// sealGrant stores a grant in a connection. It can only be opened for that version of the
// connection.
func (k Keys) sealGrant(c *Connection, g *grant) error {
	raw, err := json.Marshal(g) //nolint:gosec // it is sealed below
	if err == nil {
		c.Sealed = k.seal(sealGrant, string(raw), never, c.Account, c.Caller, c.Server, c.Version)
	}
	return err
}

var errSealed = errors.New("cannot decrypt a stored connection: its encryption key was removed from connections.keys, or the stored data was modified")

func (k Keys) openGrant(c *Connection, now time.Time) (*grant, error) {
	text, _, ok := k.open(sealGrant, c.Sealed, now, c.Account, c.Caller, c.Server, c.Version)
	if !ok {
		return nil, errSealed
	}
	g := &grant{connection: c}
	return g, json.Unmarshal([]byte(text), g)
}
