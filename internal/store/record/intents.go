package record

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

const (
	// intentTime is how long a write call waits for its intent to be stored.
	intentTime = 2 * time.Second
	// maxIntents is the maximum number of intents in one transaction.
	maxIntents = 1_000
	// lostAfter plus the call's timeout is the age at which a call's outcome counts as lost.
	lostAfter = time.Hour
)

// errNoReply means that an intent was not stored in time.
var errNoReply = errors.New("the store did not respond in time")

// pendingIntent is an intent that is not stored yet.
type pendingIntent struct {
	ledger.Intent
	done      chan error // buffered
	abandoned bool       // the call is no longer waiting
}

// intents stores the intents of concurrent calls in one transaction. While a transaction is
// running, further intents are collected for the next one.
type intents struct {
	store Store

	mu      sync.Mutex
	pending []*pendingIntent
	storing bool
}

// add stores an intent and returns once it is durable.
func (s *intents) add(ctx context.Context, i ledger.Intent) error {
	p := &pendingIntent{Intent: i, done: make(chan error, 1)}
	s.mu.Lock()
	s.pending = append(s.pending, p)
	if !s.storing {
		s.storing = true
		go s.storeAll()
	}
	s.mu.Unlock()
	timer := time.NewTimer(intentTime)
	defer timer.Stop()
	select {
	case err := <-p.done:
		return err
	case <-timer.C:
		s.abandon(p)
		return errNoReply
	case <-ctx.Done():
		s.abandon(p)
		return ctx.Err()
	}
}

func (s *intents) abandon(p *pendingIntent) {
	s.mu.Lock()
	defer s.mu.Unlock()
	p.abandoned = true
}

// storeAll stores pending intents until there are none.
func (s *intents) storeAll() {
	for {
		s.mu.Lock()
		s.pending = slices.DeleteFunc(s.pending, func(p *pendingIntent) bool { return p.abandoned })
		n := min(len(s.pending), maxIntents)
		batch := s.pending[:n:n]
		s.pending = s.pending[n:]
		if n == 0 {
			s.pending, s.storing = nil, false
			s.mu.Unlock()
			return
		}
		s.mu.Unlock()
		s.storeBatch(batch)
	}
}

func (s *intents) storeBatch(batch []*pendingIntent) {
	ctx, cancel := context.WithTimeout(context.Background(), intentTime) // not a caller's context: other callers' intents are in the same batch
	defer cancel()
	list := make([]*ledger.Intent, len(batch))
	for i, p := range batch {
		list[i] = &p.Intent
	}
	err := s.store.AppendIntents(ctx, list)
	if err != nil && len(batch) > 1 && ctx.Err() == nil && !errors.Is(err, ledger.ErrUnavailable) {
		for _, p := range batch { // one of them was rejected
			s.storeBatch([]*pendingIntent{p})
		}
		return
	}
	for _, p := range batch {
		p.done <- err
	}
}

// needsIntent reports whether the writer stores an intent for the call. For paid calls and calls
// with an idempotency key, the ledger does this.
func needsIntent(c *toolyard.Call) bool {
	return !c.Tool.IsReadOnly() && c.IdempotencyKey == "" && admission.Price(c) == 0
}

// Intent implements toolyard.Recorder. It returns once a write call's intent is durable.
func (w *Writer) Intent(ctx context.Context, c *toolyard.Call) error {
	if !w.opts.Intents || !needsIntent(c) {
		return nil
	}
	start := c.Start
	if start.IsZero() {
		start = time.Now()
	}
	row := Row(c, toolyard.Outcome{Start: start, Err: errLost}, w.opts.Arguments)
	return w.intents.add(ctx, ledger.Intent{Call: row, Until: time.Now().Add(w.opts.Timeout + lostAfter).UTC().Truncate(time.Microsecond)})
}

// errLost is recorded as the outcome of a call whose outcome is never recorded.
var errLost = &toolyard.Error{Code: toolyard.OutcomeUnknown, Message: "The yard stopped before the call's outcome was recorded."}
