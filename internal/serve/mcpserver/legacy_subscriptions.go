package mcpserver

import (
	"context"
	"fmt"
	"maps"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"

	"github.com/toolyard/toolyard"
)

// subscriptions holds the resource subscriptions of MCP sessions. A session is not tied to one
// stream: it may open and close several, on any replica. All replicas therefore store its
// subscriptions, and those with an open stream watch the resources.
type subscriptions struct {
	quota *quota

	mu       sync.Mutex
	sessions map[string]*sessionSubscriptions
	swept    time.Time
}

// sessionSubscriptions are the subscriptions of one MCP session.
type sessionSubscriptions struct {
	release map[string]func() // releases the quota, by URI
	updates *updates          // nil while no stream is open
	streams int
	used    time.Time
}

// sweepInterval is the time between searches for expired MCP sessions.
const sweepInterval = time.Minute

// session returns the subscriptions of an MCP session. The caller holds s.mu.
func (s *subscriptions) session(id string, now time.Time) *sessionSubscriptions {
	if s.sessions == nil {
		s.sessions = make(map[string]*sessionSubscriptions)
	}
	if now.Sub(s.swept) > sweepInterval {
		s.swept = now
		for _, old := range s.sessions {
			if old.streams == 0 && now.Sub(old.used) > sessionLifetime {
				old.clear()
			}
		}
		maps.DeleteFunc(s.sessions, func(_ string, old *sessionSubscriptions) bool { return old.unused() })
	}
	found := s.sessions[id]
	if found == nil {
		found = &sessionSubscriptions{release: make(map[string]func())}
		s.sessions[id] = found
	}
	found.used = now
	return found
}

// clear ends all subscriptions.
func (s *sessionSubscriptions) clear() {
	for _, release := range s.release {
		release()
	}
	clear(s.release)
	if s.updates != nil {
		s.updates.close()
	}
}

func (s *sessionSubscriptions) unused() bool { return len(s.release) == 0 && s.streams == 0 }

// dropUnused removes an MCP session that has no subscriptions and no streams. The caller holds
// s.mu.
func (s *subscriptions) dropUnused(id string) {
	if s.sessions[id].unused() {
		delete(s.sessions, id)
	}
}

// add subscribes an MCP session to a resource.
func (s *subscriptions) add(id, origin, uri string, now time.Time) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.session(id, now)
	if found.release[uri] != nil {
		return nil
	}
	if len(found.release) >= maxSubscriptions {
		return toolyard.Errorf(toolyard.RateLimited, "An MCP session can subscribe to at most %d resources.", maxSubscriptions)
	}
	release, err := s.quota.acquire(origin, 1)
	if err != nil {
		s.dropUnused(id)
		return err
	}
	found.release[uri] = release
	if found.updates != nil {
		found.updates.subscribe(uri, false)
	}
	return nil
}

// remove unsubscribes an MCP session from a resource.
func (s *subscriptions) remove(id, uri string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[id]
	if found == nil || found.release[uri] == nil {
		return
	}
	found.release[uri]()
	delete(found.release, uri)
	if found.updates != nil {
		found.updates.unsubscribe(uri)
	}
	s.dropUnused(id)
}

// open returns the updates for a new stream of an MCP session. Resources that were not watched
// before may have changed in the meantime.
func (s *subscriptions) open(id string, g *gate, now time.Time) *updates {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.session(id, now)
	found.streams++
	if found.updates == nil {
		found.updates = newUpdates(g)
		for uri := range found.release {
			found.updates.subscribe(uri, true)
		}
	}
	return found.updates
}

// close records that one of an MCP session's streams has ended.
func (s *subscriptions) close(id string, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	found := s.sessions[id]
	if found == nil {
		return
	}
	found.used = now
	if found.streams--; found.streams > 0 {
		found.updates.signal() // another stream takes over
		return
	}
	found.updates.close()
	found.updates = nil
	s.dropUnused(id)
}

// forget ends all subscriptions of an MCP session.
func (s *subscriptions) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if found := s.sessions[id]; found != nil {
		found.clear()
		s.dropUnused(id)
	}
}

// subscribe handles resources/subscribe and resources/unsubscribe.
func (x *requestContext) subscribe(ctx context.Context) ([]byte, *jsonrpc.Error) {
	uri, kind := x.params.uri, subscribeResource
	if x.message.method == "resources/unsubscribe" {
		kind = unsubscribeResource
	}
	if err := x.changeSubscription(ctx, kind, uri); err != nil {
		return nil, err
	}
	return []byte("{}"), nil
}

func (x *requestContext) changeSubscription(ctx context.Context, kind, uri string) *jsonrpc.Error {
	s := x.gate.server
	if x.session.id == "" {
		return invalid("%s requires an MCP session: initialize first", x.message.method)
	}
	if kind == unsubscribeResource {
		s.legacy.subscriptions.remove(x.session.id, uri)
	} else {
		if rpcErr := x.checkWatchable(uri); rpcErr != nil {
			return rpcErr
		}
		if err := s.legacy.subscriptions.add(x.session.id, subscriberOf(x.origin), uri, s.opts.Now()); err != nil {
			return protocolError(x.view.Gate.Errors, toolyard.AsError(err))
		}
	}
	if err := x.notifyReplicas(ctx, &replicaMessage{Kind: kind, URI: uri, Subscriber: subscriberOf(x.origin)}); err != nil {
		return protocolError(x.view.Gate.Errors, toolyard.AsError(err))
	}
	return nil
}

// checkWatchable returns an error if a resource is not visible or its source does not report
// changes.
func (x *requestContext) checkWatchable(uri string) *jsonrpc.Error {
	if x.view.watchable(uri) != nil {
		return nil
	}
	rpcErr := &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("Resource %.256q does not report changes.", uri)}
	if _, ok := x.view.ReadResource(uri); !ok {
		rpcErr.Code, rpcErr.Message, rpcErr.Data = errResourceNotFound, fmt.Sprintf("Unknown resource %.256q.", uri), readArgs(uri)
	}
	return rpcErr
}
