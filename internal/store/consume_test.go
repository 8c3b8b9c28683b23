package store

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

// If many replicas use a token concurrently, exactly one succeeds.
func TestATokenIsConsumedOnce(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx, until := t.Context(), time.Now().Add(time.Minute)
		var firsts atomic.Int64
		var wg sync.WaitGroup
		for i := range 8 {
			wg.Go(func() {
				owner := string(rune('a' + i))
				user, first, err := s.Consume(ctx, "token", owner, until)
				if err != nil || first != (user == owner) {
					t.Errorf("%s: used by %s, first %v: %v", owner, user, first, err)
				}
				if first {
					firsts.Add(1)
				}
			})
		}
		wg.Wait()
		if firsts.Load() != 1 {
			t.Errorf("%d were the first", firsts.Load())
		}
		if err := s.Release(ctx, "token"); err != nil {
			t.Error(err)
		}
		if user, first, err := s.Consume(ctx, "token", "z", until); err != nil || !first || user != "z" {
			t.Errorf("after its release it is used by %s, first %v: %v", user, first, err)
		}
	})
}

// Expired tokens are deleted, others are not.
func TestExpiredTokensAreDeleted(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		for id, until := range map[string]time.Time{"old": time.Now().Add(-2 * time.Hour), "new": time.Now().Add(time.Minute)} {
			if _, _, err := s.Consume(t.Context(), id, "a", until); err != nil {
				t.Fatal(err)
			}
		}
		if err := s.Maintain(t.Context(), Retention{}); err != nil {
			t.Fatal(err)
		}
		var left string
		if err := s.db.QueryRowContext(t.Context(), `SELECT id FROM consumed`).Scan(&left); err != nil || left != "new" {
			t.Errorf("%q is left: %v", left, err)
		}
	})
}
