package admission

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// Limits on one caller's idempotency keys. Replicas read a caller's usage every few seconds and
// count locally in between, so several replicas together may exceed the limits slightly.
const (
	maxOutcome      = 64 << 10 // bytes per result
	maxOutcomeBytes = 64 << 20 // bytes of all results together
	maxKeys         = 100_000
	keyUsageTime    = 5 * time.Second
)

// keyUsage tracks how many idempotency keys each scope uses, as seen by this replica.
type keyUsage struct {
	mu     sync.Mutex
	scopes map[string]*scopeUsage
}

type scopeUsage struct {
	ledger.KeyUsage
	read time.Time
}

// count counts a call's key. If the store is not responding, admission fails later.
func (k *keyUsage) count(ctx context.Context, s Store, r *Request) {
	if r.Key == "" {
		return
	}
	k.mu.Lock()
	use := k.scopes[r.Scope]
	fresh := use != nil && time.Since(use.read) < keyUsageTime
	k.mu.Unlock()
	if !fresh {
		now, err := s.KeyUsage(ctx, r.Scope)
		if err != nil {
			return
		}
		use = k.set(r.Scope, now)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	use.Keys++
}

// full reports whether a caller has used up its keys. Existing keys can still be used.
func (k *keyUsage) full(r *Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	use := k.scopes[r.Scope]
	return r.Key != "" && use != nil && use.Keys > maxKeys
}

// set stores a scope's usage and removes old entries.
func (k *keyUsage) set(scope string, now ledger.KeyUsage) *scopeUsage {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.scopes == nil {
		k.scopes = make(map[string]*scopeUsage)
	}
	if len(k.scopes) > maxServed {
		maps.DeleteFunc(k.scopes, func(_ string, use *scopeUsage) bool { return time.Since(use.read) >= keyUsageTime })
	}
	use := &scopeUsage{now, time.Now()}
	k.scopes[scope] = use
	return use
}

// boundOutcome returns the result to store under an idempotency key. If the result is too large, it
// returns an error to store instead.
func (c *Controller) boundOutcome(r *Request, outcome json.RawMessage) json.RawMessage {
	c.keys.mu.Lock()
	defer c.keys.mu.Unlock()
	use := c.keys.scopes[r.Scope]
	if len(outcome) <= maxOutcome && (use == nil || use.Bytes+int64(len(outcome)) <= maxOutcomeBytes) {
		if use != nil {
			use.Bytes += int64(len(outcome))
		}
		return outcome
	}
	return encode((&toolyard.Error{
		Code: toolyard.ResultTooLarge, Message: fmt.Sprintf(
			"The call with this idempotency key has already run and will not run again. Its result (%d bytes) was not stored because the limit is %d bytes per key and %d bytes per caller.",
			len(outcome), maxOutcome, maxOutcomeBytes),
	}).Result())
}
