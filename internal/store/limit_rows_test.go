package store

import (
	"fmt"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// Limits that are not in use are deleted, so that limits per caller do not fill the store. A limit
// that still restricts calls is not deleted.
func TestIdleLimitsAreDeleted(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		at := func(ago time.Duration) string { return time.Now().Add(-ago).UTC().Format(time.RFC3339Nano) }
		const old = 25 * time.Hour
		for key, state := range map[string]string{
			"idle":     fmt.Sprintf(`{"counts":[{"s":1,"n":1}],"last":%q}`, at(old)),
			"expired":  fmt.Sprintf(`{"next":%q,"last":%q}`, at(old-time.Minute), at(old)),
			"recent":   fmt.Sprintf(`{"last":%q}`, at(23*time.Hour)),
			"cooldown": fmt.Sprintf(`{"next":%q,"last":%q}`, at(-time.Hour), at(old)),
			"turn":     fmt.Sprintf(`{"turn":{"replica":"r","slot":1,"until":%q},"last":%q}`, at(old), at(old)),
		} {
			if _, err := s.db.ExecContext(t.Context(), `INSERT INTO limits (key, state) VALUES ($1, $2)`, key, state); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := s.db.ExecContext(t.Context(), `INSERT INTO limits (key) VALUES ('new')`); err != nil {
			t.Fatal(err)
		}
		if err := s.Maintain(t.Context(), Retention{}); err != nil {
			t.Fatal(err)
		}
		var left []string
		err := query(t.Context(), s.db, func(row scanner) error {
			var key string
			err := row.Scan(&key)
			left = append(left, key)
			return err
		}, `SELECT key FROM limits ORDER BY key`)
		if diff := cmp.Diff([]string{"cooldown", "new", "recent", "turn"}, left); diff != "" || err != nil {
			t.Error(err, diff)
		}
	})
}
