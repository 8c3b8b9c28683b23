package store

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"time"
)

// keepConsumed is how long expired tokens are stored, to allow for differences between the
// replicas' clocks.
const keepConsumed = time.Hour

// Consume marks a token as used by owner until it expires. It returns the token's user, which may
// be an earlier owner.
func (s *messageStore) Consume(ctx context.Context, id, owner string, until time.Time) (user string, first bool, err error) {
	done, err := s.db.ExecContext(ctx, `INSERT INTO consumed (id, owner, until) VALUES ($1, $2, $3) ON CONFLICT (id) DO NOTHING`, id, owner, until)
	if err != nil {
		return "", false, fmt.Errorf("store: token: %w", s.engine.explain(err))
	}
	if n, err := done.RowsAffected(); err != nil || n == 1 {
		return owner, n == 1, err
	}
	err = s.db.QueryRowContext(ctx, `SELECT owner FROM consumed WHERE id = $1`, id).Scan(&user)
	if errors.Is(err, sql.ErrNoRows) { // the token was released in the meantime; the caller can try again
		return "", false, fmt.Errorf("store: token: %w", ErrUnavailable)
	}
	return user, false, s.engine.explain(err)
}

// Release makes a token usable again.
func (s *messageStore) Release(ctx context.Context, id string) error {
	_, err := s.db.ExecContext(ctx, `DELETE FROM consumed WHERE id = $1`, id)
	return s.engine.explain(err)
}
