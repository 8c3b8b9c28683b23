package yard

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/base/backoff"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/serve/offer"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/record"
	"github.com/toolyard/toolyard/internal/telemetry"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// enforcement enforces limits, prices and keys, and records calls.
type enforcement struct {
	store     *store.Store // nil if nothing has to be stored; the loader closes it
	memory    memoryStore  // holds the limits if there is no store
	admission *admission.Controller
	record    *record.Writer     // nil if there is no store
	verifier  *identity.Verifier // nil if there is no store
	retention store.Retention
	storeDown atomic.Bool
}

// newEnforcement does not start background work; see run.
func newEnforcement(opts *Options, replica string, c *config.Source, s *store.Store, args record.Arguments, metrics *telemetry.Metrics, log *slog.Logger) *enforcement {
	e := &enforcement{store: s, retention: store.Retention{
		Calls: c.Record.Retention.Std(), Audit: c.Record.AuditRetention.Std(), Inactive: c.Record.InactiveRetention.Std(),
	}}
	var shared admission.Store = &e.memory
	if s != nil {
		shared, e.verifier = s, identity.NewVerifier(s, opts.Process.Now)
		e.record = record.New(s, record.Options{
			Arguments: args, Intents: c.Record.Writes != "after", Timeout: longestCall(c.Config), Log: log, OnDrop: metrics.Lost,
		})
	}
	e.admission = admission.New(shared, admission.Options{
		Replica: replica, LocalFallback: c.OnStoreDown == "local", Log: log,
		OnStore: func(up bool) {
			metrics.Store(up)
			e.storeDown.Store(!up)
		},
		OnSpendRefused: func(key string) { metrics.SpendRefused(strings.TrimSuffix(settings.LimitKey(key), "/")) },
		Row:            func(c *toolyard.Call, o toolyard.Outcome) *store.CallRow { return record.Row(c, o, args) },
	})
	return e
}

// longestCall returns the maximum duration of any call.
func longestCall(c *config.Config) time.Duration {
	longest := c.Limits.Timeout.Std()
	for _, a := range c.Agents {
		longest = max(longest, a.Limits.Time.Std())
	}
	return longest
}

// problems reports that the store is not responding, and the consequences.
func (e *enforcement) problems(c *config.Config) []toolyard.Problem {
	if !e.storeDown.Load() {
		return nil
	}
	refused := "calls that have a price or an idempotency key"
	if c.Record.Writes != "after" {
		refused = "write calls and " + refused
	}
	message := "is not responding: " + refused + " and calls that have a limit are refused"
	if c.OnStoreDown == "local" {
		message = "is not responding: " + refused + " are refused, and each replica enforces limits on its own for one minute"
	}
	return []toolyard.Problem{{Subject: "store", Message: message, Fix: "Check that the database is running and reachable; Toolyard reconnects automatically."}}
}

// tokens returns the store of one-time tokens that all replicas share, or nil if there is no store.
func (e *enforcement) tokens() mcpserver.Tokens {
	if e.store == nil {
		return nil
	}
	return e.store
}

// results returns the store for long results, or nil if they are kept in memory.
func (e *enforcement) results() offer.Results {
	if e.store == nil {
		return nil
	}
	return e.store
}

// run runs the background work until ctx ends.
func (e *enforcement) run(ctx context.Context, log *slog.Logger) {
	var wg sync.WaitGroup
	wg.Go(func() { e.admission.Run(ctx) })
	wg.Go(func() { e.maintain(ctx, log) })
	if e.store != nil {
		wg.Go(func() { e.record.Run(ctx) })
	}
	wg.Wait()
}

// close closes the in-memory store.
func (e *enforcement) close() error { return e.memory.close() }

// memoryStore opens an in-memory store on first use.
type memoryStore struct {
	once   sync.Once
	opened atomic.Pointer[store.Store]
	err    error
}

// Exchange implements [admission.Store].
func (m *memoryStore) Exchange(ctx context.Context, b *ledger.Batch) (*ledger.Results, error) {
	m.once.Do(func() {
		s, err := store.Open(context.WithoutCancel(ctx), "memory")
		m.opened.Store(s)
		m.err = err
	})
	if m.err != nil {
		return nil, m.err
	}
	return m.opened.Load().Exchange(ctx, b)
}

func (m *memoryStore) close() error {
	m.once.Do(func() { m.err = errClosed })
	if s := m.opened.Load(); s != nil {
		return s.Close()
	}
	return nil
}

var errClosed = errors.New("the yard is closed")

// Sweep implements [admission.Store]. Expired entries in memory are dropped when they are read.
func (m *memoryStore) Sweep(context.Context, int) (bool, error) { return false, nil }

// KeyUsage implements [admission.Store].
func (m *memoryStore) KeyUsage(ctx context.Context, scope string) (ledger.KeyUsage, error) {
	if s := m.opened.Load(); s != nil {
		return s.KeyUsage(ctx, scope)
	}
	return ledger.KeyUsage{}, nil
}

// maintain deletes expired rows and updates aggregates, about once an hour.
func (e *enforcement) maintain(ctx context.Context, log *slog.Logger) {
	for {
		if s := e.limitStore(); s != nil {
			if err := s.Maintain(ctx, e.retention); err != nil && ctx.Err() == nil {
				log.Warn("store maintenance failed; retrying in about an hour", "error", err)
			}
		}
		select {
		case <-time.After(backoff.Jitter(time.Hour)):
		case <-ctx.Done():
			return
		}
	}
}

func (e *enforcement) recorders() []toolyard.Recorder {
	if e.record == nil {
		return nil
	}
	return []toolyard.Recorder{e.record}
}

// limitStore returns the store that holds the limits' state. It returns nil if that is an in-memory
// store that has not been used yet.
func (e *enforcement) limitStore() *store.Store {
	if e.store != nil {
		return e.store
	}
	return e.memory.opened.Load()
}

// limits returns the limits' state in the store, by key.
func (e *enforcement) limits(ctx context.Context, keys []string) (map[string]ledger.LimitUsage, error) {
	s := e.limitStore()
	if s == nil || len(keys) == 0 {
		return nil, nil
	}
	return s.LimitUsage(ctx, keys)
}

// spendLimits returns the spend limits' usage, by key.
func (e *enforcement) spendLimits(ctx context.Context, periods map[string]ledger.Period) (map[string]ledger.SpendUsage, error) {
	s := e.limitStore()
	if s == nil || len(periods) == 0 {
		return nil, nil
	}
	return s.SpendUsage(ctx, periods)
}
