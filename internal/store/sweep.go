package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// stuckTime is the delay before a row that could not be expired is tried again.
const stuckTime = time.Minute

// stuckRows records expired rows that could not be processed, and when to retry them.
type stuckRows struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// current returns the rows to skip now.
func (s *stuckRows) current() map[string]bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	rows := make(map[string]bool, len(s.until))
	for row, until := range s.until {
		if rows[row] = true; !until.After(time.Now()) {
			delete(rows, row)
			delete(s.until, row)
		}
	}
	return rows
}

func (s *stuckRows) add(row string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = make(map[string]time.Time)
	}
	s.until[row] = time.Now().Add(stuckTime)
}

// Sweep expires about limit rows of each kind, and reports whether there may be more. A row that
// cannot be processed does not block the others. The error identifies the row, and it is retried
// after stuckTime.
func (s *ledgerStore) Sweep(ctx context.Context, limit int) (more bool, err error) {
	skip := s.stuck.current()
	list, err := s.engine.stale(ctx, limit+len(skip))
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(r ledger.Refs) bool { return skip[subject(&r)] })
	if len(list) == 0 {
		return false, nil
	}
	if err = s.expire(ctx, mergeRefs(list)); err != nil && !errors.Is(err, ErrUnavailable) && ctx.Err() == nil {
		err = s.expireEach(ctx, list)
	}
	return len(list) >= limit, err
}

// expireEach expires rows one by one.
func (s *ledgerStore) expireEach(ctx context.Context, list []ledger.Refs) error {
	var failed []error
	for _, r := range list {
		name := subject(&r) // must be called before the names are sorted
		err := s.expire(ctx, r)
		if errors.Is(err, ErrUnavailable) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			s.stuck.add(name)
			failed = append(failed, fmt.Errorf("%s: %w", name, err))
		}
	}
	return errors.Join(failed...)
}

func (s *ledgerStore) expire(ctx context.Context, refs ledger.Refs) error {
	return s.engine.exchange(ctx, refs, func(rows *ledger.Rows) error {
		ledger.Expire(rows)
		return nil
	})
}

func mergeRefs(list []ledger.Refs) (all ledger.Refs) {
	for _, r := range list {
		all.Balances, all.Holds, all.Runs = append(all.Balances, r.Balances...), append(all.Holds, r.Holds...), append(all.Runs, r.Runs...)
	}
	all.Sort()
	return all
}

// subject identifies the expired row that an entry refers to.
func subject(r *ledger.Refs) string {
	switch {
	case len(r.Holds) > 0:
		return "hold " + r.Holds[0]
	case len(r.Balances) > 0:
		return "session " + r.Balances[0]
	case len(r.Runs) > 0:
		return "key " + r.Runs[0].Scope + " " + r.Runs[0].Key
	}
	return ""
}
