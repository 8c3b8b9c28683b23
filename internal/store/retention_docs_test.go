package store

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// The documentation lists the retention of every table.
func TestEveryTableHasADocumentedRetention(t *testing.T) {
	doc, err := os.ReadFile("../../docs/OPERATE.md")
	if err != nil {
		t.Fatal(err)
	}
	_, section, _ := strings.Cut(string(doc), "\n## Retention\n")
	section, _, _ = strings.Cut(section, "\n## ")
	var documented []string
	for _, row := range regexp.MustCompile("(?m)^\\| (`[^|]+) \\|").FindAllStringSubmatch(section, -1) {
		for _, name := range regexp.MustCompile("`([a-z_]+)`").FindAllStringSubmatch(row[1], -1) {
			documented = append(documented, name[1])
		}
	}
	s := openAt(t, "memory")
	tables, err := s.schema(t.Context(), s.db)
	if err != nil {
		t.Fatal(err)
	}
	exist := []string{"messages"} // only in PostgreSQL
	for _, table := range tables {
		exist = append(exist, table.name)
	}
	slices.Sort(exist)
	slices.Sort(documented)
	if diff := cmp.Diff(exist, documented); diff != "" {
		t.Errorf("docs/OPERATE.md does not list the tables of the store:\n%s", diff)
	}
}

func TestInactiveDataIsDeleted(t *testing.T) {
	for name, address := range backupEngines {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, address(t))
			ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
			old := now.Add(-100 * 24 * time.Hour)
			for _, p := range []*Person{{Caller: "corp:old", Issuer: "corp", Seen: old}, {Caller: "corp:new", Issuer: "corp", Seen: now}, {Caller: "corp:blocked", Issuer: "corp", Seen: old}} {
				if err := s.SawPeople(ctx, []*Person{p}); err != nil {
					t.Fatal(err)
				}
			}
			if _, err := s.BlockPerson(ctx, "corp:blocked", Block{At: old, By: "op"}); err != nil {
				t.Fatal(err)
			}
			for _, k := range []identity.Key{{Prefix: "expired", Expires: old}, {Prefix: "revoked", Revoked: old}, {Prefix: "forever"}, {Prefix: "valid", Expires: now.Add(time.Hour)}, {Prefix: "recent", Expires: now.Add(-time.Hour)}} {
				k.Created, k.Caller, k.Account = old, "c", "c"
				if err := s.PutKey(ctx, k); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.RevokeKey(ctx, "revoked", old); err != nil {
				t.Fatal(err)
			}
			for i, at := range []time.Time{old, now} {
				if err := s.BeginChange(ctx, &Change{ID: string(rune('a' + i)), At: at, Action: "x"}); err != nil {
					t.Fatal(err)
				}
			}
			if err := s.Maintain(ctx, Retention{Audit: 90 * 24 * time.Hour, Inactive: 90 * 24 * time.Hour}); err != nil {
				t.Fatal(err)
			}
			got := make(map[string][]string)
			for column, text := range map[string]string{"people": `SELECT caller FROM people`, "keys": `SELECT prefix FROM keys`, "changes": `SELECT id FROM changes`} {
				if err := query(ctx, s.db, func(r scanner) error {
					var name string
					err := r.Scan(&name)
					got[column] = append(got[column], name)
					return err
				}, text+` ORDER BY 1`); err != nil {
					t.Fatal(err)
				}
			}
			want := map[string][]string{"people": {"corp:blocked", "corp:new"}, "keys": {"forever", "recent", "valid"}, "changes": {"b"}}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// Links and connections are kept while they are used, while their caller has a key, and while the
// person is seen. Recorded calls may be deleted earlier, so they are not evidence of activity.
func TestUnusedLinksAndConnectionsAreDeleted(t *testing.T) {
	for name, address := range backupEngines {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, address(t))
			ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
			old := now.Add(-100 * 24 * time.Hour)
			check := func(err error) {
				t.Helper()
				if err != nil {
					t.Fatal(err)
				}
			}
			check(s.SawPeople(ctx, []*Person{{Caller: "corp:active", Issuer: "corp", Seen: now}, {Caller: "corp:gone", Issuer: "corp", Seen: old}, {Caller: "corp:blocked", Issuer: "corp", Seen: old}}))
			_, err := s.BlockPerson(ctx, "corp:blocked", Block{At: old, By: "op"})
			check(err)
			for caller, expires := range map[string]time.Time{"keyed": {}, "recent": now.Add(-time.Hour), "expired": old} {
				check(s.PutKey(ctx, identity.Key{Prefix: caller, Caller: caller, Account: "acme", Created: old, Expires: expires}))
			}
			for caller, account := range map[string]string{
				"corp:active": "", "corp:gone": "", "corp:blocked": "", "keyed": "acme", "recent": "acme", "expired": "acme", "other:keyed": "acme", "program": "program", "program:idle": "program",
			} {
				owner := serverauth.Owner{Account: account, Caller: caller}
				_, err := s.PutConnection(ctx, &serverauth.Connection{Owner: owner, Server: "crm", State: serverauth.Active, Version: 1, Created: old, Changed: old, Used: old}, 0, "")
				check(err)
				check(s.SetLink(ctx, toolyard.Caller{ID: caller, Account: account}, "wallet", "x"))
			}
			_, err = s.db.ExecContext(ctx, `UPDATE links SET used = $1`, micros(old))
			check(err)

			// The program's own caller uses both.
			c, err := s.Connection(ctx, serverauth.Owner{Account: "program", Caller: "program"}, "crm")
			check(err)
			check(s.UseConnection(ctx, c, now))
			check(s.UseConnection(ctx, c, old)) // from a slow replica
			_, err = s.Linked(ctx, toolyard.Caller{ID: "program", Account: "program"}, "wallet")
			check(err)

			check(s.Maintain(ctx, Retention{Calls: time.Hour, Inactive: 90 * 24 * time.Hour}))
			for _, table := range []string{"links", "connections"} {
				var callers []string
				check(query(ctx, s.db, func(r scanner) error {
					var caller string
					err := r.Scan(&caller)
					callers = append(callers, caller)
					return err
				}, `SELECT caller FROM `+table+` ORDER BY 1`))
				if diff := cmp.Diff([]string{"corp:active", "keyed", "program", "recent"}, callers); diff != "" {
					t.Error(table, diff)
				}
			}
		})
	}
}
