package callpath

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
)

// Admit lets a call run when it is admitted: when its limits have room, its price is there
// and its idempotency key is new. It settles the call when it has ended, and a success is
// told only once its charge is durable. Ask says what a call needs; a call for which it is nil
// needs nothing.
func Admit(now func() time.Time, a admission.Admitter, ask func(*toolyard.Call) (*admission.Request, error)) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			start := now()
			needs, err := ask(c)
			if err != nil {
				return nil, err
			}
			if needs == nil || needs.Empty() {
				return next(ctx, c)
			}
			t, err := a.Admit(ctx, needs)
			if err != nil {
				return nil, err
			}
			if t.Replay != nil {
				c.Receipt = &toolyard.Receipt{Call: needs.Call, ChargedTo: needs.Balance, Replayed: true}
				return t.Replay, nil
			}
			if needs.Durable() {
				ctx = context.WithoutCancel(ctx) // who leaves does not stop what was begun, and pays for it
			}
			o := outcomeOf(safely(ctx, c, next))
			o.Start, o.Elapsed = start, now().Sub(start)
			if c.Receipt, err = a.Settle(ctx, t, o); err != nil {
				return nil, err
			}
			if o.Err != nil {
				return nil, o.Err
			}
			return o.Result, nil
		}
	}
}
