package yard

import (
	"cmp"
	"context"
	"encoding/json"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/config"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/serve/console"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/accesstoken"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/signin"
)

// registrations returns the console's registrations with the issuers.
func registrations(s *settings.Settings, secret func(ref string) (string, error)) (list []*signin.Registration) {
	for name, issuer := range s.Issuers {
		if issuer.Console == nil {
			continue
		}
		r := &signin.Registration{Issuer: name, ClientID: issuer.Console.Client, Scopes: issuer.Console.Scopes, Redirect: redirectURI(s.Config, name)}
		if ref := issuer.Console.SecretRef; ref != "" {
			r.Secret = func() (string, error) { return secret(ref) }
		}
		list = append(list, r)
	}
	return list
}

// redirectURI returns the console page to which an issuer redirects after sign-in. Each issuer has
// its own URI, so that one issuer's response cannot be mistaken for another's.
func redirectURI(c *config.Config, issuer string) string {
	return c.URL + console.Prefix + "/signin/" + issuer
}

// people identifies people for the HTTP API. It implements [httpapi.Issuers].
type people struct{ access *access }

var _ httpapi.Issuers = people{}

// errNoIssuer is returned after the last issuer has been removed from the configuration.
var errNoIssuer = toolyard.Errorf(toolyard.Unauthenticated, "The issuers are no longer configured. Sign in with an API key.")

// SignInNames implements [httpapi.Issuers].
func (p people) SignInNames() []string {
	if t := p.access.tokens.Load(); t != nil {
		return t.signIn.Issuers()
	}
	return nil
}

// URL implements [httpapi.Issuers].
func (p people) URL() string {
	if t := p.access.tokens.Load(); t != nil {
		return t.url
	}
	return ""
}

// BeginSignIn implements [httpapi.Issuers].
func (p people) BeginSignIn(ctx context.Context, issuer string) (*signin.Flow, error) {
	if t := p.access.tokens.Load(); t != nil {
		return t.signIn.Begin(ctx, issuer)
	}
	return nil, toolyard.Errorf(toolyard.NotFound, "No issuer is configured. Sign in with an API key.")
}

// CompleteSignIn implements [httpapi.Issuers].
func (p people) CompleteSignIn(ctx context.Context, f *signin.Flow, response signin.Response) (*accesstoken.Person, error) {
	t := p.access.tokens.Load()
	if t == nil {
		return nil, errNoIssuer
	}
	in, err := t.signIn.Complete(ctx, f, response)
	if err != nil {
		return nil, err
	}
	person := in.Person
	caller, err := p.CallerOf(ctx, person)
	if err != nil {
		return nil, err
	}
	p.access.sightings.add(caller.ID, person)
	if s := p.access.signIns(person.Issuer); s != nil {
		if err := s.Keep(ctx, caller, in.IDToken, in.RefreshToken); err != nil {
			p.access.sightings.log.Warn("could not store a sign-in; servers that require it cannot be called on behalf of the person", "caller", caller.ID, "error", err)
		}
	}
	return t.verifier.Essential(person), nil
}

// SignOut implements [httpapi.Issuers].
func (p people) SignOut(ctx context.Context, caller toolyard.Caller) error {
	if s := p.access.signIns(identity.IssuerOf(caller)); s != nil {
		return s.Delete(ctx, caller)
	}
	return nil
}

// CallerOf implements [httpapi.Issuers].
func (p people) CallerOf(ctx context.Context, person *accesstoken.Person) (toolyard.Caller, error) {
	t := p.access.tokens.Load()
	if t == nil {
		return toolyard.Caller{}, errNoIssuer
	}
	caller, err := t.verifier.CallerOf(person)
	if err == nil {
		err = p.access.checkBlocked(ctx, caller)
	}
	if err != nil {
		return toolyard.Caller{}, err
	}
	return caller, nil
}

// RightsOf implements [httpapi.Issuers].
func (p people) RightsOf(issuer string, groups []string) (rights accesstoken.Rights) {
	if t := p.access.tokens.Load(); t != nil && t.verifier.Issuer(issuer) != nil {
		rights = t.verifier.Issuer(issuer).RightsOf(groups)
	}
	return rights
}

// CheckClaims implements [httpapi.Issuers].
func (p people) CheckClaims(ctx context.Context, claims json.RawMessage) (check httpapi.ClaimsCheck) {
	t := p.access.tokens.Load()
	if t == nil {
		check.Refused = errNoIssuer.Message
		return check
	}
	e, err := t.verifier.ExplainClaims(claims)
	if err == nil {
		check.Issuer, check.Caller, check.Account = e.Issuer.Name, e.Caller.ID, e.Caller.Account
		err = p.access.checkBlocked(ctx, e.Caller)
	}
	if err != nil {
		check.Refused = err.Error()
		return check
	}
	for _, n := range e.Rights.Rules {
		check.Rules = append(check.Rules, n+1)
	}
	check.Write = slices.Contains(e.Caller.Roles, identity.Write)
	for _, role := range []string{identity.Viewer, identity.Operator} {
		if slices.Contains(e.Caller.Roles, role) {
			check.Role = role
		}
	}
	for _, name := range slices.Sorted(maps.Keys(t.gates)) {
		if g := t.gates[name]; len(g.Tokens.Issuers) > 0 {
			check.Targets = append(check.Targets, claimsAt(name, t.resources(g), e, p.access.authorize(e.Caller, g)))
		}
	}
	check.Targets = append(check.Targets, claimsAt("", t.resources(nil), e, nil))
	return check
}

// claimsAt reports whether a gate or the HTTP API accepts claims, given the caller's authorization
// there.
func claimsAt(gate string, resources []string, e *accesstoken.Explanation, authorized error) httpapi.ClaimsAtTarget {
	at := httpapi.ClaimsAtTarget{Gate: gate, Resource: resources[0]}
	if err := cmp.Or(e.CheckAudience(resources), authorized); err != nil {
		at.Refused = err.Error()
	}
	return at
}

// States implements [httpapi.Issuers].
func (p people) States() (items []httpapi.IssuerItem) {
	t := p.access.tokens.Load()
	if t == nil {
		return nil
	}
	for _, issuer := range t.issuers {
		state := t.verifier.Keys(issuer.Name)
		item := httpapi.IssuerItem{
			Name: issuer.Name, URL: issuer.URL, Rules: len(issuer.Rules), Keys: append([]string{}, state.IDs...),
			FetchedAt: state.Fetched.UTC(), AttemptedAt: state.Attempted.UTC(),
		}
		if state.Failure != nil {
			item.Error = state.Failure.Error()
		}
		if r := t.signIn.Registration(issuer.Name); r != nil {
			item.SignIn, item.RedirectURI = true, r.Redirect
		}
		items = append(items, item)
	}
	return items
}

// checkBlocked returns an error if the caller is blocked.
func (a *access) checkBlocked(ctx context.Context, c toolyard.Caller) error {
	if a.blocked == nil {
		return nil
	}
	return a.blocked.Check(ctx, c.ID)
}

const (
	sightingPause = 10 * time.Minute // between two records of the same person on one replica
	flushPause    = 500 * time.Millisecond
	flushTimeout  = 2 * time.Second // for the last write before shutdown
	maxSightings  = 10_000          // people remembered in memory
	maxUnsaved    = 1_000           // people waiting to be written
)

// sightings records which people use this replica, each at most once per sightingPause, in the
// background. If recording fails, a later request records the person.
type sightings struct {
	store *store.Store // may be nil
	now   func() time.Time
	log   *slog.Logger

	mu      sync.Mutex
	last    map[string]time.Time // time of the last record, by caller; at most maxSightings
	unsaved map[string]*store.Person
}

func newSightings(s *store.Store, now func() time.Time, log *slog.Logger) *sightings {
	return &sightings{store: s, now: now, log: log, last: make(map[string]time.Time), unsaved: make(map[string]*store.Person)}
}

// add records a sighting of a person.
func (s *sightings) add(caller string, p *accesstoken.Person) {
	if s.store == nil {
		return
	}
	now := s.now()
	s.mu.Lock()
	defer s.mu.Unlock()
	if last, ok := s.last[caller]; ok && now.Sub(last) < sightingPause || len(s.unsaved) >= maxUnsaved {
		return
	}
	for other := range s.last { // drops an arbitrary person, who is recorded again sooner than necessary
		if len(s.last) < maxSightings {
			break
		}
		delete(s.last, other)
	}
	s.last[caller] = now
	s.unsaved[caller] = &store.Person{Caller: caller, Issuer: p.Issuer, Subject: p.Subject, Name: p.Name, Email: p.Email, Groups: p.Groups, Seen: now}
}

// run writes sightings until ctx ends.
func (s *sightings) run(ctx context.Context) {
	if s.store == nil {
		return
	}
	ticker := time.NewTicker(flushPause)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
			s.flush(ctx)
		case <-ctx.Done():
			last, cancel := context.WithTimeout(context.WithoutCancel(ctx), flushTimeout)
			s.flush(last)
			cancel()
			return
		}
	}
}

func (s *sightings) flush(ctx context.Context) {
	s.mu.Lock()
	unsaved := s.unsaved
	s.unsaved = make(map[string]*store.Person)
	s.mu.Unlock()
	list := make([]*store.Person, 0, len(unsaved))
	for _, p := range unsaved {
		list = append(list, p)
	}
	if len(list) == 0 {
		return
	}
	if err := s.store.SawPeople(ctx, list); err != nil {
		s.log.Warn("could not record the people who use this server", "people", len(list), "error", err)
		s.mu.Lock()
		defer s.mu.Unlock()
		for caller := range unsaved { // so that the next request records them
			delete(s.last, caller)
		}
	}
}

// newBlocklist returns the list of blocked people, or nil if there is no store.
func newBlocklist(s *store.Store, now func() time.Time) *identity.Blocklist {
	if s == nil {
		return nil
	}
	return identity.NewBlocklist(s, now)
}
