package yard

import (
	"io"
	"net/http"
	"strings"

	"github.com/toolyard/toolyard/internal/base/buildinfo"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/control"
	"github.com/toolyard/toolyard/internal/serve/console"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/serve/mcpserver"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// Handler returns the handler for all endpoints: /mcp, /mcp/{gate}, /api, /console, /v0.1,
// /healthz, /readyz, /licenses and, unless metrics have a separate address, /metrics.
func (y *Yard) Handler() http.Handler { return y.handler }

func (y *Yard) routes(c *config.Source, sealKey httpapi.SealKey) http.Handler {
	gate := func(r *http.Request) string { return y.control.GateName(r.PathValue("gate")) }
	mux := http.NewServeMux()
	mux.Handle("/mcp", y.server.Handler(gate))
	mux.Handle("/mcp/{gate}", y.server.Handler(gate))
	if c.SSE {
		mux.Handle("/sse", y.server.SSEHandler(gate))
		mux.Handle("/sse/{gate}", y.server.SSEHandler(gate))
	}
	mux.Handle("GET /api/tools/catalog", protectCatalog(y.control, y.access, httpapi.Catalog(y.control.View, y.Down)))
	mux.Handle("/api/v1/", y.api(c, sealKey))
	pages := console.Handler()
	mux.Handle(console.Prefix, pages)
	mux.Handle(console.Prefix+"/", pages)
	mux.Handle("GET /{$}", http.RedirectHandler(console.Prefix+"/", http.StatusFound))
	mux.Handle("/v0.1/", y.control.Registry())
	if c.Metrics.Listen == "" {
		mux.Handle("GET /metrics", y.access.protectMetrics(y.metrics.Handler()))
	}
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "ok\n") })
	mux.HandleFunc("GET /readyz", y.serveReady)
	mux.HandleFunc("GET /licenses", serveLicenses)
	all := http.NewServeMux()
	for _, path := range []string{"", "/mcp", "/mcp/{gate}", apiPath} {
		all.HandleFunc(metadataPath+path, y.access.serveMetadata) // open to clients from any origin
	}
	if y.enforcement.store != nil {
		people := y.assembler.connections.connector(y.assembler.connections.address(c.URL))
		mux.HandleFunc(serverauth.CallbackPath, people.ServeCallback)
		all.HandleFunc(serverauth.DocumentPath, people.ServeDocument) // fetched by authorization servers
	}
	all.Handle("/", protect(c, y.access.keepToken(mux)))
	return all
}

func (y *Yard) serveReady(w http.ResponseWriter, _ *http.Request) {
	if !y.isReady() {
		http.Error(w, "sources are starting", http.StatusServiceUnavailable)
		return
	}
	if down := y.missing(); len(down) > 0 {
		http.Error(w, "servers are down: "+strings.Join(down, ", "), http.StatusServiceUnavailable)
		return
	}
	_, _ = io.WriteString(w, "ok\n")
}

// serveLicenses serves the license texts of this binary's components, omitting their versions.
func serveLicenses(w http.ResponseWriter, _ *http.Request) {
	text, err := buildinfo.Licenses()
	if err != nil {
		http.Error(w, err.Error(), http.StatusNotFound)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write(text)
}

// api returns the HTTP API. If there is no store, its endpoints for keys, balances and recorded
// calls are disabled.
func (y *Yard) api(c *config.Source, sealKey httpapi.SealKey) http.Handler {
	o := httpapi.Options{
		Identify: y.access.identify, Yard: y.control, Live: y.live, Execute: y.control.Execute, Gates: y.control.Gates, Links: httpapi.LinkOptions{Check: y.opts.CheckLink},
		MaxBody: int64(c.Limits.Body), Now: y.opts.Process.Now, Log: y.log,
	}
	if y.opts.Identify == nil { // otherwise the embedding program identifies callers
		o.People.Issuers = people{y.access}
	}
	if s := y.enforcement.store; s != nil {
		o.Seal, o.People.Store = func() httpapi.SealKey { return sealKey }, s
		o.Connections = y.assembler.connections
		o.Ledger, o.Balances, o.Calls, o.Links.Store, o.Changes = s, s, s, s, &exportedChanges{Store: s, log: y.auditLog}
		o.Queries = httpapi.QueryOptions{Store: s, Time: y.queryTime}
		if y.opts.Identify == nil { // otherwise API keys are not used for authentication
			o.Keys = s
		}
	}
	return httpapi.V1(o)
}

// protectCatalog serves a gate's catalog only to callers that may use the gate.
func protectCatalog(c *control.Control, a *access, next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if v, ok := c.View(r.URL.Query().Get("gate")); ok {
			if _, err := a.authorizeRequest(r, v.Gate); err != nil {
				mcpserver.Refuse(w, r, err, a.metadataURL(r, v.Gate))
				return
			}
		}
		next.ServeHTTP(w, r)
	})
}

func stringsOf[T ~string](list []T) (out []string) {
	for _, t := range list {
		out = append(out, string(t))
	}
	return out
}
