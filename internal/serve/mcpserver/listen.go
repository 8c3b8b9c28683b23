package mcpserver

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

// changes are the names of changes, by kind: in the filter of a listener, and on the wire.
var changes = [kinds]struct{ filter, method string }{
	toolKind:     {"toolsListChanged", "notifications/tools/list_changed"},
	promptKind:   {"promptsListChanged", "notifications/prompts/list_changed"},
	resourceKind: {"resourcesListChanged", "notifications/resources/list_changed"},
}

// watch tells a client which of a gate's lists have changed. It keeps nothing but its places on
// the shared channels of the view, so that a process can hold very many.
type watch struct {
	gate  *gate
	next  [kinds]chan struct{} // nil for what the client does not want to know
	tell  func(k kind) bool    // false if the client takes no more
	alive func() bool          // called now and then; nil for a connection that needs no sign of life
	valid func() bool          // whether the client may still be told; nil for always
}

// watchAll watches all lists of a view.
func watchAll(g *gate, v *view) *watch { return &watch{gate: g, next: v.next} }

// run tells of each change, until the client, the gate or the server ends.
func (l *watch) run(ctx context.Context) {
	var alive <-chan time.Time
	if l.alive != nil {
		ticker := time.NewTicker(l.gate.server.opts.Keepalive)
		defer ticker.Stop()
		alive = ticker.C
	}
	for {
		var changed kind
		select {
		case <-l.next[toolKind]:
			changed = toolKind
		case <-l.next[promptKind]:
			changed = promptKind
		case <-l.next[resourceKind]:
			changed = resourceKind
		case <-alive:
			if l.expired() || !l.alive() {
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
		l.next[changed] = l.gate.view.Load().next[changed] // of this kind only: the others may have changed too
		if l.expired() || !l.tell(changed) {
			return
		}
	}
}

func (l *watch) expired() bool { return l.valid != nil && !l.valid() }

// watch makes a watch that writes to an HTTP stream. Whoever loses the right to enter the gate
// loses the stream at the next sign of life.
func (a *access) watch(w http.ResponseWriter, r *http.Request) *watch {
	l := watchAll(a.gate, a.view)
	l.tell = func(k kind) bool { return writeEvent(w, changeMessage(k, "")) == nil }
	l.alive = func() bool {
		_, err := a.gate.admit(r)
		return err == nil && writeNow(w, []byte(": alive\n\n")) == nil
	}
	return l
}

// changeMessage is the notification that a list has changed.
func changeMessage(k kind, params string) []byte {
	return []byte(`{"jsonrpc":"2.0","method":"` + changes[k].method + `","params":{` + params + `}}`)
}

// subscription is a subscriptions/listen request of the modern era.
type subscription struct {
	id   string // the _meta of all that it is told
	all  [kinds]bool
	list string // the accepted kinds, as members of an object
}

func (x *exchange) subscription() (*subscription, *jsonrpc.Error) {
	filter := strictjson.Member(x.env.params, "notifications")
	if len(filter) == 0 || filter[0] != '{' {
		return nil, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "notifications is missing"}
	}
	s := &subscription{id: `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(x.env.id) + `}`}
	var accepted []string
	for k, c := range changes {
		if s.all[k] = string(strictjson.Member(filter, c.filter)) == "true"; s.all[k] {
			accepted = append(accepted, `"`+c.filter+`":true`)
		}
	}
	s.list = strings.Join(accepted, ",")
	return s, nil
}

// run acknowledges the subscription and tells of changes until the watch ends.
func (s *subscription) run(ctx context.Context, l *watch, send func([]byte) bool, end func([]byte)) {
	for k, wanted := range s.all {
		if !wanted {
			l.next[k] = nil
		}
	}
	l.tell = func(k kind) bool { return send(changeMessage(k, s.id)) }
	acknowledged := send([]byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{` + s.id + `,"notifications":{` + s.list + `}}}`))
	if acknowledged && s.list != "" {
		l.run(ctx)
	}
	end([]byte(`{"resultType":"complete",` + s.id + `}`))
}

// listen holds the stream of a subscription open.
func (x *exchange) listen(w http.ResponseWriter, r *http.Request) {
	subscribed, wire := x.subscription()
	if wire != nil {
		writeError(w, x.env.id, wire)
		return
	}
	release, err := x.gate.server.streams.take(x.origin, 1)
	if err != nil {
		refuseBusy(w, err)
		return
	}
	defer release()
	openStream(w)
	send := func(message []byte) bool { return writeEvent(w, message) == nil }
	subscribed.run(r.Context(), x.watch(w, r), send, func(result []byte) { send(appendResponse(nil, x.env.id, result, nil)) })
}
