package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"
)

// stuckTime is how long a row is left alone that could not be ended.
const stuckTime = time.Minute

// stuck are expired rows that cannot be ended, and when they are tried again.
type stuck struct {
	mu    sync.Mutex
	until map[string]time.Time
}

// now are the rows that are left alone now.
func (s *stuck) now() map[string]bool {
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

func (s *stuck) add(row string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.until == nil {
		s.until = make(map[string]time.Time)
	}
	s.until[row] = time.Now().Add(stuckTime)
}

// Sweep ends what has expired, about limit rows of each kind, and reports whether there may be
// more. A row that cannot be ended does not keep others from being ended: the error names it,
// and it is tried again after a while.
func (s *Store) Sweep(ctx context.Context, limit int) (more bool, err error) {
	skip := s.stuck.now()
	list, err := s.engine.stale(ctx, limit+len(skip))
	if err != nil {
		return false, err
	}
	list = slices.DeleteFunc(list, func(r refs) bool { return skip[r.subject()] })
	if len(list) == 0 {
		return false, nil
	}
	if err = s.expire(ctx, merge(list)); err != nil && !errors.Is(err, ErrAway) && ctx.Err() == nil {
		err = s.expireEach(ctx, list)
	}
	return len(list) >= limit, err
}

// expireEach ends rows one by one.
func (s *Store) expireEach(ctx context.Context, list []refs) error {
	var failed []error
	for _, r := range list {
		subject := r.subject() // before the names are sorted
		err := s.expire(ctx, r)
		if errors.Is(err, ErrAway) || ctx.Err() != nil {
			return err
		}
		if err != nil {
			s.stuck.add(subject)
			failed = append(failed, fmt.Errorf("%s: %w", subject, err))
		}
	}
	return errors.Join(failed...)
}

func (s *Store) expire(ctx context.Context, r refs) error {
	return s.engine.exchange(ctx, r, func(r *rows) error {
		(&books{rows: r}).expire()
		return nil
	})
}
