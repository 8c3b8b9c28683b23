package store

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/toolyard/toolyard"
)

func TestPeople(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
		list := func(q PersonQuery) (people []*Person) {
			t.Helper()
			people, err := s.People(ctx, q)
			if err != nil {
				t.Fatal(err)
			}
			return people
		}
		saw := func(p Person) {
			t.Helper()
			if err := s.SawPeople(ctx, []*Person{&p}); err != nil {
				t.Fatal(err)
			}
		}
		ann := Person{Caller: "corp:ann", Issuer: "corp", Subject: "ann", Name: "Ann", Email: "ann@example.com", Groups: []string{"staff"}, Seen: at}
		bob := Person{Caller: "old:bob", Issuer: "old", Subject: "bob", Seen: at.Add(time.Minute)}
		saw(ann)
		saw(bob)
		ann.First, bob.First = ann.Seen, bob.Seen
		if diff := cmp.Diff([]*Person{&bob, &ann}, list(PersonQuery{}), cmpopts.EquateEmpty()); diff != "" {
			t.Error(diff)
		}
		if got := list(PersonQuery{Part: "EXAMPLE", Issuer: "corp", State: "active"}); len(got) != 1 || got[0].Caller != "corp:ann" {
			t.Error(got)
		}
		if got := list(PersonQuery{Limit: 1, Before: Cursor{bob.Seen, bob.Caller}}); len(got) != 1 || got[0].Caller != "corp:ann" {
			t.Error(got)
		}

		// An unchanged person is not written again soon, but a changed one is. If a token has no
		// name, the previous name is kept.
		again := ann
		again.Name, again.Seen = "", at.Add(seenPrecision-time.Second)
		saw(again)
		if got := list(PersonQuery{Part: "corp:ann"})[0]; !got.Seen.Equal(at) {
			t.Error("written again: ", got)
		}
		again.Groups = []string{"staff", "new"}
		saw(again)
		if got := list(PersonQuery{Part: "corp:ann"})[0]; !got.Seen.Equal(again.Seen) || got.Name != "Ann" || len(got.Groups) != 2 || !got.First.Equal(at) {
			t.Error(got)
		}
		again.Seen, again.Groups = at, nil // from a slow replica
		saw(again)
		if got := list(PersonQuery{Part: "corp:ann"})[0]; len(got.Groups) != 2 {
			t.Error("an older sighting replaced a newer one: ", got)
		}
	})
}

func TestBlockPeople(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		ctx := t.Context()
		at := time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC)
		blocked := func() string {
			t.Helper()
			callers, err := s.BlockedCallers(ctx)
			if err != nil {
				t.Fatal(err)
			}
			return strings.Join(callers, " ")
		}
		first := Block{At: at, By: "olivia", Reason: "left"}
		for _, b := range []Block{first, {At: at.Add(time.Hour), By: "oscar"}} { // the second one changes nothing
			p, err := s.BlockPerson(ctx, "corp:a:b", b)
			if err != nil || p.Issuer != "corp" || p.Subject != "a:b" || !cmp.Equal(p.Block, first) {
				t.Error(p, err)
			}
		}
		if _, version, err := s.Document(ctx, PeopleDocument); err != nil || version != 2 {
			t.Error("replicas are not notified: ", version, err)
		}
		if err := s.SawPeople(ctx, []*Person{{Caller: "corp:a:b", Issuer: "corp", Subject: "a:b", Seen: at.Add(time.Hour)}}); err != nil || blocked() != "corp:a:b" {
			t.Error("being seen unblocks: ", blocked(), err)
		}
		if p, err := s.UnblockPerson(ctx, "corp:a:b"); err != nil || !p.Block.At.IsZero() || p.Block.By != "" || blocked() != "" {
			t.Error(p, err, blocked())
		}
		_, err := s.UnblockPerson(ctx, "corp:nobody")
		wantCode(t, err, toolyard.NotFound)
	})
}

func TestStoredGroupsAreBounded(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		var groups []string
		for i := range 1000 {
			groups = append(groups, fmt.Sprintf("group-%04d-%s", i, strings.Repeat("x", 30)))
		}
		if err := s.SawPeople(t.Context(), []*Person{{Caller: "corp:ann", Issuer: "corp", Groups: groups, Seen: time.Now()}}); err != nil {
			t.Fatal(err)
		}
		people, err := s.People(t.Context(), PersonQuery{})
		if err != nil || len(people[0].Groups) == 0 || len(people[0].Groups) >= len(groups) {
			t.Error(len(people[0].Groups), err)
		}
	})
}
