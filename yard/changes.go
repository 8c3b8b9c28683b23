package yard

import (
	"context"
	"sync"

	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/telemetry"
)

// exportedChanges is the audit log in the store. It also exports each change once its outcome is
// stored.
type exportedChanges struct {
	*store.Store
	log   *telemetry.AuditLog
	mu    sync.Mutex
	begun map[string]*store.Change // changes whose requests are still running, by ID
}

// BeginChange implements [httpapi.Changes].
func (e *exportedChanges) BeginChange(ctx context.Context, c *store.Change) error {
	if err := e.Store.BeginChange(ctx, c); err != nil {
		return err
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.begun == nil {
		e.begun = make(map[string]*store.Change)
	}
	e.begun[c.ID] = c
	return nil
}

// EndChange implements [httpapi.Changes].
func (e *exportedChanges) EndChange(ctx context.Context, id string, status int, subject string) error {
	e.mu.Lock()
	c := e.begun[id]
	delete(e.begun, id)
	e.mu.Unlock()
	if err := e.Store.EndChange(ctx, id, status, subject); err != nil || c == nil {
		return err
	}
	e.log.Emit(ctx, telemetry.Change{
		ID: c.ID, At: c.At, Caller: c.Caller, Account: c.Account, Action: c.Action, Subject: subject, Remote: c.Remote, Status: status, Detail: string(c.Detail),
	})
	return nil
}
