package acceptance

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	mathrand "math/rand/v2"
	"net/http"
	"net/http/cookiejar"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store/pgtest"
	"github.com/toolyard/toolyard/internal/trust/oauthtest"
	"github.com/toolyard/toolyard/yard"
)

var (
	renewalCalls = flag.Int("renewal-calls", 60, "how many calls are made at three replicas when a token expires")
	renewalKills = flag.Int("renewal-kills", 2, "how many replicas are killed while tokens expire")
)

// renewalWait limits the time until a call is answered. A replica that dies while it renews a token
// holds its lease for 30 seconds.
const renewalWait = 4 * time.Minute

// renewalFleet has three replicas that call the server crm on behalf of people. Its authorization
// server rotates refresh tokens, and ends a sign-in if an old token is reused.
type renewalFleet struct {
	*fleet
	as    *oauthtest.Server
	front *httptest.Server // forwards requests to a live replica
	keys  []string         // the people's API keys

	signing                sync.Mutex // held during a sign-in, because the authorization server signs in one person at a time
	begun, killed          atomic.Int64
	rounds, calls, extra   atomic.Int64
	questions, interrupted atomic.Int64
	most                   atomic.Int64 // maximum number of refreshes after one expiry
}

func personOf(n int) string { return fmt.Sprint("person-", n) }

func newRenewalFleet(t *testing.T, people int) *renewalFleet {
	t.Helper()
	f := &renewalFleet{as: oauthtest.New(t)}
	f.as.Set(func(s *oauthtest.Server) {
		s.Latency = func() time.Duration { return mathrand.N(300 * time.Millisecond) }
	})
	f.front = httptest.NewServer(http.HandlerFunc(f.forward))
	t.Cleanup(f.front.Close)
	dir, database := t.TempDir(), pgtest.ForTest(t).Database(t)
	for _, name := range []string{"seal", "connections"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(strings.Repeat(name, 32)), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	f.fleet = newFleetOf(t, "toolyard", 3, database, fmt.Sprintf(`
url: %s
store: %q
log: {level: error}
sealKeys: ["file:%[3]s/seal"]
connections: {keys: ["file:%[3]s/connections"]}
servers: {crm: {url: %[4]q, auth: {type: person}, effects: {"*": read}}}
gates: {chat: {mode: read, callers: keys}}
`, f.front.URL, database, dir, f.startCRM(t)))
	for n := range people {
		f.keys = append(f.keys, f.buyer(personOf(n), personOf(n), "").token)
		f.connect(n)
	}
	return f
}

// startCRM starts an MCP server that requires the authorization server's tokens and has the tool
// whoami.
func (f *renewalFleet) startCRM(t *testing.T) string {
	t.Helper()
	whoami := toolyard.Define(toolyard.Spec{Name: "whoami", Description: "Returns the ID of the caller.", Effects: toolyard.ReadOnly},
		func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) { return c.Caller.ID, nil })
	y, err := yard.New(yard.Options{Tools: []*toolyard.Tool{whoami}, Identify: func(r *http.Request) (toolyard.Caller, error) {
		return toolyard.Caller{ID: r.Header.Get("Test-Person")}, nil
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-ended })
	<-y.Ready()
	var address string
	server := httptest.NewServer(f.as.Protect(func() string { return address }, nil, func(person string) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Set("Test-Person", person)
			y.Handler().ServeHTTP(w, r)
		})
	}))
	t.Cleanup(server.Close)
	address = server.URL + "/mcp"
	return address
}

// forward sends a request to a replica. If that replica is dead, it tries another one.
func (f *renewalFleet) forward(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		return
	}
	for n := range 2 * len(f.replicas) {
		out := r.Clone(r.Context())
		out.URL.Scheme, out.URL.Host, out.RequestURI = "http", f.replicas[n%len(f.replicas)].address, ""
		out.Body = io.NopCloser(bytes.NewReader(body))
		res, err := http.DefaultTransport.RoundTrip(out)
		if err != nil {
			continue
		}
		maps.Copy(w.Header(), res.Header)
		w.WriteHeader(res.StatusCode)
		_, _ = io.Copy(w, res.Body)
		_ = res.Body.Close()
		return
	}
	http.Error(w, "no replica is alive", http.StatusBadGateway)
}

// connect signs a person in to the server. It repeats the sign-in if a replica is killed in the
// meantime.
func (f *renewalFleet) connect(n int) {
	f.signing.Lock()
	defer f.signing.Unlock()
	f.as.Set(func(s *oauthtest.Server) { s.Person = personOf(n) })
	var err error
	for end := time.Now().Add(renewalWait); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = f.tryConnect(n); err == nil {
			return
		}
	}
	f.t.Errorf("%s cannot connect: %v", personOf(n), err)
}

func (f *renewalFleet) tryConnect(n int) error {
	jar, err := cookiejar.New(nil)
	if err != nil {
		return err
	}
	response, secret := "", ""
	client := &http.Client{Jar: jar, Timeout: time.Minute, CheckRedirect: func(r *http.Request, _ []*http.Request) error {
		if strings.HasPrefix(r.URL.Path, "/console/") {
			response = r.URL.Fragment
			return http.ErrUseLastResponse
		}
		return nil
	}}
	send := func(path string, body map[string]string, member string) (string, error) {
		raw, err := json.Marshal(body)
		if err != nil {
			return "", err
		}
		r, err := http.NewRequestWithContext(f.t.Context(), http.MethodPost, f.front.URL+"/api/v1"+path, bytes.NewReader(raw))
		if err != nil {
			return "", err
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Sec-Fetch-Site": {"same-origin"}}
		if secret != "" {
			r.Header.Set("Toolyard-Page-Secret", secret)
		}
		status, answer, err := receive(client, r)
		if err != nil || status != http.StatusOK {
			return "", fmt.Errorf("%s: %d %v %w", path, status, answer, err)
		}
		text, _ := answer[member].(string)
		return text, nil
	}
	if secret, err = send("/signin", map[string]string{"key": f.keys[n]}, "pageSecret"); err != nil {
		return err
	}
	link, err := send("/connections/crm", nil, "url")
	if err != nil {
		return err
	}
	_, ticket, _ := strings.Cut(link, "#ticket=")
	address, err := send("/connections/crm/signin", map[string]string{"ticket": ticket}, "address")
	if err != nil {
		return err
	}
	res, err := client.Get(address)
	if err != nil {
		return err
	}
	_ = res.Body.Close()
	if response == "" {
		return errors.New("the authorization server does not return: " + res.Status)
	}
	_, err = send("/oauth/response", map[string]string{"response": response}, "")
	return err
}

// receive sends a request and decodes the response.
func receive(client *http.Client, r *http.Request) (status int, answer map[string]any, err error) {
	res, err := client.Do(r)
	if err != nil {
		return 0, nil, err
	}
	defer func() { _ = res.Body.Close() }()
	raw, err := io.ReadAll(res.Body)
	if err != nil {
		return 0, nil, err
	}
	_ = json.Unmarshal(raw, &answer)
	return res.StatusCode, answer, nil
}

// Outcomes of a call.
const (
	served = "served"
	asked  = "asked" // the person was asked to sign in
	ended  = "ended" // the test ended before the call was answered
)

var patient = &http.Client{Timeout: 2 * time.Minute, Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}

// call calls the tool on a replica until it succeeds or the person has to sign in.
func (f *renewalFleet) call(ctx context.Context, n, replica int) string {
	status, answer := 0, map[string]any(nil)
	for end := time.Now().Add(renewalWait); time.Now().Before(end); time.Sleep(20 * time.Millisecond) {
		r, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+f.replicas[replica].address+"/api/v1/calls", strings.NewReader(`{"gate":"chat","tool":"crm__whoami","args":{}}`))
		if err != nil {
			f.t.Error(err)
			return ended
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Authorization": {"Bearer " + f.keys[n]}}
		f.calls.Add(1)
		status, answer, err = receive(patient, r)
		text := fmt.Sprint(answer)
		switch {
		case ctx.Err() != nil:
			return ended
		case err != nil: // the replica was killed
		case strings.Contains(text, "SIGN_IN_REQUIRED"):
			return asked
		case status == http.StatusOK && strings.Contains(text, "person-"):
			if !strings.Contains(text, personOf(n)) {
				f.t.Errorf("%s was called as %s", personOf(n), text)
			}
			return served
		}
	}
	f.t.Errorf("%s at replica %d: %d %v", personOf(n), replica, status, answer)
	return ended
}

// callAll makes calls on all replicas at once and counts the outcomes.
func (f *renewalFleet) callAll(ctx context.Context, n, calls int) map[string]int {
	var mu sync.Mutex
	var wg sync.WaitGroup
	outcomes := make(map[string]int)
	for i := range calls {
		wg.Go(func() {
			outcome := f.call(ctx, n, i%len(f.replicas))
			mu.Lock()
			defer mu.Unlock()
			outcomes[outcome]++
		})
	}
	wg.Wait()
	return outcomes
}

// round lets a person's access tokens expire, makes calls on all replicas, and compares how often
// the token was renewed with the number of kills in the meantime.
func (f *renewalFleet) round(ctx context.Context, n int) {
	person := personOf(n)
	killed, before := f.killed.Load(), f.as.RenewalsOf(person)
	f.as.ExpirePerson(person)
	outcomes := f.callAll(ctx, n, 2*len(f.replicas))
	after := f.as.RenewalsOf(person)
	kills, refreshes := f.begun.Load()-killed, int64(after.Refreshes-before.Refreshes)
	f.rounds.Add(1)
	f.extra.Add(max(0, refreshes-1))
	for {
		most := f.most.Load()
		if refreshes <= most || f.most.CompareAndSwap(most, refreshes) {
			break
		}
	}
	switch {
	case refreshes > 1+kills:
		f.t.Errorf("%s: %d refreshes after an expiry with %d kills: %v", person, refreshes, kills, outcomes)
	case outcomes[ended] > 0:
		f.interrupted.Add(1)
	case outcomes[served] > 0 && outcomes[asked] > 0:
		f.t.Errorf("%s: %v", person, outcomes)
	case outcomes[served] > 0 && refreshes == 0:
		f.t.Errorf("%s: served without a refresh", person)
	case kills == 0 && (refreshes != 1 || outcomes[asked] > 0 || after.Reuses > before.Reuses):
		f.t.Errorf("%s: %d refreshes, %d reuses, %v without a kill", person, refreshes, after.Reuses-before.Reuses, outcomes)
	case outcomes[asked] > 0:
		f.questions.Add(1)
		if again := f.callAll(ctx, n, len(f.replicas)); again[served] > 0 {
			f.t.Errorf("%s: %v after a question", person, again)
		}
		if now := f.as.RenewalsOf(person); now != after {
			f.t.Errorf("%s: refreshes continue after the question: %+v, %+v", person, after, now)
		}
		f.connect(n)
	}
}

// kill kills replicas one at a time and restarts each. If there are many people, it waits until
// tokens have expired since the last kill, but not forever, because all people may be waiting for a
// dead replica's lease.
func (f *renewalFleet) kill(n int) error {
	for i := range n {
		r := f.replicas[mathrand.IntN(len(f.replicas))]
		for end := time.Now().Add(5 * time.Second); len(f.keys) > 10 && f.rounds.Load() < int64(5*i) && time.Now().Before(end); {
			time.Sleep(10 * time.Millisecond)
		}
		time.Sleep(mathrand.N(500 * time.Millisecond))
		f.begun.Add(1)
		r.kill()
		f.killed.Add(1)
		if err := errors.Join(r.start(), r.ready(3*time.Minute)); err != nil {
			return err
		}
	}
	return nil
}

// A69, A70, A73: if a token expires during many calls, three replicas refresh it once. While
// replicas are killed, each kill causes at most one more refresh of a person's token. After that,
// the person is asked to sign in, and no replica tries again. The database contains no tokens.
func TestTokensAreRenewedOnceUnderKills(t *testing.T) {
	heavy(t)
	people, full := 3, *renewalKills >= 20
	if full {
		people = 30
	}
	f := newRenewalFleet(t, people)
	before := f.as.RenewalsOf(personOf(0))
	f.as.ExpirePerson(personOf(0))
	start := time.Now()
	outcomes := f.callAll(t.Context(), 0, *renewalCalls)
	after := f.as.RenewalsOf(personOf(0))
	t.Logf("%d calls at the expiry of a token in %s: %v, %d refreshes, %d reuses", *renewalCalls, time.Since(start).Round(time.Millisecond), outcomes, after.Refreshes-before.Refreshes, after.Reuses)
	if outcomes[served] != *renewalCalls || after.Refreshes != before.Refreshes+1 || after.Reuses > 0 {
		t.Errorf("%v, %+v", outcomes, after)
	}

	start = time.Now()
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var done atomic.Bool
	var workers sync.WaitGroup
	for n := range people {
		workers.Go(func() {
			for !done.Load() {
				f.round(ctx, n)
			}
		})
	}
	if err := f.kill(*renewalKills); err != nil {
		t.Error(err)
	}
	done.Store(true)
	if !full {
		stop() // ends calls that wait for a dead replica's lease
	}
	workers.Wait()
	reuses := f.as.Counts().Reuses
	t.Logf("%d kills in %s: %d expiries of the tokens of %d people, %d calls; %d extra refreshes, at most %d refreshes after an expiry; %d reuses, %d questions; %d rounds were interrupted by the end",
		f.killed.Load(), time.Since(start).Round(time.Second), f.rounds.Load(), people, f.calls.Load(), f.extra.Load(), f.most.Load(), reuses, f.questions.Load(), f.interrupted.Load())
	if full && (f.rounds.Load() < int64(*renewalKills) || f.interrupted.Load() > 0) {
		t.Errorf("%d rounds, %d interrupted: the test shows too little", f.rounds.Load(), f.interrupted.Load())
	}
	f.searchDatabase(t)
}

// searchDatabase searches all rows of the database for tokens and client secrets.
func (f *renewalFleet) searchDatabase(t *testing.T) {
	t.Helper()
	db, err := pgx.Connect(t.Context(), f.store)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = db.Close(context.Background()) }()
	rows, err := db.Query(t.Context(), "SELECT quote_ident(tablename) FROM pg_tables WHERE schemaname NOT IN ('pg_catalog', 'information_schema')")
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) == 0 {
		t.Fatal(tables, err)
	}
	for _, table := range tables {
		var found int
		if err := db.QueryRow(t.Context(), "SELECT count(*) FROM "+table+" AS r WHERE r::text ~ '[ar]t-[A-Z2-7]{26}|secret-of-client'").Scan(&found); err != nil || found > 0 {
			t.Errorf("%s: %d rows with tokens: %v", table, found, err)
		}
	}
}
