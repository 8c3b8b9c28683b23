package policy

import (
	"context"

	"github.com/toolyard/toolyard"
)

// Admit lets a call run when it is admitted: when its limits have room, its price is there
// and its idempotency key is new. It settles the call when it has ended, and a success is
// told only once its charge is durable. Ask says what a call needs; a call for which it is nil
// needs nothing.
func Admit(a toolyard.Admitter, ask func(*toolyard.Call) (*toolyard.Ask, error)) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
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
				c.Receipt = &toolyard.Receipt{Call: needs.Call, Purse: needs.Purse, Replayed: true}
				return t.Replay, nil
			}
			return settle(ctx, c, a, t, next)
		}
	}
}

// settle runs an admitted call and settles it, however it ends.
func settle(ctx context.Context, c *toolyard.Call, a toolyard.Admitter, t *toolyard.Ticket, next toolyard.Handler) (*toolyard.Result, error) {
	res, err := safely(ctx, c, next)
	o := toolyard.Outcome{Result: res}
	if err != nil {
		o = toolyard.Outcome{Err: toolyard.AsError(err)}
	}
	receipt, unsettled := a.Settle(ctx, t, o)
	if unsettled != nil {
		return nil, unsettled
	}
	c.Receipt = receipt
	return res, err
}
