package mcpserve

import (
	"net/http"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/toolyard/toolyard/internal/guard"
)

// changes are the names of changes, by kind: in the filter of a listener, and on the wire.
var changes = [kinds]struct{ filter, method string }{
	toolKind:     {"toolsListChanged", "notifications/tools/list_changed"},
	promptKind:   {"promptsListChanged", "notifications/prompts/list_changed"},
	resourceKind: {"resourcesListChanged", "notifications/resources/list_changed"},
}

// listener is one subscriptions/listen stream. It keeps nothing but its places on the
// shared channels of the view, so that a process can hold very many.
type listener struct {
	gate         *gate
	subscription string               // the _meta of all that it is told
	next         [kinds]chan struct{} // nil for what it does not want to know
}

// listen holds a subscriptions/listen stream open and says what has changed.
func (g *gate) listen(w http.ResponseWriter, r *http.Request, v *view, env *envelope) {
	filter := guard.Member(env.params, "notifications")
	if len(filter) == 0 || filter[0] != '{' {
		writeError(w, env.id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "notifications is missing"})
		return
	}
	l := &listener{gate: g, subscription: `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(env.id) + `}`}
	var accepted []string
	for k, c := range changes {
		if string(guard.Member(filter, c.filter)) == "true" {
			l.next[k] = v.next[k]
			accepted = append(accepted, `"`+c.filter+`":true`)
		}
	}
	openStream(w)
	_ = l.tell(w, "notifications/subscriptions/acknowledged", `,"notifications":{`+strings.Join(accepted, ",")+`}`)
	if len(accepted) > 0 {
		l.wait(w, r)
	}
	_ = writeEvent(w, appendResponse(nil, env.id, []byte(`{"resultType":"complete",`+l.subscription+`}`), nil))
}

func (l *listener) tell(w http.ResponseWriter, method, more string) error {
	return writeEvent(w, []byte(`{"jsonrpc":"2.0","method":"`+method+`","params":{`+l.subscription+more+`}}`))
}

// wait tells of each change, until the client, the gate or the server ends.
func (l *listener) wait(w http.ResponseWriter, r *http.Request) {
	alive := time.NewTicker(l.gate.server.opts.Keepalive)
	defer alive.Stop()
	for {
		var changed kind
		select {
		case <-l.next[toolKind]:
			changed = toolKind
		case <-l.next[promptKind]:
			changed = promptKind
		case <-l.next[resourceKind]:
			changed = resourceKind
		case <-alive.C:
			if writeNow(w, []byte(": alive\n\n")) != nil {
				return
			}
			continue
		case <-r.Context().Done():
			return
		case <-l.gate.closed.Done():
			return
		case <-l.gate.server.done.Done():
			return
		}
		l.next[changed] = l.gate.view.Load().next[changed] // of this kind only: the others may have changed too
		if l.tell(w, changes[changed].method, "") != nil {
			return
		}
	}
}
