package store

import (
	"database/sql"
	"errors"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
)

// A store of an earlier version is migrated and keeps its data. A store of a later version is refused.
func TestMigrationsBetweenVersions(t *testing.T) {
	for name, m := range map[string]*migrator{"sqlite": &sqliteMigrator, "postgres": &postgresMigrator} {
		t.Run(name, func(t *testing.T) {
			address := newDatabases[name](t)
			driver, source, err := "pgx", address, error(nil)
			if path, isFile := strings.CutPrefix(address, "sqlite:"); isFile {
				driver = "sqlite"
				source, err = liteAddress(path)
			}
			if err != nil {
				t.Fatal(err)
			}
			db, err := sql.Open(driver, source)
			if err != nil {
				t.Fatal(err)
			}
			defer db.Close() //nolint:errcheck // of a test
			list, err := m.load()
			if err != nil || len(list) < 2 {
				t.Fatal(len(list), err)
			}
			conn, err := db.Conn(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if err := m.apply(t.Context(), conn, list[:1]); err != nil {
				t.Fatal(err)
			}
			if _, err := conn.ExecContext(t.Context(), `INSERT INTO links (account, caller, kind, address) VALUES ('a', 'a', 'wallet', 'x')`); err != nil {
				t.Fatal(err)
			}
			if err := conn.Close(); err != nil {
				t.Fatal(err)
			}

			s := openAt(t, address)
			if address, err := s.Linked(t.Context(), toolyard.Caller{ID: "a"}, "wallet"); err != nil || address != "x" {
				t.Error(address, err)
			}
			if n := rowCount(t, s, `SELECT count(*) FROM links WHERE used > 0`); n != 1 {
				t.Error("an existing link has no time of use")
			}
			version, err := schemaVersion(t.Context(), s.db)
			if err != nil || version != list[len(list)-1].version {
				t.Error(version, err)
			}
			if _, err := db.ExecContext(t.Context(), `INSERT INTO toolyard_migrations (version_id, is_applied) VALUES (9999, TRUE)`); err != nil {
				t.Fatal(err)
			}
			if _, err := Open(t.Context(), address); !errors.Is(err, errNewer) {
				t.Errorf("a store of a later version: %v", err)
			}
		})
	}
}
