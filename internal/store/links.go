package store

import (
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/toolyard/toolyard"
)

// Links belong to a caller of an account: callers of two accounts may have the same name.

// SetLink stores a caller's address in an external system, such as a wallet. An empty address
// removes the link.
func (s *linkStore) SetLink(ctx context.Context, caller toolyard.Caller, kind, address string) error {
	query, args := `INSERT INTO links (account, caller, kind, address) VALUES ($1, $2, $3, $4)
		ON CONFLICT (account, caller, kind) DO UPDATE SET address = excluded.address`, []any{linkAccount(caller), caller.ID, kind, address}
	if address == "" {
		query, args = `DELETE FROM links WHERE account = $1 AND caller = $2 AND kind = $3`, args[:3]
	}
	if _, err := s.db.ExecContext(ctx, query, args...); err != nil {
		return fmt.Errorf("store: link for %s: %w", caller.ID, s.engine.explain(err))
	}
	return nil
}

// Linked returns the address that a caller has linked for a kind, or "".
func (s *linkStore) Linked(ctx context.Context, caller toolyard.Caller, kind string) (address string, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT address FROM links WHERE account = $1 AND caller = $2 AND kind = $3`, linkAccount(caller), caller.ID, kind).Scan(&address)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	if err != nil {
		return "", fmt.Errorf("store: link for %s: %w", caller.ID, s.engine.explain(err))
	}
	return address, nil
}

// Links returns all addresses that a caller has linked, by kind.
func (s *linkStore) Links(ctx context.Context, caller toolyard.Caller) (links map[string]string, err error) {
	links = make(map[string]string)
	err = query(ctx, s.db, func(from scanner) error {
		var kind, address string
		err := from.Scan(&kind, &address)
		links[kind] = address
		return err
	}, `SELECT kind, address FROM links WHERE account = $1 AND caller = $2`, linkAccount(caller), caller.ID)
	if err != nil {
		return nil, fmt.Errorf("store: links for %s: %w", caller.ID, s.engine.explain(err))
	}
	return links, nil
}

// AccountsOf returns the sorted accounts for which a caller has keys, up to a limit.
func (s *linkStore) AccountsOf(ctx context.Context, caller string) (list []string, err error) {
	const most = 100
	err = query(ctx, s.db, func(row scanner) error {
		var account string
		err := row.Scan(&account)
		list = append(list, account)
		return err
	}, `SELECT DISTINCT account FROM keys WHERE caller = $1 ORDER BY account LIMIT $2`, caller, most)
	if err != nil {
		return nil, fmt.Errorf("store: accounts for %s: %w", caller, s.engine.explain(err))
	}
	return list, nil
}

// linkAccount returns the account of a caller, which is its ID if it has no other.
func linkAccount(c toolyard.Caller) string { return cmp.Or(c.Account, c.ID) }
