package issuertest

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"sync"
	"sync/atomic"
)

// The client that may introspect tokens.
const (
	IntrospectClient = "resource server"
	IntrospectSecret = "s3cret: +/%"
)

// introspection is the state of the introspection endpoint.
type introspection struct {
	requests atomic.Int64
	mu       sync.Mutex
	tokens   map[string]json.RawMessage // responses by token
	serve    http.HandlerFunc           // replaces the endpoint; may be nil
}

// Opaque returns an opaque access token for a resource. Overrides replace members of the
// introspection response; nil removes a member.
func (i *Issuer) Opaque(resource string, overrides map[string]any) string {
	i.t.Helper()
	response, err := json.Marshal(override(i.Claims(resource, map[string]any{"active": true, "token_type": "Bearer"}), overrides))
	if err != nil {
		i.t.Fatal(err)
	}
	token := rand.Text()
	i.SetIntrospection(token, response)
	return token
}

// SetIntrospection sets the introspection response for a token; nil revokes the token.
func (i *Issuer) SetIntrospection(token string, response json.RawMessage) {
	i.introspection.mu.Lock()
	defer i.introspection.mu.Unlock()
	if i.introspection.tokens == nil {
		i.introspection.tokens = make(map[string]json.RawMessage)
	}
	i.introspection.tokens[token] = response
}

// ServeIntrospection replaces the introspection endpoint; nil restores it.
func (i *Issuer) ServeIntrospection(serve http.HandlerFunc) {
	i.introspection.mu.Lock()
	defer i.introspection.mu.Unlock()
	i.introspection.serve = serve
}

// Introspections returns the number of requests to the introspection endpoint.
func (i *Issuer) Introspections() int64 { return i.introspection.requests.Load() }

func (i *Issuer) serveIntrospection(w http.ResponseWriter, r *http.Request) {
	i.introspection.requests.Add(1)
	i.introspection.mu.Lock()
	serve, response := i.introspection.serve, i.introspection.tokens[r.PostFormValue("token")]
	i.introspection.mu.Unlock()
	if serve != nil {
		serve(w, r)
		return
	}
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	} else {
		id, secret = unescape(id), unescape(secret)
	}
	if id != IntrospectClient || secret != IntrospectSecret {
		w.WriteHeader(http.StatusUnauthorized)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	if response == nil {
		response = json.RawMessage(`{"active":false}`)
	}
	_, _ = w.Write(response)
}

// unescape decodes part of a Basic authentication header, as RFC 6749 requires.
func unescape(text string) string {
	decoded, err := url.QueryUnescape(text)
	if err != nil {
		return ""
	}
	return decoded
}
