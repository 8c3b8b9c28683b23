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

// Bounds on what is kept for the idempotency keys of one caller. Replicas look at the use of a
// caller every few seconds and count on by themselves, so it may be passed by what
// other replicas do meanwhile.
const (
	maxOutcome      = 64 << 10 // bytes of one result
	maxOutcomeBytes = 64 << 20 // bytes of all results
	maxKeys         = 100_000
	keyUseTime      = 5 * time.Second
)

// keyUse is what is kept for idempotency keys, by scope, as far as this replica knows.
type keyUse struct {
	mu     sync.Mutex
	scopes map[string]*scopeUse
}

type scopeUse struct {
	ledger.KeyUsage
	seen time.Time
}

// count counts the key of a call. If the store does not answer, the admission fails by itself.
func (k *keyUse) count(ctx context.Context, s Store, ask *Request) {
	if ask.Key == "" {
		return
	}
	k.mu.Lock()
	use := k.scopes[ask.Scope]
	fresh := use != nil && time.Since(use.seen) < keyUseTime
	k.mu.Unlock()
	if !fresh {
		now, err := s.KeyUsage(ctx, ask.Scope)
		if err != nil {
			return
		}
		use = k.set(ask.Scope, now)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	use.Keys++
}

// full reports whether a caller has as many keys as it may have. Those that it has can be sent
// again.
func (k *keyUse) full(ask *Request) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	use := k.scopes[ask.Scope]
	return ask.Key != "" && use != nil && use.Keys > maxKeys
}

// set notes what the store knows, and forgets callers who have not been here lately.
func (k *keyUse) set(scope string, now ledger.KeyUsage) *scopeUse {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.scopes == nil {
		k.scopes = make(map[string]*scopeUse)
	}
	if len(k.scopes) > maxServed {
		maps.DeleteFunc(k.scopes, func(_ string, use *scopeUse) bool { return time.Since(use.seen) >= keyUseTime })
	}
	use := &scopeUse{now, time.Now()}
	k.scopes[scope] = use
	return use
}

// keep is the outcome of a call as it is kept for its idempotency key. One that is too large is
// replaced by an error that says so.
func (d *Controller) keep(ask *Request, outcome json.RawMessage) json.RawMessage {
	d.keys.mu.Lock()
	defer d.keys.mu.Unlock()
	use := d.keys.scopes[ask.Scope]
	if len(outcome) <= maxOutcome && (use == nil || use.Bytes+int64(len(outcome)) <= maxOutcomeBytes) {
		if use != nil {
			use.Bytes += int64(len(outcome))
		}
		return outcome
	}
	return encode((&toolyard.Error{
		Code: toolyard.ResultTooLarge, Message: fmt.Sprintf(
			"The call with this idempotency key has run, and is not run again. Its result of %d bytes was not kept: at most %d bytes are kept for a key, and %d for a caller.",
			len(outcome), maxOutcome, maxOutcomeBytes),
	}).Result())
}
