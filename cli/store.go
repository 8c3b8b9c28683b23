package cli

import (
	"cmp"
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	osuser "os/user"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/untrusted"
)

// openStore is a store that a command has opened, and its address for messages.
type openStore struct {
	*store.Store
	address string
}

// withStore runs fn with this yard's store.
func (a *app) withStore(ctx context.Context, fn func(*openStore) error) error {
	address, err := a.storeAddress()
	if err != nil {
		return fail(err)
	}
	return fail(withStoreAt(ctx, address, fn))
}

// withStoreAt runs fn with the store at an address.
func withStoreAt(ctx context.Context, address string, fn func(*openStore) error) error {
	s, err := store.Open(ctx, address)
	if err != nil {
		return err
	}
	return errors.Join(fn(&openStore{s, address}), s.Close())
}

// storeAddress returns the address of the store that a yard would use with these flags and this
// configuration.
func (a *app) storeAddress() (string, error) {
	address := a.opts.Store
	if address == "" {
		source, err := a.loadConfig()
		if err != nil {
			return "", err
		}
		if !source.NeedsStore() {
			return "", fmt.Errorf("%s does not configure a store, so keys, accounts and recorded calls are not available; %s", cmp.Or(a.opts.ConfigFile, "the configuration"), storeHint)
		}
		address = source.StoreAddress()
	}
	if address == "memory" {
		return "", errors.New("the store is in memory and is lost when the process ends; " + storeHint)
	}
	return address, nil
}

const storeHint = "add store: sqlite:toolyard.db or store: postgres://user@host/database, or use --store"

// name returns the store's address without the password.
func (s *openStore) name() string { return untrusted.Printable(storeName(s.address)) }

func storeName(address string) string {
	if !strings.HasPrefix(address, "postgres") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "postgres"
	}
	u.RawQuery, u.Fragment = "", "" // these may contain a password too
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}

// change describes a change to the store for the audit log.
type change struct {
	action  string // the HTTP API uses the same name for this action
	subject string
	detail  map[string]any // details of the request, never including secrets
}

// changeStore runs fn with this yard's store and audits the change.
func (a *app) changeStore(ctx context.Context, c change, fn func(*openStore) error) error {
	return a.withStore(ctx, func(s *openStore) error {
		return a.audit(ctx, s, c, func() error { return fn(s) })
	})
}

// auditTimeout limits how long recording the result of a change may take.
const auditTimeout = 5 * time.Second

// audit prints which store is changed, runs fn, and records who requested the change, on which
// machine, and its result. If the request cannot be recorded, fn does not run.
func (a *app) audit(ctx context.Context, s *openStore, c change, fn func() error) error {
	fmt.Fprintf(a.err, "store: %s\n", s.name())
	detail, err := json.Marshal(c.detail)
	if err != nil {
		return err
	}
	row := &store.Change{
		ID: rand.Text(), At: a.now().UTC().Truncate(time.Microsecond), Caller: systemUser(),
		Action: c.action, Subject: c.subject, Detail: detail,
	}
	row.Remote, _ = os.Hostname() // empty if the host has no name
	if err := s.BeginChange(ctx, row); err != nil {
		return err
	}
	err = fn()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTimeout)
	defer cancel()
	return errors.Join(err, s.EndChange(ctx, row.ID, statusOf(err), c.subject))
}

// statusOf returns the HTTP status that the API would return for an error.
func statusOf(err error) int {
	refusal, refused := errors.AsType[*toolyard.Error](err)
	switch {
	case err == nil:
		return http.StatusOK
	case refused && refusal.Code == toolyard.NotFound:
		return http.StatusNotFound
	case refused && (refusal.Code == toolyard.IdempotencyConflict || refusal.Code == toolyard.VersionConflict):
		return http.StatusConflict
	case refused:
		return http.StatusBadRequest
	}
	return http.StatusInternalServerError
}

// systemUser returns the caller name for audited commands. No API key can have such a caller name.
func systemUser() string {
	name := "unknown user"
	if u, err := osuser.Current(); err == nil {
		name = u.Username
	}
	return name + " (command line)"
}
