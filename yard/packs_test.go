package yard_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/yard"
)

// ledger is a test pack: it has accounts with balances, and each gate selects an account.
type ledger struct {
	setup    yard.PackSetup
	settings ledgerSettings
	closed   atomic.Bool
	running  atomic.Bool
	problems []toolyard.Problem
}

type ledgerSettings struct {
	Token    string         `json:"token" minLength:"3"`
	Accounts map[string]int `json:"accounts,omitempty"`
	Broken   string         `json:"broken,omitempty"`
}

type ledgerGate struct {
	Account string `json:"account" minLength:"1"`
}

// account is the client that a ledger lends.
type account struct {
	ledger  *ledger
	name    string
	balance int
}

// opened counts a pack's instances.
type opened struct {
	mu   sync.Mutex
	list []*ledger
}

func (o *opened) all() []*ledger {
	o.mu.Lock()
	defer o.mu.Unlock()
	return append([]*ledger(nil), o.list...)
}

func (o *opened) pack() yard.Pack {
	return yard.Pack{
		Settings: toolyard.SchemaFor[ledgerSettings](), GateSettings: toolyard.SchemaFor[ledgerGate](),
		Open: func(ctx context.Context, setup yard.PackSetup) (toolyard.Source, error) {
			l := &ledger{setup: setup}
			if err := json.Unmarshal(setup.Settings, &l.settings); err != nil {
				return nil, err
			}
			switch l.settings.Broken {
			case "error":
				return nil, errors.New("cannot open with " + l.settings.Token)
			case "issue":
				return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "invalid", Issues: []toolyard.Issue{{Path: "accounts.main", Message: "is overdrawn"}}}
			case "panic":
				panic("open")
			case "nil":
				return nil, nil
			}
			o.mu.Lock()
			defer o.mu.Unlock()
			o.list = append(o.list, l)
			return l, nil
		},
	}
}

func (l *ledger) Run(ctx context.Context, publish func(toolyard.Offer)) error {
	l.running.Store(true)
	defer l.running.Store(false)
	if l.settings.Broken == "run" {
		panic("run")
	}
	publish(toolyard.Offer{Problems: l.problems, Tools: []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "balance", Effects: toolyard.ReadOnly}, func(_ context.Context, c *toolyard.Call, _ struct{}) (string, error) {
			if l.closed.Load() {
				return "", toolyard.Errorf(toolyard.Internal, "the pack is closed")
			}
			a, ok := toolyard.Client[*account](c)
			if !ok {
				return "", toolyard.Errorf(toolyard.NoData, "This gate has no account.")
			}
			if a.ledger.closed.Load() {
				return "", toolyard.Errorf(toolyard.Internal, "the pack of the client is closed")
			}
			time.Sleep(time.Millisecond)
			if l.closed.Load() || a.ledger.closed.Load() {
				return "", toolyard.Errorf(toolyard.Internal, "the pack was closed during a call")
			}
			return fmt.Sprintf("%s has %d", a.name, a.balance), nil
		}),
	}})
	<-ctx.Done()
	return nil
}

func (l *ledger) Lend(g yard.PackGate) (*toolyard.Clients, error) {
	if l.settings.Broken == "lend" {
		panic("lend")
	}
	if g.Settings == nil {
		return nil, nil
	}
	var settings ledgerGate
	if err := json.Unmarshal(g.Settings, &settings); err != nil {
		return nil, err
	}
	balance, ok := l.settings.Accounts[settings.Account]
	if !ok {
		return nil, &toolyard.Error{Code: toolyard.Invalid, Message: "invalid", Issues: []toolyard.Issue{{Path: "account", Message: "unknown account"}}}
	}
	clients := &toolyard.Clients{}
	toolyard.Lend(clients, &account{l, settings.Account, balance})
	return clients, nil
}

func (l *ledger) Actions() []*toolyard.Tool {
	type args struct {
		Account string `json:"account" minLength:"1"`
		Reason  string `json:"reason" default:"none"`
	}
	return []*toolyard.Tool{
		toolyard.Define(toolyard.Spec{Name: "freeze", Description: "Freezes an account."}, func(ctx context.Context, c *toolyard.Call, in args) (string, error) {
			if _, ok := l.settings.Accounts[in.Account]; !ok {
				return "", toolyard.Errorf(toolyard.NotFound, "There is no account %s.", in.Account)
			}
			last, err := l.setup.Journal.Last(ctx, in.Account)
			if err != nil {
				return "", err
			}
			_, err = l.setup.Journal.Append(ctx, in.Account, last, yard.JournalEntry{Kind: "freeze", Key: c.Caller.ID, Body: json.RawMessage(`{"reason":"` + in.Reason + `"}`)})
			return "frozen by " + c.Caller.ID, err
		}),
		toolyard.Define(toolyard.Spec{Name: "crash"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { panic("crash") }),
	}
}

func (l *ledger) Close() error {
	if l.running.Load() || l.closed.Swap(true) {
		panic("closed while it runs, or twice")
	}
	return nil
}

const ledgerFile = `store: memory
secrets: {ledger: "env:LEDGER_TOKEN"}
packs:
  ledger:
    token: ${secret:ledger}
    accounts: {main: 7, lab: 3}
gates:
  chat: {mode: read, packs: {ledger: {account: main}}}
  lab: {mode: write, packs: {ledger: {account: lab}}}
  other: {mode: read}
`

// packOptions returns options with a configuration file and the pack ledger.
func packOptions(t *testing.T, text string, o *opened) yard.Options {
	t.Helper()
	file := filepath.Join(t.TempDir(), "toolyard.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return yard.Options{
		ConfigFile: file, Packs: map[string]yard.Pack{"ledger": o.pack()},
		Process: yard.Process{Getenv: func(name string) (string, bool) {
			return map[string]string{"LEDGER_TOKEN": "s3cret-LEDGER_TOKEN"}[name], name == "LEDGER_TOKEN"
		}},
	}
}

func callPack(y *yard.Yard, gate string) string {
	res, err := y.Call(context.Background(), gate, toolyard.Caller{ID: "ann"}, "balance", nil)
	if err != nil {
		return string(toolyard.AsError(err).Code) + ": " + err.Error()
	}
	return string(res.Content[0].(toolyard.Text))
}

func TestPacksLendClientsByGate(t *testing.T) {
	o := &opened{}
	opts := packOptions(t, ledgerFile, o)
	y := start(t, opts)
	got := map[string]string{}
	for _, gate := range y.Gates() {
		got[gate] = callPack(y, gate)
		if diff := cmp.Diff([]string{"balance"}, names(t, y, gate)); diff != "" {
			t.Errorf("%s: %s", gate, diff)
		}
	}
	if diff := cmp.Diff(map[string]string{"chat": "main has 7", "lab": "lab has 3", "other": "NO_DATA: This gate has no account."}, got); diff != "" {
		t.Error(diff)
	}
	l := o.all()[0]
	if l.settings.Token != "s3cret-LEDGER_TOKEN" || l.setup.Dir != filepath.Dir(opts.ConfigFile) {
		t.Errorf("%+v", l.setup)
	}
	if n, err := l.setup.Journal.Append(t.Context(), "s", 0, yard.JournalEntry{Kind: "k"}); n != 1 || err != nil {
		t.Error(n, err)
	}
}

func TestPackConfigurationIsChecked(t *testing.T) {
	for name, test := range map[string]struct{ old, new, want string }{
		"unknown pack":      {"  ledger:\n", "  leger:\n", `toolyard.yaml:4:3: packs.leger: unknown pack (did you mean "ledger"?)`},
		"unknown at a gate": {"{ledger: {account: main}}", "{leger: {account: main}}", `toolyard.yaml:8:30: gates.chat.packs.leger: the pack is not enabled (did you mean "ledger"?)`},
		"no packs":          {ledgerFile, "gates: {a: {mode: read, packs: {ledger: {account: main}}}}", `toolyard.yaml:1:33: gates.a.packs.ledger: the pack is not enabled`},
		"misspelled pack":   {ledgerFile, "packs: {leger: {}}", `toolyard.yaml:1:9: packs.leger: unknown pack (did you mean "ledger"?)`},
		"settings":          {"main: 7", "main: x", `toolyard.yaml:6:16: packs.ledger.accounts.main: `},
		"unknown setting":   {"    accounts:", "    acounts:", `toolyard.yaml:6:5: packs.ledger.acounts: `},
		"gate settings":     {"{account: main}", "{acount: main}", `toolyard.yaml:8:39: gates.chat.packs.ledger.acount: is unknown (did you mean "account"?)`},
		"refused by Lend":   {"{account: lab}", "{account: nope}", `toolyard.yaml:9:39: gates.lab.packs.ledger.account: unknown account`},
		"Lend panics":       {"    accounts:", "    broken: lend\n    accounts:", `gates.chat.packs.ledger: panic: lend`},
		"refused by Open":   {"    accounts:", "    broken: error\n    accounts:", `toolyard.yaml:4:3: packs.ledger: cannot open with [redacted]`},
		"issue of Open":     {"    accounts:", "    broken: issue\n    accounts:", `toolyard.yaml:7:16: packs.ledger.accounts.main: is overdrawn`},
		"Open panics":       {"    accounts:", "    broken: panic\n    accounts:", `toolyard.yaml:4:3: packs.ledger: panic: open`},
		"no source":         {"    accounts:", "    broken: nil\n    accounts:", `toolyard.yaml:4:3: packs.ledger: the pack returned no source`},
		"missing secret":    {"env:LEDGER_TOKEN", "env:NONE", `toolyard.yaml:5:5: packs.ledger.token: `},
		"secret at a gate":  {"{account: lab}", "{account: \"${secret:ledger}\"}", `secrets are allowed only`},
		"invalid clock":     {"{mode: read}", "{mode: read, clock: mine}", `toolyard.yaml:10:23: gates.other.clock`},
		"two spellings":     {"packs:\n", "packs:\n  ledger: {token: abc}\n", `already defined`},
		"not an object":     {ledgerFile, "packs: {ledger: 1}", `packs.ledger`},
		"invalid pack name": {ledgerFile, "packs: {\"a b\": {}}", `is not a valid pack name`},
	} {
		t.Run(name, func(t *testing.T) {
			o := &opened{}
			_, err := yard.New(packOptions(t, strings.Replace(ledgerFile, test.old, test.new, 1), o))
			if err == nil || !strings.Contains(err.Error(), test.want) {
				t.Errorf("want %s\ngot  %v", test.want, err)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Error("the error contains the secret")
			}
			for _, l := range o.all() {
				if !l.closed.Load() {
					t.Error("a pack stays open")
				}
			}
		})
	}
}

// A configuration can be validated where its secrets cannot be read.
func TestCheckConfigNeedsNoSecrets(t *testing.T) {
	o := &opened{}
	opts := packOptions(t, "", o)
	opts.Process.Getenv = func(string) (string, bool) { return "", false }
	if err := yard.CheckConfig(opts, []byte(ledgerFile)); err != nil {
		t.Error(err)
	}
	if err := yard.CheckConfig(opts, []byte("packs: {ledge: {}}")); err == nil {
		t.Error("an unknown pack was accepted")
	}
	if n := len(o.all()); n != 0 {
		t.Errorf("%d packs were opened", n)
	}
}

func rewrite(t *testing.T, y *yard.Yard, file, text string) error {
	t.Helper()
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return y.Reload()
}

func TestReloadReopensAPackOnlyIfItsSettingsChanged(t *testing.T) {
	o := &opened{}
	opts := packOptions(t, ledgerFile, o)
	y := start(t, opts)
	if _, err := o.all()[0].setup.Journal.Append(t.Context(), "s", 0, yard.JournalEntry{Kind: "k"}); err != nil {
		t.Fatal(err)
	}
	if err := rewrite(t, y, opts.ConfigFile, strings.Replace(ledgerFile, "{account: lab}", "{account: main}", 1)); err != nil {
		t.Fatal(err)
	}
	if got := callPack(y, "lab"); got != "main has 7" || len(o.all()) != 1 {
		t.Errorf("%s, %d instances", got, len(o.all()))
	}
	if err := rewrite(t, y, opts.ConfigFile, strings.Replace(ledgerFile, "main: 7", "main: 8", 1)); err != nil {
		t.Fatal(err)
	}
	if got := callPack(y, "chat"); got != "main has 8" || len(o.all()) != 2 {
		t.Errorf("%s, %d instances", got, len(o.all()))
	}
	if n, err := o.all()[1].setup.Journal.Last(t.Context(), "s"); n != 1 || err != nil {
		t.Errorf("the new instance has another journal: %d, %v", n, err)
	}
	eventually(t, "the old instance is closed", o.all()[0].closed.Load)
	for _, broken := range []string{"error", "panic", "lend"} {
		err := rewrite(t, y, opts.ConfigFile, strings.Replace(ledgerFile, "    accounts:", "    broken: "+broken+"\n    accounts:", 1))
		if err == nil || callPack(y, "chat") != "main has 8" {
			t.Errorf("%s: %v, then %s", broken, err, callPack(y, "chat"))
		}
	}
	if o.all()[1].closed.Load() {
		t.Error("a rejected configuration closed the pack in use")
	}
	if err := rewrite(t, y, opts.ConfigFile, "store: memory\ngates: {chat: {mode: read}}\n"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the tools are gone", func() bool { return len(names(t, y, "chat")) == 0 })
	for i, l := range o.all() {
		eventually(t, fmt.Sprintf("instance %d is closed", i), l.closed.Load)
	}
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ok(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("timeout: %s", what)
		}
	}
}

// Calls continue while packs are replaced: no call fails, and no call uses a closed pack.
func TestReloadDuringCalls(t *testing.T) {
	o := &opened{}
	opts := packOptions(t, ledgerFile, o)
	y := start(t, opts)
	stop := make(chan struct{})
	var calls atomic.Int64
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				begin := time.Now()
				// A call that is delayed for longer than the grace period may find its pack closed.
				if got := callPack(y, "chat"); !strings.HasPrefix(got, "main has ") && time.Since(begin) < time.Second {
					t.Error(got)
					return
				}
				calls.Add(1)
			}
		})
	}
	for i := range 12 {
		if err := rewrite(t, y, opts.ConfigFile, strings.Replace(ledgerFile, "main: 7", fmt.Sprintf("main: %d", 100+i), 1)); err != nil {
			t.Error(err)
		}
		time.Sleep(100 * time.Millisecond)
		before := calls.Load()
		eventually(t, "calls continue", func() bool { return calls.Load() > before+8 || t.Failed() })
	}
	close(stop)
	wg.Wait()
	if n := len(o.all()); n != 13 {
		t.Errorf("%d instances", n)
	}
	eventually(t, "all but the last are closed", func() bool {
		n := 0
		for _, l := range o.all() {
			if l.closed.Load() {
				n++
			}
		}
		return n == 12
	})
}

func TestAPackThatFailsToRunIsAProblem(t *testing.T) {
	y, err := yard.New(packOptions(t, strings.Replace(ledgerFile, "    accounts:", "    broken: run\n    accounts:", 1), &opened{}))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		y.Run(ctx)
	}()
	<-y.Ready()
	eventually(t, "the panic is reported", func() bool {
		for _, p := range y.Problems() {
			if p.Source == "pack ledger" && strings.Contains(p.Message, "panic: run") && p.Line == 4 {
				return true
			}
		}
		return false
	})
	cancel()
	<-done
}

func TestOperatorsRunActionsOfPacks(t *testing.T) {
	o := &opened{}
	opts := packOptions(t, ledgerFile, o)
	opts.Identify = func(r *http.Request) (toolyard.Caller, error) {
		role := r.Header.Get("X-Role")
		return toolyard.Caller{ID: "olga", Roles: []string{role}}, nil
	}
	y := start(t, opts)
	server := httptest.NewServer(y.Handler())
	defer server.Close()
	do := func(role, method, path, body string) (int, string) {
		t.Helper()
		r, err := http.NewRequestWithContext(t.Context(), method, server.URL+"/api/v1"+path, strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header.Set("X-Role", role)
		r.Header.Set("Content-Type", "application/json")
		res, err := server.Client().Do(r)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = res.Body.Close() }()
		text, err := io.ReadAll(res.Body)
		if err != nil {
			t.Fatal(err)
		}
		return res.StatusCode, string(text)
	}
	for _, test := range []struct {
		role, path, body string
		status           int
		want             string
	}{
		{"operator", "/packs/ledger/actions/freeze", `{"args":{"account":"main","reason":"test"}}`, 200, "frozen by olga"},
		{"viewer", "/packs/ledger/actions/freeze", `{"args":{"account":"main"}}`, 403, ""},
		{"caller", "/packs/ledger/actions/freeze", `{"args":{"account":"main"}}`, 403, ""},
		{"operator", "/packs/ledger/actions/freeze", `{"args":{}}`, 400, "account"},
		{"operator", "/packs/ledger/actions/freeze", `{"args":[]}`, 400, ""},
		{"operator", "/packs/ledger/actions/freeze", `{"args":{"account":"nope"}}`, 404, "There is no account nope."},
		{"operator", "/packs/ledger/actions/freez", `{}`, 404, `did you mean \"freeze\"?`},
		{"operator", "/packs/leger/actions/freeze", `{}`, 404, `did you mean \"ledger\"?`},
		{"operator", "/packs/ledger/actions/balance", `{}`, 404, "no action"},
		{"operator", "/packs/ledger/actions/crash", `{}`, 200, "crash crashed"},
	} {
		if status, text := do(test.role, "POST", test.path, test.body); status != test.status || !strings.Contains(text, test.want) {
			t.Errorf("%+v: %d %s", test, status, text)
		}
	}
	entries, err := o.all()[0].setup.Journal.List(t.Context(), "main", yard.JournalQuery{})
	if err != nil || len(entries) != 1 || entries[0].Key != "olga" || string(entries[0].Body) != `{"reason":"test"}` {
		t.Errorf("%+v, %v", entries, err)
	}
	eventually(t, "the pack is listed", func() bool {
		status, text := do("viewer", "GET", "/packs", "")
		return status == 200 && strings.Contains(text, `"name":"freeze"`) && strings.Contains(text, `"state":"up"`)
	})
	if status, text := do("operator", "GET", "/changes?action=pack.action", ""); status != 200 || !strings.Contains(text, `"subject":"ledger/freeze"`) || !strings.Contains(text, `"subject":"ledger/crash","detail":{},"status":500`) {
		t.Errorf("%d %s", status, text)
	}
	for _, gate := range y.Gates() { // no model can see or call an action
		if diff := cmp.Diff([]string{"balance"}, names(t, y, gate)); diff != "" {
			t.Error(diff)
		}
		if _, err := y.Call(t.Context(), gate, toolyard.Caller{ID: "ann"}, "freeze", json.RawMessage(`{"account":"main"}`)); toolyard.AsError(err).Code != toolyard.UnknownTool {
			t.Error(err)
		}
	}
}

// Editing a gate through the API keeps the pack settings and the clock in the file.
func TestEditedGatesKeepTheirPacks(t *testing.T) {
	text := "editable: [gates]\n" + strings.Replace(ledgerFile, "chat: {mode: read,", "chat: {mode: read, clock: caller,", 1)
	opts := packOptions(t, text, &opened{})
	opts.Identify = func(*http.Request) (toolyard.Caller, error) {
		return toolyard.Caller{ID: "olga", Roles: []string{"operator"}}, nil
	}
	y := start(t, opts)
	for body, want := range map[string]int{
		`{"mode":"write","callers":"keys","version":0}`: http.StatusOK,
		`{"mode":"raed","callers":"keys","version":1}`:  http.StatusBadRequest,
	} {
		r := httptest.NewRequest(http.MethodPut, "http://127.0.0.1/api/v1/gates/chat", strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		w := httptest.NewRecorder()
		y.Handler().ServeHTTP(w, r)
		if w.Code != want {
			t.Errorf("%s: %d %s", body, w.Code, w.Body)
		}
	}
	if got := callPack(y, "chat"); got != "main has 7" {
		t.Error(got)
	}
	past := time.Now().Add(-time.Hour)
	if _, err := y.CallAsOf(t.Context(), past, "chat", toolyard.Caller{ID: "ann"}, "balance", nil); err != nil {
		t.Error(err)
	}
	if v, ok := y.View("chat"); !ok || v.Mode != toolyard.Write {
		t.Error("the edit is not in effect")
	}
}
