package mcpserver

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/base/jsonobject"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// changes maps each kind to its names in subscription filters and notifications.
var changes = [kinds]struct{ filter, method string }{
	toolKind:     {"toolsListChanged", "notifications/tools/list_changed"},
	promptKind:   {"promptsListChanged", "notifications/prompts/list_changed"},
	resourceKind: {"resourcesListChanged", "notifications/resources/list_changed"},
}

// watch notifies a client of changed lists. It uses the view's shared channels, so a process can
// have a great many watches.
type watch struct {
	gate      *gate
	changed   [kinds]chan struct{} // nil for kinds that the client does not watch
	notify    func(k kind) bool    // returns false if the client has disconnected
	updates   *updates             // resource updates; may be nil
	update    func(uri string) bool
	keepalive func() bool // called periodically; may be nil
	valid     func() bool // reports whether the client still has access; nil means always
}

// watchAll watches all lists of a view.
func watchAll(g *gate, v *view) *watch { return &watch{gate: g, changed: v.changed} }

// run notifies the client of changes until the client disconnects or the gate or server closes.
func (l *watch) run(ctx context.Context) {
	var keepalive <-chan time.Time
	if l.keepalive != nil {
		ticker := time.NewTicker(l.gate.server.opts.Keepalive)
		defer ticker.Stop()
		keepalive = ticker.C
	}
	updated, renewed, later := l.watchUpdates()
	defer later.Stop()
	for {
		var k kind
		select {
		case <-updated:
			if l.expired() || !l.sendUpdates(later) {
				return
			}
			if renewed == nil {
				renewed = l.updates.renew()
			}
			continue
		case <-later.C:
			l.updates.signal()
			continue
		case <-renewed:
			renewed = l.updates.renew()
			continue
		case <-l.changed[toolKind]:
			k = toolKind
		case <-l.changed[promptKind]:
			k = promptKind
		case <-l.changed[resourceKind]:
			k = resourceKind
		case <-keepalive:
			if l.expired() || !l.keepalive() {
				return
			}
			continue
		case <-ctx.Done():
			return
		case <-l.gate.closed.Done():
			return
		case <-l.gate.server.done.Done():
			return
		}
		l.changed[k] = l.gate.view.Load().changed[k] // only this kind: the others may have changed too
		if l.expired() || !l.notify(k) {
			return
		}
	}
}

// watchUpdates returns the channels for resource updates, and a stopped timer.
func (l *watch) watchUpdates() (updated, renewed <-chan struct{}, later *time.Timer) {
	later = time.NewTimer(time.Hour)
	later.Stop()
	if l.updates == nil {
		return nil, nil, later
	}
	return l.updates.wake, l.updates.renew(), later
}

// sendUpdates sends the updates that are due, and sets the timer for the next ones.
func (l *watch) sendUpdates(later *time.Timer) bool {
	uris, wait := l.updates.due(time.Now())
	for _, uri := range uris {
		if !l.update(uri) {
			return false
		}
	}
	if wait > 0 {
		later.Reset(wait)
	}
	return true
}

func (l *watch) expired() bool { return l.valid != nil && !l.valid() }

// watch creates a watch that writes to an HTTP stream. After the caller loses access to the gate,
// the stream ends at the next keepalive.
func (a *access) watch(w http.ResponseWriter, r *http.Request) *watch {
	l := watchAll(a.gate, a.view)
	l.notify = func(k kind) bool { return writeEvent(w, changeMessage(k, "")) == nil }
	l.update = func(uri string) bool { return writeEvent(w, updateMessage(uri, "")) == nil }
	l.keepalive = func() bool {
		_, err := a.gate.authorize(r)
		return err == nil && writeNow(w, []byte(": keepalive\n\n")) == nil
	}
	return l
}

// changeMessage encodes the notification that a list has changed.
func changeMessage(k kind, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"` + changes[k].method + `","params":{` + params + `}}`)
}

// subscription is a subscriptions/listen request in the modern era.
type subscription struct {
	id        string // _meta member for its notifications
	kinds     [kinds]bool
	resources []string // URIs
	filter    string   // accepted kinds and resources, encoded as members of an object
}

func (x *requestContext) subscription() (*subscription, *jsonrpc.Error) {
	filter := strictjson.Member(x.message.params, "notifications")
	if len(filter) == 0 || filter[0] != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "notifications is missing"}
	}
	s := &subscription{id: `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(x.message.id) + `}`}
	var accepted []string
	for k, c := range changes {
		if s.kinds[k] = string(strictjson.Member(filter, c.filter)) == "true"; s.kinds[k] {
			accepted = append(accepted, `"`+c.filter+`":true`)
		}
	}
	var rpcErr *jsonrpc.Error
	if s.resources, rpcErr = x.subscribedResources(strictjson.Member(filter, "resourceSubscriptions")); rpcErr != nil {
		return nil, rpcErr
	}
	if len(s.resources) > 0 {
		list, _ := jsonobject.Marshal(s.resources) // cannot fail
		accepted = append(accepted, `"resourceSubscriptions":`+string(list))
	}
	s.filter = strings.Join(accepted, ",")
	return s, nil
}

// subscribedResources returns the filter's resources that are visible and report changes.
func (x *requestContext) subscribedResources(raw json.RawMessage) (accepted []string, _ *jsonrpc.Error) {
	var uris []string
	if raw != nil && json.Unmarshal(raw, &uris) != nil || len(uris) > maxSubscriptions {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: fmt.Sprintf("resourceSubscriptions must be an array of at most %d URIs", maxSubscriptions)}
	}
	for _, uri := range uris {
		if x.view.watchable(uri) != nil && !slices.Contains(accepted, uri) {
			accepted = append(accepted, uri)
		}
	}
	return accepted, nil
}

// run acknowledges the subscription and sends notifications until the watch ends.
func (s *subscription) run(ctx context.Context, l *watch, send func([]byte) bool, end func([]byte)) {
	for k, wanted := range s.kinds {
		if !wanted {
			l.changed[k] = nil
		}
	}
	l.notify = func(k kind) bool { return send(changeMessage(k, s.id)) }
	if len(s.resources) > 0 {
		l.updates = newUpdates(l.gate)
		defer l.updates.close()
		l.update = func(uri string) bool { return send(updateMessage(uri, s.id)) }
		for _, uri := range s.resources {
			l.updates.subscribe(uri, false)
		}
	}
	acknowledged := send([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + s.id + `,"notifications":{` + s.filter + `}}}`))
	if acknowledged && s.filter != "" {
		l.run(ctx)
	}
	end([]byte(`{"resultType":"complete",` + s.id + `}`))
}

// listen serves a subscription's stream.
func (x *requestContext) listen(w http.ResponseWriter, r *http.Request) {
	subscribed, rpcErr := x.subscription()
	if rpcErr != nil {
		writeError(w, x.message.id, rpcErr)
		return
	}
	release, err := x.gate.server.streams.acquire(x.origin, 1)
	if err != nil {
		refuseBusy(w, err)
		return
	}
	defer release()
	releaseResources, err := x.reserveSubscriptions(len(subscribed.resources))
	if err != nil {
		refuseBusy(w, err)
		return
	}
	defer releaseResources()
	openStream(w)
	send := func(message []byte) bool { return writeEvent(w, message) == nil }
	subscribed.run(r.Context(), x.watch(w, r), send, func(result []byte) { send(appendResponse(nil, x.message.id, result, nil)) })
}
