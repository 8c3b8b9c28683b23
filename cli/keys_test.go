package cli

import (
	"bytes"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/identity"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/yard"
)

// desk runs commands in a folder with a configuration.
type desk struct {
	t    *testing.T
	file string
	now  time.Time
}

func newDesk(t *testing.T, text string) *desk {
	t.Helper()
	file := filepath.Join(t.TempDir(), "my.yaml")
	if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return &desk{t, file, time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)}
}

// run runs a command and returns what it printed, and its exit code.
func (d *desk) run(args ...string) (out, errs string, code int) {
	d.t.Helper()
	var stdout, stderr bytes.Buffer
	noEnv := func(string) (string, bool) { return "", false }
	p := &program{opts: yard.Options{Getenv: noEnv, Now: func() time.Time { return d.now }}, in: strings.NewReader(""), out: &stdout, err: &stderr}
	root := p.command()
	if d.file != "" {
		args = append([]string{"--config", d.file}, args...)
	}
	root.SetArgs(args)
	err := root.ExecuteContext(d.t.Context())
	var exit exitStatus
	switch {
	case errors.As(err, &exit):
		p.complain(exit.err)
		code = exit.code
	case err != nil:
		stderr.WriteString(err.Error())
		code = exitUsage
	}
	return stdout.String(), stderr.String(), code
}

// good runs a command that must succeed.
func (d *desk) good(args ...string) string {
	d.t.Helper()
	out, errs, code := d.run(args...)
	if code != exitOK {
		d.t.Fatalf("%v: exit %d: %s", args, code, errs)
	}
	return out
}

// bad runs a command that must fail with a text.
func (d *desk) bad(code int, want string, args ...string) {
	d.t.Helper()
	out, errs, got := d.run(args...)
	if got != code || !strings.Contains(errs, want) || strings.Contains(out, "ty_") {
		d.t.Errorf("%v: exit %d: %s%s", args, got, out, errs)
	}
}

func TestKeyCommands(t *testing.T) {
	d := newDesk(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	if out := d.good("keys", "list"); out != "No keys.\n" {
		t.Error(out)
	}
	token, errs, code := d.run("keys", "create", "--name", "ci", "--caller", "alice", "--account", "acme", "--scope", "gate:chat", "--scope", "write", "--expires", "720h")
	token, ok := strings.CutSuffix(token, "\n")
	if code != exitOK || !ok || !strings.Contains(errs, "not shown again") {
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
	second := d.good("keys", "create", "--name", "bob's", "--caller", "bob", "--json")
	var made struct{ Token, Prefix, State string }
	if err := json.Unmarshal([]byte(second), &made); err != nil || !strings.HasPrefix(made.Token, "ty_"+made.Prefix+"_") || made.State != "active" {
		t.Errorf("%s %v", second, err)
	}
	out := d.good("keys", "revoke", made.Prefix)
	if out != made.Prefix+" is revoked.\n" {
		t.Error(out)
	}
	d.good("keys", "revoke", made.Prefix) // twice is once
	table := d.good("keys", "list")
	for _, want := range []string{
		`^PREFIX +NAME +CALLER +ACCOUNT +SCOPES +CREATED +EXPIRES +STATE\n`,
		`\n` + prefix + ` +ci +alice +acme +gate:chat write +2026-11-15 12:00 +2026-12-15 12:00 +active\n`,
		`\n` + made.Prefix + ` +bob's +bob +bob +all gates +2026-11-15 12:01 +never +revoked\n$`,
	} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("no %s in\n%s", want, table)
		}
	}
	d.now = d.now.Add(721 * time.Hour)
	if list := d.good("keys", "list", "--json"); !strings.Contains(list, `"state": "expired"`) || strings.Contains(list, token[14:]) || strings.Contains(list, "ash") {
		t.Error(list)
	}
}

func TestKeyCommandsRefuse(t *testing.T) {
	d := newDesk(t, "gates:\n  chat: {mode: read, callers: keys}\n")
	d.bad(exitUsage, "create, list, revoke", "keys")
	d.bad(exitUsage, `required flag(s) "caller", "name"`, "keys", "create")
	d.bad(exitUsage, "not a name for a caller", "keys", "create", "--name", "a", "--caller", "a b")
	d.bad(exitUsage, "use gate:NAME", "keys", "create", "--name", "a", "--caller", "a", "--scope", "read")
	d.bad(exitUsage, "there is no gate chta; there are: chat", "keys", "create", "--name", "a", "--caller", "a", "--scope", "gate:chta")
	d.bad(exitUsage, "cannot expire before", "keys", "create", "--name", "a", "--caller", "a", "--expires", "-1h")
	d.bad(exitError, "toolyard keys list shows them", "keys", "revoke", "abcdefghij")
	secret := "ty_abcdefghij_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAbbbbbb"
	if _, errs, code := d.run("keys", "revoke", secret); code != exitUsage || strings.Contains(errs, secret) {
		t.Errorf("%d %s", code, errs)
	}
	if list := d.good("keys", "list"); list != "No keys.\n" {
		t.Error(list)
	}
	t.Chdir(t.TempDir())
	none := &desk{t: t}
	none.bad(exitError, "name a configuration file with --config", "keys", "list")
	memory := newDesk(t, "store: memory\n")
	memory.bad(exitError, "there is no store that would keep it", "keys", "create", "--name", "a", "--caller", "a")
}

func TestAccountCommands(t *testing.T) {
	d := newDesk(t, "store: sqlite:yard.db\n")
	if out := d.good("accounts", "show"); out != "No accounts.\n" {
		t.Error(out)
	}
	for range 2 { // one reference is one payment
		if out := d.good("accounts", "fund", "acme", "25.001", "--reference", "invoice-17"); out != "acme has 25.001 USD.\n" {
			t.Error(out)
		}
	}
	d.good("accounts", "fund", "bob", "1")
	d.good("accounts", "fund", "bob", "1")
	if out := d.good("accounts", "fund", "acme", "--", "-0.001"); out != "acme has 25 USD.\n" {
		t.Error(out)
	}
	want := `ACCOUNT  REMAINING  HELD  SPENT
acme     25         0     0
bob      2          0     0
`
	if out := d.good("accounts", "show"); out != want {
		t.Errorf("%s", out)
	}
	var shown []toolyard.Purse
	if err := json.Unmarshal([]byte(d.good("accounts", "show", "bob", "--json")), &shown); err != nil || len(shown) != 1 || shown[0].Remaining != 2*toolyard.USD {
		t.Errorf("%+v %v", shown, err)
	}
	if _, err := os.Stat(filepath.Join(filepath.Dir(d.file), "yard.db")); err != nil {
		t.Error(err)
	}
	d.bad(exitError, "there is no account acm; did you mean acme?", "accounts", "show", "acm")
	d.bad(exitError, "cannot be", "accounts", "fund", "acme", "--", "-26")
	d.bad(exitUsage, "not a decimal", "accounts", "fund", "acme", "1e3")
	d.bad(exitUsage, "the amount is nothing", "accounts", "fund", "acme", "0")
	d.bad(exitUsage, "not a name for a caller or an account", "accounts", "fund", "ac me", "1")
}

func TestLinkCommands(t *testing.T) {
	d := newDesk(t, "")
	const wallet = "0x52908400098527886E0F7030069857D2E4169EE7"
	if out := d.good("accounts", "link", "alice", "wallet", wallet); out != "alice has the wallet "+wallet+".\n" {
		t.Error(out)
	}
	d.good("accounts", "link", "alice", "polymarket", "0x1")
	if out := d.good("accounts", "links", "alice"); out != "polymarket\t0x1\nwallet\t"+wallet+"\n" {
		t.Error(out)
	}
	d.good("accounts", "unlink", "alice", "wallet")
	if out := d.good("accounts", "links", "alice", "--json"); out != "{\n  \"polymarket\": \"0x1\"\n}\n" {
		t.Error(out)
	}
	if out := d.good("accounts", "links", "bob"); out != "No links.\n" {
		t.Error(out)
	}
	d.bad(exitError, "toolyard accounts links alice", "accounts", "unlink", "alice", "wallet")
	d.bad(exitUsage, "there are: hyperliquid, polymarket, wallet", "accounts", "link", "alice", "walet", wallet)
	d.bad(exitUsage, "visible characters", "accounts", "link", "alice", "wallet", "")
	d.bad(exitUsage, "visible characters", "accounts", "link", "alice", "wallet", "0x\n1")
	d.bad(exitUsage, "not a name for a caller", "accounts", "link", "", "wallet", wallet)
}

func TestCheckAddress(t *testing.T) {
	const gates, open = "gates:\n  a: {mode: read, callers: keys}\n", "nobody is asked who they are"
	for _, c := range []struct {
		name, text, address, want string
		gates                     []toolyard.Gate
	}{
		{"loopback", "", "127.0.0.1:0", "", nil},
		{"no gates", "", "0.0.0.0:0", open, nil},
		{"anonymous", "anonymous: true\n", "0.0.0.0:0", "", nil},
		{"keys", gates, "0.0.0.0:0", "", nil},
		{"keys at some gates", gates + "  b: {mode: read}\n", "0.0.0.0:0", open, nil},
		{"anyone at one gate", gates + "  b: {mode: read, callers: anyone}\n", "[::]:0", open, nil},
		{"a gate of the program", gates, "0.0.0.0:0", open, []toolyard.Gate{{Name: "own", Mode: toolyard.Read}}},
		{"a gate of both", gates, "0.0.0.0:0", "", []toolyard.Gate{{Name: "a", Mode: toolyard.Read}}},
		{"not an address", gates, "nowhere", "write host:port", nil},
	} {
		t.Run(c.name, func(t *testing.T) {
			d := newDesk(t, c.text)
			p := &program{opts: yard.Options{ConfigFile: d.file, Gates: c.gates, Getenv: func(string) (string, bool) { return "", false }}}
			y, err := yard.New(p.opts)
			if err != nil {
				t.Fatal(err)
			}
			err = p.checkAddress(c.address, y)
			if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v, want %q", err, c.want)
			}
		})
	}
}
