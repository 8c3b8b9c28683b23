// Package registry serves a yard's servers as a read-only MCP registry. It implements version 0.1
// of the generic registry API, with the filters of the official registry. Clients that support
// registries find the servers there, with the gates' URLs.
package registry

import (
	"cmp"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	v0 "github.com/modelcontextprotocol/registry/pkg/api/v0"

	"github.com/toolyard/toolyard"
)

// Server is a server in the registry.
type Server struct {
	ID, Title, Description, Version string

	URLs    []string       // URLs of the gates that offer it
	Meta    map[string]any // additional metadata
	Updated time.Time
}

// Options configures a registry.
type Options struct {
	// Namespace is the prefix of all names, a reversed domain name. The default is "dev.toolyard".
	Namespace string
	// List returns the servers that the caller may see. An error with the code
	// [toolyard.Unauthenticated] or [toolyard.PermissionDenied] is returned to the caller; any
	// other error means that the list is unavailable.
	List func(*http.Request) ([]Server, error)
}

// Handler serves the registry below /v0.1/.
func Handler(o Options) http.Handler {
	o.Namespace = cmp.Or(o.Namespace, "dev.toolyard")
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v0.1/servers", serve(o.list))
	mux.HandleFunc("GET /v0.1/servers/{name}/versions", serve(o.versions))
	mux.HandleFunc("GET /v0.1/servers/{name}/versions/{version}", serve(o.version))
	return mux
}

// problem is an error response. Official clients read detail; clients of the generic API read
// error.
type problem struct {
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Text   string `json:"error"`
}

func (p *problem) Error() string { return p.Detail }

func refuse(status int, detail string) *problem {
	return &problem{Title: http.StatusText(status), Status: status, Detail: detail, Text: detail}
}

// serve encodes the result or error returned by f.
func serve(f func(*http.Request) (any, error)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "private, no-cache")
		h.Set("X-Content-Type-Options", "nosniff")
		answer, err := f(r)
		if err != nil {
			p := problemOf(err, h)
			h.Set("Content-Type", "application/problem+json")
			send(w, p.Status, p)
			return
		}
		h.Set("Content-Type", "application/json")
		send(w, http.StatusOK, answer)
	}
}

func send(w http.ResponseWriter, status int, body any) {
	raw, err := json.Marshal(body)
	if err != nil { // Meta is not valid JSON
		status, raw = http.StatusInternalServerError, nil
	}
	w.WriteHeader(status)
	_, _ = w.Write(raw)
}

// problemOf converts an error to a response and sets its headers.
func problemOf(err error, h http.Header) *problem {
	if p, ok := errors.AsType[*problem](err); ok {
		return p
	}
	e, ok := errors.AsType[*toolyard.Error](err)
	switch {
	case ok && e.Code == toolyard.Unauthenticated:
		h.Set("WWW-Authenticate", `Bearer realm="toolyard"`)
		return refuse(http.StatusUnauthorized, e.Message)
	case ok && e.Code == toolyard.PermissionDenied:
		return refuse(http.StatusForbidden, e.Message)
	}
	wait := &toolyard.Error{}
	if ok {
		wait = e
	}
	h.Set("Retry-After", wait.RetrySeconds())
	return refuse(http.StatusServiceUnavailable, "The server list is unavailable. Try again later.")
}

// list serves one page of all servers.
func (o Options) list(r *http.Request) (any, error) {
	q, err := parseQuery(r.URL.RawQuery)
	if err != nil {
		return nil, err
	}
	entries, err := o.entries(r)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e v0.ServerResponse) bool { return !q.takes(e) })
	var next string
	if len(entries) > q.limit {
		entries = entries[:q.limit]
		next = encodeCursor(entries[q.limit-1].Server.Name)
	}
	return page(entries, next), nil
}

func page(entries []v0.ServerResponse, next string) v0.ServerListResponse {
	return v0.ServerListResponse{Servers: entries, Metadata: v0.Metadata{Count: len(entries), NextCursor: next}}
}

// versions serves a list with a server's only version.
func (o Options) versions(r *http.Request) (any, error) {
	e, err := o.find(r)
	if err != nil {
		return nil, err
	}
	return page([]v0.ServerResponse{e}, ""), nil
}

// version serves one version of a server.
func (o Options) version(r *http.Request) (any, error) {
	e, err := o.find(r)
	if err != nil {
		return nil, err
	}
	if v := r.PathValue("version"); v != latest && v != e.Server.Version {
		return nil, refuse(http.StatusNotFound, "Server not found")
	}
	return e, nil
}

// find returns the server in the path.
func (o Options) find(r *http.Request) (v0.ServerResponse, error) {
	if err := checkDetailQuery(r.URL.RawQuery); err != nil {
		return v0.ServerResponse{}, err
	}
	entries, err := o.entries(r)
	if err != nil {
		return v0.ServerResponse{}, err
	}
	name := r.PathValue("name")
	i, ok := slices.BinarySearchFunc(entries, name, func(e v0.ServerResponse, name string) int {
		return strings.Compare(e.Server.Name, name)
	})
	if !ok {
		return v0.ServerResponse{}, refuse(http.StatusNotFound, "Server not found")
	}
	return entries[i], nil
}

// entries returns the registry entries, sorted by name. It omits servers whose names are invalid.
func (o Options) entries(r *http.Request) ([]v0.ServerResponse, error) {
	servers, err := o.List(r)
	if err != nil {
		return nil, err
	}
	entries := make([]v0.ServerResponse, 0, len(servers))
	for _, s := range servers {
		if e, ok := s.entry(o.Namespace); ok {
			entries = append(entries, e)
		}
	}
	slices.SortFunc(entries, func(a, b v0.ServerResponse) int { return strings.Compare(a.Server.Name, b.Server.Name) })
	return entries, nil
}
