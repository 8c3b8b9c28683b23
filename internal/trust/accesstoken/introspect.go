package accesstoken

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/trust/outbound"
	"github.com/toolyard/toolyard/internal/trust/strictjson"
)

const (
	introspectTTL     = 30 * time.Second // how long a result is cached
	introspectTimeout = 5 * time.Second
	maxIntrospections = 32 // concurrent requests to an issuer
)

// inactive means that the issuer does not recognize a token or has revoked it.
const inactive Reason = "INACTIVE"

// Introspection makes the issuer decide whether its tokens are valid (RFC 7662).
type Introspection struct {
	ClientID string
	Secret   func() (string, error)
}

var errIntrospection = errors.New("the issuer's introspection endpoint is not available")

// introspector asks an issuer about tokens. Concurrent requests about the same token are combined
// into one.
type introspector struct {
	*Introspection
	keys *keySet // provides the endpoint

	mu      sync.Mutex
	flights map[[sha256.Size]byte]*introspectionFlight // at most maxIntrospections
}

// introspectionFlight is a request in progress.
type introspectionFlight struct {
	done   chan struct{} // closed when the result is set
	claims json.RawMessage
	err    error
}

// claimsOf returns an active token's claims.
func (i *introspector) claimsOf(ctx context.Context, token string) (json.RawMessage, error) {
	hash := sha256.Sum256([]byte(token))
	i.mu.Lock()
	f := i.flights[hash]
	switch {
	case f != nil:
	case len(i.flights) >= maxIntrospections:
		i.mu.Unlock()
		return nil, fmt.Errorf("%w: %d requests are in progress", errIntrospection, maxIntrospections)
	default:
		f = &introspectionFlight{done: make(chan struct{})}
		i.flights[hash] = f
		go i.fly(context.WithoutCancel(ctx), f, hash, token)
	}
	i.mu.Unlock()
	select {
	case <-f.done:
		return f.claims, f.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// fly sends a request for all callers that wait for it. The request continues if the first caller
// disconnects.
func (i *introspector) fly(ctx context.Context, f *introspectionFlight, hash [sha256.Size]byte, token string) {
	ctx, cancel := context.WithTimeout(ctx, introspectTimeout)
	defer cancel()
	f.claims, f.err = i.request(ctx, token)
	i.mu.Lock()
	defer i.mu.Unlock()
	delete(i.flights, hash)
	close(f.done)
}

func (i *introspector) request(ctx context.Context, token string) (json.RawMessage, error) {
	m, err := i.keys.describe(ctx)
	if err != nil {
		return nil, err
	}
	if !outbound.IsSecureURL(m.IntrospectionURL) {
		return nil, fmt.Errorf("%w: introspection_endpoint %.200q is not an https URL", errIntrospection, m.IntrospectionURL)
	}
	secret, err := i.Secret()
	if err != nil {
		return nil, fmt.Errorf("%w: client secret: %w", errIntrospection, err)
	}
	form := url.Values{"token": {token}, "token_type_hint": {"access_token"}}
	methods := m.IntrospectionAuth
	if len(methods) == 0 {
		methods = m.ClientAuth
	}
	basic := len(methods) == 0 || slices.Contains(methods, "client_secret_basic")
	if !basic {
		form.Set("client_id", i.ClientID)
		form.Set("client_secret", secret)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, m.IntrospectionURL, strings.NewReader(form.Encode()))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	req.Header.Set("Accept", "application/json")
	if basic { // RFC 6749 requires both parts to be encoded
		req.SetBasicAuth(url.QueryEscape(i.ClientID), url.QueryEscape(secret))
	}
	res, body, err := i.keys.client.Do(req, "error") //nolint:bodyclose // Do has already read and closed it
	switch {
	case err != nil:
		return nil, fmt.Errorf("%w: %w", errIntrospection, err)
	case res.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("%w: status %d", errIntrospection, res.StatusCode)
	}
	if err := strictjson.Check(body); err != nil || len(body) == 0 || body[0] != '{' {
		return nil, fmt.Errorf("%w: the response is not a JSON object", errIntrospection)
	}
	return body, nil
}

// introspect verifies everything about a token except its audience by asking its issuer.
func (s *source) introspect(ctx context.Context, token string, now time.Time) (verified, error) {
	if len(token) > maxToken {
		return verified{}, refuse(malformed, "the token is %d bytes; the limit is %d", len(token), maxToken)
	}
	payload, err := s.introspector.claimsOf(ctx, token)
	if err != nil {
		return verified{}, err
	}
	members := maps.Collect(strictjson.Members(payload))
	if string(members["active"]) != "true" {
		return verified{}, refuse(inactive, "the issuer does not recognize the token, or it has expired or was revoked")
	}
	if iss, ok := strictjson.String(members["iss"]); members["iss"] != nil && (!ok || iss != s.URL) {
		return verified{}, refuse(wrongIssuer, "the token was issued by %.200q", iss)
	}
	if r := checkIntrospected(members); r != nil {
		return verified{}, r
	}
	c := &claims{}
	until := now.Add(introspectTTL)
	if members["exp"] != nil {
		if r := c.readTimes(members, now); r != nil {
			return verified{}, r
		}
		if exp := c.expires.Add(-skew); exp.Before(until) {
			until = exp
		}
	}
	if r := s.readIdentity(c, payload, members); r != nil {
		return verified{}, r
	}
	if claimAt(payload, cmp.Or(s.Groups, "groups")) == nil {
		var r *refusal
		if c.groups, r = s.readGroups(strictjson.Member(payload, "ext")); r != nil { // Dex and Hydra put custom claims here
			return verified{}, r
		}
	}
	caller, r := s.caller(c)
	if r != nil {
		return verified{}, r
	}
	return verified{s, c, caller, until}, nil
}

// checkIntrospected refuses active tokens that the issuer does not mark as access tokens, if it
// marks tokens at all.
func checkIntrospected(members map[string]json.RawMessage) *refusal {
	if kind := members["token_type"]; kind != nil {
		if text, _ := strictjson.String(kind); !strings.EqualFold(text, "Bearer") && !strings.EqualFold(text, "access_token") {
			return refuse(tokenType, "unsupported token type %.40q (expected Bearer)", text)
		}
	}
	for name, accepted := range map[string][]string{"typ": {"bearer", "jwt", "at+jwt"}, "token_use": {"access", "access_token"}} {
		if value := members[name]; value != nil {
			if text, _ := strictjson.String(value); !slices.Contains(accepted, strings.ToLower(text)) {
				return refuse(tokenType, "the token's %s is %.40q, which is not valid for an access token", name, text)
			}
		}
	}
	return nil
}
