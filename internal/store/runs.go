package store

import (
	"context"
	"fmt"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// KeyUsage returns the storage used by the idempotency keys in a scope.
func (s *ledgerStore) KeyUsage(ctx context.Context, scope string) (use ledger.KeyUsage, err error) {
	err = s.db.QueryRowContext(ctx, `SELECT count(*), coalesce(sum(length(outcome)), 0) FROM runs WHERE scope = $1`, scope).Scan(&use.Keys, &use.Bytes)
	if err != nil {
		return use, fmt.Errorf("store: idempotency keys: %w", s.engine.explain(err))
	}
	return use, nil
}
