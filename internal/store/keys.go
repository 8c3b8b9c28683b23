package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/identity"
)

var _ identity.Keys = (*Store)(nil)

const keyColumns = "prefix, hash, name, caller, account, scopes, created, expires, revoked"

// PutKey keeps a new key. It replaces none: its error is Conflict when there is one with
// the same prefix.
func (s *Store) PutKey(ctx context.Context, k identity.Key) error {
	scopes, err := json.Marshal(k.Scopes)
	if err != nil {
		return fmt.Errorf("store: key %s: %w", k.Prefix, err)
	}
	done, err := s.db.ExecContext(ctx, `INSERT INTO keys (`+keyColumns+`)
		VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9) ON CONFLICT (prefix) DO NOTHING`,
		k.Prefix, k.Hash[:], k.Name, k.Caller, k.Account, string(scopes), micros(k.Created), micros(k.Expires), micros(k.Revoked))
	if err != nil {
		return fmt.Errorf("store: key %s: %w", k.Prefix, s.engine.explain(err))
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return toolyard.Errorf(toolyard.Conflict, "There is a key %s already; make another.", k.Prefix)
}

// Key implements identity.Keys.
func (s *Store) Key(ctx context.Context, prefix string) (identity.Key, error) {
	k, err := readKey(s.db.QueryRowContext(ctx, `SELECT `+keyColumns+` FROM keys WHERE prefix = $1`, prefix))
	if errors.Is(err, sql.ErrNoRows) {
		return k, noKey(prefix)
	}
	return k, s.engine.explain(err)
}

func noKey(prefix string) error {
	return toolyard.Errorf(toolyard.NotFound, "There is no key %s.", prefix)
}

// Keys are all keys, the oldest first.
func (s *Store) Keys(ctx context.Context) (keys []identity.Key, err error) {
	err = query(ctx, s.db, func(from scanner) error {
		k, err := readKey(from)
		keys = append(keys, k)
		return err
	}, `SELECT `+keyColumns+` FROM keys ORDER BY created, prefix`)
	if err != nil {
		return nil, fmt.Errorf("store: keys: %w", s.engine.explain(err))
	}
	return keys, nil
}

// RevokeKey makes a key useless from now on. A key that was revoked before stays as it is.
// Its error is NotFound when there is none.
func (s *Store) RevokeKey(ctx context.Context, prefix string, at time.Time) error {
	done, err := s.db.ExecContext(ctx, `UPDATE keys SET revoked = CASE revoked WHEN 0 THEN $1 ELSE revoked END WHERE prefix = $2`, micros(at), prefix)
	if err != nil {
		return fmt.Errorf("store: key %s: %w", prefix, s.engine.explain(err))
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return err
	}
	return noKey(prefix)
}

// readKey reads the columns of a key.
func readKey(row scanner) (k identity.Key, err error) {
	var hash []byte
	var scopes string
	var created, expires, revoked int64
	if err := row.Scan(&k.Prefix, &hash, &k.Name, &k.Caller, &k.Account, &scopes, &created, &expires, &revoked); err != nil {
		return identity.Key{}, fmt.Errorf("store: key: %w", err)
	}
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil || len(hash) != len(k.Hash) {
		return identity.Key{}, fmt.Errorf("store: key %s is damaged; revoke it and make another", k.Prefix)
	}
	k.Hash = [len(k.Hash)]byte(hash)
	k.Created, k.Expires, k.Revoked = fromMicros(created), fromMicros(expires), fromMicros(revoked)
	return k, nil
}

// micros is a time as it is kept: zero stays zero.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.UnixMicro(n).UTC()
}
