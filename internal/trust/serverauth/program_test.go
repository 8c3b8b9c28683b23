package serverauth

import (
	"net/http"
	"net/http/httptest"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
)

// newProgram returns an authorizer for a service at /mcp that requires scopes, and its address.
func newProgram(t *testing.T, as *oauthtest.Server, demand *atomic.Pointer[[]string]) (*Program, string) {
	t.Helper()
	var address string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		as.Protect(func() string { return address }, *demand.Load(), func(string) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		}).ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	address = server.URL + "/mcp"
	return newRobot(address), address
}

func newRobot(address string) *Program {
	return NewProgram(Server{ID: "crm", URL: address, Client: func() (*oauthclient.Credentials, error) {
		return &oauthclient.Credentials{ID: "robot", Secret: "robot-secret"}, nil
	}}, func(string) {}, time.Now)
}

// send sends a request like package upstream does, and returns the last status.
func send(t *testing.T, p *Program, address string) int {
	t.Helper()
	for attempt := 0; ; attempt++ {
		header, err := p.Authorize(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, address, http.NoBody)
		if err != nil {
			t.Fatal(err)
		}
		req.Header = header.Clone()
		if req.Header == nil {
			req.Header = http.Header{}
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		_ = res.Body.Close()
		if attempt > 0 || res.StatusCode == http.StatusOK {
			return res.StatusCode
		}
		again, err := p.Refused(t.Context(), nil, header, res)
		if err != nil {
			t.Log(err)
		}
		if !again {
			return res.StatusCode
		}
	}
}

// A77: a server that demands ever more scopes gets two further tokens.
func TestProgramRequestsMoreScopesAtMostTwice(t *testing.T) {
	as, scopes, demand := oauthtest.New(t), []string{"a"}, &atomic.Pointer[[]string]{}
	demand.Store(&scopes)
	p, address := newProgram(t, as, demand)
	if status := send(t, p, address); status != http.StatusOK {
		t.Fatal(status)
	}
	for range 10 {
		more := append(slices.Clone(*demand.Load()), "a"+(*demand.Load())[len(*demand.Load())-1])
		demand.Store(&more)
		send(t, p, address)
	}
	if n := as.Counts().ClientTokens; n != 1+maxStepUps {
		t.Errorf("%d tokens", n)
	}
}

// A66, A77: the secret of a client is never sent to another authorization server.
func TestProgramRefusesAnotherAuthorizationServer(t *testing.T) {
	as, evil, current := oauthtest.New(t), oauthtest.New(t), &atomic.Pointer[oauthtest.Server]{}
	current.Store(as)
	var address string
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		current.Load().Protect(func() string { return address }, nil, func(string) http.Handler {
			return http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})
		}).ServeHTTP(w, r)
	}))
	defer server.Close()
	address = server.URL + "/mcp"
	p := newRobot(address)
	if status := send(t, p, address); status != http.StatusOK {
		t.Fatal(status)
	}
	current.Store(evil)
	if status := send(t, p, address); status != http.StatusUnauthorized || evil.Counts().ClientTokens != 0 {
		t.Errorf("status %d, and %d tokens of the other server", status, evil.Counts().ClientTokens)
	}
}

func TestTokensAreRenewedBeforeTheyExpire(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	for lifetime, margin := range map[time.Duration]time.Duration{time.Hour: time.Minute, 4 * time.Minute: time.Minute, time.Minute: 15 * time.Second} {
		if at := renewAt(&oauthclient.Token{Expires: now.Add(lifetime)}, now); !at.Equal(now.Add(lifetime - margin)) {
			t.Errorf("%v: %v before", lifetime, now.Add(lifetime).Sub(at))
		}
	}
	if at := renewAt(&oauthclient.Token{}, now); !at.IsZero() {
		t.Error("a token of unknown lifetime is used until it is refused", at)
	}
}

func TestProgramPausesAfterFailures(t *testing.T) {
	as := oauthtest.New(t)
	scopes, demand := []string(nil), &atomic.Pointer[[]string]{}
	demand.Store(&scopes)
	p, address := newProgram(t, as, demand)
	now := time.Unix(1_800_000_000, 0)
	p.now = func() time.Time { return now }
	as.Set(func(s *oauthtest.Server) { s.Token = map[string]any{"token_type": "mac"} })
	for range 10 {
		if status := send(t, p, address); status != http.StatusUnauthorized {
			t.Fatal(status)
		}
	}
	if n := as.Counts().ClientTokens; n != 1 {
		t.Errorf("%d requests", n)
	}
	now = now.Add(fetchPause)
	as.Set(func(s *oauthtest.Server) { s.Token = nil })
	if status := send(t, p, address); status != http.StatusOK {
		t.Error(status)
	}
}
