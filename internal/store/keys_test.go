package store

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

var keyTime = time.Date(2026, 11, 15, 12, 0, 0, 123456000, time.UTC)

func newTestKey(t *testing.T, name string, scopes []string, ttl time.Duration, at time.Time) (identity.Key, string) {
	t.Helper()
	key, token, err := identity.New(name, "alice", "acme", scopes, ttl, at)
	if err != nil {
		t.Fatal(err)
	}
	return key, token
}

func wantCode(t *testing.T, err error, want toolyard.Code) {
	t.Helper()
	if err == nil || toolyard.AsError(err).Code != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

func TestKeysComeBackAsTheyWere(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		plain, _ := newTestKey(t, `it's "plain", größer`, nil, 0, keyTime)
		bound, _ := newTestKey(t, "bound", []string{"gate:chat", "write"}, time.Hour, keyTime.Add(time.Microsecond))
		for _, k := range []identity.Key{bound, plain} {
			if err := s.PutKey(ctx, k); err != nil {
				t.Fatal(err)
			}
			got, err := s.Key(ctx, k.Prefix)
			if diff := cmp.Diff(k, got); err != nil || diff != "" {
				t.Error(err, diff)
			}
		}
		list, err := s.Keys(ctx)
		if diff := cmp.Diff([]identity.Key{plain, bound}, list); err != nil || diff != "" {
			t.Error(err, diff)
		}
		thief := plain
		thief.Caller, thief.Hash = "eve", bound.Hash
		wantCode(t, s.PutKey(ctx, thief), toolyard.VersionConflict)
		if got, err := s.Key(ctx, plain.Prefix); err != nil || got.Caller != "alice" {
			t.Errorf("a key was replaced: %v %v", got, err)
		}
	})
}

func TestUnknownKeys(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		key, _ := newTestKey(t, "a", nil, 0, keyTime)
		key.Prefix = "abcdefgh23" // a random prefix may contain no letters
		if err := s.PutKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		for _, prefix := range []string{"", "nosuchkeys", "%", strings.ToUpper(key.Prefix), key.Prefix[:9], key.Prefix + " ", "' OR '1'='1"} {
			_, err := s.Key(t.Context(), prefix)
			wantCode(t, err, toolyard.NotFound)
			wantCode(t, s.RevokeKey(t.Context(), prefix, keyTime), toolyard.NotFound)
		}
	})
}

func TestAKeyIsRevokedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		key, token := newTestKey(t, "a", nil, 0, keyTime)
		if err := s.PutKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		now := keyTime
		v := identity.NewVerifier(s, func() time.Time { return now })
		unnotified := identity.NewVerifier(s, func() time.Time { return now })
		if _, err := unnotified.Verify(t.Context(), token); err != nil {
			t.Error(err)
		}
		if caller, err := v.Verify(t.Context(), token); err != nil || caller.ID != "alice" || caller.Account != "acme" {
			t.Errorf("%v %v", caller, err)
		}
		for _, at := range []time.Time{keyTime.Add(time.Hour), keyTime.Add(2 * time.Hour)} {
			if err := s.RevokeKey(t.Context(), key.Prefix, at); err != nil {
				t.Error(err)
			}
		}
		if got, err := s.Key(t.Context(), key.Prefix); err != nil || !got.Revoked.Equal(keyTime.Add(time.Hour)) {
			t.Errorf("%v %v", got.Revoked, err)
		}
		if _, version, err := s.Document(t.Context(), KeysDocument); err != nil || version != 2 {
			t.Errorf("%d announcements: %v", version, err)
		}
		if _, err := v.Verify(t.Context(), token); err != nil {
			t.Errorf("the key was not cached: %v", err)
		}
		v.Refresh()
		_, err := v.Verify(t.Context(), token)
		wantCode(t, err, toolyard.Unauthenticated)
		now = now.Add(30 * time.Second)
		_, err = unnotified.Verify(t.Context(), token)
		wantCode(t, err, toolyard.Unauthenticated)
	})
}

// While the store is closed, it is unavailable: verified keys stay valid for a while, and unknown
// keys are rejected.
func TestKeysWhileTheStoreIsDown(t *testing.T) {
	s, err := Open(t.Context(), "sqlite:"+filepath.Join(t.TempDir(), "a.db"))
	if err != nil {
		t.Fatal(err)
	}
	seen, token := newTestKey(t, "a", nil, 0, keyTime)
	other, unseen := newTestKey(t, "b", nil, 0, keyTime)
	for _, k := range []identity.Key{seen, other} {
		if err := s.PutKey(t.Context(), k); err != nil {
			t.Fatal(err)
		}
	}
	now := keyTime
	v := identity.NewVerifier(s, func() time.Time { return now })
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	now = now.Add(4 * time.Minute)
	if _, err := v.Verify(t.Context(), token); err != nil {
		t.Error(err)
	}
	_, err = v.Verify(t.Context(), unseen)
	wantCode(t, err, toolyard.Unavailable)
	now = now.Add(time.Minute)
	_, err = v.Verify(t.Context(), token)
	wantCode(t, err, toolyard.Unavailable)
}

// The file does not contain the secret.
func TestTheStoreHoldsNoSecret(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		key, token := newTestKey(t, "a", []string{"write"}, 0, keyTime)
		if err := s.PutKey(t.Context(), key); err != nil {
			t.Fatal(err)
		}
		var prefix, name, caller, account, scopes string
		var hash []byte
		var times [3]int64
		err := s.db.QueryRowContext(t.Context(), "SELECT * FROM keys").Scan(&prefix, &hash, &name, &caller, &account, &scopes, &times[0], &times[1], &times[2])
		if err != nil {
			t.Fatal(err)
		}
		secret := token[len("ty_")+len(prefix)+1:]
		if row := prefix + string(hash) + name + caller + account + scopes; strings.Contains(row, secret[:8]) {
			t.Error("a part of the secret is kept")
		}
	})
}

func TestLinks(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx, alice := t.Context(), toolyard.Caller{ID: "alice", Account: "acme"}
		linked := func(caller toolyard.Caller, kind, want string) {
			t.Helper()
			if got, err := s.Linked(ctx, caller, kind); err != nil || got != want {
				t.Errorf("%s of %s: %q %v, want %q", kind, caller.ID, got, err, want)
			}
		}
		set := func(caller toolyard.Caller, kind, address string) {
			t.Helper()
			if err := s.SetLink(ctx, caller, kind, address); err != nil {
				t.Fatal(err)
			}
		}
		linked(alice, "wallet", "")
		set(alice, "wallet", "")
		set(alice, "wallet", "0x1")
		set(alice, "polymarket", "0x2")
		set(toolyard.Caller{ID: "acme"}, "wallet", "0x3")
		set(toolyard.Caller{ID: "alice", Account: "globex"}, "wallet", "0x5")
		linked(alice, "wallet", "0x1")
		set(alice, "wallet", "0x4")
		linked(alice, "wallet", "0x4")
		linked(toolyard.Caller{ID: "bob", Account: "alice"}, "wallet", "")
		linked(alice, "Wallet", "")
		linked(toolyard.Caller{ID: "alice", Account: "globex"}, "wallet", "0x5") // belongs to another account
		linked(toolyard.Caller{ID: "alice", Account: "umbrella"}, "wallet", "")
		linked(toolyard.Caller{ID: "alice"}, "wallet", "")
		linked(toolyard.Caller{ID: "acme", Account: "acme"}, "wallet", "0x3")
		links, err := s.Links(ctx, alice)
		if diff := cmp.Diff(map[string]string{"wallet": "0x4", "polymarket": "0x2"}, links); err != nil || diff != "" {
			t.Error(err, diff)
		}
		set(alice, "wallet", "")
		linked(alice, "wallet", "")
		if links, err := s.Links(ctx, toolyard.Caller{ID: "nobody"}); err != nil || len(links) != 0 {
			t.Error(links, err)
		}
	})
}
