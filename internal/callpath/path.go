package callpath

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
)

// Config holds what the call path needs from the yard.
type Config struct {
	Now       func() time.Time
	Log       *slog.Logger
	Recorders []toolyard.Recorder

	MaxArgs, MaxResult int                                // in bytes; zero for no limit
	Timeout            time.Duration                      // of a call; zero for none
	ToolTimeout        func(*toolyard.Tool) time.Duration // of a call of a tool, instead of Timeout; nil for none

	Providers        func(kind string) toolyard.ContextProvider // returns nil for an unknown kind
	Policies         []toolyard.Policy                          // of the program that embeds the yard
	Governance       Governance
	Admitter         admission.Admitter
	AdmissionRequest func(*toolyard.Call) (*admission.Request, error)
}

// New returns the call path: every call goes through these steps in this order.
func New(c Config) toolyard.Handler { return path(c.Now, Run, c.steps()) }

func (c *Config) steps() []step {
	return []step{
		{"record", Record(c.Now, c.Recorders...)},
		{"recover", Recover()},
		{"limit-args", Cap(c.MaxArgs, 0)},
		{"inject", Inject(c.Log, c.Providers)},
		{"validate", Validate(c.Timeout)},
		{"policies", Custom(c.Policies, Validate(c.Timeout))},
		{"rules", Rules(c.Now, c.Governance)},
		{"admit", Admit(c.Now, c.Admitter, c.AdmissionRequest)},
		{"limit-result", Cap(0, c.MaxResult)}, // inside admit: a result that cannot be truncated fails and is not charged
		{"intend", Intend(c.Recorders...)},
		{stepRun, c.deadline()},
	}
}

func (c *Config) deadline() toolyard.Policy {
	if c.ToolTimeout == nil {
		return Deadline(c.Timeout)
	}
	return deadline(c.ToolTimeout)
}

// The steps at which the tool of a call starts to run and has returned. The call is settled
// after stepRan.
const (
	stepRun = "run" // [toolyard.Call.Ran] looks for it
	stepRan = "ran"
)

// step is a policy with the name that the timeline of a call shows.
type step struct {
	name   string
	policy toolyard.Policy // nil for a step that is not in use
}

// path puts the steps in front of run and marks each call when it reaches a step, and when it
// returns from run.
func path(now func() time.Time, run toolyard.Handler, steps []step) toolyard.Handler {
	for i, s := range slices.Backward(steps) {
		if s.policy != nil {
			run = marked(now, s.name, i == len(steps)-1, s.policy(run))
		}
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
		c.Mark(stepRan, now())
		return res, err
	}
}
