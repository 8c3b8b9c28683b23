// Package oauthtest runs an authorization server for tests, and protects handlers with its tokens.
// It signs in people without showing a page, rotates refresh tokens, and revokes all tokens from a
// sign-in if an old refresh token is reused.
package oauthtest

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// Server is a running authorization server. Set its fields before the first request, or call Set.
type Server struct {
	URL       string         // issuer identifier
	Resource  string         // the only resource that the server issues tokens for; empty means any
	Lifetime  int            // lifetime of access tokens in seconds; omitted from responses if zero
	Person    string         // person who signs in
	Metadata  map[string]any // replaces members of the metadata; nil removes a member
	Token     map[string]any // replaces members of token responses; nil removes a member
	Clients   map[string]string
	OmitIss   bool              // omits iss from authorization responses
	Trusted   *IdentityProvider // provider whose assertions are accepted; may be nil
	OnRequest func(text string) // receives token requests; may be nil

	// Respond, if not nil, handles refresh requests instead of the server. They are not counted.
	Respond http.HandlerFunc

	// Latency returns the delay of a token response. The tokens are already valid during the delay.
	// It may be nil.
	Latency func() time.Duration

	t  testing.TB
	mu sync.Mutex
	state
	counters Counters
}

// state holds everything that the server has issued.
type state struct {
	used     map[string]bool       // IDs of used assertions
	codes    map[string]url.Values // parameters of the authorization request by code
	access   map[string]*family    // by token
	refresh  map[string]*family    // by token; only the family's current one is valid
	redirect map[string]bool       // redirect URIs of registered clients
	people   map[string]*Renewals  // by person
}

// family is the set of all tokens from one sign-in.
type family struct {
	person, resource string
	scopes           []string
	current          string // current refresh token
	revoked          bool
}

// Counters counts requests.
type Counters struct {
	Codes, Redeemed, Refreshes, ClientTokens, Registrations, Revocations, Reuses, Assertions int
}

// Renewals counts how often refresh tokens were used for a person, and how often one was reused.
type Renewals struct{ Refreshes, Reuses int }

// New starts a server that is stopped when the test ends.
func New(t testing.TB) *Server {
	t.Helper()
	s := &Server{
		t: t, Person: "ann", Lifetime: 3600, Clients: map[string]string{"robot": "robot-secret"},
		state: state{used: map[string]bool{}, codes: map[string]url.Values{}, access: map[string]*family{}, refresh: map[string]*family{}, redirect: map[string]bool{}, people: map[string]*Renewals{}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /.well-known/oauth-authorization-server", s.serveMetadata)
	mux.HandleFunc("GET /authorize", s.authorize)
	mux.HandleFunc("POST /token", s.delayedToken)
	mux.HandleFunc("POST /register", s.register)
	mux.HandleFunc("POST /revoke", s.revoke)
	server := httptest.NewServer(mux)
	t.Cleanup(server.Close)
	s.URL = server.URL
	return s
}

// Set changes the server while it is running.
func (s *Server) Set(change func(*Server)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	change(s)
}

// Counts returns the counters.
func (s *Server) Counts() Counters {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.counters
}

// Expire invalidates all access tokens. Refresh tokens stay valid.
func (s *Server) Expire() { s.Set(func(s *Server) { clear(s.access) }) }

// ExpirePerson invalidates a person's access tokens.
func (s *Server) ExpirePerson(person string) {
	s.Set(func(s *Server) {
		maps.DeleteFunc(s.access, func(_ string, f *family) bool { return f.person == person })
	})
}

// RenewalsOf returns a person's counters.
func (s *Server) RenewalsOf(person string) Renewals {
	s.mu.Lock()
	defer s.mu.Unlock()
	return *s.renewals(person)
}

func (s *Server) renewals(person string) *Renewals {
	if s.people[person] == nil {
		s.people[person] = &Renewals{}
	}
	return s.people[person]
}

// RevokeAll invalidates all tokens.
func (s *Server) RevokeAll() {
	s.Set(func(s *Server) {
		clear(s.access)
		for _, f := range s.refresh {
			f.revoked = true
		}
	})
}

func replace(object, by map[string]any) map[string]any {
	maps.Copy(object, by)
	maps.DeleteFunc(object, func(_ string, value any) bool { return value == nil })
	return object
}

func send(w http.ResponseWriter, status int, body any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(body)
}

func (s *Server) serveMetadata(w http.ResponseWriter, _ *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	send(w, http.StatusOK, replace(map[string]any{
		"issuer": s.URL, "authorization_endpoint": s.URL + "/authorize", "token_endpoint": s.URL + "/token",
		"registration_endpoint": s.URL + "/register", "revocation_endpoint": s.URL + "/revoke",
		"code_challenge_methods_supported": []string{"S256"}, "authorization_response_iss_parameter_supported": true,
	}, s.Metadata))
}

func (s *Server) authorize(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	q := r.URL.Query()
	if q.Get("code_challenge_method") != "S256" || q.Get("state") == "" || s.Resource != "" && q.Get("resource") != s.Resource {
		http.Error(w, "invalid request", http.StatusBadRequest)
		return
	}
	s.counters.Codes++
	code := rand.Text()
	q.Set("person", s.Person)
	s.codes[code] = q
	back, err := url.Parse(q.Get("redirect_uri"))
	if err != nil {
		http.Error(w, "invalid redirect_uri", http.StatusBadRequest)
		return
	}
	response := url.Values{"code": {code}, "state": {q.Get("state")}}
	if !s.OmitIss {
		response.Set("iss", s.URL)
	}
	back.RawQuery = response.Encode()
	http.Redirect(w, r, back.String(), http.StatusFound) //nolint:gosec // the redirect goes to a test's client
}

// client returns the client that authenticated a request, or "" if authentication failed.
func (s *Server) client(r *http.Request) string {
	id, secret, basic := r.BasicAuth()
	if !basic {
		id, secret = r.PostFormValue("client_id"), r.PostFormValue("client_secret")
	}
	if want, known := s.Clients[id]; !known || want != secret {
		return ""
	}
	return id
}

// delayedToken responds to a token request after the latency.
func (s *Server) delayedToken(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	latency, respond := s.Latency, s.Respond
	s.mu.Unlock()
	if respond != nil && r.PostFormValue("grant_type") == "refresh_token" {
		respond(w, r)
		return
	}
	if latency == nil {
		s.token(w, r)
		return
	}
	response := httptest.NewRecorder()
	s.token(response, r)
	time.Sleep(latency())
	maps.Copy(w.Header(), response.Header())
	w.WriteHeader(response.Code)
	_, _ = w.Write(response.Body.Bytes())
}

func (s *Server) token(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.OnRequest != nil {
		_ = r.ParseForm()
		s.OnRequest(fmt.Sprint(r.Header, r.PostForm.Encode()))
	}
	refuse := func(code string) { send(w, http.StatusBadRequest, map[string]string{"error": code}) }
	if s.client(r) == "" {
		refuse("invalid_client")
		return
	}
	resource := r.PostFormValue("resource")
	if s.Resource != "" && resource != s.Resource {
		refuse("invalid_target")
		return
	}
	f := &family{resource: resource, scopes: strings.Fields(r.PostFormValue("scope"))}
	switch r.PostFormValue("grant_type") {
	case "client_credentials":
		s.counters.ClientTokens++
		f.person = s.client(r)
		s.issue(w, f, false)
	case "authorization_code":
		s.counters.Redeemed++
		asked, ok := s.codes[r.PostFormValue("code")]
		delete(s.codes, r.PostFormValue("code"))
		sum := sha256.Sum256([]byte(r.PostFormValue("code_verifier")))
		if !ok || asked.Get("code_challenge") != base64.RawURLEncoding.EncodeToString(sum[:]) || asked.Get("redirect_uri") != r.PostFormValue("redirect_uri") {
			refuse("invalid_grant")
			return
		}
		f.person, f.scopes = asked.Get("person"), strings.Fields(asked.Get("scope"))
		s.issue(w, f, true)
	case "refresh_token":
		s.counters.Refreshes++
		old := s.refresh[r.PostFormValue("refresh_token")]
		if old != nil && old.current != r.PostFormValue("refresh_token") {
			s.counters.Reuses++
			s.renewals(old.person).Reuses++
			old.revoked = true
		}
		if old != nil {
			s.renewals(old.person).Refreshes++
		}
		if old == nil || old.revoked {
			refuse("invalid_grant")
			return
		}
		s.issue(w, old, true)
	case "urn:ietf:params:oauth:grant-type:jwt-bearer":
		s.counters.Assertions++
		a, ok := s.redeem(r.PostFormValue("assertion"), s.client(r), resource)
		if !ok {
			refuse("invalid_grant")
			return
		}
		f.person, f.scopes = a.Sub, strings.Fields(a.Scope)
		s.issue(w, f, true)
	default:
		refuse("unsupported_grant_type")
	}
}

// issue sends a family's tokens.
func (s *Server) issue(w http.ResponseWriter, f *family, refreshable bool) {
	body := map[string]any{"access_token": "at-" + rand.Text(), "token_type": "Bearer"}
	s.access[body["access_token"].(string)] = f
	if s.Lifetime > 0 {
		body["expires_in"] = s.Lifetime
	}
	if len(f.scopes) > 0 {
		body["scope"] = strings.Join(f.scopes, " ")
	}
	if refreshable {
		f.current = "rt-" + rand.Text()
		s.refresh[f.current] = f
		body["refresh_token"] = f.current
	}
	send(w, http.StatusOK, replace(body, s.Token))
}

func (s *Server) register(w http.ResponseWriter, r *http.Request) {
	var asked map[string]any
	_ = json.NewDecoder(r.Body).Decode(&asked)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.Registrations++
	id := fmt.Sprintf("client-%d", s.counters.Registrations)
	s.Clients[id] = "secret-of-" + id
	asked["client_id"], asked["client_secret"] = id, s.Clients[id]
	send(w, http.StatusCreated, asked)
}

func (s *Server) revoke(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.counters.Revocations++
	for _, f := range []*family{s.refresh[r.PostFormValue("token")], s.access[r.PostFormValue("token")]} {
		if f != nil {
			f.revoked = true
		}
	}
	w.WriteHeader(http.StatusOK)
}

// Identify returns the person and the scopes identified by an access token for a resource.
func (s *Server) Identify(token, resource string) (person string, scopes []string, ok bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := s.access[token]
	if f == nil || f.revoked || f.resource != resource {
		return "", nil, false
	}
	return f.person, f.scopes, true
}

// Protect wraps a handler so that it serves only requests with a token for the resource whose URL
// id returns. It also serves the resource's metadata.
func (s *Server) Protect(id func() string, scopes []string, next func(person string) http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasPrefix(r.URL.Path, "/.well-known/oauth-protected-resource") {
			send(w, http.StatusOK, map[string]any{"resource": id(), "authorization_servers": []string{s.URL}})
			return
		}
		token, _ := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
		person, granted, ok := s.Identify(token, id())
		u, _ := url.Parse(id())
		challenge := fmt.Sprintf(`Bearer resource_metadata="%s://%s/.well-known/oauth-protected-resource%s"`, u.Scheme, u.Host, u.Path)
		if len(scopes) > 0 {
			challenge += fmt.Sprintf(`, scope="%s"`, strings.Join(scopes, " "))
		}
		switch {
		case !ok:
			w.Header().Set("WWW-Authenticate", challenge)
			http.Error(w, "sign in", http.StatusUnauthorized)
		case slices.ContainsFunc(scopes, func(scope string) bool { return !slices.Contains(granted, scope) }):
			w.Header().Set("WWW-Authenticate", challenge+`, error="insufficient_scope"`)
			http.Error(w, "more scopes needed", http.StatusForbidden)
		default:
			next(person).ServeHTTP(w, r)
		}
	})
}
