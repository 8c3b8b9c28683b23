package identity

import (
	"context"
	"crypto/subtle"
	"errors"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

const (
	knownTTL      = 30 * time.Second // lifetime of a cached key
	unknownTTL    = 5 * time.Second  // lifetime of a cached unknown prefix
	staleTTL      = 5 * time.Minute  // lifetime of a cached key while the store is unavailable
	listTTL       = 10 * time.Second // lifetime of the list of prefixes, and timeout for reading it
	retryPause    = 2 * time.Second  // time with no lookups after the store failed
	lookupTimeout = 2 * time.Second
	maxKnown      = 10_000 // maximum number of cached keys
	maxUnknown    = 10_000 // maximum number of unknown prefixes that are cached or being looked up
	maxLookups    = 16     // maximum number of concurrent lookups of unlisted prefixes, and of listed ones
)

// Verifier verifies tokens. It caches keys and unknown prefixes, and concurrent requests for the
// same prefix share one lookup. A flood of invented prefixes must not exhaust the store, so at most
// maxUnknown of them are looked up per unknownTTL, and the rest are refused without a lookup. Valid
// keys are not affected: cached keys need no lookup, and during a flood the verifier reads the list
// of all prefixes to recognize the others. It does not limit requests by client address, because
// all clients behind a proxy share one address.
type Verifier struct {
	keys         Keys
	now          func() time.Time
	unknownSlots chan struct{} // limits lookups of prefixes that may not exist
	listedSlots  chan struct{} // limits lookups of listed prefixes

	mu              sync.Mutex
	known           map[string]cachedKey // at most maxKnown
	unknown         map[string]time.Time // maps prefixes to the time of the reply
	order           []string             // keys of unknown, oldest first
	lookups         map[string]*lookup   // running lookups by prefix
	unknownInFlight int                  // number of running lookups of prefixes that may not exist
	listed          map[string]bool      // prefixes in the last list
	listedAt        time.Time            // start of the last read of the list; zero if never
	storeFailedAt   time.Time            // zero after a successful lookup
	refreshedAt     time.Time            // last call to Refresh
}

// cachedKey is a key and the time at which it was read.
type cachedKey struct {
	key Key
	at  time.Time
}

type result struct {
	key Key
	err error
}

// lookup is a running lookup. The result is set when done is closed.
type lookup struct {
	result
	done chan struct{}
}

// NewVerifier returns a verifier that looks up keys in a store.
func NewVerifier(keys Keys, now func() time.Time) *Verifier {
	return &Verifier{
		keys: keys, now: now, unknownSlots: make(chan struct{}, maxLookups), listedSlots: make(chan struct{}, maxLookups),
		known: make(map[string]cachedKey), unknown: make(map[string]time.Time), lookups: make(map[string]*lookup),
	}
}

// Verify returns the caller identified by a token. The error is Unauthenticated, or Unavailable if
// the token cannot be verified. The error reveals that a key is revoked or expired only to the
// holder of its secret.
func (v *Verifier) Verify(ctx context.Context, token string) (toolyard.Caller, error) {
	prefix, hash, err := parse(token)
	if err != nil {
		return toolyard.Caller{}, err
	}
	f := v.find(ctx, prefix)
	if f.err != nil && !isNotFound(f.err) {
		return toolyard.Caller{}, f.err
	}
	// Compare an unknown key with the zero hash, so that both cases take the same time.
	same := subtle.ConstantTimeCompare(f.key.Hash[:], hash[:]) == 1
	if f.err != nil || !same {
		return toolyard.Caller{}, refusal("Unknown API key.")
	}
	if state := f.key.State(v.now()); state != Active {
		return toolyard.Caller{}, refusal("The API key is %s. Request a new one.", state)
	}
	return f.key.caller(), nil
}

// Refresh makes the verifier read each cached key from the store again before its next use. It is
// called when a key was revoked.
func (v *Verifier) Refresh() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.refreshedAt = v.now()
	for prefix, a := range v.known {
		v.known[prefix] = cachedKey{a.key, v.cachedAt(a.at)}
	}
}

// cachedAt returns the time from which a cached key's age is measured. A key that was read before
// the last refresh is only used while the store is unavailable.
func (v *Verifier) cachedAt(read time.Time) time.Time {
	if oldest := v.refreshedAt.Add(-knownTTL); !read.After(v.refreshedAt) && read.After(oldest) {
		return oldest
	}
	return read
}

func isNotFound(err error) bool { return toolyard.AsError(err).Code == toolyard.NotFound }

var (
	errNotFound    = toolyard.Errorf(toolyard.NotFound, "Unknown API key.")
	errUnavailable = &toolyard.Error{Code: toolyard.Unavailable, Message: "API keys cannot be verified right now. Try again later.", RetryAfter: retryPause}
	errBusy        = &toolyard.Error{Code: toolyard.Unavailable, Message: "Too many unknown API keys are being sent. Try again later.", RetryAfter: unknownTTL}
)

// find returns the key with the given prefix from the cache or the store.
func (v *Verifier) find(ctx context.Context, prefix string) result {
	v.mu.Lock()
	f, ok := v.cached(prefix)
	if ok {
		v.mu.Unlock()
		return f
	}
	l := v.startLookup(ctx, prefix)
	v.mu.Unlock()
	select {
	case <-l.done:
		return l.result
	case <-ctx.Done():
		return result{err: errUnavailable}
	}
}

// cached returns a result that needs no lookup. It returns false if a lookup is required and
// possible.
func (v *Verifier) cached(prefix string) (r result, ok bool) {
	now := v.now()
	v.expireUnknown(now)
	a, known := v.known[prefix]
	_, unknown := v.unknown[prefix]
	if !known {
		v.relist(now)
	}
	switch {
	case known && fresh(a.at, now, knownTTL):
		return result{key: a.key}, true
	case unknown:
		return result{err: errNotFound}, true
	case v.lookups[prefix] != nil:
		return result{}, false
	case fresh(v.storeFailedAt, now, retryPause):
		return v.stale(prefix, now), true
	case !known && !v.listed[prefix] && len(v.unknown)+v.unknownInFlight >= maxUnknown:
		return result{err: errBusy}, true
	}
	return result{}, false
}

// stale returns the result to use while the store is unavailable.
func (v *Verifier) stale(prefix string, now time.Time) result {
	if a, ok := v.known[prefix]; ok && fresh(a.at, now, staleTTL) {
		return result{key: a.key}
	}
	return result{err: errUnavailable}
}

// fresh reports whether the age of an event is below a limit. A time in the future is not fresh,
// because it means that the clock was set back.
func fresh(at, now time.Time, limit time.Duration) bool {
	age := now.Sub(at)
	return !at.IsZero() && 0 <= age && age < limit
}

// expireUnknown removes expired unknown prefixes from the cache.
func (v *Verifier) expireUnknown(now time.Time) {
	for len(v.order) > 0 && !fresh(v.unknown[v.order[0]], now, unknownTTL) {
		delete(v.unknown, v.order[0])
		v.order = v.order[1:]
	}
}

// startLookup starts looking up a prefix, or joins a running lookup. The lookup continues if the
// request that started it ends, because others may be waiting for it.
func (v *Verifier) startLookup(ctx context.Context, prefix string) *lookup {
	if l := v.lookups[prefix]; l != nil {
		return l
	}
	l := &lookup{done: make(chan struct{})}
	v.lookups[prefix] = l
	slots := v.slots(prefix)
	if slots == v.unknownSlots {
		v.unknownInFlight++
	}
	go func() {
		start := v.now()
		key, err := v.query(context.WithoutCancel(ctx), prefix, slots)
		v.mu.Lock()
		defer v.mu.Unlock()
		defer close(l.done)
		delete(v.lookups, prefix)
		if slots == v.unknownSlots {
			v.unknownInFlight--
		}
		l.result = v.cache(prefix, key, err, start)
	}()
	return l
}

// slots returns the semaphore for looking up a prefix, or nil if there is no limit.
func (v *Verifier) slots(prefix string) chan struct{} {
	if _, known := v.known[prefix]; known {
		return nil
	}
	if v.listed[prefix] {
		return v.listedSlots
	}
	return v.unknownSlots
}

// query reads a key from the store. It waits for a slot, so that lookups do not use up the store's
// connections.
func (v *Verifier) query(ctx context.Context, prefix string, slots chan struct{}) (Key, error) {
	if slots != nil {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-time.After(lookupTimeout):
			return Key{}, errBusy
		}
	}
	ctx, cancel := context.WithTimeout(ctx, lookupTimeout)
	defer cancel()
	return v.keys.Key(ctx, prefix)
}

// cache caches the outcome of a lookup. start is when the lookup started.
func (v *Verifier) cache(prefix string, key Key, err error, start time.Time) result {
	if errors.Is(err, errBusy) { // the store was not queried
		return result{err: errBusy}
	}
	if err != nil && !isNotFound(err) {
		v.storeFailedAt = v.now()
		return v.stale(prefix, v.storeFailedAt)
	}
	v.storeFailedAt = time.Time{}
	if err != nil {
		delete(v.known, prefix)
		v.unknown[prefix] = v.now()
		v.order = append(v.order, prefix)
		return result{err: errNotFound}
	}
	if _, ok := v.known[prefix]; !ok {
		v.evict()
	}
	v.known[prefix] = cachedKey{key, v.cachedAt(start)}
	return result{key: key}
}

// relist reads the list of prefixes during a flood, that is, if lookups of unlisted prefixes would
// have to wait or would soon be refused. If it fails, the previous list stays in use.
func (v *Verifier) relist(now time.Time) {
	lister, ok := v.keys.(Lister)
	flooded := v.unknownInFlight >= maxLookups || len(v.unknown)+v.unknownInFlight >= maxUnknown/2
	if !ok || !flooded || fresh(v.listedAt, now, listTTL) {
		return
	}
	v.listedAt = now
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), listTTL)
		defer cancel()
		prefixes, err := lister.Prefixes(ctx)
		if err != nil {
			return // lookups report the failure
		}
		listed := make(map[string]bool, len(prefixes))
		for _, prefix := range prefixes {
			listed[prefix] = true
		}
		v.mu.Lock()
		defer v.mu.Unlock()
		v.listed = listed
	}()
}

// evict removes arbitrary keys if the cache is full. They are looked up again when they are used.
func (v *Verifier) evict() {
	for prefix := range v.known {
		if len(v.known) < maxKnown {
			return
		}
		delete(v.known, prefix)
	}
}
