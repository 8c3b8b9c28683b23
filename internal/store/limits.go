package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// keepLimits is how long the state of an unused limit is kept. It is longer than any lease.
const keepLimits = 24 * time.Hour

// limitChunk is the number of limits that one transaction deletes.
const limitChunk = 1000

// keysPerQuery is the maximum number of limits that one query reads.
const keysPerQuery = 500

// LimitUsage returns the usage of limits by key. It takes no locks. Limits that were never used
// are missing from the result.
func (s *ledgerStore) LimitUsage(ctx context.Context, keys []string) (map[string]ledger.LimitUsage, error) {
	usage := make(map[string]ledger.LimitUsage, len(keys))
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(keys, keysPerQuery) {
		f := &filter{}
		names := make([]string, len(chunk))
		for i, key := range chunk {
			names[i] = f.arg(key)
		}
		err := query(ctx, s.reports, func(row scanner) error {
			var key string
			var state sql.NullString
			err := row.Scan(&key, &state)
			if err != nil || !state.Valid {
				return err
			}
			if usage[key], err = ledger.Usage([]byte(state.String), now); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		}, `SELECT key, state FROM paces WHERE key IN (`+strings.Join(names, ", ")+`)`, f.args...)
		if err != nil {
			return nil, s.engine.explain(err)
		}
	}
	return usage, nil
}
