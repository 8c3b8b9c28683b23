package yard

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/signin"
)

// metadataPath is the path prefix that RFC 9728 defines for a protected resource's metadata. The
// resource's own path follows it.
const metadataPath = "/.well-known/oauth-protected-resource"

// apiPath is the path of the HTTP API, which is a separate resource.
const apiPath = "/api/v1"

// tokenAccess verifies access tokens for the resources of a yard: its gates and its HTTP API. It is
// replaced when the configuration changes.
type tokenAccess struct {
	verifier *accesstoken.Verifier
	signIn   *signin.Client
	url      string // URL of this server; resource identifiers are derived from it, never from a Host header
	gates    map[string]*gates.Gate
	main     string // name of the gate at /mcp
	issuers  []accesstoken.Issuer
}

// tokenOptions are the parts of a yard that access tokens and sign-ins need.
type tokenOptions struct {
	seen   func(callerID string, p *accesstoken.Person)
	secret func(ref string) (string, error)
	now    func() time.Time
	log    *slog.Logger
}

// newTokenAccess returns nil if there are no issuers.
func newTokenAccess(s *settings.Settings, previous *tokenAccess, o tokenOptions) *tokenAccess {
	if len(s.Issuers) == 0 {
		return nil
	}
	t := &tokenAccess{url: s.URL, gates: make(map[string]*gates.Gate), main: config.DefaultGate, issuers: s.AccessIssuers(o.secret)}
	if previous == nil {
		previous = &tokenAccess{}
	}
	t.verifier = accesstoken.New(accesstoken.Options{
		Issuers: t.issuers, Private: config.Prefixes(s.PrivateNetworks), Previous: previous.verifier, Seen: o.seen, Now: o.now, Log: o.log,
	})
	t.signIn = signin.New(t.verifier, registrations(s, o.secret), previous.signIn, o.log)
	for _, g := range s.Gates {
		t.gates[g.Name] = g
	}
	if len(s.Gates) == 1 {
		t.main = s.Gates[0].Name
	}
	return t
}

// resources returns the resource identifiers of a gate, or of the HTTP API if the gate is nil.
func (t *tokenAccess) resources(g *gates.Gate) []string {
	switch {
	case g == nil:
		return []string{t.url + apiPath}
	case g.Name == t.main:
		return []string{t.url + "/mcp/" + g.Name, t.url + "/mcp"}
	}
	return []string{t.url + "/mcp/" + g.Name}
}

// metadataURL returns the URL of a gate's metadata, or "" if the gate accepts no access tokens.
func (t *tokenAccess) metadataURL(g *gates.Gate, path string) string {
	if t == nil || len(g.Tokens.Issuers) == 0 {
		return ""
	}
	if path != "/mcp" {
		path = "/mcp/" + g.Name
	}
	return t.url + metadataPath + path
}

// scopes returns the scopes, as the issuers call them, that a caller needs for a list of
// permissions. For a caller that has no token, it considers all of the gate's issuers.
func (t *tokenAccess) scopes(c toolyard.Caller, g *gates.Gate, rights []string) (scopes []string) {
	names := g.Tokens.Issuers
	if issuer := identity.IssuerOf(c); issuer != "" {
		names = []string{issuer}
	}
	for _, name := range names {
		if issuer := t.verifier.Issuer(name); issuer != nil {
			for _, right := range rights {
				scopes = append(scopes, issuer.ScopesFor(right)...)
			}
		}
	}
	slices.Sort(scopes)
	return slices.Compact(scopes)
}

// rightsFor returns the permissions that a gate requires.
func rightsFor(g *gates.Gate) []string {
	rights := []string{identity.GateScope(g.Name)}
	if g.Mode == toolyard.Write {
		rights = append(rights, identity.Write)
	}
	return rights
}

// resourceMetadata is the document that RFC 9728 defines.
type resourceMetadata struct {
	Resource             string   `json:"resource"`
	AuthorizationServers []string `json:"authorization_servers"`
	Scopes               []string `json:"scopes_supported,omitempty"`
	BearerMethods        []string `json:"bearer_methods_supported"`
	Name                 string   `json:"resource_name"`
}

// metadata returns the document for the resource at a path. An empty path selects the gate at /mcp,
// for clients that look only at the root.
func (t *tokenAccess) metadata(path, gate string) (*resourceMetadata, bool) {
	m := &resourceMetadata{Resource: t.url + path, BearerMethods: []string{"header"}}
	var names []string
	switch path {
	case apiPath:
		m.Name = "Toolyard HTTP API"
		for _, issuer := range t.issuers {
			names = append(names, issuer.Name)
		}
	default:
		if gate == "" {
			m.Resource, gate = t.url+"/mcp", t.main
		}
		g := t.gates[gate]
		if g == nil {
			return nil, false
		}
		m.Name, names = g.Yard+" "+g.Name, g.Tokens.Issuers
		m.Scopes = t.scopes(toolyard.Caller{}, g, rightsFor(g))
	}
	for _, name := range names {
		if issuer := t.verifier.Issuer(name); issuer != nil {
			m.AuthorizationServers = append(m.AuthorizationServers, issuer.URL)
		}
	}
	return m, len(m.AuthorizationServers) > 0
}

// serveMetadata serves the metadata of protected resources to clients from any origin.
func (a *access) serveMetadata(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Access-Control-Allow-Origin", "*")
	if r.Method == http.MethodOptions {
		w.Header().Set("Access-Control-Allow-Methods", "GET")
		w.Header().Set("Access-Control-Allow-Headers", "MCP-Protocol-Version")
		w.WriteHeader(http.StatusNoContent)
		return
	}
	t := a.tokens.Load()
	if t != nil && (r.Method == http.MethodGet || r.Method == http.MethodHead) {
		if m, ok := t.metadata(r.URL.Path[len(metadataPath):], r.PathValue("gate")); ok {
			w.Header().Set("Content-Type", "application/json")
			w.Header().Set("Cache-Control", "max-age=60")
			_ = json.NewEncoder(w).Encode(m)
			return
		}
	}
	http.Error(w, "not found", http.StatusNotFound)
}
