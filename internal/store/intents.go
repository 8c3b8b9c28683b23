package store

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// lostCalls is the number of intents processed in one transaction.
const lostCalls = 500

// AppendIntents stores the intents of write calls, either all or none. An intent is deleted when
// its call is recorded.
func (s *callStore) AppendIntents(ctx context.Context, intents []*ledger.Intent) error {
	return s.engine.append(ctx, &ledger.Rows{Intents: intents})
}

// recordLostCalls records the calls of expired intents. Their replica stopped before it recorded
// the outcome.
func (s *callStore) recordLostCalls(ctx context.Context) error {
	now, err := s.engine.clock(ctx)
	for n := lostCalls; err == nil && n == lostCalls; {
		var calls []*CallRow
		err = query(ctx, s.reports, func(row scanner) error {
			var id, raw string
			if err := row.Scan(&id, &raw); err != nil {
				return err
			}
			call := &CallRow{Intended: true}
			if err := json.Unmarshal([]byte(raw), call); err != nil {
				return fmt.Errorf("intent %s: %w", id, err)
			}
			calls = append(calls, call)
			return nil
		}, `SELECT id, call FROM intents WHERE until <= $1 ORDER BY until LIMIT $2`, now, lostCalls)
		if n = len(calls); err == nil {
			err = s.AppendCalls(ctx, calls)
		}
	}
	return s.engine.explain(err)
}
