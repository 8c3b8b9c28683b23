package upstream

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/backoff"
	"github.com/toolyard/toolyard/internal/base/jsonobject"
)

// Limits on subscriptions to a server's resources.
const (
	maxRelayed       = 5_000                 // watched resources; further ones are ignored
	relaySettle      = 50 * time.Millisecond // changes within this time are sent together
	subscribeTimeout = 10 * time.Second
)

// relay subscribes to the server's resources that clients watch, and reports updates. It outlives
// sessions: it subscribes again in each new session.
type relay struct {
	watchers toolyard.ResourceWatchers
	changed  chan struct{} // signaled when the set of watched resources changes

	mu    sync.Mutex
	count map[string]int // number of watchers by URI
}

func newRelay() *relay {
	return &relay{changed: make(chan struct{}, 1), count: make(map[string]int)}
}

// watch implements Resource.Watch.
func (r *relay) watch(uri string, changed func()) (stop func()) {
	unwatch := r.watchers.Watch(uri, changed)
	r.add(uri, 1)
	return sync.OnceFunc(func() {
		unwatch()
		r.add(uri, -1)
	})
}

func (r *relay) add(uri string, n int) {
	r.mu.Lock()
	if r.count[uri] += n; r.count[uri] == 0 {
		delete(r.count, uri)
	}
	r.mu.Unlock()
	signal(r.changed)
}

// uris returns the URIs of the watched resources, sorted.
func (r *relay) uris() []string {
	r.mu.Lock()
	defer r.mu.Unlock()
	list := slices.Sorted(maps.Keys(r.count))
	return list[:min(len(list), maxRelayed)]
}

// updated handles notifications/resources/updated.
func (r *relay) updated(m message) { r.watchers.Changed(text(m.params, "uri")) }

// missed reports all resources as changed, because an update may have been lost.
func (r *relay) missed() {
	for _, uri := range r.uris() {
		r.watchers.Changed(uri)
	}
}

// run keeps a session's subscriptions up to date until ctx or the session ends.
func (r *relay) run(ctx context.Context, s *session) {
	if !s.capabilities["resources.subscribe"] {
		return
	}
	if s.modern() {
		r.runModern(ctx, s)
	} else {
		r.runLegacy(ctx, s)
	}
}

// runLegacy subscribes to one resource at a time. If the server refuses a resource, the next
// session tries again.
func (r *relay) runLegacy(ctx context.Context, s *session) {
	subscribed := make(map[string]bool)
	send := func(method, uri string) error {
		ctx, cancel := context.WithTimeout(ctx, subscribeTimeout)
		defer cancel()
		_, err := s.request(ctx, request{method: method, params: jsonobject.AppendString([]byte(`"uri":`), uri)})
		return err
	}
	for {
		want := r.uris()
		for _, uri := range want {
			if !subscribed[uri] && send("resources/subscribe", uri) == nil {
				r.watchers.Changed(uri) // the resource may have changed before
			}
			subscribed[uri] = true
		}
		for uri := range subscribed {
			if !slices.Contains(want, uri) {
				_ = send("resources/unsubscribe", uri) // its updates are ignored anyway
				delete(subscribed, uri)
			}
		}
		if !r.awaitChange(ctx, nil) {
			return
		}
	}
}

// awaitChange waits until the set of watched resources changes or a stream ends. It returns false when ctx
// ends.
func (r *relay) awaitChange(ctx context.Context, streamEnded <-chan struct{}) bool {
	select {
	case <-ctx.Done():
		return false
	case <-streamEnded:
		return true
	case <-r.changed:
		return backoff.Sleep(ctx, relaySettle)
	}
}

// runModern keeps a stream open whose filter contains all watched resources. If the set changes, a
// new stream is opened; the old one ends when the new one is acknowledged.
func (r *relay) runModern(ctx context.Context, s *session) {
	var current resourceStream
	defer func() { current.close() }()
	pause := time.Second
	for {
		want := r.uris()
		if current.ended != nil && isClosed(current.ended) {
			if !backoff.Sleep(ctx, backoff.Jitter(pause)) {
				return
			}
			pause = min(2*pause, time.Minute)
			current = resourceStream{}
		}
		if !slices.Equal(want, current.uris) {
			next := s.openResourceStream(ctx, want, r)
			for _, uri := range want {
				if !slices.Contains(current.uris, uri) {
					r.watchers.Changed(uri) // the resource may have changed before
				}
			}
			current.close()
			current = next
		}
		if !r.awaitChange(ctx, current.ended) {
			return
		}
	}
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// resourceStream is a subscriptions/listen stream for resource updates. The zero value is a stream
// with no resources.
type resourceStream struct {
	uris  []string
	stop  context.CancelFunc
	ended <-chan struct{}
}

func (s *resourceStream) close() {
	if s.stop != nil {
		s.stop()
		<-s.ended
	}
}

// openResourceStream opens a stream and waits until it is acknowledged.
func (s *session) openResourceStream(ctx context.Context, uris []string, r *relay) resourceStream {
	if len(uris) == 0 {
		return resourceStream{}
	}
	ctx, stop := context.WithCancel(ctx)
	acknowledged, ended, id := make(chan struct{}), make(chan struct{}), s.ids.Add(1)
	key := strconv.FormatInt(id, 10)
	s.opening.Store(key, acknowledged)
	defer s.opening.Delete(key)
	list, _ := json.Marshal(uris) // cannot fail
	meter := newMeter()
	go func() {
		defer close(ended)
		defer stop()
		_, _ = s.request(ctx, request{
			id: id, method: "subscriptions/listen",
			params: append(append([]byte(`"notifications":{"resourceSubscriptions":`), list...), '}'),
			onMessage: func(m message) {
				if s.handleMessage(m); !meter.allow() {
					stop()
				}
			},
		})
	}()
	select {
	case <-acknowledged:
	case <-ended:
	case <-time.After(subscribeTimeout):
	}
	return resourceStream{uris, stop, ended}
}
