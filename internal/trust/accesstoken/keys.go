package accesstoken

import (
	"context"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

const (
	keysTTL      = 15 * time.Minute // age at which keys are fetched again
	staleTTL     = 24 * time.Hour   // maximum age of keys while the issuer is unavailable
	discoveryTTL = time.Hour        // age at which the keys' URL is looked up again
	fetchPause   = 30 * time.Second // minimum time between fetches
	fetchTimeout = 5 * time.Second
	fetchWait    = 2 * time.Second // how long a request waits for a fetch
	maxDocument  = 256 << 10       // bytes of a metadata document or key set
	maxKeys      = 64
	minRSA       = 2048 // bits
)

// errNoKeys is returned if an issuer's keys are not available.
var errNoKeys = errors.New("the issuer's keys are not available")

// keySet caches an issuer's keys. Unknown key IDs trigger a fetch at most once per fetchPause, so
// invented IDs cannot cause a flood of requests to the issuer.
type keySet struct {
	issuer   string
	optional bool // the issuer may have no keys
	client   *outbound.Client
	now      func() time.Time

	mu         sync.Mutex
	keys       []jose.JSONWebKey
	fetched    time.Time     // last successful fetch
	attempted  time.Time     // start of the last fetch
	failure    error         // error of the last fetch; nil if it succeeded
	metadata   *Metadata     // nil before the first fetch
	discovered time.Time     // when the metadata was read; zero forces a new read
	fetching   chan struct{} // closed when the running fetch ends; may be nil
}

func newKeySet(issuer string, private []netip.Prefix, now func() time.Time) *keySet {
	reach := outbound.Allowlist{"*"}
	if u, err := url.Parse(issuer); err == nil {
		reach = append(reach, u.Hostname()) // allowed by name, so that it may resolve to a private address
	}
	return &keySet{issuer: issuer, now: now, client: outbound.NewClient(reach, nil, outbound.Network{Private: private}, maxDocument)}
}

// find returns the key for a token. If the token has no key ID, the set must contain exactly one
// key.
func (k *keySet) find(ctx context.Context, id, algorithm string) (*jose.JSONWebKey, error) {
	key, current := k.lookup(id, algorithm)
	if key != nil && current {
		return key, nil
	}
	if err := k.refresh(ctx, fetchWait); err != nil {
		return nil, err
	}
	key, _ = k.lookup(id, algorithm)
	return key, nil
}

// refresh fetches the keys unless the last fetch is recent, and waits for the result for up to
// wait. The error is errNoKeys if there are no sufficiently recent keys.
func (k *keySet) refresh(ctx context.Context, wait time.Duration) error {
	if done := k.startFetch(); done != nil {
		timer := time.NewTimer(wait)
		defer timer.Stop()
		select {
		case <-done:
		case <-timer.C:
		case <-ctx.Done():
		}
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.now().Sub(k.fetched) >= staleTTL {
		return errors.Join(errNoKeys, k.failure)
	}
	return nil
}

// describe returns the issuer's metadata. It waits longer than other requests, because a person is
// waiting for the result.
func (k *keySet) describe(ctx context.Context) (*Metadata, error) {
	k.mu.Lock()
	m, current := k.metadata, k.now().Sub(k.fetched) < discoveryTTL
	k.mu.Unlock()
	if m != nil && current {
		return m, nil
	}
	if err := k.refresh(ctx, fetchTimeout); err != nil {
		return nil, err
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.metadata, nil
}

func (k *keySet) state() KeyState {
	k.mu.Lock()
	defer k.mu.Unlock()
	s := KeyState{Fetched: k.fetched, Attempted: k.attempted, Failure: k.failure}
	for i := range k.keys {
		s.IDs = append(s.IDs, k.keys[i].KeyID)
	}
	return s
}

// lookup returns a key from the cache, and whether the cache is current.
func (k *keySet) lookup(id, algorithm string) (key *jose.JSONWebKey, current bool) {
	k.mu.Lock()
	defer k.mu.Unlock()
	current = !k.fetched.IsZero() && k.now().Sub(k.fetched) < keysTTL
	for i := range k.keys {
		candidate := &k.keys[i]
		if (candidate.KeyID == id || id == "" && len(k.keys) == 1) && (candidate.Algorithm == "" || candidate.Algorithm == algorithm) {
			return candidate, current
		}
	}
	return nil, current
}

// startFetch starts fetching the keys, or joins the running fetch. It returns nil if the last fetch
// is too recent.
func (k *keySet) startFetch() <-chan struct{} {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.fetching != nil {
		return k.fetching
	}
	now := k.now()
	if !k.attempted.IsZero() && now.Sub(k.attempted) < fetchPause {
		return nil
	}
	k.attempted = now
	done := make(chan struct{})
	k.fetching = done
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), fetchTimeout)
		defer cancel()
		keys, metadata, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		defer close(done)
		k.fetching, k.failure = nil, err
		if err != nil {
			k.discovered = time.Time{} // the URL of the keys may have changed
			return
		}
		k.keys, k.fetched = keys, now
		if metadata != k.metadata {
			k.metadata, k.discovered = metadata, now
		}
	}()
	return done
}

// fetch reads the issuer's keys, and its metadata if that is not cached.
func (k *keySet) fetch(ctx context.Context) (keys []jose.JSONWebKey, metadata *Metadata, err error) {
	k.mu.Lock()
	metadata, discovered := k.metadata, k.discovered
	k.mu.Unlock()
	if metadata == nil || k.now().Sub(discovered) >= discoveryTTL {
		if metadata, err = discover(ctx, k.client, k.issuer); err != nil {
			return nil, nil, err
		}
	}
	if k.optional && metadata.JWKSURI == "" {
		return nil, metadata, nil
	}
	if !outbound.IsSecureURL(metadata.JWKSURI) {
		return nil, nil, fmt.Errorf("jwks_uri %q in the issuer's metadata is not an https URL", metadata.JWKSURI)
	}
	raw, err := getJSON(ctx, k.client, metadata.JWKSURI)
	if err != nil {
		return nil, nil, fmt.Errorf("keys: %w", err)
	}
	keys, err = readKeys(raw)
	return keys, metadata, err
}

// readKeys parses a JSON Web Key Set. It skips keys that cannot verify signatures.
func readKeys(raw json.RawMessage) ([]jose.JSONWebKey, error) {
	var set struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(raw, &set); err != nil {
		return nil, fmt.Errorf("keys: %w", err)
	}
	if len(set.Keys) > maxKeys {
		return nil, fmt.Errorf("the issuer has more than %d keys", maxKeys)
	}
	var keys []jose.JSONWebKey
	for _, item := range set.Keys {
		var key jose.JSONWebKey
		if json.Unmarshal(item, &key) == nil && verifies(&key) {
			keys = append(keys, key)
		}
	}
	if len(keys) == 0 {
		return nil, errors.New("none of the keys can be used to verify signatures")
	}
	return keys, nil
}

// verifies reports whether a key is a public signature key of sufficient size.
func verifies(key *jose.JSONWebKey) bool {
	if !key.Valid() || !key.IsPublic() || key.Use != "" && key.Use != "sig" {
		return false
	}
	if rsaKey, ok := key.Key.(*rsa.PublicKey); ok {
		return rsaKey.N.BitLen() >= minRSA
	}
	return true
}

// Metadata is the relevant part of an authorization server's metadata.
type Metadata struct {
	Issuer            string   `json:"issuer"`
	JWKSURI           string   `json:"jwks_uri"`
	AuthorizationURL  string   `json:"authorization_endpoint"`
	TokenURL          string   `json:"token_endpoint"`
	UserInfoURL       string   `json:"userinfo_endpoint"`
	ChallengeMethods  []string `json:"code_challenge_methods_supported"`
	ClientAuth        []string `json:"token_endpoint_auth_methods_supported"`
	IntrospectionURL  string   `json:"introspection_endpoint"`
	IntrospectionAuth []string `json:"introspection_endpoint_auth_methods_supported"`
	SendsIssuer       bool     `json:"authorization_response_iss_parameter_supported"` // RFC 9207
}

// KeyState is the state of an issuer's keys.
type KeyState struct {
	IDs       []string
	Fetched   time.Time // last successful fetch; zero if never
	Attempted time.Time // last fetch; zero if never
	Failure   error     // error of the last fetch; nil if it succeeded
}

// discover reads an issuer's metadata using OpenID Connect Discovery or RFC 8414.
func discover(ctx context.Context, client *outbound.Client, issuer string) (*Metadata, error) {
	var first error
	for _, address := range metadataAddresses(issuer) {
		raw, err := getJSON(ctx, client, address)
		if err != nil {
			if first == nil {
				first = fmt.Errorf("metadata: %w", err)
			}
			continue
		}
		var m Metadata
		if err := json.Unmarshal(raw, &m); err != nil {
			return nil, fmt.Errorf("metadata: %w", err)
		}
		if m.Issuer != issuer {
			return nil, fmt.Errorf("the metadata at %s declares issuer %q, not %q; set issuer to the declared value", address, m.Issuer, issuer)
		}
		return &m, nil
	}
	return nil, first
}

// metadataAddresses returns the URLs at which an issuer may publish its metadata.
func metadataAddresses(issuer string) []string {
	u, err := url.Parse(issuer)
	if err != nil {
		return nil
	}
	path := strings.TrimSuffix(u.Path, "/")
	base := *u
	base.Path = ""
	addresses := []string{
		strings.TrimSuffix(issuer, "/") + "/.well-known/openid-configuration",
		base.String() + "/.well-known/oauth-authorization-server" + path,
	}
	if path != "" {
		addresses = append(addresses, base.String()+"/.well-known/openid-configuration"+path)
	}
	return slices.Compact(addresses)
}

// getJSON reads a JSON object.
func getJSON(ctx context.Context, client *outbound.Client, address string) (json.RawMessage, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, address, http.NoBody)
	if err != nil {
		return nil, err
	}
	req.Header.Set("Accept", "application/json")
	res, body, err := client.Do(req, "error") //nolint:bodyclose // Do has read and closed it
	switch {
	case err != nil:
		return nil, err
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%s: status %d", address, res.StatusCode)
	}
	if err := strictjson.Check(body); err != nil {
		return nil, fmt.Errorf("%s: %w", address, err)
	}
	return body, nil
}

// CheckURL returns an error if a URL cannot be an issuer identifier.
func CheckURL(text string) error {
	if !outbound.IsSecureURL(text) || strings.Contains(text, "?") {
		return errors.New("must be an https URL with no query; http is allowed on loopback")
	}
	return nil
}
