package yard_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/yard"
)

// A call's record contains the as-of time only if the caller set it.
func TestAsOfTimeIsRecorded(t *testing.T) {
	s := newTestAPI(t, "store: sqlite:toolyard.db\ngates: {past: {mode: read, clock: caller, callers: keys}}\n", yard.Options{})
	past := time.Now().Add(-48 * time.Hour).UTC().Truncate(time.Second)
	args, ann := json.RawMessage(`{"name": "Ann"}`), toolyard.Caller{ID: "ann"}
	if _, err := s.yard.CallAsOf(t.Context(), past, "past", ann, "greet", args); err != nil {
		t.Fatal(err)
	}
	if _, err := s.yard.Call(t.Context(), "past", ann, "greet", args); err != nil {
		t.Fatal(err)
	}
	var rows []*store.CallRow
	for deadline := time.Now().Add(30 * time.Second); len(rows) < 2 && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		var err error
		if rows, err = s.store.Calls(t.Context(), store.CallQuery{Tool: "greet"}); err != nil {
			t.Fatal(err)
		}
	}
	if len(rows) != 2 || !rows[0].AsOf.IsZero() || !rows[1].AsOf.Equal(past) {
		t.Errorf("%+v", rows)
	}
}
