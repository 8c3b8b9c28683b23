package store

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

func TestConnectionsAreReplacedByVersionAndLease(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx, now := t.Context(), time.Now().UTC().Truncate(time.Millisecond)
		ann := serverauth.Owner{Account: "acme", Caller: "ann"}
		c := serverauth.Connection{Owner: ann, Server: "crm", State: serverauth.Active, Issuer: "https://as", Scopes: []string{"a", "b"}, Sealed: "1", Version: 7, Created: now, Changed: now}
		put := func(c serverauth.Connection, before int64, lease string, want bool) {
			t.Helper()
			if stored, err := s.PutConnection(ctx, &c, before, lease); err != nil || stored != want {
				t.Fatalf("stored %v: %v", stored, err)
			}
		}
		lease := func(c serverauth.Connection, holder string, lasts time.Duration, want bool) {
			t.Helper()
			if leased, err := s.LeaseConnection(ctx, &c, holder, lasts); err != nil || leased != want {
				t.Fatalf("leased %v: %v", leased, err)
			}
		}
		put(c, 0, "", true)
		put(c, 0, "", false) // the connection already exists
		got, err := s.Connection(ctx, ann, "crm")
		if err != nil || got == nil {
			t.Fatal(got, err)
		}
		got.Created, got.Changed = got.Created.UTC(), got.Changed.UTC()
		if diff := cmp.Diff(&c, got); diff != "" {
			t.Error(diff)
		}
		for server, want := range map[string]int{"crm": 1, "other": 0} {
			if list, err := s.ServerConnections(ctx, server, 10); err != nil || len(list) != want {
				t.Errorf("%s has %d connections: %v", server, len(list), err)
			}
		}
		for _, other := range []serverauth.Owner{{Account: "acme", Caller: "bob"}, {Account: "other", Caller: "ann"}, {Caller: "ann"}} {
			if got, err := s.Connection(ctx, other, "crm"); err != nil || got != nil {
				t.Errorf("%+v has the connection of ann: %v", other, err)
			}
		}
		next := c
		next.Version, next.Sealed = 8, "2"
		lease(c, "r1", time.Minute, true)
		lease(c, "r2", time.Minute, false)
		put(next, 7, "r2", false) // the replica does not hold the lease
		put(next, 7, "r1", true)
		put(next, 7, "r1", false) // a slow replica writes an old version back
		lease(c, "r2", time.Minute, false)
		lease(next, "r1", -time.Second, true)
		lease(next, "r2", time.Minute, true) // the first lease has expired
		if err := s.ReleaseConnection(ctx, &next, "r2"); err != nil {
			t.Fatal(err)
		}
		lease(next, "r1", time.Minute, true)
		if err := s.MarkStale(ctx, &c); err != nil { // marks an old version
			t.Fatal(err)
		}
		if first, err := s.FirstConnection(ctx, "crm"); err != nil || first == nil || first.Version != 8 {
			t.Error(first, err)
		}
		if err := s.MarkStale(ctx, &next); err != nil {
			t.Fatal(err)
		}
		if first, err := s.FirstConnection(ctx, "crm"); err != nil || first != nil {
			t.Error(first, err)
		}
		if list, err := s.Connections(ctx, ann); err != nil || len(list) != 1 || list[0].State != serverauth.Stale {
			t.Error(list, err)
		}
		for _, want := range []bool{true, false} {
			if deleted, err := s.DeleteConnection(ctx, ann, "crm"); err != nil || deleted != want {
				t.Error(deleted, err)
			}
		}
	})
}

func TestSignInsAreTakenOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx, now := t.Context(), time.Now()
		if err := s.PutFlow(ctx, "old", "x", now, now.Add(time.Minute)); err != nil {
			t.Fatal(err)
		}
		if err := s.PutFlow(ctx, "new", "sealed", now.Add(time.Hour), now.Add(2*time.Hour)); err != nil {
			t.Fatal(err)
		}
		for id, want := range map[string]string{"old": "", "new": "sealed", "none": ""} {
			if sealed, err := s.TakeFlow(ctx, id); err != nil || sealed != want {
				t.Errorf("%s: %q %v", id, sealed, err)
			}
			if sealed, err := s.TakeFlow(ctx, id); err != nil || sealed != "" {
				t.Errorf("%s is taken twice: %v", id, err)
			}
		}
		for _, sealed := range []string{"1", "2"} {
			if err := s.PutRegisteredClient(ctx, "https://as", "https://us/callback", sealed); err != nil {
				t.Fatal(err)
			}
			if got, err := s.RegisteredClient(ctx, "https://as", "https://us/callback"); err != nil || got != sealed {
				t.Error(got, err)
			}
		}
		if got, err := s.RegisteredClient(ctx, "https://as", "https://other/callback"); err != nil || got != "" {
			t.Error(got, err)
		}
	})
}
