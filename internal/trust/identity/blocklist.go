package identity

import (
	"context"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
)

// blocklistTTL is how long the cached list of blocked callers is used if there is no notification.
const blocklistTTL = 15 * time.Second

// BlockedCallers lists the IDs of blocked callers.
type BlockedCallers interface {
	BlockedCallers(ctx context.Context) ([]string, error)
}

// Blocklist reports which callers are blocked. It reads the whole list from a store and caches it.
// While the store is unavailable, the cached list is used for a few minutes, like cached API keys;
// after that, all callers are refused.
type Blocklist struct {
	store BlockedCallers
	now   func() time.Time

	mu       sync.Mutex
	blocked  map[string]bool
	read     time.Time     // start of the last successful read; zero if never
	failed   time.Time     // last failure; zero after a successful read
	changes  int           // number of calls to Refresh
	seen     int           // value of changes before the last successful read
	inFlight chan struct{} // closed when the running read ends; may be nil
}

// NewBlocklist returns a list that is read from a store.
func NewBlocklist(store BlockedCallers, now func() time.Time) *Blocklist {
	return &Blocklist{store: store, now: now}
}

// Refresh makes the next check read the list again. It is called when the list has changed.
func (b *Blocklist) Refresh() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.changes++
}

var (
	errBlocked      = toolyard.Errorf(toolyard.PermissionDenied, "Your account is blocked. Contact an operator.")
	errNoBlocklist  = &toolyard.Error{Code: toolyard.Unavailable, Message: "Your account cannot be verified right now. Try again later.", RetryAfter: retryPause}
	errReadCanceled = &toolyard.Error{Code: toolyard.Canceled, Message: "The request was canceled."}
)

// Check returns an error if a caller is blocked. The error is PermissionDenied, or Unavailable if
// the list cannot be read.
func (b *Blocklist) Check(ctx context.Context, caller string) error {
	for {
		b.mu.Lock()
		now := b.now()
		current := fresh(b.read, now, blocklistTTL) && b.seen == b.changes
		if current || fresh(b.failed, now, retryPause) {
			err := b.decide(caller, now)
			b.mu.Unlock()
			return err
		}
		if b.inFlight == nil {
			b.inFlight = b.start(ctx, now)
		}
		done := b.inFlight
		b.mu.Unlock()
		select {
		case <-done:
		case <-ctx.Done():
			return errReadCanceled
		}
	}
}

// decide returns the decision from the cached list.
func (b *Blocklist) decide(caller string, now time.Time) error {
	switch {
	case b.blocked[caller]:
		return errBlocked
	case !fresh(b.read, now, staleTTL):
		return errNoBlocklist
	}
	return nil
}

// start reads the list. The read continues if the request that started it ends, because others may
// be waiting for it.
func (b *Blocklist) start(ctx context.Context, now time.Time) chan struct{} {
	done, changes := make(chan struct{}), b.changes
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), lookupTimeout)
		defer cancel()
		callers, err := b.store.BlockedCallers(ctx)
		b.mu.Lock()
		defer b.mu.Unlock()
		defer close(done)
		b.inFlight = nil
		if err != nil {
			b.failed = b.now()
			return
		}
		blocked := make(map[string]bool, len(callers))
		for _, caller := range callers {
			blocked[caller] = true
		}
		b.blocked, b.read, b.failed, b.seen = blocked, now, time.Time{}, changes
	}()
	return done
}
