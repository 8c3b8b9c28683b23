package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/toolyard/toolyard"
)

// SetLink notes that a caller has an account elsewhere, such as a wallet, by its address. An
// empty address removes the link.
func (s *Store) SetLink(ctx context.Context, caller, kind, address string) error {
	query, args := `INSERT INTO links (caller, kind, address) VALUES ($1, $2, $3)
		ON CONFLICT (caller, kind) DO UPDATE SET address = excluded.address`, []any{caller, kind, address}
	if address == "" {
		query, args = `DELETE FROM links WHERE caller = $1 AND kind = $2`, args[:2]
	}
	if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("store: link of %s: %w", caller, s.engine.explain(err))
	}
	return nil
}

// Linked is the address that a caller has linked as a kind, and "" for none.
func (s *Store) Linked(ctx context.Context, caller toolyard.Caller, kind string) (address string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT address FROM links WHERE caller = $1 AND kind = $2`, caller.ID, kind).Scan(&address)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store: link of %s: %w", caller.ID, s.engine.explain(err))
	}
	return address, nil
}

// Links are all addresses that a caller has linked, by their kinds.
func (s *Store) Links(ctx context.Context, caller string) (links map[string]string, err error) {
	links = make(map[string]string)
	err = query(ctx, s.db, func(from scanner) error {
		var kind, address string
		err := from.Scan(&kind, &address)
		links[kind] = address
		return err
	}, `SELECT kind, address FROM links WHERE caller = $1`, caller)
	if err != nil {
		return nil, fmt.Errorf("store: links of %s: %w", caller, s.engine.explain(err))
	}
	return links, nil
}
