// Package issuertest runs an access token issuer for tests. Like an authorization server, it
// publishes its metadata and keys, signs tokens, and signs people in.
package issuertest

import (
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-jose/go-jose/v4"
)

// Issuer is a running issuer.
type Issuer struct {
	URL        string       // issuer identifier
	Fetches    atomic.Int64 // number of times the keys were fetched
	Provider   Provider
	Exchange   Exchange
	Assertions Assertions

	t    testing.TB
	mu   sync.Mutex
	id   int
	key  *rsa.PrivateKey
	keys func(w http.ResponseWriter) // replaces the key set; may be nil

	introspection introspection
}

// New starts an issuer that is stopped when the test ends.
func New(t testing.TB) *Issuer {
	t.Helper()
	i := &Issuer{t: t, Provider: Provider{codes: make(map[string]url.Values), refresh: make(map[string]url.Values)}}
	i.Rotate()
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/openid-configuration", func(w http.ResponseWriter, _ *http.Request) {
		_ = json.NewEncoder(w).Encode(i.describe())
	})
	mux.HandleFunc("POST /token", i.serveToken)
	mux.HandleFunc("GET /userinfo", i.serveUserInfo)
	mux.HandleFunc("POST /introspect", i.serveIntrospection)
	mux.HandleFunc("GET /keys", func(w http.ResponseWriter, _ *http.Request) {
		i.Fetches.Add(1)
		i.mu.Lock()
		defer i.mu.Unlock()
		if i.keys != nil {
			i.keys(w)
			return
		}
		_ = json.NewEncoder(w).Encode(jose.JSONWebKeySet{Keys: []jose.JSONWebKey{{Key: i.key.Public(), KeyID: i.keyID(), Algorithm: "RS256", Use: "sig"}}})
	})
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	i.URL = server.URL
	return i
}

// Rotate replaces the issuer's key.
func (i *Issuer) Rotate() {
	i.t.Helper()
	key, err := nextKey()
	if err != nil {
		i.t.Fatal(err)
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	i.id, i.key = i.id+1, key
}

// pool holds keys that issuers share in turn, because generating keys is slow. Two consecutive keys
// always differ.
var pool struct {
	sync.Mutex
	keys [4]*rsa.PrivateKey
	next int
}

func nextKey() (key *rsa.PrivateKey, err error) {
	pool.Lock()
	defer pool.Unlock()
	slot := &pool.keys[pool.next%len(pool.keys)]
	pool.next++
	if *slot == nil {
		*slot, err = rsa.GenerateKey(rand.Reader, 2048)
	}
	return *slot, err
}

// ServeKeys replaces the key set response; nil restores it.
func (i *Issuer) ServeKeys(serve func(w http.ResponseWriter)) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.keys = serve
}

func (i *Issuer) keyID() string { return fmt.Sprintf("key-%d", i.id) }

// PublicKey returns the current key and its ID.
func (i *Issuer) PublicKey() (key *rsa.PublicKey, id string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	return &i.key.PublicKey, i.keyID()
}

// Claims returns the claims of a valid token for a resource. Overrides replace claims; nil removes
// a claim.
func (i *Issuer) Claims(resource string, overrides map[string]any) map[string]any {
	now := time.Now()
	claims := map[string]any{
		"iss": i.URL, "sub": "ann", "aud": resource, "client_id": "test", "jti": "1", "scope": "tools",
		"groups": []string{"staff"}, "iat": now.Unix(), "exp": now.Add(5 * time.Minute).Unix(),
	}
	maps.Copy(claims, overrides)
	maps.DeleteFunc(claims, func(_ string, value any) bool { return value == nil })
	return claims
}

// Token returns a signed access token for a resource. Overrides replace claims; nil removes a
// claim.
func (i *Issuer) Token(resource string, overrides map[string]any) string {
	i.t.Helper()
	payload, err := json.Marshal(i.Claims(resource, overrides))
	if err != nil {
		i.t.Fatal(err)
	}
	return i.Sign(payload, nil)
}

// Sign signs a payload. Header parameters replace those of an access token.
func (i *Issuer) Sign(payload []byte, header map[string]any) string {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	options := (&jose.SignerOptions{}).WithType("at+jwt").WithHeader("kid", i.keyID())
	algorithm := jose.RS256
	for name, value := range header {
		if name == "alg" {
			algorithm = jose.SignatureAlgorithm(fmt.Sprint(value))
			continue
		}
		options = options.WithHeader(jose.HeaderKey(name), value)
	}
	signer, err := jose.NewSigner(jose.SigningKey{Algorithm: algorithm, Key: i.key}, options)
	if err != nil {
		i.t.Fatal(err)
	}
	signed, err := signer.Sign(payload)
	if err != nil {
		i.t.Fatal(err)
	}
	token, err := signed.CompactSerialize()
	if err != nil {
		i.t.Fatal(err)
	}
	return token
}
