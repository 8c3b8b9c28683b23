package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/trust/identity"
)

var (
	_ identity.Keys   = (*Store)(nil)
	_ identity.Lister = (*Store)(nil)
)

const keyColumns = "prefix, hash, name, caller, account, scopes, created, expires, revoked"

// PutKey stores a new key. The error is VersionConflict if a key with the same prefix exists.
func (s *keyStore) PutKey(ctx context.Context, k identity.Key) error {
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
	return toolyard.Errorf(toolyard.VersionConflict, "Key %s already exists; create another key.", k.Prefix)
}

// Key implements identity.Keys.
func (s *keyStore) Key(ctx context.Context, prefix string) (identity.Key, error) {
	k, err := readKey(s.db.QueryRowContext(ctx, `SELECT `+keyColumns+` FROM keys WHERE prefix = $1`, prefix))
	if errors.Is(err, sql.ErrNoRows) {
		return k, noKey(prefix)
	}
	return k, s.engine.explain(err)
}

func noKey(prefix string) error {
	return toolyard.Errorf(toolyard.NotFound, "Key %s not found.", prefix)
}

// KeyQuery selects keys. Empty fields don't restrict the selection.
type KeyQuery struct {
	Caller, Account string

	Part   string         // selects keys that contain this text in their prefix, name, caller or account
	State  identity.State // selects keys that are in this state at the time Now
	Now    time.Time
	Before Cursor // only keys after this position; zero for the first page
	Limit  int    // MaxCalls if zero or greater
}

// KeyPage lists keys, newest first.
func (s *keyStore) KeyPage(ctx context.Context, q KeyQuery) ([]identity.Key, error) {
	text, args, limit := s.keyPage(q)
	return collect(ctx, s.database, limit, readKey, text, args)
}

func (s *keyStore) keyPage(q KeyQuery) (text string, args []any, limit int) {
	if q.Limit <= 0 || q.Limit > MaxCalls {
		q.Limit = MaxCalls
	}
	f := &filter{}
	f.equal("caller", q.Caller)
	f.equal("account", q.Account)
	s.having(f, q.Part, "prefix", "name", "caller", "account")
	switch q.State {
	case identity.Revoked:
		f.where = append(f.where, "revoked <> 0")
	case identity.Expired:
		f.where = append(f.where, "revoked = 0", "expires <> 0", "expires <= "+f.arg(micros(q.Now)))
	case identity.Active:
		f.where = append(f.where, "revoked = 0", "(expires = 0 OR expires > "+f.arg(micros(q.Now))+")")
	}
	if !q.Before.At.IsZero() {
		f.where = append(f.where, fmt.Sprintf("(created, prefix) < (%s, %s)", f.arg(micros(q.Before.At)), f.arg(q.Before.ID)))
	}
	text = "SELECT " + keyColumns + " FROM keys" + f.String() + " ORDER BY created DESC, prefix DESC LIMIT " + f.arg(q.Limit)
	return text, f.args, q.Limit
}

// Keys lists all keys, oldest first.
func (s *keyStore) Keys(ctx context.Context) ([]identity.Key, error) {
	all, err := everything(func(before []identity.Key) ([]identity.Key, error) {
		var q KeyQuery
		if n := len(before); n > 0 {
			q.Before = Cursor{before[n-1].Created, before[n-1].Prefix}
		}
		return s.KeyPage(ctx, q)
	})
	slices.Reverse(all)
	return all, err
}

// Prefixes implements identity.Lister.
func (s *keyStore) Prefixes(ctx context.Context) (list []string, err error) {
	err = query(ctx, s.db, func(row scanner) error {
		var prefix string
		err := row.Scan(&prefix)
		list = append(list, prefix)
		return err
	}, `SELECT prefix FROM keys`)
	return list, s.engine.explain(err)
}

// everything reads pages of MaxCalls rows until one is not full.
func everything[T any](next func(before []T) ([]T, error)) (all []T, err error) {
	for {
		page, err := next(all)
		if err != nil {
			return nil, err
		}
		if all = append(all, page...); len(page) < MaxCalls {
			return all, nil
		}
	}
}

// having adds the condition that one of the columns contains a text, ignoring the case of ASCII
// letters. Other letters are compared exactly, because SQLite does so.
func (s *database) having(f *filter, part string, columns ...string) {
	if part == "" {
		return
	}
	format := `strpos(lower(%s COLLATE "C"), %s) > 0`
	if s.isLite() {
		format = "instr(lower(%s), %s) > 0"
	}
	given := f.arg(lowerASCII(part))
	tests := make([]string, len(columns))
	for i, column := range columns {
		tests[i] = fmt.Sprintf(format, column, given)
	}
	f.where = append(f.where, "("+strings.Join(tests, " OR ")+")")
}

func lowerASCII(text string) string {
	return strings.Map(func(r rune) rune {
		if 'A' <= r && r <= 'Z' {
			return r + 'a' - 'A'
		}
		return r
	}, text)
}

// RevokeKey revokes a key. If the key is already revoked, it is not changed. The error is NotFound
// if the key does not exist.
func (s *keyStore) RevokeKey(ctx context.Context, prefix string, at time.Time) error {
	done, err := s.db.ExecContext(ctx, `UPDATE keys SET revoked = CASE revoked WHEN 0 THEN $1 ELSE revoked END WHERE prefix = $2`, micros(at), prefix)
	if err != nil {
		return fmt.Errorf("store: key %s: %w", prefix, s.engine.explain(err))
	}
	n, err := done.RowsAffected()
	switch {
	case err != nil:
		return err
	case n == 0:
		return noKey(prefix)
	}
	s.announce(ctx, KeysDocument)
	return nil
}

// KeysDocument is the document whose version changes when a key is revoked.
const KeysDocument = "keys"

// announce notifies replicas of a change by writing a new version of an empty document. If that
// fails, they notice the change when their caches expire.
func (s *database) announce(ctx context.Context, document string) {
	for range 5 { // others may be announcing at the same time
		_, version, err := s.engine.document(ctx, document)
		if err != nil {
			return
		}
		if done, err := s.engine.setDocument(ctx, document, []byte{}, version, nil); done || err != nil {
			return
		}
	}
}

func readKey(row scanner) (k identity.Key, err error) {
	var hash []byte
	var scopes string
	var created, expires, revoked int64
	if err := row.Scan(&k.Prefix, &hash, &k.Name, &k.Caller, &k.Account, &scopes, &created, &expires, &revoked); err != nil {
		return identity.Key{}, fmt.Errorf("store: key: %w", err)
	}
	if err := json.Unmarshal([]byte(scopes), &k.Scopes); err != nil || len(hash) != len(k.Hash) {
		return identity.Key{}, fmt.Errorf("store: key %s is damaged; revoke it and create another", k.Prefix)
	}
	k.Hash = [len(k.Hash)]byte(hash)
	k.Created, k.Expires, k.Revoked = fromMicros(created), fromMicros(expires), fromMicros(revoked)
	return k, nil
}

// micros truncates a time to microseconds; zero stays zero.
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
