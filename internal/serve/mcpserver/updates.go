package mcpserver

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Limits on resource subscriptions.
const (
	maxSubscriptions    = 500         // resources per stream or MCP session
	maxSubscribedURI    = 512         // bytes, so that it fits in a message between replicas
	maxAllSubscriptions = 100_000     // per server; a single caller gets at most a quarter
	updateInterval      = time.Second // minimum time between two updates of one resource on one stream
)

// updates collects changes to the resources that a client has subscribed to. Several changes to one
// resource within updateInterval become one update. The streams of one MCP session share it, and
// each update is sent on only one of them.
type updates struct {
	gate *gate
	wake chan struct{} // signaled when an update may be due; capacity 1

	subscribing sync.Mutex // held while sources are called
	watched     map[string]watchedResource

	mu    sync.Mutex // never held while sources are called, because they call changed with their own locks held
	state map[string]*updateState
}

// watchedResource is a resource that is visible at the gate and reports changes. Clients can
// subscribe to other resources, but these are not watched.
type watchedResource struct {
	resource *toolyard.Resource
	stop     func()
}

type updateState struct {
	pending bool      // changed since the last update
	next    time.Time // earliest time of the next update
}

func newUpdates(g *gate) *updates {
	return &updates{gate: g, wake: make(chan struct{}, 1), watched: make(map[string]watchedResource), state: make(map[string]*updateState)}
}

// reserveSubscriptions charges the quota for a stream's resources.
func (x *requestContext) reserveSubscriptions(n int) (release func(), err error) {
	if n == 0 {
		return func() {}, nil
	}
	return x.gate.server.legacy.subscriptions.quota.acquire(subscriberOf(x.origin), n)
}

// subscriberOf returns a caller's key for the subscription quota. It is short because messages
// between replicas contain it.
func subscriberOf(origin string) string {
	sum := sha256.Sum256([]byte(origin))
	return hex.EncodeToString(sum[:8])
}

// watchable returns the resource for a URI if it is visible and reports changes.
func (v *view) watchable(uri string) *toolyard.Resource {
	if len(uri) > maxSubscribedURI {
		return nil
	}
	if r, ok := v.ReadResource(uri); ok && r.Watch != nil {
		return r
	}
	return nil
}

// subscribe starts watching a resource. missed is set if the resource may have changed before.
func (u *updates) subscribe(uri string, missed bool) {
	u.subscribing.Lock()
	defer u.subscribing.Unlock()
	u.mu.Lock()
	if u.state[uri] == nil {
		u.state[uri] = &updateState{pending: missed}
	}
	u.mu.Unlock()
	u.bind(u.gate.view.Load(), uri)
	u.signal()
}

// bind watches the view's resource for a URI. The caller holds u.subscribing.
func (u *updates) bind(v *view, uri string) {
	r, old := v.watchable(uri), u.watched[uri]
	if r == old.resource {
		return
	}
	if old.stop != nil {
		old.stop()
	}
	delete(u.watched, uri)
	if r != nil {
		u.watched[uri] = watchedResource{r, r.Watch(uri, func() { u.changed(uri) })}
	}
}

// unsubscribe stops watching a resource.
func (u *updates) unsubscribe(uri string) {
	u.subscribing.Lock()
	defer u.subscribing.Unlock()
	u.mu.Lock()
	delete(u.state, uri)
	u.mu.Unlock()
	if old := u.watched[uri]; old.stop != nil {
		old.stop()
	}
	delete(u.watched, uri)
}

// renew binds the subscriptions to the current view's resources. A resource that is no longer
// visible is not watched until it is visible again. The returned channel is closed when there is a
// newer view; it is nil if there are no subscriptions.
func (u *updates) renew() (renewed <-chan struct{}) {
	u.subscribing.Lock()
	defer u.subscribing.Unlock()
	v := u.gate.view.Load()
	for _, uri := range u.uris() {
		u.bind(v, uri)
		renewed = v.renewed
	}
	return renewed
}

func (u *updates) uris() []string {
	u.mu.Lock()
	defer u.mu.Unlock()
	list := make([]string, 0, len(u.state))
	for uri := range u.state {
		list = append(list, uri)
	}
	return list
}

// changed is called by a resource's source.
func (u *updates) changed(uri string) {
	u.mu.Lock()
	s := u.state[uri]
	if s != nil {
		s.pending = true
	}
	u.mu.Unlock()
	if s != nil {
		u.signal()
	}
}

func (u *updates) signal() {
	select {
	case u.wake <- struct{}{}:
	default:
	}
}

// due returns the resources whose updates are due, and the time until the next update, or zero if
// there is none.
func (u *updates) due(now time.Time) (uris []string, wait time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for uri, s := range u.state {
		switch left := s.next.Sub(now); {
		case !s.pending:
		case left <= 0:
			s.pending, s.next = false, now.Add(updateInterval)
			uris = append(uris, uri)
		case wait == 0 || left < wait:
			wait = left
		}
	}
	return uris, wait
}

// close stops watching all resources.
func (u *updates) close() {
	for _, uri := range u.uris() {
		u.unsubscribe(uri)
	}
}

// updateMessage encodes the notification that a resource has changed. params contains additional
// members.
func updateMessage(uri, params string) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{`)
	if params != "" {
		b = append(append(b, params...), ',')
	}
	return append(jsonobject.AppendString(append(b, `"uri":`...), uri), "}}"...)
}
