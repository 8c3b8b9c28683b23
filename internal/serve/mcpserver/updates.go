package mcpserver

import (
	"crypto/sha256"
	"encoding/hex"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Limits of resource subscriptions.
const (
	maxSubscriptions    = 500         // resources of a stream or MCP session
	maxSubscribedURI    = 512         // bytes, so that a message between replicas can contain it
	maxAllSubscriptions = 100_000     // of the server; one caller gets at most a quarter
	updateInterval      = time.Second // between two updates of one resource on one stream
)

// updates collects the changes of the resources that a client has subscribed to. Changes of one
// resource within updateInterval become one update. Streams of one MCP session share it, and each update
// is sent on one of them.
type updates struct {
	gate *gate
	wake chan struct{} // signaled when an update may be due; capacity 1

	subscribing sync.Mutex // held while sources are called
	watched     map[string]watchedResource

	mu    sync.Mutex // never held while sources are called: they call changed with their own locks
	state map[string]*updateState
}

// watchedResource is a resource that is visible at the gate and reports changes. Others are subscribed
// to, but not watched.
type watchedResource struct {
	resource *toolyard.Resource
	stop     func()
}

type updateState struct {
	pending bool      // changed since the last update
	next    time.Time // of the next update at the earliest
}

func newUpdates(g *gate) *updates {
	return &updates{gate: g, wake: make(chan struct{}, 1), watched: make(map[string]watchedResource), state: make(map[string]*updateState)}
}

// reserveSubscriptions charges the quota for the resources of a stream.
func (x *requestContext) reserveSubscriptions(n int) (release func(), err error) {
	if n == 0 {
		return func() {}, nil
	}
	return x.gate.server.legacy.subscriptions.quota.acquire(subscriberOf(x.origin), n)
}

// subscriberOf returns the key of a caller for the quota of subscriptions. It is short, because
// messages between replicas contain it.
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

// subscribe starts to watch a resource. Missed means that it may have changed before.
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

// bind watches the resource that a view has for a URI. The caller holds u.subscribing.
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

// unsubscribe stops to watch a resource.
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

// renew binds the subscriptions to the resources of the current view. A resource that is no longer
// visible is not watched until it is visible again. It returns the channel that is closed when there is
// a newer view; nil if there are no subscriptions.
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

// changed is called by the source of a resource.
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

// due returns the resources to send an update for, and the time until the next ones, or zero if there
// are none.
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

// close stops to watch all resources.
func (u *updates) close() {
	for _, uri := range u.uris() {
		u.unsubscribe(uri)
	}
}

// updateMessage encodes the notification of a changed resource. Params are further members.
func updateMessage(uri, params string) []byte {
	b := []byte(`{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{`)
	if params != "" {
		b = append(append(b, params...), ',')
	}
	return append(jsonobject.AppendString(append(b, `"uri":`...), uri), "}}"...)
}
