package store

import (
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard"
)

func TestVersions(t *testing.T) {
	onAddresses(t, func(t *testing.T, address string) {
		s, ctx := openAt(t, address), t.Context()
		if list, err := s.Versions(ctx, "a", 10); len(list) != 0 || err != nil {
			t.Fatal(list, err)
		}
		next, err := s.SetDocumentAs(ctx, "a", nil, 0, "alice", "first\x00")
		if next != 1 || err != nil {
			t.Fatal(next, err)
		}
		if next, err = s.SetDocument(ctx, "a", []byte("two"), 1); next != 2 || err != nil {
			t.Fatal(next, err)
		}
		if next, err = s.SetDocumentAs(ctx, "a", []byte("three"), 2, "bob", ""); next != 3 || err != nil {
			t.Fatal(next, err)
		}
		_, err = s.SetDocumentAs(ctx, "a", []byte("late"), 2, "carol", "")
		wantCode(t, err, toolyard.VersionConflict)
		_, err = s.SetDocumentAs(ctx, "a", nil, 3, "carol", strings.Repeat("x", maxNote+1))
		wantCode(t, err, toolyard.Invalid)
		want := []VersionRow{{Version: 3, By: "bob"}, {Version: 1, By: "alice", Note: "first\uFFFD"}}
		list, err := s.Versions(ctx, "a", 0)
		if diff := cmp.Diff(want, list, cmpopts.IgnoreFields(VersionRow{}, "At")); diff != "" || err != nil {
			t.Error(err, diff)
		}
		if list, err := s.Versions(ctx, "a", 1); len(list) != 1 || err != nil {
			t.Error(list, err)
		}
		row, body, err := s.VersionOf(ctx, "a", 3)
		if row != list[0] || string(body) != "three" || err != nil || time.Since(row.At).Abs() > time.Minute {
			t.Error(row, string(body), err)
		}
		for _, version := range []int64{0, 2, 4} {
			_, _, err := s.VersionOf(ctx, "a", version)
			wantCode(t, err, toolyard.NotFound)
		}
	})
}

func TestTheOldestVersionsAreForgotten(t *testing.T) {
	onAddresses(t, func(t *testing.T, address string) {
		s, ctx := openAt(t, address), t.Context()
		for i := range int64(MaxVersions + 3) {
			for _, name := range []string{"a", "b"} {
				if name == "b" && i > 2 {
					continue
				}
				if _, err := s.SetDocumentAs(ctx, name, []byte(fmt.Sprint(i)), i, "alice", ""); err != nil {
					t.Fatal(err)
				}
			}
		}
		list, err := s.Versions(ctx, "a", 1<<30)
		if err != nil || len(list) != MaxVersions || list[0].Version != MaxVersions+3 || list[MaxVersions-1].Version != 4 {
			t.Error(len(list), err)
		}
		if list, err := s.Versions(ctx, "b", 0); len(list) != 3 || err != nil {
			t.Error(list, err)
		}
	})
}

// If several writers replace the same version, one succeeds, and only its version is stored.
func TestVersionsAreKeptOnce(t *testing.T) {
	onAddresses(t, func(t *testing.T, address string) {
		s := openAt(t, address)
		var all sync.WaitGroup
		var won atomic.Int64
		for i := range 8 {
			all.Go(func() {
				by := fmt.Sprint(i)
				if _, err := s.SetDocumentAs(t.Context(), "a", []byte(by), 0, by, ""); err == nil {
					won.Add(1)
				} else {
					wantCode(t, err, toolyard.VersionConflict)
				}
			})
		}
		all.Wait()
		body, _, err := s.Document(t.Context(), "a")
		row, kept, failed := s.VersionOf(t.Context(), "a", 1)
		if won.Load() != 1 || err != nil || failed != nil || string(body) != string(kept) || row.By != string(kept) {
			t.Error(won.Load(), row, string(body), string(kept), err, failed)
		}
	})
}
