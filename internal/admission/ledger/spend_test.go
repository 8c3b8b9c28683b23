package ledger

import (
	"fmt"
	"strings"
	"testing"
	"time"
)

// Calls have to wait if a spend limit has too many reservations, so that its row stays small.
func TestReservationsOfASpendLimitAreBounded(t *testing.T) {
	rows := NewRows()
	rows.Now = time.Date(2026, 11, 30, 23, 0, 0, 0, time.UTC)
	rows.Limits["k"] = &LimitRow{}
	admit := func(i int) *Refusal {
		id := fmt.Sprint("call", i)
		results, err := Apply(rows, &Batch{Replica: "r", Admits: []AdmitRequest{{
			Call: id, Run: RunKey{"call", id}, Timeout: time.Minute, Spend: []SpendLimit{{Key: "k", Name: "gate g", Max: 100, Period: Month}},
		}}})
		if err != nil {
			t.Fatal(err)
		}
		return results.Admits[0].Refused
	}
	for i := range maxSpendReservations {
		if refused := admit(i); refused != nil {
			t.Fatalf("call %d: %+v", i, refused)
		}
	}
	refused := admit(maxSpendReservations)
	if refused == nil || refused.RetryAfter == 0 || !strings.Contains(refused.Message, "resets at 2026-12-01 00:00 UTC") {
		t.Errorf("%+v", refused)
	}
	rows.Now = rows.Now.Add(time.Minute + Grace)
	if refused := admit(maxSpendReservations); refused != nil {
		t.Errorf("after the reservations expired: %+v", refused)
	}
}
