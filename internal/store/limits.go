package store

import (
	"context"
	"database/sql"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// keepLimits is how long an unused limit's state is stored. It is longer than any lease.
const keepLimits = 24 * time.Hour

// limitChunk is the number of limits deleted in one transaction.
const limitChunk = 1000

// keysPerQuery is the maximum number of limits read by one query.
const keysPerQuery = 500

// LimitUsage returns the usage of limits by key. It takes no locks. The result does not include
// limits that have never been used.
func (s *ledgerStore) LimitUsage(ctx context.Context, keys []string) (map[string]ledger.LimitUsage, error) {
	usage := make(map[string]ledger.LimitUsage, len(keys))
	err := s.limitStates(ctx, keys, func(key string, state json.RawMessage, now time.Time) (err error) {
		usage[key], err = ledger.Usage(state, now)
		return err
	})
	return usage, err
}

// SpendUsage returns the usage of spend limits by key, given their periods. It takes no locks. The
// result does not include limits that have never been used.
func (s *ledgerStore) SpendUsage(ctx context.Context, limits map[string]ledger.Period) (map[string]ledger.SpendUsage, error) {
	usage := make(map[string]ledger.SpendUsage, len(limits))
	err := s.limitStates(ctx, slices.Collect(maps.Keys(limits)), func(key string, state json.RawMessage, now time.Time) (err error) {
		usage[key], err = ledger.SpendUsed(state, limits[key], now)
		return err
	})
	return usage, err
}

// limitStates calls do with the state of each limit that has been used.
func (s *ledgerStore) limitStates(ctx context.Context, keys []string, do func(key string, state json.RawMessage, now time.Time) error) error {
	now, err := s.engine.clock(ctx)
	if err != nil {
		return err
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
			if err := row.Scan(&key, &state); err != nil || !state.Valid {
				return err
			}
			if err := do(key, json.RawMessage(state.String), now); err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			return nil
		}, `SELECT key, state FROM limits WHERE key IN (`+strings.Join(names, ", ")+`)`, f.args...)
		if err != nil {
			return s.engine.explain(err)
		}
	}
	return nil
}
