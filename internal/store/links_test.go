package store

import (
	"strings"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

// Callers with the same name in two accounts have separate links.
func TestLinksBelongToAnAccountAndACaller(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		at := time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
		for _, account := range []string{"globex", "acme"} {
			key, _, err := identity.New("key", "agent", account, nil, 0, at)
			if err == nil {
				err = s.PutKey(t.Context(), key)
			}
			if err == nil {
				err = s.SetLink(t.Context(), toolyard.Caller{ID: "agent", Account: account}, "wallet", "0x"+account)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		for account, want := range map[string]string{"acme": "0xacme", "globex": "0xglobex", "agent": "", "": ""} {
			if got, err := s.Linked(t.Context(), toolyard.Caller{ID: "agent", Account: account}, "wallet"); err != nil || got != want {
				t.Errorf("account %q: %q %v, want %q", account, got, err, want)
			}
		}
		if accounts, err := s.AccountsOf(t.Context(), "agent"); err != nil || strings.Join(accounts, " ") != "acme globex" {
			t.Errorf("%v %v", accounts, err)
		}
	})
}
