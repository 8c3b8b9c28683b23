package store

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Keys created when no scope meant all permissions keep their permissions, explicitly.
func TestKeysWithoutScopesKeepWriting(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		want := map[string]string{}
		old := func(scopes, after string) {
			key, _ := newTestKey(t, "old", nil, 0, at)
			if err := s.PutKey(t.Context(), key); err != nil {
				t.Fatal(err)
			}
			if _, err := s.db.ExecContext(t.Context(), `UPDATE keys SET scopes = $1 WHERE prefix = $2`, scopes, key.Prefix); err != nil {
				t.Fatal(err)
			}
			want[key.Prefix] = after
		}
		provider := migrator(t, s)
		if _, err := provider.DownTo(t.Context(), 19); err != nil {
			t.Fatal(err)
		}
		old("null", "write")
		old("[]", "write")
		old(`["gate:chat"]`, "gate:chat")
		old(`["operator"]`, "operator")
		if _, err := provider.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		for prefix, scopes := range want {
			if key, err := s.Key(t.Context(), prefix); err != nil || strings.Join(key.Scopes, " ") != scopes {
				t.Errorf("%v %v, want %s", key.Scopes, err, scopes)
			}
		}
		key, _ := newTestKey(t, "new", nil, 0, at)
		if err := s.PutKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		if key, err := s.Key(t.Context(), key.Prefix); err != nil || len(key.Scopes) != 0 {
			t.Errorf("a new key: %v %v", key.Scopes, err)
		}
	})
}

// Old links are assigned to the account of their caller. If a caller has several accounts, they are
// assigned to none.
func TestLinksGetTheAccountOfTheirCaller(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		for _, of := range []toolyard.Caller{{ID: "one", Account: "acme"}, {ID: "agent", Account: "acme"}, {ID: "agent", Account: "globex"}} {
			key, _, err := identity.New("key", of.ID, of.Account, nil, 0, at)
			if err == nil {
				err = s.PutKey(t.Context(), key)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		provider := migrator(t, s)
		if _, err := provider.DownTo(t.Context(), 20); err != nil {
			t.Fatal(err)
		}
		for _, caller := range []string{"one", "agent", "keyless"} {
			if _, err := s.db.ExecContext(t.Context(), `INSERT INTO links (caller, kind, address) VALUES ($1, 'wallet', '0x1')`, caller); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := provider.Up(t.Context()); err != nil {
			t.Fatal(err)
		}
		for caller, want := range map[[2]string]string{
			{"one", "acme"}: "0x1", {"one", "globex"}: "", {"keyless", "keyless"}: "0x1", {"keyless", "acme"}: "",
			{"agent", "acme"}: "", {"agent", "globex"}: "", {"agent", "agent"}: "", {"agent", ""}: "",
		} {
			if got, err := s.Linked(t.Context(), toolyard.Caller{ID: caller[0], Account: caller[1]}, "wallet"); err != nil || got != want {
				t.Errorf("%v: %q %v, want %q", caller, got, err, want)
			}
		}
		if kept := rowCount(t, s, `SELECT count(*) FROM links WHERE caller = 'agent' AND account = ''`); kept != 1 {
			t.Errorf("%d links without an owner are kept", kept)
		}
		if accounts, err := s.AccountsOf(t.Context(), "agent"); err != nil || strings.Join(accounts, " ") != "acme globex" {
			t.Errorf("%v %v", accounts, err)
		}
	})
}
