package store

import (
	"context"
	"fmt"
)

// RunUse is what is kept for the idempotency keys of a scope.
type RunUse struct {
	Keys  int
	Bytes int64 // of outcomes
}

// RunUse counts what is kept for the idempotency keys of a scope.
func (s *Store) RunUse(ctx context.Context, scope string) (use RunUse, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(length(outcome)), 0) FROM runs WHERE scope = $1`, scope).Scan(&use.Keys, &use.Bytes)
	if err != nil {
		return use, fmt.Errorf("store: idempotency keys: %w", s.engine.explain(err))
	}
	return use, nil
}
