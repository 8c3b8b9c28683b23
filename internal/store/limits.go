package store

import (
	"context"
	"database/sql"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
)

// PaceState is how much of a limit is used.
type PaceState struct {
	Used    int       // permits of the last minute, those that are leased too
	Running int       // slots that are taken
	Next    time.Time // when the cooldown lets the next call begin; zero for now
}

// keysAtOnce is how many limits are read in one question.
const keysAtOnce = 500

// Paces are the states of limits, by their keys. It takes no locks. Limits that nobody has
// used yet are left out.
func (s *Store) Paces(ctx context.Context, keys []string) (map[string]PaceState, error) {
	states := make(map[string]PaceState, len(keys))
	now, err := s.engine.clock(ctx)
	if err != nil {
		return nil, err
	}
	for chunk := range slices.Chunk(keys, keysAtOnce) {
		f := &filter{}
		names := make([]string, len(chunk))
		for i, key := range chunk {
			names[i] = f.arg(key)
		}
		err := query(ctx, s.asked, func(row scanner) error {
			var key string
			var raw sql.NullString
			if err := row.Scan(&key, &raw); err != nil || !raw.Valid {
				return err
			}
			p, err := readPace([]byte(raw.String), toolyard.Limit{}, now)
			if err != nil {
				return fmt.Errorf("%s: %w", key, err)
			}
			states[key] = p.state()
			return nil
		}, `SELECT key, state FROM paces WHERE key IN (`+strings.Join(names, ", ")+`)`, f.args...)
		if err != nil {
			return nil, s.engine.explain(err)
		}
	}
	return states, nil
}

// state is how much of the limit is used. Whoever has the turn may begin a call at any time;
// the others can when it has ended.
func (p *pace) state() PaceState {
	s := PaceState{Used: p.granted(), Running: p.running()}
	switch {
	case p.Turn != nil:
		s.Next = p.Turn.Until.UTC()
	case p.Next.After(p.Last):
		s.Next = p.Next.UTC()
	}
	return s
}
