package admissiontest

import (
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// TestLedger checks the guarantees of ledger.Ledger.
func TestLedger(t *testing.T, open func(*testing.T) ledger.Ledger) {
	for name, test := range map[string]func(*testing.T, ledger.Ledger){
		"funding once":          testFund,
		"funding by many":       testFundMany,
		"no more than there is": testOverdraw,
		"sessions":              testSession,
		"sessions that expire":  testExpire,
		"unknown balances":      testUnknown,
		"sessions of many":      testSessions,
	} {
		t.Run(name, func(t *testing.T) {
			l := open(t)
			test(t, l)
			if err := l.Audit(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}

func remaining(t *testing.T, l ledger.Ledger, balance string) toolyard.Money {
	t.Helper()
	p, err := l.Balance(t.Context(), balance)
	if err != nil {
		t.Fatal(err)
	}
	return p.Remaining
}

func testFund(t *testing.T, l ledger.Ledger) {
	for _, step := range []struct{ amount, reference, want string }{
		{"10", "a", "10"},
		{"10", "a", "10"}, // repeated because the reply was lost
		{"0.000000001", "b", "10.000000001"},
		{"-4", "c", "6.000000001"},
	} {
		if err := l.Fund(t.Context(), "acme", USD(step.amount), step.reference); err != nil {
			t.Fatal(err)
		}
		if got := remaining(t, l, "acme"); got != USD(step.want) {
			t.Errorf("after %s there is %s", step.amount, got)
		}
	}
}

func testFundMany(t *testing.T, l ledger.Ledger) {
	var wg sync.WaitGroup
	for i := range 50 {
		wg.Go(func() {
			if err := l.Fund(t.Context(), "many", USD("0.1"), fmt.Sprint(i)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := remaining(t, l, "many"); got != USD("5") {
		t.Errorf("there is %s", got)
	}
}

func testOverdraw(t *testing.T, l ledger.Ledger) {
	fund(t, l, "acme", "1")
	if err := l.Fund(t.Context(), "acme", USD("-1.000000001"), "out"); codeOf(err) != toolyard.BudgetExceeded {
		t.Error(err)
	}
	_, err := l.OpenSession(t.Context(), ledger.Session{ID: "s", Account: "acme", Limit: USD("1.000000001"), TTL: time.Hour})
	if codeOf(err) != toolyard.BudgetExceeded {
		t.Error(err)
	}
	_, err = l.OpenSession(t.Context(), ledger.Session{ID: "s", Account: "nobody", Limit: USD("1"), TTL: time.Hour})
	if codeOf(err) != toolyard.BudgetExceeded {
		t.Error(err)
	}
	if got := remaining(t, l, "acme"); got != USD("1") {
		t.Errorf("there is %s", got)
	}
}

func testSession(t *testing.T, l ledger.Ledger) {
	fund(t, l, "acme", "10")
	open := ledger.Session{ID: "s1", Account: "acme", Limit: USD("2.5"), Calls: 7, TTL: time.Hour}
	for range 2 { // the second time because the reply was lost
		p, err := l.OpenSession(t.Context(), open)
		if err != nil || p.State != ledger.StateOpen || p.Remaining != USD("2.5") || p.Limit != USD("2.5") || p.MaxCalls != 7 || p.Account != "acme" {
			t.Fatalf("%+v %v", p, err)
		}
	}
	open.Limit = USD("3")
	if _, err := l.OpenSession(t.Context(), open); codeOf(err) != toolyard.VersionConflict {
		t.Error(err)
	}
	if got := remaining(t, l, "acme"); got != USD("7.5") {
		t.Errorf("there is %s", got)
	}
	for range 2 {
		if p, err := l.CloseSession(t.Context(), "s1"); err != nil || p.State != ledger.StateClosed || p.Remaining != 0 || p.Spent != 0 {
			t.Fatalf("%+v %v", p, err)
		}
	}
	if got := remaining(t, l, "acme"); got != USD("10") {
		t.Errorf("there is %s", got)
	}
	if _, err := l.CloseSession(t.Context(), "acme"); codeOf(err) != toolyard.Invalid {
		t.Errorf("an account was closed: %v", err)
	}
}

func testExpire(t *testing.T, l ledger.Ledger) {
	fund(t, l, "acme", "1")
	open := ledger.Session{ID: "short", Account: "acme", Limit: USD("1"), TTL: 50 * time.Millisecond}
	if _, err := l.OpenSession(t.Context(), open); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond)
	if p, err := l.CloseSession(t.Context(), "short"); err != nil || p.State == ledger.StateOpen {
		t.Errorf("%+v %v", p, err)
	}
	if got := remaining(t, l, "acme"); got != USD("1") {
		t.Errorf("there is %s", got)
	}
}

func testUnknown(t *testing.T, l ledger.Ledger) {
	if _, err := l.Balance(t.Context(), "nobody"); codeOf(err) != toolyard.NotFound {
		t.Error(err)
	}
	if _, err := l.CloseSession(t.Context(), "nobody"); codeOf(err) != toolyard.NotFound {
		t.Error(err)
	}
}

func testSessions(t *testing.T, l ledger.Ledger) {
	fund(t, l, "acme", "1")
	var wg sync.WaitGroup
	for i := range 40 { // only 25 can succeed
		wg.Go(func() {
			s := ledger.Session{ID: fmt.Sprint("many-", i), Account: "acme", Limit: USD("0.04"), TTL: time.Hour}
			if _, err := l.OpenSession(t.Context(), s); err != nil && codeOf(err) != toolyard.BudgetExceeded {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := remaining(t, l, "acme"); got != 0 {
		t.Errorf("there is %s", got)
	}
}
