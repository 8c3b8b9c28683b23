package store

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
)

// Links belong to a caller in an account, because callers in two accounts may have the same name.

// usePrecision is the minimum time between updates of a link's last use.
const usePrecision = 24 * time.Hour

// SetLink stores a caller's address in an external system, such as a wallet. An empty address
// removes the link.
func (s *linkStore) SetLink(ctx context.Context, caller toolyard.Caller, kind, address string) error {
	query, args := `INSERT INTO links (account, caller, kind, address, used) VALUES ($1, $2, $3, $4, $5)
		ON CONFLICT (account, caller, kind) DO UPDATE SET address = excluded.address, used = excluded.used`, []any{linkAccount(caller), caller.ID, kind, address, micros(time.Now())}
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
	links, err := s.Links(ctx, caller)
	return links[kind], err
}

// Links returns a caller's linked addresses by kind. It counts as a use of the links.
func (s *linkStore) Links(ctx context.Context, caller toolyard.Caller) (map[string]string, error) {
	links, now := make(map[string]string), time.Now()
	oldest := micros(now)
	err := query(ctx, s.db, func(from scanner) error {
		var kind, address string
		var used int64
		err := from.Scan(&kind, &address, &used)
		links[kind], oldest = address, min(oldest, used)
		return err
	}, `SELECT kind, address, used FROM links WHERE account = $1 AND caller = $2`, linkAccount(caller), caller.ID)
	if err != nil {
		return nil, fmt.Errorf("store: links for %s: %w", caller.ID, s.engine.explain(err))
	}
	if now.Sub(fromMicros(oldest)) >= usePrecision {
		// If this fails, the next use tries again, so callers are not affected.
		_, _ = s.db.ExecContext(ctx, `UPDATE links SET used = $3 WHERE account = $1 AND caller = $2`, linkAccount(caller), caller.ID, micros(now))
	}
	return links, nil
}

// AccountsOf returns the accounts in which a caller has keys, sorted and limited to 100.
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

// linkAccount returns a caller's account, which defaults to its ID.
func linkAccount(c toolyard.Caller) string { return cmp.Or(c.Account, c.ID) }
