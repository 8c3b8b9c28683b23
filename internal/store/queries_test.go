package store

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
)

// A running query can be replaced until it ends. Its final outcome cannot be changed.
func TestQueryIsStoredWhileItRuns(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		save := func(outcome, account, body string, evidence map[string]string) {
			t.Helper()
			row := &QueryRow{ID: "q", Agent: "librarian", Account: account, Caller: "ann", At: time.Now(), Outcome: outcome, Model: toolyard.Money(len(body)), Body: json.RawMessage(body), Evidence: evidence}
			if err := s.SaveQuery(t.Context(), row); err != nil {
				t.Fatal(err)
			}
		}
		check := func(outcome, body string) {
			t.Helper()
			row, err := s.Query(t.Context(), "acme", "q")
			if err != nil || row.Outcome != outcome || string(row.Body) != body || row.Model != toolyard.Money(len(body)) {
				t.Errorf("%+v, %v; want %s %s", row, err, outcome, body)
			}
		}
		save(QueryRunning, "acme", `{"n":1}`, nil)
		check(QueryRunning, `{"n":1}`)
		save(QueryRunning, "acme", `{"n":20}`, nil)
		check(QueryRunning, `{"n":20}`)
		if list, err := s.Queries(t.Context(), QueryFilter{Outcome: QueryRunning}); err != nil || len(list) != 1 {
			t.Error(list, err)
		}
		save("answer", "other", `{"n":3}`, nil)
		check(QueryRunning, `{"n":20}`)
		save("answer", "acme", `{"n":300}`, map[string]string{"e1": "whole"})
		save(QueryRunning, "acme", `{"n":4}`, nil)
		check("answer", `{"n":300}`)
		if text, err := s.Evidence(t.Context(), "acme", "q", "e1"); err != nil || text != "whole" {
			t.Error(text, err)
		}
	})
}
