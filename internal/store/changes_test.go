package store

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard"
)

func TestChanges(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		var all []*Change // the newest first
		for i := range 30 {
			c := &Change{
				ID: fmt.Sprintf("x%02d", i), At: recordStart.Add(time.Duration(i/4) * time.Second), Caller: pick(i, "alice", "bob"), Account: pick(i, "", "acme"),
				Action: pick(i, "toolset.put", "key.create", "server.approve"), Subject: pick(i, "a", "b", "c", "d"), Remote: pick(i, "", "::1"),
			}
			if i%2 == 0 {
				c.Detail = json.RawMessage(`{"a":"\u0000"}`)
			}
			if err := s.BeginChange(ctx, c); err != nil {
				t.Fatal(err)
			}
			all = append([]*Change{c}, all...)
		}
		all[3].Status = 409
		if err := s.EndChange(ctx, all[3].ID, 409, all[3].Subject); err != nil {
			t.Fatal(err)
		}
		wantCode(t, s.EndChange(ctx, "none", 200, "about it"), toolyard.NotFound)
		for name, c := range map[string]struct {
			query ChangeQuery
			want  func(int, *Change) bool
		}{
			"all":     {ChangeQuery{}, func(int, *Change) bool { return true }},
			"caller":  {ChangeQuery{Caller: "bob"}, func(_ int, c *Change) bool { return c.Caller == "bob" }},
			"action":  {ChangeQuery{Action: "key.create"}, func(_ int, c *Change) bool { return c.Action == "key.create" }},
			"subject": {ChangeQuery{Subject: "c"}, func(_ int, c *Change) bool { return c.Subject == "c" }},
			"before":  {ChangeQuery{Before: Cursor{all[9].At, all[9].ID}, Limit: 5}, func(i int, _ *Change) bool { return i > 9 && i < 15 }},
		} {
			got, err := s.Changes(ctx, c.query)
			var want []*Change
			for i, change := range all {
				if c.want(i, change) {
					want = append(want, change)
				}
			}
			if diff := cmp.Diff(want, got, cmpopts.EquateEmpty()); diff != "" || err != nil {
				t.Errorf("%s: %v %s", name, err, diff)
			}
		}
	})
}

func TestChangesAreBounded(t *testing.T) {
	s := openAt(t, "memory")
	for name, c := range map[string]*Change{
		"no id":    {},
		"not JSON": {ID: "a", Detail: json.RawMessage(`{`)},
		"large":    {ID: "a", Detail: json.RawMessage(`"` + strings.Repeat("x", maxDetail) + `"`)},
	} {
		if err := s.BeginChange(t.Context(), c); err == nil || toolyard.AsError(err).Code != toolyard.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestOldChangesAreForgotten(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now := time.Now()
		for id, age := range map[string]time.Duration{"old": keepChanges + time.Hour, "kept": keepChanges - time.Hour} {
			if err := s.BeginChange(t.Context(), &Change{ID: id, At: now.Add(-age)}); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Maintain(t.Context(), Retention{}); err != nil {
			t.Fatal(err)
		}
		got, err := s.Changes(t.Context(), ChangeQuery{})
		if err != nil || len(got) != 1 || got[0].ID != "kept" {
			t.Error(got, err)
		}
	})
}

func TestKind(t *testing.T) {
	for name, address := range engines {
		t.Run(name, func(t *testing.T) {
			if got := openAt(t, address(t)).Kind(); got != name {
				t.Error(got)
			}
		})
	}
}
