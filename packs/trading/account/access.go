package account

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
)

// Access is the view of an account that a gate's calls have.
type Access struct {
	*Account
	Gate        string
	CallerClock bool // whether the gate's callers set the time
	Simulated   bool // whether the callers of this or another gate set the time
}

// Of returns the account of a call's gate, or a NoData error.
func Of(c *toolyard.Call) (*Access, error) {
	a, ok := toolyard.Client[*Access](c)
	if !ok {
		return nil, toolyard.Errorf(toolyard.NoData, "Gate %s has no trading account. An operator can set gates.%s.packs.trading.account.", c.Gate, c.Gate)
	}
	return a, nil
}

// Time returns the time that a call refers to. At a gate where callers cannot set the time, a
// simulated account is shown at its own time.
func (a *Access) Time(ctx context.Context, c *toolyard.Call) (time.Time, error) {
	asOf := c.AsOf.UTC().Truncate(time.Microsecond)
	if !a.Simulated || a.CallerClock {
		return asOf, nil
	}
	last, err := a.LastTime(ctx)
	if last.IsZero() || last.After(asOf) {
		last = asOf
	}
	return last, err
}
