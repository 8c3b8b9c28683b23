package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// maxResultBytes is the maximum total size of a caller's stored results. The oldest are deleted
// first.
const maxResultBytes = 64 << 20

// PutResult stores the text of a long result. Until it expires, only its caller can read it.
func (s *resultStore) PutResult(ctx context.Context, id, account, caller, text string, now, expires time.Time) error {
	_, err := s.db.ExecContext(ctx, `INSERT INTO results (id, account, caller, created, expires, size, body) VALUES ($1, $2, $3, $4, $5, $6, $7)`,
		id, account, caller, now, expires, len(text), []byte(text))
	if err == nil {
		_, err = s.db.ExecContext(ctx, `DELETE FROM results WHERE id IN (SELECT id FROM
			(SELECT id, sum(size) OVER (ORDER BY created DESC, id) AS total FROM results WHERE account = $1 AND caller = $2) AS newest
			WHERE total > $3)`, account, caller, maxResultBytes)
	}
	if err != nil {
		return fmt.Errorf("store: result: %w", s.engine.explain(err))
	}
	return nil
}

// ReadResult returns at most limit bytes of a stored result, starting at offset, and the size of
// the whole result. It does not find results that have expired or belong to another caller.
func (s *resultStore) ReadResult(ctx context.Context, id, account, caller string, offset, limit int, now time.Time) (piece string, size int, found bool, err error) {
	var raw []byte
	err = s.db.QueryRowContext(ctx, `SELECT size, substr(body, $4, $5) FROM results WHERE id = $1 AND account = $2 AND caller = $3 AND expires > $6`,
		id, account, caller, offset+1, limit, now).Scan(&size, &raw)
	if errors.Is(err, sql.ErrNoRows) {
		return "", 0, false, nil
	}
	if err != nil {
		return "", 0, false, fmt.Errorf("store: result: %w", s.engine.explain(err))
	}
	return string(raw), size, true, nil
}
