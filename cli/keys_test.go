package cli

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/config/settings"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/packs/markets"
	"github.com/toolyard/toolyard/yard"
)

// fixture runs commands with a configuration file.
type fixture struct {
	t    *testing.T
	file string
	now  time.Time
}

func newFixture(t *testing.T, text string) *fixture {
	t.Helper()
	file := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &fixture{t, file, time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
}

// run runs a command and returns its output and exit code.
func (f *fixture) run(args ...string) (out, errs string, code int) {
	f.t.Helper()
	var stdout, stderr bytes.Buffer
	noEnv := func(string) (string, bool) { return "", false }
	a := &app{opts: yard.Options{ProviderKinds: markets.Kinds(), Process: yard.Process{Getenv: noEnv, Now: func() time.Time { return f.now }}}, in: strings.NewReader(""), out: &stdout, err: &stderr}
	root := a.rootCommand()
	if f.file != "" {
		args = append([]string{"--config", f.file}, args...)
	}
	root.SetArgs(args)
	err := root.ExecuteContext(f.t.Context())
	var exit exitStatus
	switch {
	case errors.As(err, &exit):
		if exit.err != nil {
			a.printError(exit.err)
		}
		code = exit.code
	case err != nil:
		stderr.WriteString(err.Error())
		code = exitUsage
	}
	return stdout.String(), stderr.String(), code
}

// mustRun runs a command that must succeed.
func (f *fixture) mustRun(args ...string) string {
	f.t.Helper()
	out, errs, code := f.run(args...)
	if code != exitOK {
		f.t.Fatalf("%v: exit %d: %s", args, code, errs)
	}
	return out
}

// mustFail runs a command that must fail with the given exit code and text.
func (f *fixture) mustFail(code int, want string, args ...string) {
	f.t.Helper()
	out, errs, got := f.run(args...)
	if got != code || !strings.Contains(errs, want) || strings.Contains(out, "ty_") {
		f.t.Errorf("%v: exit %d: %s%s", args, got, out, errs)
	}
}

func TestKeyCommands(t *testing.T) {
	d := newFixture(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	if out := d.mustRun("keys", "list"); out != "No keys.\n" {
		t.Error(out)
	}
	token, errs, code := d.run("keys", "create", "--name", "ci", "--caller", "alice", "--account", "acme", "--scope", "gate:chat", "--scope", "write", "--expires", "720h")
	token, ok := strings.CutSuffix(token, "\n")
	if code != exitOK || !ok || !strings.Contains(errs, "cannot be shown again") || !strings.Contains(errs, "It can call tools at gate chat, reading and writing.") {
		t.Fatalf("%d %s", code, errs)
	}
	s, err := store.Open(t.Context(), "sqlite:"+strings.TrimSuffix(d.file, ".yaml")+".db")
	if err != nil {
		t.Fatal(err)
	}
	caller, err := identity.NewVerifier(s, func() time.Time { return d.now }).Verify(t.Context(), token)
	if err != nil || caller.ID != "alice" || caller.Account != "acme" || strings.Join(caller.Roles, " ") != "gate:chat write" {
		t.Errorf("%+v %v", caller, err)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
	prefix := strings.Split(token, "_")[1]
	d.now = d.now.Add(time.Minute)
	second := d.mustRun("keys", "create", "--name", "bob's", "--caller", "bob", "--json")
	var made struct{ Token, Prefix, State string }
	if err := json.Unmarshal([]byte(second), &made); err != nil || !strings.HasPrefix(made.Token, "ty_"+made.Prefix+"_") || made.State != "active" {
		t.Errorf("%s %v", second, err)
	}
	out := d.mustRun("keys", "revoke", made.Prefix)
	if out != "Revoked "+made.Prefix+".\n" {
		t.Error(out)
	}
	d.mustRun("keys", "revoke", made.Prefix) // revoking again has no effect
	table := d.mustRun("keys", "list")
	for _, want := range []string{
		`^PREFIX +NAME +CALLER +ACCOUNT +SCOPES +CREATED +EXPIRES +STATE\n`,
		`\n` + prefix + ` +ci +alice +acme +gate:chat write +2026-11-15 12:00 +2026-12-15 12:00 +active\n`,
		`\n` + made.Prefix + ` +bob's +bob +bob +read +2026-11-15 12:01 +never +revoked\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("no %s in\n%s", want, table)
		}
	}
	d.now = d.now.Add(721 * time.Hour)
	if list := d.mustRun("keys", "list", "--json"); !strings.Contains(list, `"state": "expired"`) || strings.Contains(list, token[14:]) || strings.Contains(list, "ash") {
		t.Error(list)
	}
}

func TestKeyCommandsRefuse(t *testing.T) {
	d := newFixture(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	d.mustFail(exitUsage, "create, list, revoke", "keys")
	d.mustFail(exitUsage, `required flag(s) "caller", "name"`, "keys", "create")
	d.mustFail(exitUsage, "not a valid caller", "keys", "create", "--name", "a", "--caller", "a b")
	d.mustFail(exitUsage, "use gate:NAME", "keys", "create", "--name", "a", "--caller", "a", "--scope", "read")
	d.mustFail(exitUsage, "unknown gate \"chta\"; available gates: chat", "keys", "create", "--name", "a", "--caller", "a", "--scope", "gate:chta")
	d.mustFail(exitUsage, "cannot be negative", "keys", "create", "--name", "a", "--caller", "a", "--expires", "-1h")
	d.mustFail(exitError, "\"toolyard keys list\" shows all keys", "keys", "revoke", "abcdefghij")
	secret := "ty_abcdefghij_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAbbbbbb"
	if _, errs, code := d.run("keys", "revoke", secret); code != exitUsage || strings.Contains(errs, secret) {
		t.Errorf("%d %s", code, errs)
	}
	if list := d.mustRun("keys", "list"); list != "No keys.\n" {
		t.Error(list)
	}
	t.Chdir(t.TempDir())
	none := &fixture{t: t}
	none.mustFail(exitError, "the configuration does not configure a store", "keys", "list")
	memory := newFixture(t, "store: memory\n")
	memory.mustFail(exitError, "lost when the process ends", "keys", "create", "--name", "a", "--caller", "a")
}

// If a yard has no store, commands that would store something fail, because the yard would not see
// it.
func TestCommandsFailWithoutAStore(t *testing.T) {
	d := newFixture(t, "gates:\n  chat: {mode: read}\n")
	for _, args := range [][]string{
		{"keys", "create", "--name", "a", "--caller", "a", "--scope", "operator"},
		{"keys", "list"},
		{"keys", "revoke", "abcdefghij"},
		{"accounts", "fund", "acme", "1"},
		{"accounts", "show"},
	} {
		d.mustFail(exitError, d.file+" does not configure a store, so keys, accounts and recorded calls are not available; add store: sqlite:toolyard.db", args...)
	}
	if files, err := os.ReadDir(filepath.Dir(d.file)); err != nil || len(files) != 1 {
		t.Errorf("a store was created: %v %v", files, err)
	}
}

// --store overrides the file, and every command that changes a store prints its address without the
// password.
func TestStoreFlagOverridesTheFile(t *testing.T) {
	elsewhere := "sqlite:" + filepath.Join(t.TempDir(), "shared.db")
	for name, text := range map[string]string{"no store": "", "another store": "store: sqlite:own.db\n", "keys": "gates:\n  chat: {mode: read, callers: keys}\n"} {
		t.Run(name, func(t *testing.T) {
			d := newFixture(t, text)
			for _, args := range [][]string{
				{"keys", "create", "--name", "a", "--caller", "a"},
				{"accounts", "fund", "acme", "1"},
				{"accounts", "link", "a", "wallet", "0x52908400098527886E0F7030069857D2E4169EE7"},
				{"accounts", "unlink", "a", "wallet"},
			} {
				if _, errs, code := d.run(append(args, "--store", elsewhere)...); code != exitOK || !strings.Contains(errs, "store: "+elsewhere+"\n") {
					t.Errorf("%v: exit %d: %s", args, code, errs)
				}
			}
			if files, err := os.ReadDir(filepath.Dir(d.file)); err != nil || len(files) != 1 {
				t.Errorf("another store was created: %v %v", files, err)
			}
			source, err := settings.ReadConfig(settings.Options{File: d.file, Store: elsewhere})
			if err != nil || source.StoreAddress() != elsewhere || !source.NeedsStore() {
				t.Errorf("a yard would use %v %v", source, err)
			}
		})
	}
	s, err := store.Open(t.Context(), elsewhere)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	if keys, err := s.Keys(t.Context()); len(keys) != 3 || err != nil {
		t.Errorf("%d keys, %v", len(keys), err)
	}
	if balance, err := s.Balance(t.Context(), "acme"); err != nil || balance.Remaining != 3*toolyard.USD {
		t.Errorf("%+v %v", balance, err)
	}
}

func TestStoreNameHidesPasswords(t *testing.T) {
	for address, want := range map[string]string{
		"sqlite:/x/yard.db":                                 "sqlite:/x/yard.db",
		"postgres://yard:s3cret@db:5432/yard":               "postgres://yard@db:5432/yard",
		"postgresql://yard@db/yard?password=s3cret&sslmode": "postgresql://yard@db/yard",
		"postgres://yard:s3c%ret@db/yard":                   "postgres",
	} {
		if got := storeName(address); got != want {
			t.Errorf("%s: %s, want %s", address, got, want)
		}
	}
}

// Changes made on the command line are audited with the system user and the host.
func TestCommandsAreAudited(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\n")
	token := strings.TrimSpace(d.mustRun("keys", "create", "--name", "ci", "--caller", "alice", "--account", "acme", "--scope", "write"))
	prefix := strings.Split(token, "_")[1]
	d.mustRun("keys", "revoke", prefix)
	d.mustRun("accounts", "fund", "acme", "2.5", "--reference", "invoice-17")
	d.mustFail(exitError, "Cannot withdraw 26 USD", "accounts", "fund", "acme", "--", "-26")
	d.mustRun("accounts", "link", "alice", "wallet", "0x52908400098527886E0F7030069857D2E4169EE7")
	d.mustRun("accounts", "unlink", "alice", "wallet")
	d.mustFail(exitError, "no wallet link", "accounts", "unlink", "alice", "wallet")
	d.mustRun("apply")
	d.mustRun("apply") // changes nothing, so there is no entry
	s, err := store.Open(t.Context(), "sqlite:"+filepath.Join(filepath.Dir(d.file), "yard.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = s.Close() }()
	changes, err := s.Changes(t.Context(), store.ChangeQuery{})
	if err != nil {
		t.Fatal(err)
	}
	slices.SortFunc(changes, func(a, b *store.Change) int {
		return cmp.Or(strings.Compare(a.Action, b.Action), cmp.Compare(a.Status, b.Status))
	})
	var got []string
	for _, c := range changes {
		got = append(got, fmt.Sprint(c.Action, " ", c.Subject, " ", c.Status))
		if !strings.HasSuffix(c.Caller, " (command line)") || identity.CheckID(c.Caller) == nil || c.Remote == "" || strings.Contains(string(c.Detail), token[14:]) {
			t.Errorf("%+v %s", c, c.Detail)
		}
	}
	want := []string{
		"account.fund acme 200", "account.fund acme 400", "config.apply toolyard.yaml 200", "key.create " + prefix + " 200", "key.revoke " + prefix + " 200",
		"link.remove wallet 200", "link.remove wallet 404", "link.set wallet 200",
	}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if i := slices.IndexFunc(changes, func(c *store.Change) bool { return c.Action == "key.create" }); string(changes[i].Detail) != `{"account":"acme","caller":"alice","name":"ci","scopes":["write"],"ttl":"0s"}` {
		t.Errorf("%s", changes[i].Detail)
	}
}

func TestAccountCommands(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\n")
	if out := d.mustRun("accounts", "show"); out != "No accounts.\n" {
		t.Error(out)
	}
	for range 2 { // a reference is credited only once
		if out := d.mustRun("accounts", "fund", "acme", "25.001", "--reference", "invoice-17"); out != "Balance of acme: 25.001 USD\n" {
			t.Error(out)
		}
	}
	d.mustRun("accounts", "fund", "bob", "1")
	d.mustRun("accounts", "fund", "bob", "1")
	if out := d.mustRun("accounts", "fund", "acme", "--", "-0.001"); out != "Balance of acme: 25 USD\n" {
		t.Error(out)
	}
	want := `ACCOUNT  REMAINING  HELD  SPENT
acme     25         0     0
bob      2          0     0
`
	if out := d.mustRun("accounts", "show"); out != want {
		t.Errorf("%s", out)
	}
	var shown []ledger.Balance
	if err := json.Unmarshal([]byte(d.mustRun("accounts", "show", "bob", "--json")), &shown); err != nil || len(shown) != 1 || shown[0].Remaining != 2*toolyard.USD {
		t.Errorf("%+v %v", shown, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(d.file), "yard.db")); err != nil {
		t.Error(err)
	}
	d.mustFail(exitError, "unknown account acm (did you mean \"acme\"?)", "accounts", "show", "acm")
	d.mustFail(exitError, "Cannot withdraw 26 USD", "accounts", "fund", "acme", "--", "-26")
	d.mustFail(exitUsage, "not a decimal", "accounts", "fund", "acme", "1e3")
	d.mustFail(exitUsage, "the amount must not be zero", "accounts", "fund", "acme", "0")
	d.mustFail(exitUsage, "not a valid caller or account name", "accounts", "fund", "ac me", "1")
}

func TestLinkCommands(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\n")
	const wallet = "0x52908400098527886E0F7030069857D2E4169EE7"
	if out := d.mustRun("accounts", "link", "alice", "wallet", wallet); out != "Linked alice to the wallet account "+wallet+".\n" {
		t.Error(out)
	}
	const other = "0x1111111111111111111111111111111111111111"
	d.mustRun("accounts", "link", "alice", "polymarket", other)
	if out := d.mustRun("accounts", "links", "alice"); out != "polymarket\t"+other+"\nwallet\t"+wallet+"\n" {
		t.Error(out)
	}
	d.mustRun("accounts", "unlink", "alice", "wallet")
	if out := d.mustRun("accounts", "links", "alice", "--json"); out != "{\n  \"polymarket\": \""+other+"\"\n}\n" {
		t.Error(out)
	}
	if out := d.mustRun("accounts", "links", "bob"); out != "No links.\n" {
		t.Error(out)
	}
	d.mustFail(exitError, "toolyard accounts links alice", "accounts", "unlink", "alice", "wallet")
	d.mustFail(exitUsage, "available kinds: hyperliquid, polymarket, wallet", "accounts", "link", "alice", "walet", wallet)
	for _, nonsense := range []string{"", "nonsense", "0x1", "0x\n1", wallet + "0", "0x52908400098527886e0F7030069857D2E4169EE7"} {
		d.mustFail(exitUsage, "is not a valid link to wallet", "accounts", "link", "bob", "wallet", nonsense)
	}
	d.mustFail(exitUsage, "not a valid caller", "accounts", "link", "", "wallet", wallet)
}

// Configured providers add kinds of links.
func TestLinkCommandsKnowConfiguredKinds(t *testing.T) {
	d := newFixture(t, `
store: sqlite:yard.db
context:
  crm: {http: {url: "https://crm.example.com/{link}", headers: {X-Tenant: "{link.tenant}"}}}
  erp: {script: erp.ts}
  wiki: {http: {url: "https://wiki.example.com/{caller.id}"}}
`)
	for _, kind := range []string{"crm", "tenant", "erp"} {
		d.mustRun("accounts", "link", "alice", kind, "C-17")
	}
	if out := d.mustRun("accounts", "links", "alice"); out != "crm\tC-17\nerp\tC-17\ntenant\tC-17\n" {
		t.Error(out)
	}
	d.mustFail(exitUsage, "available kinds: crm, erp, hyperliquid, polymarket, tenant, wallet", "accounts", "link", "alice", "wiki", "x")
	d.mustFail(exitUsage, "not a valid link", "accounts", "link", "alice", "crm", "")
	d.mustFail(exitUsage, "not a valid link", "accounts", "link", "alice", "crm", strings.Repeat("x", 257))
	d.mustFail(exitUsage, "not a valid link", "accounts", "link", "alice", "crm", "a\nb")
}

// Callers with the same name in two accounts have separate links.
func TestLinksBelongToAccounts(t *testing.T) {
	d := newFixture(t, "store: sqlite:yard.db\n")
	const first, second = "0x1111111111111111111111111111111111111111", "0x2222222222222222222222222222222222222222"
	d.mustRun("keys", "create", "--name", "a", "--caller", "agent", "--account", "tenant1")
	d.mustRun("accounts", "link", "agent", "wallet", first)
	d.mustRun("keys", "create", "--name", "b", "--caller", "agent", "--account", "tenant2")
	d.mustFail(exitError, "several accounts (tenant1, tenant2); choose one with --account", "accounts", "link", "agent", "wallet", second)
	d.mustRun("accounts", "link", "agent", "wallet", second, "--account", "tenant2")
	for account, want := range map[string]string{"tenant1": first, "tenant2": second} {
		if out := d.mustRun("accounts", "links", "agent", "--account", account); out != "wallet\t"+want+"\n" {
			t.Errorf("%s: %s", account, out)
		}
	}
}

func TestCheckAddress(t *testing.T) {
	const keyed, open = "gates:\n  a: {mode: read, callers: keys}\n", "accepts unauthenticated callers"
	for _, c := range []struct {
		name, text, address, want string
		gates                     []yard.Gate
	}{
		{"loopback", "", "127.0.0.1:0", "", nil},
		{"no gates", "", "0.0.0.0:0", open, nil},
		{"anonymous", "anonymous: true\n", "0.0.0.0:0", "", nil},
		{"keys", keyed, "0.0.0.0:0", "", nil},
		{"keys at some gates", keyed + "  b: {mode: read}\n", "0.0.0.0:0", open, nil},
		{"anyone at one gate", keyed + "  b: {mode: read, callers: anyone}\n", "[::]:0", open, nil},
		{"a gate of the program", keyed, "0.0.0.0:0", open, []yard.Gate{{Name: "own", Mode: toolyard.Read}}},
		{"a gate of both", keyed, "0.0.0.0:0", "", []yard.Gate{{Name: "a", Mode: toolyard.Read}}},
		{"not an address", keyed, "nowhere", "expected host:port", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newFixture(t, c.text)
			a := &app{opts: yard.Options{ConfigFile: d.file, Gates: c.gates, Process: yard.Process{Getenv: func(string) (string, bool) { return "", false }}}}
			y, err := yard.New(a.opts)
			if err != nil {
				t.Fatal(err)
			}
			err = y.CheckAddress(c.address)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
