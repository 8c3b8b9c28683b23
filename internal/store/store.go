package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Store is an open database.
type Store struct {
	engine  engine
	db      *sql.DB // for everything outside the call path; accepts $1 in both dialects
	reports *sql.DB // the same for slow queries; it cannot use up the connections
	kind    string
	close   func() error
	stuck   stuckRows
}

// Open opens the store at an address: postgres://user@host/database, sqlite:path, or memory, which
// ends with the process. It migrates the tables.
func Open(ctx context.Context, address string) (*Store, error) {
	switch path, isFile := strings.CutPrefix(address, "sqlite:"); {
	case isFile:
		return openSQLite(ctx, path)
	case address == "memory":
		return openSQLite(ctx, "")
	case strings.HasPrefix(address, "postgres://"), strings.HasPrefix(address, "postgresql://"):
		return openPostgres(ctx, address)
	}
	return nil, fmt.Errorf("store: the address must be postgres://user@host/database, sqlite:path or memory")
}

// Close closes the store.
func (s *Store) Close() error { return s.close() }

// Kind returns the kind of the database: postgres, sqlite or memory.
func (s *Store) Kind() string { return s.kind }
