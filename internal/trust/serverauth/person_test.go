package serverauth_test

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/oauthclient"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

var calls = flag.Int("calls", 30, "calls at the expiry of a token, on three replicas")

// fleet consists of several replicas that share a store, and a protected service.
type fleet struct {
	t        *testing.T
	as       *oauthtest.Server
	store    *store.Store
	id       string // ID of the server
	service  string
	replicas []*serverauth.Person
	offset   atomic.Int64 // offset of the clock
}

// cut is a store whose writes can fail.
type cut struct {
	*store.Store
	failing atomic.Bool
	failed  chan struct{} // receives a value for each failed write
}

func (c *cut) PutConnection(ctx context.Context, conn *serverauth.Connection, before int64, lease string) (bool, error) {
	if c.failing.Load() {
		c.failed <- struct{}{}
		<-ctx.Done() // as if the process had been killed
		return false, errors.New("unavailable")
	}
	return c.Store.PutConnection(ctx, conn, before, lease)
}

// memory is a store shared by the tests. Each test has its own server.
var (
	memory  = sync.OnceValues(func() (*store.Store, error) { return store.Open(context.Background(), "memory") })
	servers atomic.Int64
)

func newFleet(t *testing.T, replicas int, wrap func(int, *store.Store) serverauth.Store) *fleet {
	t.Helper()
	s, err := memory()
	if err != nil {
		t.Fatal(err)
	}
	f := &fleet{t: t, as: oauthtest.New(t), store: s, id: fmt.Sprint("crm-", servers.Add(1))}
	server := httptest.NewServer(f.as.Protect(func() string { return f.service }, nil, func(person string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, person) })
	}))
	t.Cleanup(server.Close)
	f.service = server.URL + "/mcp"
	for i := range replicas {
		f.replicas = append(f.replicas, serverauth.NewPerson(serverauth.Options{
			Store: wrap(i, s), Keys: keys("k"), URL: "http://127.0.0.1:1", Name: "test", Hide: func(string) {},
			Now: func() time.Time { return time.Now().Add(time.Duration(f.offset.Load())) }, Log: slog.New(slog.DiscardHandler),
		}, serverauth.Server{ID: f.id, URL: f.service}, ""))
	}
	return f
}

func keys(texts ...string) func() (serverauth.Keys, error) {
	return func() (k serverauth.Keys, err error) {
		for _, text := range texts {
			k = append(k, []byte(strings.Repeat(text, 32)))
		}
		return k, nil
	}
}

func plain(_ int, s *store.Store) serverauth.Store { return s }

// signIn connects a person.
func (f *fleet) signIn(caller string) {
	f.t.Helper()
	f.as.Set(func(s *oauthtest.Server) { s.Person = "person-" + caller })
	c := oauthclient.New([]string{"127.0.0.1"}, nil, time.Now)
	resource, server, err := c.Discover(f.t.Context(), f.service, "", oauthclient.Challenge{})
	if err != nil {
		f.t.Fatal(err)
	}
	signIn, err := oauthclient.NewSignIn(server, resource, &oauthclient.Credentials{ID: "robot", Secret: "robot-secret"}, "http://127.0.0.1:1/oauth/callback", nil)
	if err != nil {
		f.t.Fatal(err)
	}
	address, err := signIn.URL()
	if err != nil {
		f.t.Fatal(err)
	}
	browser := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := browser.Get(address)
	if err != nil {
		f.t.Fatal(err)
	}
	_ = res.Body.Close()
	back, err := url.Parse(res.Header.Get("Location"))
	if err != nil {
		f.t.Fatal(err)
	}
	code, err := signIn.Code(back.Query())
	if err != nil {
		f.t.Fatal(err)
	}
	token, err := c.Redeem(f.t.Context(), signIn, code)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.replicas[0].Connect(f.t.Context(), ownerOf(caller), signIn, token); err != nil {
		f.t.Fatal(err)
	}
}

func ownerOf(caller string) serverauth.Owner {
	return serverauth.Owner{Account: caller, Caller: caller}
}

// call calls the service as a person, like package upstream does.
func (f *fleet) call(ctx context.Context, p *serverauth.Person, caller string) (string, error) {
	c := &toolyard.Call{Tool: whoami, Caller: toolyard.Caller{ID: caller, Account: caller}}
	for attempt := 0; ; attempt++ {
		header, err := p.Authorize(ctx, c)
		if err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, f.service, http.NoBody)
		if err != nil {
			return "", err
		}
		req.Header = header.Clone()
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		var body [100]byte
		n, _ := res.Body.Read(body[:])
		_ = res.Body.Close()
		if res.StatusCode == http.StatusOK {
			return string(body[:n]), nil
		}
		if attempt > 0 {
			return "", errors.New(res.Status)
		}
		if again, err := p.Refused(ctx, c, header, res); err != nil || !again {
			return "", errors.Join(err, errors.New(res.Status))
		}
	}
}

// callAll makes many concurrent calls on all replicas and returns how many succeeded.
func (f *fleet) callAll(n int, caller string) int {
	var good atomic.Int64
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			if person, err := f.call(f.t.Context(), f.replicas[i%len(f.replicas)], caller); err == nil && person == "person-"+caller {
				good.Add(1)
			} else {
				f.t.Log(person, err)
			}
		})
	}
	wg.Wait()
	return int(good.Load())
}

// A69: calls at the expiry of a token on three replicas cause one refresh, whether the expiry is known
// or the server refuses the token.
func TestTokensAreRenewedOnceByAllReplicas(t *testing.T) {
	f := newFleet(t, 3, plain)
	f.signIn("ann")
	for round := 1; round <= 2; round++ {
		if round == 1 {
			f.as.Expire()
		} else {
			f.offset.Add(int64(time.Hour))
		}
		if good := f.callAll(*calls, "ann"); good != *calls {
			t.Errorf("%d of %d calls succeeded", good, *calls)
		}
		if n := f.as.Counts(); n.Refreshes != round || n.Reuses != 0 {
			t.Errorf("round %d: %+v", round, n)
		}
	}
}

// A70: a replica dies after the authorization server has rotated the token. The next one tries the old
// token once, which the server recognizes as reused; then the person is asked, and there is no loop.
func TestLostRefreshTokenCausesOneMoreAttempt(t *testing.T) {
	dying := &cut{failed: make(chan struct{}, 100)}
	f := newFleet(t, 2, func(i int, s *store.Store) serverauth.Store {
		if i == 1 {
			dying.Store = s
			return dying
		}
		return s
	})
	f.signIn("ann")
	for _, p := range f.replicas {
		p.SetLease(200 * time.Millisecond)
	}
	dying.failing.Store(true)
	f.as.Expire()
	ctx, kill := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() {
		_, err := f.call(ctx, f.replicas[1], "ann")
		ended <- err
	}()
	<-dying.failed
	kill()
	if err := <-ended; err == nil {
		t.Error("the call of the replica that died succeeded")
	}
	f.as.Expire()
	for range 3 {
		_, err := f.call(t.Context(), f.replicas[0], "ann")
		if e := toolyard.AsError(err); err == nil || e.Code != serverauth.SignInRequired {
			t.Errorf("%v", err)
		}
	}
	if n := f.as.Counts().Refreshes; n != 2 {
		t.Errorf("%d refreshes", n)
	}
	f.signIn("ann")
	if _, err := f.call(t.Context(), f.replicas[0], "ann"); err != nil {
		t.Error("after the next sign-in:", err)
	}
}

// If the authorization server does not respond in time, it may still accept the refresh token. The
// token is not sent again, and the person has to sign in.
func TestRefreshTokenWithUnknownOutcomeIsNotSentAgain(t *testing.T) {
	for name, tt := range map[string]struct {
		response func(http.ResponseWriter, *http.Request) // response to the first refresh
		asked    bool
	}{
		"too slow":        {func(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }, true},
		"connection lost": {func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) }, true},
		"proxy timed out": {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusGatewayTimeout) }, true},
		"no token":        {func(w http.ResponseWriter, _ *http.Request) { _, _ = fmt.Fprint(w, "{}") }, true},
		"overloaded":      {func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusServiceUnavailable) }, false},
		"refuses a client": {func(w http.ResponseWriter, _ *http.Request) {
			http.Error(w, `{"error":"invalid_client"}`, http.StatusUnauthorized)
		}, false},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFleet(t, 1, plain)
			f.signIn("ann")
			f.as.Expire()
			f.as.Set(func(s *oauthtest.Server) { s.Respond = tt.response })
			if name == "too slow" {
				f.replicas[0].SetRefreshTime(time.Second)
			}
			want, refreshes := toolyard.Unavailable, 1
			if tt.asked {
				want, refreshes = serverauth.SignInRequired, 0
			}
			_, err := f.call(t.Context(), f.replicas[0], "ann")
			for name == "too slow" && err != nil && toolyard.AsError(err).Code == toolyard.Unavailable { // the time limit passed before the request was sent
				_, err = f.call(t.Context(), f.replicas[0], "ann")
			}
			if e := toolyard.AsError(err); err == nil || e.Code != want {
				t.Errorf("%v, want %s", err, want)
			}
			f.as.Set(func(s *oauthtest.Server) { s.Respond = nil })
			f.replicas[0].SetRefreshTime(time.Minute)
			if _, err := f.call(t.Context(), f.replicas[0], "ann"); (err != nil) != tt.asked {
				t.Errorf("the next call: %v", err)
			}
			if n := f.as.Counts(); n.Refreshes != refreshes || n.Reuses != 0 {
				t.Errorf("%+v", n)
			}
		})
	}
}

// A72: a sealed value opens only in its own row and version.
func TestConnectionsAreBoundToTheirRow(t *testing.T) {
	f := newFleet(t, 1, plain)
	f.signIn("ann")
	c, err := f.store.Connection(t.Context(), ownerOf("ann"), f.id)
	if err != nil {
		t.Fatal(err)
	}
	current, _ := keys("k")()
	if !current.Opens(c) {
		t.Fatal("the connection does not open")
	}
	for name, change := range map[string]func(*serverauth.Connection){
		"caller":  func(c *serverauth.Connection) { c.Caller = "bob" },
		"account": func(c *serverauth.Connection) { c.Account = "bob" },
		"server":  func(c *serverauth.Connection) { c.Server = "other" },
		"version": func(c *serverauth.Connection) { c.Version++ },
	} {
		other := *c
		if change(&other); current.Opens(&other) {
			t.Errorf("it opens with another %s", name)
		}
	}
	if rotated, _ := keys("n", "k")(); !rotated.Opens(c) {
		t.Error("an old key must still open it")
	}
	if replaced, _ := keys("n")(); replaced.Opens(c) {
		t.Error("another key opens it")
	}
	if strings.Contains(c.Sealed, "robot-secret") || strings.Contains(c.Sealed, "access") {
		t.Error("a secret is readable in the row")
	}
}

// A74: the tokens of people are never mixed up.
func TestPeopleNeverShareTokens(t *testing.T) {
	f := newFleet(t, 2, plain)
	const people = 6
	for i := range people {
		f.signIn(fmt.Sprint("p", i))
	}
	var wg sync.WaitGroup
	for i := range people {
		wg.Go(func() {
			for n := range 8 {
				caller := fmt.Sprint("p", i)
				if n == 5 && i%3 == 0 {
					f.as.Expire()
				}
				person, err := f.call(f.t.Context(), f.replicas[n%2], caller)
				if err == nil && person != "person-"+caller {
					t.Errorf("%s was called as %s", caller, person)
				}
			}
		})
	}
	wg.Wait()
}

// A person with an access token is the same in every account, unlike the holder of an API key.
func TestOwners(t *testing.T) {
	if _, ok := serverauth.OwnerOf(toolyard.Caller{ID: "anonymous"}); ok {
		t.Error("an unauthenticated caller owns connections")
	}
	byKey, _ := serverauth.OwnerOf(toolyard.Caller{ID: "corp:ann", Account: "corp:ann"})
	byToken, _ := serverauth.OwnerOf(toolyard.Caller{ID: "corp:ann", Account: "sales", Roles: []string{"issuer:corp"}})
	moved, _ := serverauth.OwnerOf(toolyard.Caller{ID: "corp:ann", Account: "engineering", Roles: []string{"issuer:corp"}})
	if byKey == byToken || byToken != moved {
		t.Error(byKey, byToken, moved)
	}
}

var whoami = toolyard.Define(toolyard.Spec{Name: "whoami", Description: "Returns who calls."},
	func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })

// The last use of a connection is stored about once a day. The yard's own requests do not count as
// use by the owner.
func TestLastUseOfConnectionIsStored(t *testing.T) {
	f := newFleet(t, 1, plain)
	f.signIn("ann")
	used := func() time.Time {
		t.Helper()
		c, err := f.store.Connection(t.Context(), ownerOf("ann"), f.id)
		if err != nil || c == nil {
			t.Fatal(c, err)
		}
		return c.Used
	}
	start := used()
	for _, step := range []struct {
		after   time.Duration
		call    *toolyard.Call
		changes bool
	}{
		{time.Hour, &toolyard.Call{Tool: whoami, Caller: toolyard.Caller{ID: "ann", Account: "ann"}}, false},
		{48 * time.Hour, nil, false},
		{0, &toolyard.Call{Tool: whoami, Caller: toolyard.Caller{ID: "ann", Account: "ann"}}, true},
	} {
		f.offset.Add(int64(step.after))
		before := used()
		_, err := f.replicas[0].Authorize(t.Context(), step.call)
		if step.call != nil {
			_, err = f.replicas[0].Begin(t.Context(), step.call)
		}
		if err != nil {
			t.Fatal(err)
		}
		if changed := !used().Equal(before); changed != step.changes {
			t.Errorf("after %s: changed %v", step.after, changed)
		}
	}
	if d := used().Sub(start); d < 48*time.Hour {
		t.Errorf("used %s after the sign-in", d)
	}
}
