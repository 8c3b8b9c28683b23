package callpath

import (
	"context"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
)

// Step is a policy with a name, for the record of what a call spent its time on.
type Step struct {
	name   string
	policy toolyard.Policy
}

// The steps at which the tool of a call starts to run and has returned. The call is settled
// after StepRan.
const (
	StepRun = "run" // [toolyard.Call.Ran] looks for it
	StepRan = "ran"
)

// At gives a policy its name.
func At(name string, p toolyard.Policy) Step { return Step{name, p} }

// Path is the call path: run behind all steps, the first of which acts first. Each call is
// marked when it comes to a step, and when it comes back from behind the last one.
func Path(now func() time.Time, run toolyard.Handler, steps ...Step) toolyard.Handler {
	for i, s := range slices.Backward(steps) {
		run = marked(now, s.name, i == len(steps)-1, s.policy(run))
	}
	return run
}

func marked(now func() time.Time, name string, last bool, next toolyard.Handler) toolyard.Handler {
	return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
		c.Mark(name, now())
		if !last {
			return next(ctx, c)
		}
		res, err := next(ctx, c)
		c.Mark(StepRan, now())
		return res, err
	}
}
