package admission

import (
	"context"
	"strings"
	"testing"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// full is a store in which one caller has reached a limit.
type full struct {
	Store
	scope string
	use   ledger.KeyUsage
}

func (f *full) KeyUsage(ctx context.Context, scope string) (ledger.KeyUsage, error) {
	if scope == f.scope {
		return f.use, nil
	}
	return f.Store.KeyUsage(ctx, scope)
}

// A result that is too large, or one too many, is not stored under its idempotency key. A repeated
// call gets an error that says that the call has run, and does not run again.
func TestLargeResultsAreNotKept(t *testing.T) {
	for name, test := range map[string]struct {
		size int
		use  ledger.KeyUsage
		kept bool
	}{
		"small":          {size: 1000, kept: true},
		"large":          {size: maxOutcome},
		"one of so many": {size: 1000, use: ledger.KeyUsage{Bytes: maxOutcomeBytes - 500}},
	} {
		t.Run(name, func(t *testing.T) {
			onDesk(t, func(t *testing.T, d *Controller, _ *flaky) {
				d.store = &full{d.store, "acme/ann", test.use}
				ticket, err := d.Admit(t.Context(), sameKey("acme/ann", "key"))
				if err != nil {
					t.Fatal(err)
				}
				result := &toolyard.Result{Content: []toolyard.Content{toolyard.Text(strings.Repeat("x", test.size))}}
				if _, err := d.Settle(t.Context(), ticket, toolyard.Outcome{Result: result}); err != nil {
					t.Fatal(err)
				}
				again, err := d.Admit(t.Context(), sameKey("acme/ann", "key"))
				if err != nil || again.Replay == nil {
					t.Fatalf("it runs again: %+v %v", again, err)
				}
				raw := string(again.Replay.Raw())
				if strings.Contains(raw, "xxx") != test.kept || strings.Contains(raw, "RESULT_SIZE_LIMIT") == test.kept {
					t.Errorf("%.300s", raw)
				}
			})
		})
	}
}

// sameKey returns a call with an idempotency key.
func sameKey(scope, key string) *Request {
	a := toServer("ann", 1, 0)
	a.Scope, a.Key = scope, key
	return a
}

// The number of a caller's idempotency keys is limited, independently of other callers.
func TestKeysOfACallerAreBounded(t *testing.T) {
	onDesk(t, func(t *testing.T, d *Controller, _ *flaky) {
		d.store = &full{d.store, "acme/ann", ledger.KeyUsage{Keys: maxKeys - 1}}
		call := func(scope, key string) *toolyard.Error {
			return d.make(t, sameKey(scope, key), 0)
		}
		if err := call("acme/ann", "last"); err != nil {
			t.Error(err)
		}
		if err := call("acme/ann", "one more"); err == nil || err.Code != toolyard.RateLimited {
			t.Error(err)
		}
		if again, err := d.Admit(t.Context(), sameKey("acme/ann", "last")); err != nil || again.Replay == nil {
			t.Errorf("a key that is there cannot be sent again: %v", err)
		}
		if err := call("acme/bob", "first"); err != nil {
			t.Error(err)
		}
	})
}
