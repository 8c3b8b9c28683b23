package record_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
	"github.com/toolyard/toolyard/internal/store"
	"github.com/toolyard/toolyard/internal/store/record"
)

func writeCall(id string) *toolyard.Call {
	tool := toolyard.Define(toolyard.Spec{Name: "save"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
	return &toolyard.Call{ID: id, Tool: tool, Start: time.Now()}
}

func TestIntentsOfConcurrentCallsShareATransaction(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := &books{refuses: func(c *store.CallRow) bool { return c.ID == "bad" }}
		w := record.New(b, record.Options{Intents: true})
		var wg sync.WaitGroup
		for i := range 64 {
			wg.Go(func() {
				if err := w.Intent(t.Context(), writeCall(fmt.Sprint(i))); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		stored := 0
		for _, batch := range b.intents {
			stored += len(batch)
		}
		if stored != 64 || len(b.intents) > 3 {
			t.Errorf("%d intents in %d transactions", stored, len(b.intents))
		}
		if code := b.intents[0][0].Call.Code; code != toolyard.OutcomeUnknown {
			t.Errorf("a lost call is recorded with code %s", code)
		}
		for _, id := range []string{"good", "bad", "fine"} { // a rejected intent does not fail the others
			wg.Go(func() {
				if err := w.Intent(t.Context(), writeCall(id)); (err != nil) != (id == "bad") {
					t.Errorf("%s: %v", id, err)
				}
			})
		}
		wg.Wait()
	})
}

func TestIntentFailsWithoutTheStore(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if err := record.New(&books{away: true}, record.Options{Intents: true}).Intent(t.Context(), writeCall("c")); !errors.Is(err, ledger.ErrUnavailable) {
			t.Error(err)
		}
		start := time.Now()
		if err := record.New(hang{}, record.Options{Intents: true}).Intent(t.Context(), writeCall("c")); err == nil {
			t.Error("the intent counts as stored")
		}
		if took := time.Since(start); took > 2*time.Second {
			t.Errorf("it took %s", took)
		}
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if err := record.New(hang{}, record.Options{Intents: true}).Intent(ctx, writeCall("c")); !errors.Is(err, context.Canceled) {
			t.Error(err)
		}
		time.Sleep(time.Minute) // wait for the transactions
	})
}

func TestOnlyWritesHaveIntents(t *testing.T) {
	read, keyed, paid := writeCall("read"), writeCall("keyed"), writeCall("paid")
	read.Tool = toolyard.Define(toolyard.Spec{Name: "look", Effects: toolyard.ReadOnly}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "", nil })
	keyed.IdempotencyKey = "k"                                                                     // recorded in the ledger
	paid.Surface, paid.Tool.Price = toolyard.Execute, toolyard.Price{Set: true, USD: toolyard.USD} // recorded in the ledger
	w := record.New(&books{away: true}, record.Options{Intents: true})
	for _, c := range []*toolyard.Call{read, keyed, paid} {
		if err := w.Intent(t.Context(), c); err != nil {
			t.Errorf("%s: %v", c.ID, err)
		}
	}
	if err := record.New(&books{away: true}, record.Options{}).Intent(t.Context(), writeCall("c")); err != nil {
		t.Error(err)
	}
}
