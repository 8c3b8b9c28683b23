package store

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
)

// Store is an open database. Each part stores one kind of data, and all parts share the database.
type Store struct {
	ledgerStore     // limits, money and idempotency keys
	accountStore    // accounts and sessions
	callStore       // recorded calls and reports on them
	keyStore        // API keys
	documentStore   // documents and their versions
	linkStore       // callers' links to external accounts
	messageStore    // messages between replicas
	resultStore     // long results
	changeStore     // the audit log
	queryStore      // agent queries
	approvalStore   // operators' approvals of calls
	peopleStore     // people identified by issuers
	connectionStore // people's connections to MCP servers

	*database
	kind  string
	close func() error
}

// The parts of a Store.
type (
	ledgerStore struct {
		*database
		stuck stuckRows
	}
	accountStore    struct{ *database }
	callStore       struct{ *database }
	keyStore        struct{ *database }
	documentStore   struct{ *database }
	linkStore       struct{ *database }
	messageStore    struct{ *database }
	resultStore     struct{ *database }
	changeStore     struct{ *database }
	queryStore      struct{ *database }
	approvalStore   struct{ *database }
	peopleStore     struct{ *database }
	connectionStore struct{ *database }
)

// database is the database connection of a Store.
type database struct {
	engine  engine
	db      *sql.DB // for everything outside the call path; accepts $1 in both dialects
	reports *sql.DB // the same, for slow queries; cannot use up the connections
}

func newStore(d *database, kind string, shut func() error) *Store {
	return &Store{
		ledgerStore: ledgerStore{database: d}, accountStore: accountStore{d}, callStore: callStore{d}, keyStore: keyStore{d},
		documentStore: documentStore{d}, linkStore: linkStore{d}, messageStore: messageStore{d}, changeStore: changeStore{d}, queryStore: queryStore{d}, resultStore: resultStore{d}, approvalStore: approvalStore{d}, peopleStore: peopleStore{d}, connectionStore: connectionStore{d},
		database: d, kind: kind, close: shut,
	}
}

// Open opens the store at an address: postgres://user@host/database, sqlite:path, or memory, whose
// data is lost when the process ends. It migrates the tables.
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
