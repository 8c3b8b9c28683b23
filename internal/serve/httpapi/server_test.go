package httpapi_test

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard/internal/base/ident"

	gocmp "github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/serve"
	"github.com/toolyard/toolyard/internal/serve/gates"
	"github.com/toolyard/toolyard/internal/serve/httpapi"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/yard"
)

var update = flag.Bool("update", false, "rewrite docs/openapi.json")

// fakeLedger is an in-memory ledger.
type fakeLedger struct {
	mu          sync.Mutex
	balances    map[string]*ledger.Balance
	unavailable bool
	queries     int
}

func newLedger() *fakeLedger {
	return &fakeLedger{balances: map[string]*ledger.Balance{
		"acme":     {ID: "acme", Account: "acme", State: ledger.StateOpen, Remaining: toolyard.USD},
		"umbrella": {ID: "umbrella", Account: "umbrella", State: ledger.StateOpen, Remaining: toolyard.USD},
		"ses_u":    {ID: "ses_u", Account: "umbrella", State: ledger.StateOpen, Remaining: toolyard.USD},
		"ses_a":    {ID: "ses_a", Account: "acme", State: ledger.StateOpen, Remaining: toolyard.USD},
	}}
}

func (l *fakeLedger) Fund(context.Context, string, toolyard.Money, string) error { return nil }
func (l *fakeLedger) Audit(context.Context) error                                { return nil }

func (l *fakeLedger) Balance(_ context.Context, id string) (*ledger.Balance, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.queries++
	if l.unavailable {
		return nil, fmt.Errorf("balance: %w", store.ErrUnavailable)
	}
	p, ok := l.balances[id]
	if !ok {
		return nil, toolyard.Errorf(toolyard.NotFound, "there is no balance %s", id)
	}
	shown := *p
	return &shown, nil
}

func (l *fakeLedger) OpenSession(ctx context.Context, s ledger.Session) (*ledger.Balance, error) {
	l.mu.Lock()
	account := l.balances[s.Account]
	if account.Remaining < s.Limit {
		l.mu.Unlock()
		return nil, toolyard.Errorf(toolyard.BudgetExceeded, "the account has less")
	}
	account.Remaining -= s.Limit
	l.balances[s.ID] = &ledger.Balance{
		ID: s.ID, Account: s.Account, State: ledger.StateOpen, Limit: s.Limit, Remaining: s.Limit, MaxCalls: s.Calls,
		Expires: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC).Add(s.TTL),
	}
	l.mu.Unlock()
	return l.Balance(ctx, s.ID)
}

func (l *fakeLedger) CloseSession(ctx context.Context, id string) (*ledger.Balance, error) {
	l.mu.Lock()
	l.balances[id].State = ledger.StateClosed
	l.mu.Unlock()
	return l.Balance(ctx, id)
}

// links stores links in memory.
type links map[string]map[string]string

func (l links) SetLink(_ context.Context, c toolyard.Caller, kind, address string) error {
	caller := c.Account + "/" + c.ID
	if l[caller] == nil {
		l[caller] = make(map[string]string)
	}
	if l[caller][kind] = address; address == "" {
		delete(l[caller], kind)
	}
	return nil
}

func (l links) Links(_ context.Context, c toolyard.Caller) (map[string]string, error) {
	return maps.Clone(l[c.Account+"/"+c.ID]), nil
}

// callers maps keys to callers.
var callers = map[string]toolyard.Caller{
	"":       {ID: ident.Anonymous},
	"alice":  {ID: "alice", Account: "acme"},
	"bob":    {ID: "bob", Account: "umbrella"},
	"poor":   {ID: "poor"},
	"root":   {ID: "root", Account: "ops", Roles: []string{"operator"}},
	"nobody": {ID: ident.Anonymous, Roles: []string{"operator"}},
	"twin":   {ID: "twin", Account: "ses_u"}, // an account with the same name as a session
}

func identify(r *http.Request) (toolyard.Caller, error) {
	switch key := r.Header.Get("Authorization"); key {
	case "down":
		return toolyard.Caller{}, toolyard.Errorf(toolyard.Unavailable, "keys cannot be checked now")
	case "odd":
		return toolyard.Caller{}, errors.New("odd")
	default:
		c, ok := callers[key]
		if !ok {
			return c, toolyard.Errorf(toolyard.Unauthenticated, "this key is not known")
		}
		return c, nil
	}
}

var testGates = []*gates.Gate{
	{Name: "chat", Surface: toolyard.Answer},
	{Name: "dev", Surface: "both"},
	{Name: "sdk", Surface: toolyard.Execute},
	{Name: "sdk2", Surface: toolyard.Execute},
}

func options() httpapi.Options {
	wallet := yard.ProviderKind{CheckLink: func(address string) error {
		if !strings.HasPrefix(address, "0x0") {
			return errors.New("it must begin with 0x0")
		}
		return nil
	}}
	kinds := yard.Options{ProviderKinds: map[string]yard.ProviderKind{"wallet": wallet}}
	return httpapi.Options{
		Identify: identify, Ledger: newLedger(), Links: httpapi.LinkOptions{Store: links{}, Check: kinds.CheckLink},
		Gates: func() []*gates.Gate { return testGates }, Execute: execute,
	}
}

// execute returns the outcome selected by the tool's name.
func execute(_ context.Context, r *serve.CallRequest) (serve.CallOutcome, error) {
	call := &toolyard.Call{ID: "c1"}
	switch r.Tool {
	case "echo":
		request, _ := json.Marshal(map[string]any{
			"caller": r.Caller, "gate": r.Gate, "tool": r.Tool, "args": r.Args, "session": r.Session, "key": r.IdempotencyKey, "answers": r.InputResponses, "state": r.RequestState, "features": r.ClientCapabilities,
		})
		call.Receipt = &toolyard.Receipt{Call: "c1", Price: toolyard.USD / 1000, ChargedTo: cmp.Or(r.Session, r.Caller.Account)}
		return serve.CallOutcome{Call: call, Result: &toolyard.Result{Content: []toolyard.Content{toolyard.Text("<&>")}, Structured: request}}, nil
	case "free":
		return serve.CallOutcome{Call: call, Result: &toolyard.Result{}}, nil
	case "failure":
		return serve.CallOutcome{Call: call, Result: toolyard.Failure("no")}, nil
	case "panics":
		panic("at the disco")
	case "plain":
		return serve.CallOutcome{Call: call}, errors.New("the tool broke")
	}
	return serve.CallOutcome{Call: call}, &toolyard.Error{Code: toolyard.Code(r.Tool), Message: "as requested", RetryAfter: 1500 * time.Millisecond}
}

func do(h http.Handler, key, method, path, body string, header ...string) *httptest.ResponseRecorder {
	r := httptest.NewRequest(method, path, strings.NewReader(body))
	r.Header.Set("Authorization", key)
	if body != "" {
		r.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		r.Header.Add(header[i], header[i+1])
	}
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	return w
}

// field returns a member of a response by path, such as "session.status".
func field(w *httptest.ResponseRecorder, path string) string {
	var at any
	_ = json.Unmarshal(w.Body.Bytes(), &at)
	for name := range strings.SplitSeq(path, ".") {
		o, _ := at.(map[string]any)
		at = o[name]
	}
	if at == nil {
		return ""
	}
	return fmt.Sprint(at)
}

func TestInvalidRequestsAreRejected(t *testing.T) {
	away := newLedger()
	away.unavailable = true
	bare := httpapi.V1(httpapi.Options{Identify: identify})
	full := httpapi.V1(options())
	lost := options()
	lost.Ledger = away
	const session, tools = "/api/v1/sessions", "/api/v1/tools/execute"
	for name, c := range map[string]struct {
		h                       http.Handler
		key, method, path, body string
		status                  int
		code                    toolyard.Code
	}{
		"no such path":                {full, "alice", "GET", "/api/v1/nothing", "", 404, toolyard.NotFound},
		"other method":                {full, "alice", "DELETE", session, "", 405, toolyard.NotFound},
		"unknown key":                 {full, "mallory", "GET", "/api/v1/account", "", 401, toolyard.Unauthenticated},
		"odd key":                     {full, "odd", "GET", "/api/v1/account", "", 401, toolyard.Unauthenticated},
		"keys unavailable":            {full, "down", "GET", "/api/v1/account", "", 503, toolyard.Unavailable},
		"anonymous":                   {full, "", "GET", "/api/v1/account", "", 401, toolyard.Unauthenticated},
		"anonymous session":           {full, "", "POST", session, `{"limitUsd":"1"}`, 401, toolyard.Unauthenticated},
		"anonymous links":             {full, "", "GET", "/api/v1/links", "", 401, toolyard.Unauthenticated},
		"no account":                  {full, "poor", "GET", "/api/v1/account", "", 403, toolyard.PermissionDenied},
		"ledger unavailable":          {httpapi.V1(lost), "alice", "GET", "/api/v1/account", "", 503, toolyard.Unavailable},
		"session, ledger unavailable": {httpapi.V1(lost), "alice", "GET", session + "/ses_a", "", 503, toolyard.Unavailable},
		"nothing for sale":            {bare, "alice", "POST", session, `{"limitUsd":"1"}`, 404, toolyard.NotFound},
		"nothing to see":              {bare, "alice", "GET", session + "/x", "", 404, toolyard.NotFound},
		"nothing to close":            {bare, "alice", "POST", session + "/x/close", "", 404, toolyard.NotFound},
		"no accounts":                 {bare, "alice", "GET", "/api/v1/account", "", 404, toolyard.NotFound},
		"no record":                   {bare, "alice", "GET", "/api/v1/calls", "", 404, toolyard.NotFound},
		"no links":                    {bare, "alice", "GET", "/api/v1/links", "", 404, toolyard.NotFound},
		"no execution":                {bare, "alice", "POST", tools, `{"tool":"echo"}`, 404, toolyard.NotFound},
		"other's session":             {full, "alice", "GET", session + "/ses_u", "", 404, toolyard.NotFound},
		"close other's":               {full, "alice", "POST", session + "/ses_u/close", "", 404, toolyard.NotFound},
		"pay with other's":            {full, "alice", "POST", tools, `{"tool":"echo","session":"ses_u"}`, 404, toolyard.NotFound},
		"account as session":          {full, "alice", "GET", session + "/acme", "", 404, toolyard.NotFound},
		"close an account":            {full, "alice", "POST", session + "/acme/close", "", 404, toolyard.NotFound},
		"pay with account":            {full, "alice", "POST", tools, `{"tool":"echo","session":"acme"}`, 404, toolyard.NotFound},
		"odd session":                 {full, "alice", "GET", session + "/%00", "", 404, toolyard.NotFound},
		"too much":                    {full, "alice", "POST", session, `{"limitUsd":"1.01"}`, 402, toolyard.BudgetExceeded},
		"no limit":                    {full, "alice", "POST", session, `{}`, 400, toolyard.Invalid},
		"limit zero":                  {full, "alice", "POST", session, `{"limitUsd":"0"}`, 400, toolyard.Invalid},
		"limit negative":              {full, "alice", "POST", session, `{"limitUsd":"-1"}`, 400, toolyard.Invalid},
		"limit is a number":           {full, "alice", "POST", session, `{"limitUsd":1}`, 400, toolyard.Invalid},
		"limit too fine":              {full, "alice", "POST", session, `{"limitUsd":"0.0000000001"}`, 400, toolyard.Invalid},
		"calls negative":              {full, "alice", "POST", session, `{"limitUsd":"1","calls":-1}`, 400, toolyard.Invalid},
		"calls broken":                {full, "alice", "POST", session, `{"limitUsd":"1","calls":1.5}`, 400, toolyard.Invalid},
		"ttl too long":                {full, "alice", "POST", session, `{"limitUsd":"1","ttl":"24h1s"}`, 400, toolyard.Invalid},
		"ttl too short":               {full, "alice", "POST", session, `{"limitUsd":"1","ttl":"-1h"}`, 400, toolyard.Invalid},
		"ttl odd":                     {full, "alice", "POST", session, `{"limitUsd":"1","ttl":"soon"}`, 400, toolyard.Invalid},
		"session of nothing":          {full, "alice", "POST", session, `{}`, 400, toolyard.Invalid},
		"unknown member":              {full, "alice", "POST", session, `{"limitUsd":"1","budget":1}`, 400, toolyard.Invalid},
		"other case":                  {full, "alice", "POST", session, `{"limitUSD":"1"}`, 400, toolyard.Invalid},
		"twice":                       {full, "alice", "POST", session, `{"limitUsd":"1","limitUsd":"2"}`, 400, toolyard.Invalid},
		"more":                        {full, "alice", "POST", session, `{"limitUsd":"1"}{}`, 400, toolyard.Invalid},
		"not an object":               {full, "alice", "POST", session, `["limitUsd"]`, 400, toolyard.Invalid},
		"null":                        {full, "alice", "POST", session, `null`, 400, toolyard.Invalid},
		"no body":                     {full, "alice", "POST", session, ``, 400, toolyard.Invalid},
		"large":                       {full, "alice", "POST", session, `{"limitUsd":"` + strings.Repeat("1", 64<<10) + `"}`, 413, toolyard.ArgsTooLarge},
		"deep":                        {full, "alice", "POST", session, `{"limitUsd":` + strings.Repeat("[", 100) + strings.Repeat("]", 100) + `}`, 400, toolyard.Invalid},
		"no tool":                     {full, "alice", "POST", tools, `{}`, 400, toolyard.Invalid},
		"long tool":                   {full, "alice", "POST", tools, `{"tool":"` + strings.Repeat("x", 257) + `"}`, 400, toolyard.Invalid},
		"list of arguments":           {full, "alice", "POST", tools, `{"tool":"echo","args":[]}`, 400, toolyard.Invalid},
		"close nothing":               {full, "alice", "POST", tools, `{"tool":"echo","closeSession":true}`, 400, toolyard.Invalid},
		"odd key of call":             {full, "alice", "POST", tools, `{"tool":"echo","idempotencyKey":"a\nb"}`, 400, toolyard.Invalid},
		"long key of call":            {full, "alice", "POST", tools, `{"tool":"echo","idempotencyKey":"` + strings.Repeat("k", 256) + `"}`, 400, toolyard.Invalid},
		"gate for answers":            {full, "alice", "POST", tools, `{"tool":"echo","gate":"chat"}`, 404, toolyard.NotFound},
		"asks a model":                {full, "alice", "POST", tools, `{"tool":"MISSING_CAPABILITY"}`, 400, toolyard.MissingCapability},
		"panic":                       {full, "alice", "POST", tools, `{"tool":"panics"}`, 500, toolyard.Internal},
		"kind of link":                {full, "alice", "PUT", "/api/v1/links/Wallet", `{"address":"x"}`, 400, toolyard.Invalid},
		"address of wallet":           {full, "alice", "PUT", "/api/v1/links/wallet", `{"address":"0x12"}`, 400, toolyard.Invalid},
		"address of other":            {full, "alice", "PUT", "/api/v1/links/calendar", `{"address":"a\u202eb"}`, 400, toolyard.Invalid},
		"no address":                  {full, "alice", "PUT", "/api/v1/links/calendar", `{}`, 400, toolyard.Invalid},
		"no such link":                {full, "alice", "GET", "/api/v1/links/wallet", "", 404, toolyard.NotFound},
		"calls, anonymous":            {full, "", "GET", "/api/v1/calls", "", 401, toolyard.Unauthenticated},
		"calls, no viewer":            {full, "nobody", "GET", "/api/v1/calls", "", 401, toolyard.Unauthenticated},
		"calls, no account":           {full, "poor", "GET", "/api/v1/calls", "", 403, toolyard.PermissionDenied},
		"calls of others":             {full, "alice", "GET", "/api/v1/calls?account=umbrella", "", 403, toolyard.PermissionDenied},
		"costs of others":             {full, "alice", "GET", "/api/v1/costs?account=umbrella", "", 403, toolyard.PermissionDenied},
		"latencies of others":         {full, "alice", "GET", "/api/v1/latencies?account=umbrella", "", 403, toolyard.PermissionDenied},
		"unknown parameter":           {full, "alice", "GET", "/api/v1/calls?x=1", "", 400, toolyard.Invalid},
		"parameter twice":             {full, "alice", "GET", "/api/v1/calls?tool=1&tool=2", "", 400, toolyard.Invalid},
		"parameter too long":          {full, "alice", "GET", "/api/v1/calls?tool=" + strings.Repeat("x", 257), "", 400, toolyard.Invalid},
		"parameter with NUL":          {full, "alice", "GET", "/api/v1/calls?tool=%00", "", 400, toolyard.Invalid},
		"query too long":              {full, "alice", "GET", "/api/v1/calls?" + strings.Repeat("x", 9<<10), "", 400, toolyard.Invalid},
		"query odd":                   {full, "alice", "GET", "/api/v1/calls?tool=%zz", "", 400, toolyard.Invalid},
		"limit of page":               {full, "alice", "GET", "/api/v1/calls?limit=1001", "", 400, toolyard.Invalid},
		"time odd":                    {full, "alice", "GET", "/api/v1/calls?since=yesterday", "", 400, toolyard.Invalid},
		"cursor odd":                  {full, "alice", "GET", "/api/v1/calls?before=-1.x", "", 400, toolyard.Invalid},
		"by odd":                      {full, "alice", "GET", "/api/v1/costs?by=gate", "", 400, toolyard.Invalid},
		"by twice":                    {full, "alice", "GET", "/api/v1/costs?by=day,day", "", 400, toolyard.Invalid},
	} {
		t.Run(name, func(t *testing.T) {
			w := do(c.h, c.key, c.method, c.path, c.body)
			if w.Code != c.status || field(w, "error") != string(c.code) || field(w, "message") == "" {
				t.Errorf("%d %s, want %d %s", w.Code, w.Body, c.status, c.code)
			}
			if got := w.Header().Get("Content-Type"); got != "application/problem+json" {
				t.Errorf("the problem is %s", got)
			}
			if (w.Code == 401) != (w.Header().Get("WWW-Authenticate") != "") || (w.Code == 503) != (w.Header().Get("Retry-After") != "") {
				t.Errorf("headers: %v", w.Header())
			}
		})
	}
}

func TestBodiesMustBeDeclaredAsJSON(t *testing.T) {
	r := httptest.NewRequest("POST", "/api/v1/sessions", strings.NewReader(`{"limitUsd":"1"}`))
	r.Header.Set("Authorization", "alice")
	r.Header.Set("Content-Type", "text/plain")
	w := httptest.NewRecorder()
	if httpapi.V1(options()).ServeHTTP(w, r); w.Code != 400 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestSessionsOpenAndClose(t *testing.T) {
	h := httpapi.V1(options())
	w := do(h, "alice", "POST", "/api/v1/sessions", `{"limitUsd":"0.0025","calls":100,"ttl":"1h"}`)
	where := w.Header().Get("Location")
	if w.Code != 201 || field(w, "limitUsd") != "0.0025" || field(w, "maxCalls") != "100" || field(w, "expiresAt") != "2026-01-01T01:00:00Z" ||
		where != "/api/v1/sessions/"+field(w, "id") {
		t.Fatalf("%d %v %s", w.Code, w.Header(), w.Body)
	}
	if w := do(h, "bob", "GET", where, ""); w.Code != 404 {
		t.Errorf("bob sees %s", w.Body)
	}
	if w := do(h, "alice", "GET", where, ""); w.Code != 200 || field(w, "status") != "open" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	for range 2 {
		if w := do(h, "alice", "POST", where+"/close", ""); w.Code != 200 || field(w, "status") != "closed" {
			t.Errorf("%d %s", w.Code, w.Body)
		}
	}
	w = do(h, "alice", "POST", "/api/v1/sessions", `{"limitUsd":"0.0025"}`)
	if field(w, "expiresAt") != "2026-01-01T00:30:00Z" || strings.Contains(w.Body.String(), "maxCalls") {
		t.Errorf("by default a session is %s", w.Body)
	}
	for _, empty := range []string{"root", "twin"} { // an account that was never funded, and one with the same name as a session
		if w := do(h, empty, "GET", "/api/v1/account", ""); w.Code != 200 || field(w, "remainingUsd") != "0" || field(w, "status") != "open" {
			t.Errorf("account without funds: %d %s", w.Code, w.Body)
		}
	}
	if w := do(h, "alice", "GET", "/api/v1/account", ""); w.Code != 200 || field(w, "remainingUsd") != "0.995" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestExecuteReturnsReceiptAndSession(t *testing.T) {
	h := httpapi.V1(options())
	w := do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"echo","args":{"n":12345678901234567890},"session":"ses_a","idempotencyKey":"k1","gate":"dev"}`)
	want := `{"result":{"content":[{"type":"text","text":"<&>"}],"structuredContent":{"answers":null,"args":{"n":12345678901234567890},` +
		`"caller":{"ID":"alice","Account":"acme","Roles":null},"features":null,"gate":"dev","key":"k1","session":"ses_a","state":"","tool":"echo"}},` +
		`"receipt":{"call":"c1","priceUsd":"0.001","chargedTo":"ses_a"},"session":{"id":"ses_a","account":"acme","status":"open",` +
		`"limitUsd":"0","remainingUsd":"1","heldUsd":"0","spentUsd":"0"}}` + "\n"
	if diff := gocmp.Diff(want, w.Body.String()); diff != "" || w.Code != 200 {
		t.Errorf("%d %s", w.Code, diff)
	}
	w = do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"echo","session":"ses_a","closeSession":true}`, "Idempotency-Key", "k2")
	if field(w, "session.status") != "closed" || field(w, "result.structuredContent.gate") != "sdk" || field(w, "result.structuredContent.key") != "k2" ||
		field(w, "result.structuredContent.args") != "map[]" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if w = do(h, "", "POST", "/api/v1/tools/execute", `{"tool":"free"}`); w.Code != 200 || field(w, "receipt.call") != "c1" || field(w, "session") != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestCallOutcomesHaveStatuses(t *testing.T) {
	h := httpapi.V1(options())
	for tool, c := range map[string]struct {
		status int
		retry  string
	}{
		"failure": {200, ""}, "plain": {200, ""}, "MADE_UP": {200, ""}, string(toolyard.NoData): {200, ""}, string(toolyard.Failed): {200, ""},
		string(toolyard.InvalidOutput): {200, ""}, string(toolyard.ResultTooLarge): {200, ""}, string(toolyard.Invalid): {400, ""},
		string(toolyard.BudgetExceeded): {402, ""}, string(toolyard.PermissionDenied): {403, ""}, string(toolyard.NotFound): {404, ""},
		string(toolyard.IdempotencyConflict): {409, ""}, string(toolyard.InProgress): {409, "2"}, string(toolyard.OutcomeUnknown): {409, ""},
		string(toolyard.ArgsTooLarge): {413, ""}, string(toolyard.RateLimited): {429, "2"}, string(toolyard.Internal): {500, ""},
		string(toolyard.Unavailable): {503, "2"}, string(toolyard.Timeout): {504, ""},
	} {
		w := do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"`+tool+`","session":"ses_a","closeSession":true}`)
		if w.Code != c.status || w.Header().Get("Retry-After") != c.retry {
			t.Errorf("%s: %d, retry after %q", tool, w.Code, w.Header().Get("Retry-After"))
		}
		if c.status == 200 && (field(w, "result.isError") != "true" || field(w, "receipt.priceUsd") != "0" || field(w, "session.status") != "closed") {
			t.Errorf("%s: %s", tool, w.Body)
		}
		if c.status != 200 && field(w, "error") != tool {
			t.Errorf("%s: %s", tool, w.Body)
		}
	}
	if w := do(h, "alice", "GET", "/api/v1/sessions/ses_a", ""); w.Code != 200 {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestRefusedCallKeepsSessionOpen(t *testing.T) {
	h := httpapi.V1(options())
	do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"RATE_LIMITED","session":"ses_a","closeSession":true}`)
	if w := do(h, "alice", "GET", "/api/v1/sessions/ses_a", ""); field(w, "status") != "open" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestIdempotencyKeyMustBeUnambiguous(t *testing.T) {
	h := httpapi.V1(options())
	for name, c := range map[string]struct {
		body   string
		header []string
		status int
	}{
		"both, the same": {`{"tool":"echo","idempotencyKey":"k"}`, []string{"k"}, 200},
		"both, differ":   {`{"tool":"echo","idempotencyKey":"k"}`, []string{"l"}, 400},
		"two headers":    {`{"tool":"echo"}`, []string{"k", "k"}, 400},
		"empty header":   {`{"tool":"echo"}`, []string{""}, 400},
	} {
		var header []string
		for _, value := range c.header {
			header = append(header, "Idempotency-Key", value)
		}
		if w := do(h, "alice", "POST", "/api/v1/tools/execute", c.body, header...); w.Code != c.status {
			t.Errorf("%s: %d %s", name, w.Code, w.Body)
		}
	}
}

func TestSessionOwnersAreCached(t *testing.T) {
	o := options()
	l := o.Ledger.(*fakeLedger)
	h := httpapi.V1(o)
	for range 10 {
		if w := do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"echo","session":"ses_a"}`); w.Code != 200 {
			t.Fatal(w.Body)
		}
	}
	if l.queries != 11 { // once for the owner, and after each call for the balance
		t.Errorf("%d queries of the ledger", l.queries)
	}
	if w := do(h, "bob", "POST", "/api/v1/tools/execute", `{"tool":"echo","session":"ses_a"}`); w.Code != 404 {
		t.Errorf("bob can charge the session of alice: %d", w.Code)
	}
}

// hung is a ledger that never responds.
type hung struct{ ledger.Ledger }

func (hung) Balance(ctx context.Context, _ string) (*ledger.Balance, error) {
	<-ctx.Done()
	return nil, ctx.Err()
}

func TestSlowLedgerTimesOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		o.Ledger = hung{}
		h := httpapi.V1(o)
		for _, w := range []*httptest.ResponseRecorder{
			do(h, "alice", "GET", "/api/v1/account", ""),
			do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"echo","session":"ses_a"}`),
		} {
			if w.Code != 504 || field(w, "error") != string(toolyard.Timeout) {
				t.Errorf("%d %s", w.Code, w.Body)
			}
		}
	})
}

func TestResultSurvivesLedgerFailure(t *testing.T) {
	o := options()
	l := o.Ledger.(*fakeLedger)
	o.Execute = func(ctx context.Context, r *serve.CallRequest) (serve.CallOutcome, error) {
		l.mu.Lock()
		l.unavailable = true
		l.mu.Unlock()
		return execute(ctx, r)
	}
	w := do(httpapi.V1(o), "alice", "POST", "/api/v1/tools/execute", `{"tool":"echo","session":"ses_a"}`)
	if w.Code != 200 || field(w, "receipt.call") != "c1" || field(w, "session") != "" {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestLinksAreStoredPerCaller(t *testing.T) {
	const address = "0x00000000000000000000000000000000000000aa"
	h := httpapi.V1(options())
	for i, step := range []struct {
		key, method, path, body string
		status                  int
		want                    string
	}{
		{"alice", "GET", "", "", 200, `{"links":{}}`},
		{"alice", "PUT", "/wallet", `{"address":"` + address + `"}`, 200, `{"kind":"wallet","address":"` + address + `"}`},
		{"alice", "PUT", "/calendar", `{"address":"alice@example.com"}`, 200, `{"kind":"calendar","address":"alice@example.com"}`},
		{"alice", "GET", "", "", 200, `{"links":{"calendar":"alice@example.com","wallet":"` + address + `"}}`},
		{"alice", "GET", "/wallet", "", 200, `{"kind":"wallet","address":"` + address + `"}`},
		{"bob", "GET", "", "", 200, `{"links":{}}`},
		{"bob", "DELETE", "/wallet", "", 204, ``},
		{"alice", "DELETE", "/calendar", "", 204, ``},
		{"alice", "DELETE", "/calendar", "", 204, ``},
		{"alice", "GET", "", "", 200, `{"links":{"wallet":"` + address + `"}}`},
	} {
		w := do(h, step.key, step.method, "/api/v1/links"+step.path, step.body)
		if w.Code != step.status || strings.TrimSpace(w.Body.String()) != step.want {
			t.Errorf("step %d: %d %s", i, w.Code, w.Body)
		}
	}
	for i := range 40 {
		w := do(h, "alice", "PUT", fmt.Sprintf("/api/v1/links/k%d", i), `{"address":"x"}`)
		if full := i >= 31; (w.Code == 400) != full { // including the wallet, there are 32
			t.Errorf("link %d: %d %s", i, w.Code, w.Body)
		}
	}
}

// rows returns calls of two accounts. Many of them start in the same microsecond.
func rows(n int) []*store.CallRow {
	list := make([]*store.CallRow, n)
	for i := range list {
		list[i] = &store.CallRow{
			ID: fmt.Sprintf("c%04d", i*7919%n), At: time.Now().UTC().Truncate(time.Second).Add(-time.Duration(i/5) * time.Second), Elapsed: time.Duration(i),
			Gate: "sdk", Mode: toolyard.Read, Caller: []string{"alice", "bob"}[i%2], Account: []string{"acme", "umbrella"}[i%2],
			Tool: fmt.Sprint("tool", i%3), Code: toolyard.OK, Price: toolyard.Money(i%4) * toolyard.USD / 1000,
		}
	}
	return list
}

func open(t *testing.T, n int) (*store.Store, []*store.CallRow) {
	t.Helper()
	s, err := store.Open(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	list := rows(n)
	if err := s.AppendCalls(t.Context(), list); err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(list, func(a, b *store.CallRow) int { return cmp.Or(b.At.Compare(a.At), strings.Compare(b.ID, a.ID)) })
	return s, list
}

// For every caller and page size, the pages contain each visible call exactly once, in order.
func TestPages(t *testing.T) {
	s, all := open(t, 60)
	o := options()
	o.Calls = s
	h := httpapi.V1(o)
	rapid.Check(t, func(t *rapid.T) {
		key := rapid.SampledFrom([]string{"alice", "bob", "root"}).Draw(t, "key")
		query := url.Values{"limit": {fmt.Sprint(rapid.IntRange(1, 70).Draw(t, "limit"))}}
		tool := rapid.SampledFrom([]string{"", "tool1"}).Draw(t, "tool")
		if tool != "" {
			query.Set("tool", tool)
		}
		var want, got []string
		for _, r := range all {
			if (key == "root" || r.Caller == key) && (tool == "" || r.Tool == tool) {
				want = append(want, r.ID)
			}
		}
		for {
			w := do(h, key, "GET", "/api/v1/calls?"+query.Encode(), "")
			var page struct {
				Calls []*store.CallRow
				Next  string
			}
			if err := json.Unmarshal(w.Body.Bytes(), &page); err != nil || w.Code != 200 {
				t.Fatalf("%d %s", w.Code, w.Body)
			}
			for _, r := range page.Calls {
				got = append(got, r.ID)
			}
			if page.Next == "" {
				break
			}
			query.Set("before", page.Next)
		}
		if diff := gocmp.Diff(want, got); diff != "" {
			t.Fatal(diff)
		}
	})
}

func TestRecordQueriesAreRestrictedToTheAccount(t *testing.T) {
	s, _ := open(t, 200)
	o := options()
	o.Calls = s
	h := httpapi.V1(o)
	for path, want := range map[string]string{
		"alice /api/v1/calls?tool=none":                     `{"calls":[]}`,
		"alice /api/v1/costs?since=2030-01-01T00:00:00Z":    `{"costs":[]}`,
		"alice /api/v1/latencies?tool=none":                 `{"latencies":[]}`,
		"root /api/v1/costs?by=account":                     `{"costs":[{"account":"acme","calls":100,"errors":0,"charged":50,"usd":"0.1"},{"account":"umbrella","calls":100,"errors":0,"charged":100,"usd":"0.2"}]}`,
		"alice /api/v1/costs?by=account":                    `{"costs":[{"account":"acme","calls":100,"errors":0,"charged":50,"usd":"0.1"}]}`,
		"root /api/v1/costs?by=account&account=acme":        `{"costs":[{"account":"acme","calls":100,"errors":0,"charged":50,"usd":"0.1"}]}`,
		"bob /api/v1/latencies?tool=tool1&account=umbrella": `{"latencies":[{"tool":"tool1","calls":34,"errors":0,"p50Ns":97,"p95Ns":193,"p99Ns":199}]}`,
	} {
		key, path, _ := strings.Cut(path, " ")
		if w := do(h, key, "GET", path, ""); w.Code != 200 || strings.TrimSpace(w.Body.String()) != want {
			t.Errorf("%s %s: %d\n%s, want\n%s", key, path, w.Code, w.Body, want)
		}
	}
	if w := do(h, "alice", "HEAD", "/api/v1/calls", ""); w.Code != 200 {
		t.Errorf("HEAD: %d", w.Code)
	}
}

// slow is a call record that blocks until it is released.
type slow struct {
	*store.Store
	asked chan struct{}
	tell  chan struct{}
}

func (s slow) Calls(ctx context.Context, _ store.CallQuery) ([]*store.CallRow, error) {
	s.asked <- struct{}{}
	select {
	case <-s.tell:
		return nil, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func TestConcurrentRecordQueriesAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := options()
		record := slow{asked: make(chan struct{}, 10), tell: make(chan struct{})}
		o.Calls = record
		h := httpapi.V1(o)
		var wg sync.WaitGroup
		for range 9 {
			wg.Go(func() {
				if w := do(h, "alice", "GET", "/api/v1/calls", ""); w.Code != 200 {
					t.Errorf("%d %s", w.Code, w.Body)
				}
			})
		}
		synctest.Wait()
		if n := len(record.asked); n != 4 {
			t.Errorf("%d concurrent queries", n)
		}
		close(record.tell)
		wg.Wait()
	})
}

func TestOpenAPIIsCurrent(t *testing.T) {
	const file = "../../../docs/openapi.json"
	if *update {
		if err := os.WriteFile(file, httpapi.OpenAPI(), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	committed, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff(string(committed), string(httpapi.OpenAPI())); diff != "" {
		t.Errorf("run go test ./internal/serve/httpapi -update: %s", diff)
	}
}

type document struct {
	Paths map[string]map[string]struct {
		OperationID string
		Parameters  []struct{ Name, In string }
		Responses   map[string]struct{ Description string }
		Security    *[]any
	}
	Components struct{ Schemas map[string]json.RawMessage }
}

func TestOpenAPIHasAllRoutes(t *testing.T) {
	h := httpapi.V1(options())
	w := do(h, "mallory", "GET", "/api/v1/openapi.json", "") // the document is public
	var doc document
	if err := json.Unmarshal(w.Body.Bytes(), &doc); err != nil || w.Code != 200 {
		t.Fatal(err, w.Code)
	}
	var described []string
	ids := make(map[string]bool)
	for path, methods := range doc.Paths {
		for method, op := range methods {
			described = append(described, strings.ToUpper(method)+" "+path)
			ids[op.OperationID] = true
			for status, r := range op.Responses {
				if r.Description == "" {
					t.Errorf("%s %s: %s is not described", method, path, status)
				}
			}
		}
	}
	routes := httpapi.Routes()
	slices.Sort(described)
	slices.Sort(routes)
	if diff := gocmp.Diff(routes, described); diff != "" || len(ids) != len(routes) {
		t.Errorf("%d ids: %s", len(ids), diff)
	}
	for _, part := range strings.Split(w.Body.String(), `"#/components/schemas/`)[1:] {
		if name, _, _ := strings.Cut(part, `"`); doc.Components.Schemas[name] == nil {
			t.Errorf("unknown schema %s", name)
		}
	}
	for name, raw := range doc.Components.Schemas {
		if err := json.Unmarshal(raw, new(toolyard.Schema)); err != nil {
			t.Errorf("schema %s: %v", name, err)
		}
	}
}

func TestOpenAPIHasAllParameters(t *testing.T) {
	h := httpapi.V1(options())
	var doc document
	if err := json.Unmarshal(httpapi.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{"/api/v1/calls", "/api/v1/costs", "/api/v1/latencies"} {
		refusal := do(h, "alice", "GET", path+"?x=1", "")
		_, list, _ := strings.Cut(field(refusal, "message"), "use one of ")
		taken := strings.Split(strings.TrimSuffix(list, "."), ", ")
		var named []string
		for _, p := range doc.Paths[path]["get"].Parameters {
			named = append(named, p.Name)
		}
		slices.Sort(taken)
		slices.Sort(named)
		if diff := gocmp.Diff(taken, named); diff != "" {
			t.Errorf("%s: %s", path, diff)
		}
	}
}

func TestResponsesMatchOpenAPI(t *testing.T) {
	var doc document
	if err := json.Unmarshal(httpapi.OpenAPI(), &doc); err != nil {
		t.Fatal(err)
	}
	s, _ := open(t, 20)
	o := options()
	o.Calls = s
	h := httpapi.V1(o)
	for name, w := range map[string]*httptest.ResponseRecorder{
		"Balance":    do(h, "alice", "POST", "/api/v1/sessions", `{"limitUsd":"0.1"}`),
		"CallResult": do(h, "alice", "POST", "/api/v1/tools/execute", `{"tool":"echo","session":"ses_a"}`),
		"Calls":      do(h, "alice", "GET", "/api/v1/calls", ""),
		"Costs":      do(h, "alice", "GET", "/api/v1/costs?by=tool,day", ""),
		"Latencies":  do(h, "alice", "GET", "/api/v1/latencies", ""),
		"Links":      do(h, "alice", "GET", "/api/v1/links", ""),
		"Problem":    do(h, "alice", "GET", "/api/v1/calls?x=1", ""),
	} {
		var schema toolyard.Schema
		if err := json.Unmarshal(doc.Components.Schemas[name], &schema); err != nil {
			t.Fatal(err)
		}
		if issues, _ := schema.Check(t.Context(), bytes.TrimSpace(w.Body.Bytes())); len(issues) > 0 {
			t.Errorf("%s: %v: %s", name, issues, w.Body)
		}
	}
}

// Every body is either rejected or is strict JSON with the exact member names.
func FuzzBody(f *testing.F) {
	for _, seed := range []string{
		`{"tool":"echo","args":{"a":1}}`, `{"TOOL":"echo"}`, `{"tool":"a","tool":"b"}`, `{"t\u006fol":"echo"}`, `null`, `[]`, `{"tool":null}`,
		`{"tool":"x","args":[{"a":"\ud800"}]}`, ` {} `, `{"closeSession":"yes"}`,
	} {
		f.Add([]byte(seed))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		tool, args, err := httpapi.DecodeExecute(data)
		if err != nil {
			if e := toolyard.AsError(err); e.Code != toolyard.Invalid || !json.Valid(e.Data()) {
				t.Fatalf("refused with %v", err)
			}
			return
		}
		var exact map[string]json.RawMessage
		if err := json.Unmarshal(data, &exact); err != nil {
			t.Fatalf("%q is taken: %v", data, err)
		}
		var want string
		if raw, ok := exact["tool"]; ok {
			if err := json.Unmarshal(raw, &want); err != nil {
				t.Fatal(err)
			}
		}
		if tool != want || string(args) != string(exact["args"]) {
			t.Fatalf("%q: tool %q, args %q", data, tool, args)
		}
	})
}

// Every cursor is either rejected or encoded the same way again.
func FuzzCursor(f *testing.F) {
	for _, seed := range []string{"before=1.a", "before=1.", "before=99999999999999999999.x", "before=%2B1.a", "before=1.a.b", "before=-0.x", "x"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, query string) {
		text, err := httpapi.ReadCursor(query)
		if err != nil || text == "" {
			return
		}
		again, err := httpapi.ReadCursor(url.Values{"before": {text}}.Encode())
		if err != nil || again != text {
			t.Fatalf("%q is read as %q, and that as %q (%v)", query, text, again, err)
		}
	})
}
