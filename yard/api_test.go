package yard_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/yard"
)

// testAPI is a yard with a store and an API key for each role.
type testAPI struct {
	*httptest.Server
	yard  *yard.Yard
	file  string // path of the configuration file
	store *store.Store
	keys  map[string]string // API keys by role
}

const apiConfig = `
name: staff
editable: [toolsets, gates, prices]
record: {arguments: full}
terms: {greet: {executeUsd: "0.001", rate: {perMinute: 100}}}
toolsets: {some: {tools: [greet]}}
gates:
  chat: {mode: read, toolset: some}
  all: {mode: write}
  sell: {mode: read, surface: execute, callers: keys}
`

func newDefaultAPI(t *testing.T) *testAPI {
	t.Helper()
	return newTestAPI(t, apiConfig, yard.Options{})
}

func newTestAPI(t *testing.T, config string, opts yard.Options) *testAPI {
	t.Helper()
	dir := t.TempDir()
	file := filepath.Join(dir, "toolyard.yaml")
	if err := os.WriteFile(file, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	type args struct {
		Name string `json:"name" minLength:"1"`
	}
	greet := toolyard.Define(toolyard.Spec{Name: "greet", Description: "Greets a person.", Effects: toolyard.ReadOnly, Category: "social"},
		func(_ context.Context, _ *toolyard.Call, in args) (string, error) {
			return "Hello, " + in.Name + "!", nil
		})
	note := toolyard.Define(toolyard.Spec{Name: "note", Description: "Stores a note."},
		func(context.Context, *toolyard.Call, struct{}) (string, error) { return "done", nil })
	opts.Tools, opts.ConfigFile, opts.Command.OperatorToken = append(opts.Tools, greet, note), file, "tyl_local"
	y, err := yard.New(opts)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); y.Run(ctx) }()
	<-y.Ready()
	s := &testAPI{Server: httptest.NewServer(y.Handler()), yard: y, file: file, keys: map[string]string{"none": "", "wrong": "ty_" + strings.Repeat("a", 10) + "_" + strings.Repeat("b", 49), "local": "tyl_local"}}
	t.Cleanup(func() { s.Close(); cancel(); <-ended })
	if s.store, err = store.Open(t.Context(), "sqlite:"+filepath.Join(dir, "toolyard.db")); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.store.Close() })
	for role, scopes := range map[string][]string{"caller": nil, "viewer": {identity.Viewer}, "operator": {identity.Operator, identity.Write}} {
		key, token, err := identity.New(role, role+"-1", "acme", scopes, 0, time.Now())
		if err != nil {
			t.Fatal(err)
		}
		if err := s.store.PutKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		s.keys[role] = token
	}
	if err := s.store.Fund(t.Context(), "acme", 10*toolyard.USD, "test"); err != nil {
		t.Fatal(err)
	}
	return s
}

// do sends a request with a role's key, and returns the status and the body. It repeats requests
// that fail because the store is slow to respond, which can happen on a busy machine.
func (s *testAPI) do(t *testing.T, role, method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	for end := time.Now().Add(time.Minute); ; {
		start := time.Now()
		status, answer := s.send(t, role, method, path, body, headers...)
		if status != http.StatusServiceUnavailable || time.Since(start) < time.Second || time.Now().After(end) {
			return status, answer
		}
	}
}

func (s *testAPI) send(t *testing.T, role, method, path, body string, headers ...string) (int, map[string]any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, method, s.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if key := s.keys[role]; key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(headers); i += 2 {
		r.Header.Set(headers[i], headers[i+1])
	}
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	if strings.HasPrefix(res.Header.Get("Content-Type"), "text/event-stream") {
		return res.StatusCode, nil
	}
	data, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	var answer map[string]any
	_ = json.Unmarshal(bytes.TrimSpace(data), &answer)
	return res.StatusCode, answer
}

// Every route enforces its access rule and refuses cross-origin requests. The test fails for a
// route that has no rule and for a change that is not audited.
func TestAuthorization(t *testing.T) {
	s := newDefaultAPI(t)
	path := strings.NewReplacer("{source}", "-", "{name}", "none", "{id}", "none", "{prefix}", "none", "{version}", "999", "{kind}", "calendar")
	unrecorded := map[string]bool{ // calls are recorded separately, and signing in changes nothing
		"POST /api/v1/tools/execute": true, "POST /api/v1/calls": true, "POST /api/v1/calls/batch": true, "POST /api/v1/query": true, "POST /api/v1/query/jobs": true,
		"POST /api/v1/signin": true, "DELETE /api/v1/signin": true, "POST /api/v1/signin/issuers/{issuer}": true, "POST /api/v1/signin/response": true, "POST /api/v1/toolsets/{name}/preview": true, "POST /api/v1/connections/{server}/review": true, "POST /api/v1/issuers/check": true,
	}
	for _, rule := range httpapi.Rules() {
		name := rule.Method + " " + rule.Path
		t.Run(name, func(t *testing.T) {
			if rule.Access == "nobody" {
				t.Fatal("the route has no access rule")
			}
			if rule.Method != "GET" && (rule.Action == "") != unrecorded[name] {
				t.Error("the route changes something and is not audited")
			}
			body := ""
			if rule.Method != "GET" {
				body = "{}"
			}
			at := path.Replace(rule.Path)
			status := func(role string, headers ...string) int {
				got, _ := s.do(t, role, rule.Method, at, body, headers...)
				return got
			}
			if got := status("operator", "Origin", "https://evil.example", "Sec-Fetch-Site", "cross-site"); got != http.StatusForbidden {
				t.Errorf("cross-origin request: %d", got)
			}
			if got := status("operator", "Host", "evil.example", "Origin", "null"); got != http.StatusForbidden {
				t.Errorf("request with a null origin: %d", got)
			}
			rank := map[string]int{"open": 0, "caller": 1, "viewer": 2, "operator": 3, "approver": 3}
			for role, level := range map[string]int{"caller": 1, "viewer": 2, "operator": 3, "local": 3} {
				got := status(role)
				if refused := got == http.StatusForbidden || got == http.StatusUnauthorized; refused != (level < rank[rule.Access]) {
					t.Errorf("%s gets %d", role, got)
				}
			}
			if got := status("none"); rank[rule.Access] >= 2 && got != http.StatusUnauthorized {
				t.Errorf("without a key: %d", got)
			}
			if got := status("wrong"); rank[rule.Access] >= 1 && got != http.StatusUnauthorized {
				t.Errorf("with a wrong key: %d", got)
			}
		})
	}
}

// signIn signs in with a role's key, and returns the cookie and the page secret.
func (s *testAPI) signIn(t *testing.T, role string) (cookie *http.Cookie, secret string) {
	t.Helper()
	r, _ := http.NewRequestWithContext(t.Context(), "POST", s.URL+"/api/v1/signin", strings.NewReader(`{"key":"`+s.keys[role]+`"}`))
	r.Header.Set("Content-Type", "application/json")
	res, err := s.Client().Do(r)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var answer struct{ PageSecret string }
	cookies := res.Cookies()
	if err := json.NewDecoder(res.Body).Decode(&answer); err != nil || res.StatusCode != http.StatusOK || len(cookies) != 1 {
		t.Fatalf("%d %v %v", res.StatusCode, cookies, err)
	}
	return cookies[0], answer.PageSecret
}

// A browser needs both its cookie and the page secret, and must be on the same origin.
func TestSignIn(t *testing.T) {
	s := newDefaultAPI(t)
	if got, _ := s.do(t, "none", "POST", "/api/v1/signin", `{"key":"`+s.keys["wrong"]+`"}`); got != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d", got)
	}
	set, secret := s.signIn(t, "operator")
	if !set.HttpOnly || set.SameSite != http.SameSiteStrictMode || len(secret) < 20 {
		t.Fatalf("%v, secret of %d characters", set, len(secret))
	}
	cookie := set.Name + "=" + set.Value
	if strings.Contains(cookie, s.keys["operator"]) {
		t.Error("the cookie shows the key to every port of the host")
	}
	for name, value := range map[string]string{"cookie": set.Value, "secret": secret} {
		s.keys[name] = value
		if got, _ := s.do(t, name, "GET", "/api/v1/keys", ""); got != http.StatusUnauthorized {
			t.Errorf("the %s works as a key: %d", name, got)
		}
	}
	own, other := "http://"+s.Listener.Addr().String(), "http://127.0.0.1:1"
	for name, c := range map[string]struct {
		method  string
		headers []string
		status  int
	}{
		"its own page":              {"GET", []string{"Sec-Fetch-Site", "same-origin"}, 200},
		"no word of where from":     {"GET", nil, 200},
		"a page of another port":    {"GET", []string{"Sec-Fetch-Site", "same-site"}, 403},
		"typed in":                  {"GET", []string{"Sec-Fetch-Site", "none"}, 401},
		"a change":                  {"POST", []string{"Sec-Fetch-Site", "same-origin"}, 404},
		"a change, by its origin":   {"POST", []string{"Origin", own}, 404},
		"a change, other origin":    {"POST", []string{"Origin", other}, 403},
		"a change from nowhere":     {"POST", nil, 401},
		"a change, claims both":     {"POST", []string{"Origin", own, "Sec-Fetch-Site", "cross-site"}, 403},
		"a change, typed in by you": {"POST", []string{"Sec-Fetch-Site", "none"}, 401},
	} {
		path, body := "/api/v1/keys", ""
		if c.method == "POST" {
			path, body = "/api/v1/servers/none/retry", "{}"
		}
		if got, _ := s.do(t, "none", c.method, path, body, append(c.headers, "Cookie", cookie, "Toolyard-Page-Secret", secret)...); got != c.status {
			t.Errorf("%s: %d, want %d", name, got, c.status)
		}
	}
}

// A program on another port of the same host receives the cookie and can send any header. Without
// the matching page secret, the cookie is useless on every route.
func TestCookieNeedsPageSecret(t *testing.T) {
	s := newDefaultAPI(t)
	set, secret := s.signIn(t, "operator")
	again, anotherSecret := s.signIn(t, "operator")
	foreign, _ := s.signIn(t, "caller")
	cookie := "toolyard=" + set.Value
	own := []string{"Sec-Fetch-Site", "same-origin"}
	for _, rule := range httpapi.Rules() {
		if rule.Access == "open" {
			continue
		}
		path := regexp.MustCompile(`\{\w+\}`).ReplaceAllString(rule.Path, "x")
		unauthenticated, _ := s.do(t, "none", rule.Method, path, "", own...)
		if got, _ := s.do(t, "none", rule.Method, path, "", append(own, "Cookie", cookie)...); got != unauthenticated {
			t.Errorf("%s %s with the cookie alone: %d, and %d without", rule.Method, rule.Path, got, unauthenticated)
		}
		for name, headers := range map[string][]string{
			"a wrong secret":        {"Cookie", cookie, "Toolyard-Page-Secret", "guessed"},
			"another sign-in":       {"Cookie", cookie, "Toolyard-Page-Secret", anotherSecret},
			"the secret, no cookie": {"Toolyard-Page-Secret", secret},
		} {
			if got, _ := s.do(t, "none", rule.Method, path, "", append(headers, own...)...); got != http.StatusUnauthorized {
				t.Errorf("%s %s with %s: %d", rule.Method, rule.Path, name, got)
			}
		}
	}
	for name, cookies := range map[string]string{
		"another program sets one too": "toolyard=x; toolyard=" + foreign.Value + "; " + cookie,
		"both sign-ins":                cookie + "; toolyard=" + again.Value,
	} {
		if got, answer := s.do(t, "none", "GET", "/api/v1/me", "", append(own, "Cookie", cookies, "Toolyard-Page-Secret", secret)...); got != http.StatusOK || answer["caller"] != "operator-1" {
			t.Errorf("%s: %d %v", name, got, answer)
		}
	}
	// A cookie that another program set does not match the page secret.
	if got, answer := s.do(t, "none", "GET", "/api/v1/me", "", append(own, "Cookie", "toolyard="+foreign.Value, "Toolyard-Page-Secret", secret)...); got != http.StatusUnauthorized {
		t.Errorf("a foreign cookie: %d %v", got, answer)
	}
}

// Refused requests add only a few small rows to the audit log.
func TestRefusedRequestsDoNotFillTheAuditLog(t *testing.T) {
	s := newDefaultAPI(t)
	body := `{"name":"` + strings.Repeat("A", 60_000) + `","caller":"x"}`
	for range 200 {
		if got, _ := s.do(t, "caller", "POST", "/api/v1/keys", body); got != http.StatusForbidden {
			t.Fatal(got)
		}
	}
	for i := range 700 {
		got, answer := s.do(t, "viewer", "DELETE", "/api/v1/links/wallet", "")
		if want := map[bool]int{true: 204, false: 429}[i < 600]; got != want {
			t.Fatalf("change %d of their own: %d %v", i, got, answer)
		}
	}
	list, err := s.store.Changes(t.Context(), store.ChangeQuery{Caller: "caller-1"})
	if err != nil || len(list) != 30 {
		t.Fatalf("%d rows, %v", len(list), err)
	}
	for _, c := range list {
		if c.Status != http.StatusForbidden || len(c.Detail) > 0 {
			t.Errorf("%+v", c)
		}
	}
	own, err := s.store.Changes(t.Context(), store.ChangeQuery{Caller: "viewer-1"})
	if err != nil || len(own) != 600 {
		t.Errorf("%d rows of changes of their own, %v", len(own), err)
	}
}

// Opening and closing sessions does not count toward the limit for audited changes, because the
// ledger limits sessions.
func TestSessionsDoNotCountAsChanges(t *testing.T) {
	s := newDefaultAPI(t)
	for i := range 350 {
		got, answer := s.do(t, "caller", "POST", "/api/v1/sessions", `{"limitUsd":"0.01"}`)
		if got != http.StatusCreated {
			t.Fatalf("session %d: %d %v", i, got, answer)
		}
		if got, answer := s.do(t, "caller", "POST", "/api/v1/sessions/"+answer["id"].(string)+"/close", ""); got != http.StatusOK {
			t.Fatalf("closing %d: %d %v", i, got, answer)
		}
	}
}

// A page of the audit log has a bounded size, and its cursor skips no entry.
func TestChangesPageIsBounded(t *testing.T) {
	s := newDefaultAPI(t)
	detail, _ := json.Marshal(map[string]string{"text": strings.Repeat("x", 60_000)}) // uses the format of older versions
	const rows = 150
	for i := range rows {
		err := s.store.BeginChange(t.Context(), &store.Change{ID: fmt.Sprintf("old-%03d", i), At: time.Now().UTC(), Caller: "ann", Action: "key.create", Detail: detail})
		if err != nil {
			t.Fatal(err)
		}
	}
	seen, query := map[string]bool{}, "?limit=1000"
	for range rows {
		r, _ := http.NewRequestWithContext(t.Context(), "GET", s.URL+"/api/v1/changes"+query, nil)
		r.Header.Set("Authorization", "Bearer "+s.keys["viewer"])
		res, err := s.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		data, _ := io.ReadAll(res.Body)
		_ = res.Body.Close()
		var page struct {
			Changes []struct{ ID string }
			Next    string
		}
		if err := json.Unmarshal(data, &page); err != nil || len(data) > 1<<20+100_000 {
			t.Fatalf("%d bytes, %v", len(data), err)
		}
		for _, c := range page.Changes {
			seen[c.ID] = true
		}
		if page.Next == "" {
			break
		}
		query = "?limit=1000&before=" + page.Next
	}
	if len(seen) != rows {
		t.Errorf("%d of %d changes", len(seen), rows)
	}
}

// Callers with the same name in two accounts do not see each other's links.
func TestAccountsDoNotShareLinks(t *testing.T) {
	s := newDefaultAPI(t)
	for _, account := range []string{"tenant1", "tenant2"} {
		key, token, err := identity.New("x", "agent", account, nil, 0, time.Now())
		if err == nil {
			err = s.store.PutKey(t.Context(), key)
		}
		if err != nil {
			t.Fatal(err)
		}
		s.keys[account] = token
	}
	if got, answer := s.do(t, "tenant1", "PUT", "/api/v1/links/wallet", `{"address":"0x`+strings.Repeat("1", 40)+`"}`); got != http.StatusOK {
		t.Fatal(got, answer)
	}
	if got, answer := s.do(t, "tenant2", "GET", "/api/v1/links", ""); got != http.StatusOK || len(answer["links"].(map[string]any)) != 0 {
		t.Errorf("%d %v", got, answer)
	}
	if got, _ := s.do(t, "tenant2", "DELETE", "/api/v1/links/wallet", ""); got != http.StatusNoContent {
		t.Error(got)
	}
	if got, answer := s.do(t, "tenant1", "GET", "/api/v1/links", ""); got != http.StatusOK || len(answer["links"].(map[string]any)) != 1 {
		t.Errorf("%d %v", got, answer)
	}
}

// A yard that has no store explains why there are no keys, and how to get them.
func TestKeysWithoutAStore(t *testing.T) {
	s := newTestAPI(t, "gates: {chat: {mode: read}}\n", yard.Options{})
	for _, c := range []struct{ method, path, body string }{{"GET", "/api/v1/keys", ""}, {"POST", "/api/v1/signin", `{"key":"` + s.keys["operator"] + `"}`}} {
		got, answer := s.do(t, "operator", c.method, c.path, c.body)
		if message, _ := answer["message"].(string); got != http.StatusUnauthorized || !strings.Contains(message, "API keys are not available") || !strings.Contains(message, "store: sqlite:") {
			t.Errorf("%s %s: %d %v", c.method, c.path, got, answer)
		}
	}
}

// The audit log records the author and the outcome of each change, including refused ones.
func TestChangesAreAudited(t *testing.T) {
	s := newDefaultAPI(t)
	if got, _ := s.do(t, "operator", "PUT", "/api/v1/toolsets/some", `{"tools":["greet"],"version":0}`); got != 200 {
		t.Fatal(got)
	}
	if got, _ := s.do(t, "operator", "PUT", "/api/v1/toolsets/some", `{"tools":["greet"],"version":0}`); got != http.StatusConflict {
		t.Fatal(got)
	}
	_, answer := s.do(t, "viewer", "GET", "/api/v1/changes", "")
	list, _ := answer["changes"].([]any)
	if len(list) != 2 {
		t.Fatalf("%v", answer)
	}
	for i, want := range []map[string]any{
		{"caller": "operator-1", "action": "toolset.put", "subject": "some", "status": 409.0},
		{"caller": "operator-1", "action": "toolset.put", "subject": "some", "status": 200.0},
	} {
		got := list[i].(map[string]any)
		for name, value := range want {
			if got[name] != value {
				t.Errorf("change %d: %s is %v, want %v", i, name, got[name], value)
			}
		}
	}
}

// An edit changes the gate's offer, is versioned and can be reverted.
func TestEdits(t *testing.T) {
	s := newDefaultAPI(t)
	shows := func() (names []string) {
		v, ok := s.yard.View("chat")
		if !ok {
			t.Fatal("there is no gate chat")
		}
		for _, b := range v.Tools {
			names = append(names, b.Name)
		}
		return names
	}
	for _, bad := range []string{
		`{"tools":["nothing"],"version":0}`, `{"servers":[{"id":"nobody"}],"version":0}`, `{"tools":"greet","version":0}`, `{"tools":["greet"]}`, `{"tool":["greet"],"version":0}`,
	} {
		if got, answer := s.do(t, "operator", "PUT", "/api/v1/toolsets/some", bad); got != http.StatusBadRequest {
			t.Errorf("%s: %d %v", bad, got, answer)
		}
	}
	_, preview := s.do(t, "viewer", "POST", "/api/v1/toolsets/some/preview", `{"tools":[]}`)
	gates := preview["gates"].([]any)[0].(map[string]any)
	if gates["gate"] != "chat" || len(gates["removed"].([]any)) != 1 || len(shows()) != 1 {
		t.Errorf("%v %v", preview, shows())
	}
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/toolsets/some", `{"tools":[],"version":0}`); got != 200 || answer["from"] != "api" {
		t.Fatalf("%d %v", got, answer)
	}
	if len(shows()) != 0 {
		t.Errorf("chat shows %v", shows())
	}
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/gates/more", `{"mode":"write","callers":"keys","version":1}`); got != 200 || answer["tools"] != 2.0 {
		t.Fatalf("%d %v", got, answer)
	}
	if got, answer := s.do(t, "operator", "POST", "/api/v1/edits/1/restore", `{"version":2}`); got != 200 || answer["version"] != 3.0 {
		t.Fatalf("%d %v", got, answer)
	}
	if _, ok := s.yard.View("more"); ok {
		t.Error("the gate is still there")
	}
	if got, _ := s.do(t, "operator", "DELETE", "/api/v1/toolsets/some?version=3", ""); got != http.StatusNoContent {
		t.Fatal(got)
	}
	if got := shows(); len(got) != 1 || got[0] != "greet" {
		t.Errorf("chat shows %v", got)
	}
	_, answer := s.do(t, "viewer", "GET", "/api/v1/edits", "")
	if list := answer["edits"].([]any); len(list) != 4 || list[0].(map[string]any)["by"] != "operator-1" {
		t.Errorf("%v", answer)
	}
}

// Calls appear in the catalog, in the live stream, in the recorded calls and in the costs.
func TestCallsAreVisible(t *testing.T) {
	s := newDefaultAPI(t)
	_, answer := s.do(t, "viewer", "GET", "/api/v1/tools?q=gre", "")
	if answer["total"] != 1.0 {
		t.Fatalf("%v", answer)
	}
	_, answer = s.do(t, "operator", "POST", "/api/v1/calls/batch", `{"calls":[
		{"gate":"sell","tool":"greet","args":{"name":"Ann"}},{"gate":"chat","tool":"greet","args":{"name":""}},{"gate":"chat","tool":"nothing"},{"gate":"chat","tool":"greet","args":{"name":"Bob"}}]}`)
	var seen []string
	for _, r := range answer["results"].([]any) {
		raw, _ := json.Marshal(r)
		seen = append(seen, string(raw))
	}
	for i, want := range []string{"Hello, Ann!", "VALIDATION_ERROR", "NOT_FOUND", "Hello, Bob!"} {
		if !strings.Contains(seen[i], want) {
			t.Errorf("result %d is %s", i, seen[i])
		}
	}
	var overview map[string]any
	for range 3000 {
		if _, overview = s.do(t, "viewer", "GET", "/api/v1/overview", ""); overview["today"].(map[string]any)["calls"] == 3.0 {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	if today := overview["today"].(map[string]any); today["calls"] != 3.0 || today["errors"] != 1.0 || today["usd"] != "0.001" {
		t.Errorf("%v", overview)
	}
	_, answer = s.do(t, "viewer", "GET", "/api/v1/calls?failed=true", "")
	call := answer["calls"].([]any)[0].(map[string]any)
	if _, detail := s.do(t, "viewer", "GET", "/api/v1/calls/"+call["id"].(string), ""); detail["marks"] == nil || detail["message"] == nil {
		t.Errorf("%v", detail)
	}
	if got, _ := s.do(t, "none", "GET", "/api/v1/calls/"+call["id"].(string), ""); got == 200 {
		t.Error("an unauthorized caller sees a call")
	}
	if _, answer = s.do(t, "viewer", "GET", "/api/v1/limits", ""); len(answer["limits"].([]any)) != 1 {
		t.Errorf("%v", answer)
	}
	if got, _ := s.do(t, "viewer", "GET", "/api/v1/calls/live", ""); got != 200 {
		t.Error(got)
	}
}

// An edit that omits callers keeps the gate's setting, and the first configured gate does not
// replace the implicit one.
func TestGateEdits(t *testing.T) {
	s := newDefaultAPI(t)
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/gates/sell", `{"mode":"read","surface":"execute","version":0}`); got != 200 || answer["callers"] != "keys" || answer["version"] != 1.0 {
		t.Errorf("%d %v", got, answer)
	}
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/gates/new", `{"mode":"read","version":1}`); got != 400 {
		t.Errorf("%d %v", got, answer)
	}
	if got, _ := s.do(t, "operator", "DELETE", "/api/v1/gates/chat?version=1", ""); got != 404 {
		t.Error(got)
	}
	for _, name := range []string{"%20x", "a%00", "x%2Fy", strings.Repeat("x", 65)} {
		if got, _ := s.do(t, "operator", "PUT", "/api/v1/toolsets/"+name, `{"tools":["greet"],"version":1}`); got != 400 {
			t.Errorf("%s: %d", name, got)
		}
	}
}

// An edit cannot open a gate to more callers than the file does.
func TestEditsCannotOpenMoreThanTheFile(t *testing.T) {
	s := newTestAPI(t, "editable: [gates]\ngates: {chat: {mode: read}, desk: {mode: write, callers: keys}}\n", yard.Options{})
	for i, step := range []struct {
		method, path, body string
		status             int
	}{
		{"PUT", "desk", `{"mode":"write","callers":"anyone","version":0}`, 400},
		{"PUT", "other", `{"mode":"write","callers":"anyone","version":0}`, 400},
		{"PUT", "chat", `{"mode":"read","callers":"keys","version":0}`, 200},
		{"PUT", "desk", `{"mode":"write","callers":"anyone","version":1}`, 400},
		{"PUT", "chat", `{"mode":"read","callers":"anyone","version":1}`, 200},
		{"PUT", "chat", `{"mode":"read","callers":"keys","version":2}`, 200},
		{"DELETE", "chat?version=3", "", 204},
	} {
		if got, answer := s.do(t, "operator", step.method, "/api/v1/gates/"+step.path, step.body); got != step.status {
			t.Errorf("step %d: %d %v", i, got, answer)
		}
	}
}

// Editing a gate keeps the settings that the API does not have.
func TestEditOfAGateKeepsItsLimits(t *testing.T) {
	s := newTestAPI(t, `editable: [gates]
gates: {sell: {mode: read, callers: keys, surface: execute, accept: trifecta, rate: {perMinute: 7}, spend: {perDayUsd: "2.00"}}}
`, yard.Options{})
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/gates/sell", `{"mode":"write","surface":"execute","version":0}`); got != 200 {
		t.Fatal(got, answer)
	}
	body, _, err := s.store.Document(t.Context(), "edits")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{`"perMinute":7`, `"perDayUsd":"2"`, `"accept":"trifecta"`, `"mode":"write"`} {
		if !strings.Contains(string(body), want) {
			t.Errorf("%s is missing: %s", want, body)
		}
	}
}

func TestPricesCanBeEdited(t *testing.T) {
	s := newDefaultAPI(t)
	price := func(tool string) string {
		_, answer := s.do(t, "viewer", "GET", "/api/v1/tools/-/"+tool, "")
		return fmt.Sprint(answer["priceUsd"])
	}
	for i, step := range []struct {
		role, method, path, body string
		status                   int
		greet, note              string // prices of the tools after the edit
	}{
		{"viewer", "GET", "-/greet", "", 200, "0.001", "<nil>"},
		{"viewer", "PUT", "-/greet", `{"executeUsd":"0.5","version":0}`, 403, "0.001", "<nil>"},
		{"operator", "PUT", "-/greet", `{"executeUsd":"-1","version":0}`, 400, "0.001", "<nil>"},
		{"operator", "PUT", "-/greet", `{"executeUsd":"0.5","version":3}`, 409, "0.001", "<nil>"},
		{"operator", "PUT", "-/nothing", `{"executeUsd":"0.5","version":0}`, 404, "0.001", "<nil>"},
		{"operator", "PUT", "nothing/*", `{"executeUsd":"0.5","version":0}`, 404, "0.001", "<nil>"},
		{"operator", "PUT", "-/greet", `{"executeUsd":"0.5","version":0}`, 200, "0.5", "<nil>"},
		{"operator", "PUT", "-/*", `{"executeUsd":"0.25","version":1}`, 200, "0.5", "0.25"},
		{"operator", "PUT", "-/note", `{"executeUsd":"none","version":2}`, 200, "0.5", "<nil>"},
		{"operator", "DELETE", "-/greet?version=3", "", 204, "0.001", "<nil>"},
		{"operator", "DELETE", "-/greet?version=4", "", 404, "0.001", "<nil>"},
		{"operator", "DELETE", "-/note?version=4", "", 204, "0.001", "0.25"},
	} {
		if got, answer := s.do(t, step.role, step.method, "/api/v1/prices/"+step.path, step.body); got != step.status {
			t.Errorf("step %d: %d %v", i, got, answer)
		}
		if greet, note := price("greet"), price("note"); greet != step.greet || note != step.note {
			t.Errorf("step %d: greet costs %s, note costs %s", i, greet, note)
		}
	}
	for path, want := range map[string]string{"-/greet": "file", "-/*": "api", "-/note": "tool"} {
		if _, answer := s.do(t, "viewer", "GET", "/api/v1/prices/"+path, ""); answer["from"] != want {
			t.Errorf("%s: %v", path, answer)
		}
	}
}

// The audit log omits API keys, and truncates nothing else.
func TestAuditLogHidesOnlyKeys(t *testing.T) {
	s := newDefaultAPI(t)
	s.do(t, "operator", "DELETE", "/api/v1/keys/"+s.keys["viewer"], "")
	s.do(t, "operator", "POST", "/api/v1/keys", strings.Repeat(" ", 60_000)+`{"name":"ghost","caller":"ghost","scopes":["operator"]}`)
	_, answer := s.do(t, "viewer", "GET", "/api/v1/changes", "")
	raw, _ := json.Marshal(answer)
	if strings.Contains(string(raw), s.keys["viewer"]) || !strings.Contains(string(raw), "ghost") || strings.Contains(string(raw), `"subject":""`) {
		t.Errorf("%s", raw)
	}
}

func TestFirstGateByEdit(t *testing.T) {
	s := newTestAPI(t, "editable: [gates]\n", yard.Options{Gates: []yard.Gate{{Name: "mine", Mode: toolyard.Read, RequireAuth: true}}})
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/gates/mine", `{"mode":"write","callers":"anyone","version":0}`); got != 403 {
		t.Errorf("the gate of the program: %d %v", got, answer)
	}
	s = newTestAPI(t, "editable: [gates]\n", yard.Options{})
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/gates/extra", `{"mode":"read","callers":"keys","version":0}`); got != 200 {
		t.Fatalf("%d %v", got, answer)
	}
	for _, gate := range []string{"default", "extra"} {
		if _, ok := s.yard.View(gate); !ok {
			t.Errorf("gate %s is gone", gate)
		}
	}
	if got, answer := s.do(t, "operator", "DELETE", "/api/v1/gates/extra?version=1", ""); got != 204 {
		t.Errorf("%d %v", got, answer)
	}
	if _, ok := s.yard.View("default"); !ok {
		t.Error("the default gate is gone")
	}
}

// An edit of a version that this replica has not loaded is refused.
func TestEditOfAnUnknownVersionIsRefused(t *testing.T) {
	s := newDefaultAPI(t)
	if _, err := s.store.SetDocumentAs(t.Context(), "edits", []byte(`{"toolsets":{"theirs":{"tools":["greet"]}}}`), 0, "ann", "elsewhere"); err != nil {
		t.Fatal(err)
	}
	if got, answer := s.do(t, "operator", "PUT", "/api/v1/toolsets/ours", `{"tools":["greet"],"version":1}`); got != http.StatusConflict {
		t.Errorf("%d %v", got, answer)
	}
}

// Refused changes are audited if the caller is authenticated.
func TestRefusedChangesAreAudited(t *testing.T) {
	s := newDefaultAPI(t)
	for range 3 {
		s.do(t, "none", "POST", "/api/v1/sessions", `{"limitUsd":"1"}`)
		s.do(t, "wrong", "POST", "/api/v1/accounts/acme/fund", `{"amountUsd":"5","reference":"x"}`)
	}
	s.do(t, "viewer", "POST", "/api/v1/accounts/acme/fund", `{"amountUsd":"5","reference":"x"}`)
	_, answer := s.do(t, "viewer", "GET", "/api/v1/changes", "")
	list := answer["changes"].([]any)
	if len(list) != 1 || list[0].(map[string]any)["status"] != 403.0 || list[0].(map[string]any)["caller"] != "viewer-1" {
		t.Errorf("%v", answer)
	}
	for i, want := range []int{200, 200, 409} {
		amount := []string{"5", "5", "50"}[i]
		if got, answer := s.do(t, "operator", "POST", "/api/v1/accounts/acme/fund", `{"amountUsd":"`+amount+`","reference":"inv-1"}`); got != want {
			t.Errorf("%s: %d %v", amount, got, answer)
		}
	}
}

// Live streams end when the server shuts down.
func TestStreamsEndWithTheServer(t *testing.T) {
	s := newDefaultAPI(t)
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	served := make(chan error, 1)
	go func() { served <- s.yard.Serve(ctx, l) }()
	r, _ := http.NewRequestWithContext(t.Context(), "GET", "http://"+l.Addr().String()+"/api/v1/calls/live", http.NoBody)
	r.Header.Set("Authorization", "Bearer "+s.keys["viewer"])
	res, err := http.DefaultClient.Do(r)
	if err != nil || res.StatusCode != 200 {
		t.Fatal(err, res)
	}
	defer func() { _ = res.Body.Close() }()
	stop()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(time.Minute):
		t.Error("the shutdown waits for the stream")
	}
}
