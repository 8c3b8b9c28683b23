package store

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Reading a stored result in pieces yields the whole result, but only for its caller and until it
// expires.
func TestResultsAreReadInPieces(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now, text := time.Now(), strings.Repeat("0123456789ä", 1000)
		if err := s.PutResult(t.Context(), "r", "acme", "ann", text, now, now.Add(time.Hour)); err != nil {
			t.Fatal(err)
		}
		var read strings.Builder
		for read.Len() < len(text) {
			piece, size, found, err := s.ReadResult(t.Context(), "r", "acme", "ann", read.Len(), 997, now)
			if err != nil || !found || size != len(text) || piece == "" {
				t.Fatalf("%d bytes of %d, found %v: %v", len(piece), size, found, err)
			}
			read.WriteString(piece)
		}
		if read.String() != text {
			t.Error("the pieces differ from the result")
		}
		for _, c := range []struct {
			id, account, caller string
			at                  time.Time
		}{{"r", "acme", "bob", now}, {"r", "other", "ann", now}, {"q", "acme", "ann", now}, {"r", "acme", "ann", now.Add(time.Hour + time.Second)}} {
			if _, _, found, err := s.ReadResult(t.Context(), c.id, c.account, c.caller, 0, 1, c.at); found || err != nil {
				t.Errorf("%+v: found %v, %v", c, found, err)
			}
		}
		if piece, _, found, err := s.ReadResult(t.Context(), "r", "acme", "ann", 1<<40, 10, now); err == nil && (piece != "" || !found) {
			t.Errorf("beyond the end: %q, found %v, %v", piece, found, err)
		}
	})
}

// The oldest results of a caller are deleted first; those of others stay.
func TestOldResultsAreDeleted(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		now, text := time.Now(), strings.Repeat("x", 20<<20)
		put := func(id, caller string, age time.Duration) {
			t.Helper()
			if err := s.PutResult(t.Context(), id, "acme", caller, text, now.Add(-age), now.Add(time.Hour-age)); err != nil {
				t.Fatal(err)
			}
		}
		put("bob", "bob", 50*time.Minute)
		for i := range 4 {
			put(fmt.Sprint(i), "ann", 40*time.Minute-time.Duration(i)*time.Minute)
		}
		put("old", "eve", 3*time.Hour)
		if err := s.Maintain(t.Context(), Retention{}); err != nil {
			t.Fatal(err)
		}
		for id, caller := range map[string]string{"bob": "bob", "0": "ann", "1": "ann", "3": "ann", "old": "eve"} {
			_, _, found, err := s.ReadResult(t.Context(), id, "acme", caller, 0, 1, now.Add(-4*time.Hour))
			if want := id != "0" && id != "old"; err != nil || found != want {
				t.Errorf("%s: found %v, want %v: %v", id, found, want, err)
			}
		}
	})
}
