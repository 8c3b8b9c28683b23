package callpath

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
)

// Admit runs a call once it is admitted: its limits allow it, its price is reserved and its
// idempotency key is new. It settles the call afterwards, and returns a successful result only
// after the charge is durable. newRequest returns a call's admission request, or nil if the call
// needs no admission.
func Admit(now func() time.Time, a admission.Admitter, newRequest func(*toolyard.Call) (*admission.Request, error)) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			start := now()
			request, err := newRequest(c)
			if err != nil {
				return nil, err
			}
			if request != nil {
				request.Approval = approvalID(ctx, c)
			}
			if request == nil || request.Empty() {
				return next(ctx, c)
			}
			t, err := a.Admit(ctx, request)
			if err != nil {
				return nil, err
			}
			if t.Replay != nil {
				c.Receipt = &toolyard.Receipt{Call: request.CallID, ChargedTo: request.Balance, Replayed: true}
				return t.Replay, nil
			}
			if request.Durable() {
				ctx = context.WithoutCancel(ctx) // the call continues and is charged if the client disconnects
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
