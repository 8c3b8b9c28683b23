package store

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/trust/identity"
	"github.com/toolyard/toolyard/internal/trust/serverauth"
)

// leftOf returns the tables that contain a text.
func leftOf(t *testing.T, s *Store, text string) (tables []string) {
	t.Helper()
	for table, rows := range linesOf(t, backUp(t, s)) {
		for _, row := range rows {
			if strings.Contains(row, text) {
				tables = append(tables, strings.Split(table, `"`)[3]+": "+row)
			}
		}
	}
	slices.Sort(tables)
	return tables
}

// addCaller stores every kind of data about a caller.
func addCaller(t *testing.T, s *Store, caller string, now time.Time) {
	t.Helper()
	ctx := t.Context()
	call := &CallRow{ID: "call-" + caller[5:6], At: now, Gate: "g", Mode: toolyard.Read, Caller: caller, Account: caller, Tool: "t", Code: "OK", Price: 4, Args: []byte(`{"of":"` + caller + `"}`), Message: "reported to " + caller}
	run := ledger.RunKey{Scope: ledger.CallerKey(caller, caller), Key: "key"}
	steps := []func() error{
		func() error {
			return s.SawPeople(ctx, []*Person{{Caller: caller, Issuer: "corp", Subject: caller[5:], Name: "Name of " + caller, Email: caller[5:] + "@example.com", Seen: now}})
		},
		func() error { return s.Fund(ctx, caller, 20, "first") },
		func() error {
			return s.SetLink(ctx, toolyard.Caller{ID: caller, Account: caller}, "wallet", "address of "+caller)
		},
		func() error {
			return s.SaveQuery(ctx, &QueryRow{ID: "query-" + caller[5:6], At: now, Agent: "a", Account: caller, Caller: caller, Outcome: "ok", Body: []byte(`{"question":"of ` + caller + `"}`), Evidence: map[string]string{"e1": "seen by " + caller}})
		},
		func() error {
			return s.PutResult(ctx, "result-"+caller[5:6], caller, caller, "result of "+caller, now, now.Add(time.Hour))
		},
		func() error {
			return s.PutKey(ctx, identity.Key{Prefix: "key" + caller[5:6], Hash: [32]byte{1}, Name: "of " + caller, Caller: caller, Account: caller, Created: now})
		},
		func() error {
			_, err := s.PutConnection(ctx, &serverauth.Connection{Owner: serverauth.Owner{Account: caller, Caller: caller}, Server: "crm", State: serverauth.Active, Sealed: "sealed for " + caller, Version: 1, Created: now, Changed: now}, 0, "")
			return err
		},
		func() error {
			_, err := s.Exchange(ctx, &ledger.Batch{Replica: "r", Admits: []ledger.AdmitRequest{{Call: call.ID, Run: run, Balance: caller, Account: caller, Price: 4, Timeout: time.Hour}}})
			return err
		},
		func() error {
			_, err := s.Exchange(ctx, &ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{{Call: call.ID, Run: &run, Hold: call.ID, Balance: caller, Amount: 4, Calls: 1, EndHold: true, Outcome: []byte(`"for ` + caller + `"`), Row: call}}})
			return err
		},
		func() error { return s.Maintain(ctx, Retention{}) },
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
}

func TestDeleteCaller(t *testing.T) {
	for name, address := range backupEngines {
		t.Run(name, func(t *testing.T) {
			s := openAt(t, address(t))
			ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
			const ann, bob = "corp:ann-7", "corp:bob-8"
			addCaller(t, s, ann, now)
			addCaller(t, s, bob, now)
			before := leftOf(t, s, "bob-8")
			d, err := s.DeleteCaller(ctx, "", ann)
			if err != nil {
				t.Fatal(err)
			}
			if left := leftOf(t, s, "ann-7"); len(left) > 0 {
				t.Errorf("this is left:\n%s", strings.Join(left, "\n"))
			}
			if diff := cmp.Diff(before, leftOf(t, s, "bob-8")); diff != "" {
				t.Error("another caller lost data:", diff)
			}
			if err := s.Audit(ctx); err != nil {
				t.Error(err)
			}
			if b, err := s.Balance(ctx, d.Pseudonym); err != nil || b.Remaining != 16 || b.Spent != 4 {
				t.Error(b, err)
			}
			calls, err := s.Calls(ctx, CallQuery{Caller: d.Pseudonym})
			if err != nil || len(calls) != 1 || calls[0].Price != 4 || calls[0].Args != nil || calls[0].Message != "" || calls[0].Account != d.Pseudonym {
				t.Errorf("%+v, %v", calls, err)
			}
			want := map[string]int64{"connections": 1, "evidence": 1, "keys": 1, "links": 1, "people": 1, "queries": 1, "results": 1, "runs": 1}
			if diff := cmp.Diff(want, d.Deleted); diff != "" {
				t.Error(diff)
			}
			if _, err := s.DeleteCaller(ctx, "", ann); toolyard.AsError(err).Code != toolyard.NotFound {
				t.Error("again:", err)
			}
		})
	}
}

// A block stays in effect, an account that others use keeps its name, and callers with the same
// name in other accounts are not affected.
func TestDeleteCallerKeepsWhatOthersNeed(t *testing.T) {
	s := openAt(t, engines["sqlite"](t))
	ctx, now := t.Context(), time.Now().UTC().Truncate(time.Microsecond)
	const ann = "corp:ann-7"
	addCaller(t, s, ann, now)
	if _, err := s.BlockPerson(ctx, ann, Block{At: now, By: "op", Reason: "left"}); err != nil {
		t.Fatal(err)
	}
	other := &CallRow{ID: "other", At: now, Gate: "g", Mode: toolyard.Read, Caller: "x", Account: ann, Tool: "t", Code: "OK"}
	same := &CallRow{ID: "same", At: now, Gate: "g", Mode: toolyard.Read, Caller: ann, Account: "acme", Tool: "t", Code: "OK", Args: []byte("{}")}
	if err := s.AppendCalls(ctx, []*CallRow{other, same}); err != nil {
		t.Fatal(err)
	}
	d, err := s.DeleteCaller(ctx, ann, ann)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Balance(ctx, ann); err != nil {
		t.Error("the shared account lost its name:", err)
	}
	if calls, err := s.Calls(ctx, CallQuery{Caller: ann}); err != nil || len(calls) != 1 || calls[0].ID != "same" || calls[0].Args == nil {
		t.Errorf("the caller of the other account: %+v, %v", calls, err)
	}
	blocked, err := s.BlockedCallers(ctx)
	if people, _ := s.People(ctx, PersonQuery{}); err != nil || len(blocked) != 1 || len(people) != 1 || people[0].Name != "" || people[0].Email != "" || d.Kept["people"] != 1 {
		t.Error(blocked, people, err)
	}
}

// While a replica holds money from the caller's account, nothing is deleted.
func TestDeleteCallerWaitsForHolds(t *testing.T) {
	s := openAt(t, engines["sqlite"](t))
	const ann = "corp:ann-7"
	addCaller(t, s, ann, time.Now().UTC())
	if _, err := s.Exchange(t.Context(), &ledger.Batch{Replica: "r", Holds: []ledger.HoldRequest{{Hold: "h", Serial: 1, Balance: ann, Account: ann, Want: 5, Min: 1, TTL: time.Hour}}}); err != nil {
		t.Fatal(err)
	}
	before := leftOf(t, s, "ann-7")
	if _, err := s.DeleteCaller(t.Context(), "", ann); toolyard.AsError(err).Code != toolyard.Unavailable {
		t.Error(err)
	}
	if diff := cmp.Diff(before, leftOf(t, s, "ann-7")); diff != "" {
		t.Error(diff)
	}
}
