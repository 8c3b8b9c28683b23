package mcpserve

import (
	"net/http"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// listen holds a subscriptions/listen stream open and says when the tools change. It
// keeps nothing but its place on the shared channel of the view, so that a process can
// hold very many.
func (g *gate) listen(w http.ResponseWriter, r *http.Request, v *view, env *envelope) {
	filter := member(env.params, "notifications")
	if len(filter) == 0 || filter[0] != '{' {
		writeError(w, env.id, &jsonrpc.Error{Code: jsonrpc.CodeInvalidParams, Message: "notifications is missing"})
		return
	}
	subscription := `"_meta":{"` + mcp.MetaKeySubscriptionID + `":` + string(env.id) + `}`
	wanted := string(member(filter, "toolsListChanged")) == "true"
	accepted := `{}`
	if wanted {
		accepted = `{"toolsListChanged":true}`
	}
	openStream(w)
	_ = writeEvent(w, []byte(`{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":{`+subscription+`,"notifications":`+accepted+`}}`))
	if wanted {
		g.wait(w, r, v, []byte(`{"jsonrpc":"2.0","method":"notifications/tools/list_changed","params":{`+subscription+`}}`))
	}
	_ = writeEvent(w, appendResponse(nil, env.id, []byte(`{"resultType":"complete",`+subscription+`}`), nil))
}

// wait writes changed each time the view's tools have changed, until the client, the
// gate or the server ends.
func (g *gate) wait(w http.ResponseWriter, r *http.Request, v *view, changed []byte) {
	alive := time.NewTicker(g.server.opts.Keepalive)
	defer alive.Stop()
	for {
		select {
		case <-v.next:
			v = g.view.Load()
			if writeEvent(w, changed) != nil {
				return
			}
		case <-alive.C:
			if writeNow(w, []byte(": alive\n\n")) != nil {
				return
			}
		case <-r.Context().Done():
			return
		case <-g.closed:
			return
		case <-g.server.done.Done():
			return
		}
	}
}
