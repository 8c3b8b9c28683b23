package cli

import (
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
	"github.com/toolyard/toolyard/upstream"
)

// change is what a command changes in a store, as the audit of changes has it.
type change struct {
	action  string // one of those of the HTTP API, where it has the same
	subject string
	detail  map[string]any // what was asked for; never a secret
}

// changeStore runs fn on the store of the configuration, says which one that is, and records who
// changed what there.
func (p *program) changeStore(ctx context.Context, c change, fn func(*store.Store) error) error {
	return p.withStore(ctx, func(s *store.Store) error {
		return p.audit(ctx, s, c, func() error { return fn(s) })
	})
}

// audit runs fn and records who wanted it, from where, and how it ended. What cannot be recorded
// is not done. It says which store is changed.
func (p *program) audit(ctx context.Context, s *store.Store, c change, fn func() error) error {
	fmt.Fprintf(p.err, "store: %s\n", untrusted.Printable(storeName(p.opened)))
	detail, err := json.Marshal(c.detail)
	if err != nil {
		return err
	}
	row := &store.Change{
		ID: rand.Text(), At: p.now().UTC().Truncate(time.Microsecond), Caller: systemUser(),
		Action: c.action, Subject: c.subject, Detail: detail,
	}
	row.Remote, _ = os.Hostname() // without a name it says only who
	if err := s.BeginChange(ctx, row); err != nil {
		return err
	}
	err = fn()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), auditTime)
	defer cancel()
	return errors.Join(err, s.EndChange(ctx, row.ID, statusOf(err), c.subject))
}

// auditApproval approves definitions of a server, and records it if this yard has a store.
func (p *program) auditApproval(server string, tools []upstream.Pending, approve func() error) error {
	source, err := p.source()
	if err != nil {
		return err
	}
	if !source.NeedsStore() || source.StoreAddress() == "memory" {
		return approve()
	}
	names := make([]string, len(tools))
	for i, t := range tools {
		names[i] = t.Tool
	}
	ctx := context.Background()
	return p.onStore(ctx, source.StoreAddress(), func(s *store.Store) error {
		return p.audit(ctx, s, change{"server.approve", server, map[string]any{"tools": names[:min(len(names), maxAudited)]}}, approve)
	})
}

// maxAudited is how many tools of an approval are named in the audit.
const maxAudited = 200

// auditTime is how long it may take to record how a change ended.
const auditTime = 5 * time.Second

// statusOf is how a change ended, as the HTTP API would answer.
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

// systemUser is who runs this command. No API key can be for a caller of such a name.
func systemUser() string {
	name := "unknown user"
	if u, err := osuser.Current(); err == nil {
		name = u.Username
	}
	return name + " (command line)"
}

// storeName is the address of a store without its password.
func storeName(address string) string {
	if !strings.HasPrefix(address, "postgres") {
		return address
	}
	u, err := url.Parse(address)
	if err != nil {
		return "postgres"
	}
	u.RawQuery, u.Fragment = "", "" // there may be a password too
	if u.User != nil {
		u.User = url.User(u.User.Username())
	}
	return u.String()
}
