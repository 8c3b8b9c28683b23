package accesstoken

import (
	"context"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-jose/go-jose/v4"

	"github.com/toolyard/toolyard"
)

const (
	cacheTTL  = time.Minute // how long a verified token is cached
	maxCached = 10_000      // maximum number of cached tokens
)

// Verifier verifies access tokens from the configured issuers. It caches verified tokens, but
// checks for each request whether a token is valid for the resource.
type Verifier struct {
	issuers map[string]*source // by issuer identifier
	opaque  *source            // handles tokens that do not name their issuer; may be nil
	byName  map[string]*Issuer
	seen    func(callerID string, p *Person)
	now     func() time.Time
	log     *slog.Logger

	mu     sync.Mutex
	cached map[[sha256.Size]byte]verified // at most maxCached
}

// source is an issuer and its keys.
type source struct {
	*Issuer
	keys         *keySet
	algorithms   []jose.SignatureAlgorithm
	introspector *introspector // nil if signatures are verified
}

// verified is a verified token.
type verified struct {
	issuer *source
	claims *claims
	caller toolyard.Caller
	until  time.Time
}

// Options configures a Verifier.
type Options struct {
	Issuers  []Issuer
	Private  []netip.Prefix                   // private networks that issuers' host names may resolve to
	Previous *Verifier                        // reuses the keys of unchanged issuers; may be nil
	Seen     func(callerID string, p *Person) // called with people whose tokens are accepted, but not on every request; may be nil
	Now      func() time.Time
	Log      *slog.Logger
}

// New creates a verifier.
func New(o Options) *Verifier {
	v := &Verifier{issuers: map[string]*source{}, byName: map[string]*Issuer{}, seen: o.Seen, now: o.Now, log: o.Log, cached: map[[sha256.Size]byte]verified{}}
	for _, issuer := range o.Issuers {
		s := &source{Issuer: &issuer, keys: o.Previous.keysOf(issuer.URL)}
		if s.keys == nil || s.keys.optional != (issuer.Introspect != nil) {
			s.keys = newKeySet(issuer.URL, o.Private, o.Now)
			s.keys.optional = issuer.Introspect != nil
		}
		if issuer.Introspect != nil {
			s.introspector = &introspector{Introspection: issuer.Introspect, keys: s.keys, flights: map[[sha256.Size]byte]*introspectionFlight{}}
			v.opaque = s
		}
		names := issuer.Algorithms
		if len(names) == 0 {
			names = Algorithms
		}
		for _, name := range names {
			s.algorithms = append(s.algorithms, jose.SignatureAlgorithm(name))
		}
		v.issuers[issuer.URL], v.byName[issuer.Name] = s, &issuer
	}
	return v
}

func (v *Verifier) keysOf(url string) *keySet {
	if v == nil || v.issuers[url] == nil {
		return nil
	}
	return v.issuers[url].keys
}

// Issuer returns the issuer with the given name, or nil.
func (v *Verifier) Issuer(name string) *Issuer {
	if v == nil {
		return nil
	}
	return v.byName[name]
}

// Accepts reports whether a string that is not an API key may be a token from a configured issuer.
func (v *Verifier) Accepts(token string) bool {
	return v.opaque != nil || strings.Count(token, ".") >= 2
}

// Verify returns the caller that a token identifies, if the token was issued for one of the
// resources. The error is Unauthenticated, PermissionDenied if no rule matches the caller, or
// Unavailable. The reason for a refusal is logged, but not returned to callers.
func (v *Verifier) Verify(ctx context.Context, token string, resources []string) (toolyard.Caller, error) {
	t, fresh, err := v.find(ctx, token)
	if err == nil {
		if r := t.issuer.checkAudience(t.claims, resources); r != nil {
			err = r
		}
	}
	if err == nil {
		if fresh && v.seen != nil {
			v.seen(t.caller.ID, t.claims.person(t.issuer.Name))
		}
		return t.caller, nil
	}
	v.log.Debug("access token refused", "reason", err.Error())
	return toolyard.Caller{}, publicError(err)
}

// CallerOfToken returns the ID of the caller that a valid token identifies, regardless of its audience.
func (v *Verifier) CallerOfToken(ctx context.Context, token string) (string, error) {
	t, _, err := v.find(ctx, token)
	if err != nil {
		return "", publicError(err)
	}
	return t.caller.ID, nil
}

// publicError returns the error for the caller, who may be untrusted.
func publicError(err error) error {
	var r *refusal
	switch {
	case errors.As(err, &r) && r.reason == NoRule:
		return &toolyard.Error{Code: toolyard.PermissionDenied, Message: "Your account does not have access to this server.", Err: err}
	case errors.As(err, &r):
		return &toolyard.Error{Code: toolyard.Unauthenticated, Message: "The access token is not valid for this server.", Err: err}
	}
	return &toolyard.Error{Code: toolyard.Unavailable, Message: "Access tokens cannot be verified right now. Try again later.", RetryAfter: fetchPause, Err: err}
}

// find returns a verified token from the cache, or verifies it. fresh reports whether it was just
// verified.
func (v *Verifier) find(ctx context.Context, token string) (t verified, fresh bool, err error) {
	hash := sha256.Sum256([]byte(token))
	now := v.now()
	v.mu.Lock()
	t, ok := v.cached[hash]
	v.mu.Unlock()
	if ok && now.Before(t.until) {
		return t, false, nil
	}
	t, err = v.verify(ctx, token)
	v.mu.Lock()
	defer v.mu.Unlock()
	if err != nil {
		delete(v.cached, hash)
		return t, false, err
	}
	for other := range v.cached { // removes an arbitrary token, which is verified again on its next use
		if len(v.cached) < maxCached {
			break
		}
		delete(v.cached, other)
	}
	v.cached[hash] = t
	return t, true, nil
}

// verify verifies everything about a token except its audience.
func (v *Verifier) verify(ctx context.Context, token string) (verified, error) {
	u, r := parse(token)
	if r != nil && v.opaque != nil && !signedForm(token) {
		return v.opaque.introspect(ctx, token, v.now())
	}
	if r != nil {
		return verified{}, r
	}
	issuer := v.issuers[u.issuer]
	if issuer == nil {
		return verified{}, refuse(wrongIssuer, "issuer %.200q is not configured", u.issuer)
	}
	if issuer.introspector != nil {
		return issuer.introspect(ctx, token, v.now())
	}
	if err := issuer.checkSignature(ctx, token, u); err != nil {
		return verified{}, err
	}
	now := v.now()
	c, r := issuer.readClaims(u, now)
	if r != nil {
		return verified{}, r
	}
	caller, r := issuer.caller(c)
	if r != nil {
		return verified{}, r
	}
	until := now.Add(cacheTTL)
	if c.expires.Before(until) {
		until = c.expires
	}
	return verified{issuer, c, caller, until}, nil
}

// checkSignature verifies the signature with the key identified by the token.
func (s *source) checkSignature(ctx context.Context, token string, u *unverified) error {
	if !slices.Contains(s.algorithms, jose.SignatureAlgorithm(u.algorithm)) {
		return refuse(algorithm, "algorithm %.40q is not accepted", u.algorithm)
	}
	key, err := s.keys.find(ctx, u.keyID, u.algorithm)
	if err != nil {
		return err
	}
	if key == nil {
		return refuse(unknownKey, "the issuer has no key %.80q for algorithm %s", u.keyID, u.algorithm)
	}
	signed, err := jose.ParseSignedCompact(token, s.algorithms)
	if err != nil {
		return refuse(malformed, "%v", err)
	}
	if _, err := signed.Verify(key.Key); err != nil {
		return refuse(signature, "the signature does not match")
	}
	return nil
}
