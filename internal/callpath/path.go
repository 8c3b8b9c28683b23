package callpath

import (
	"context"
	"log/slog"
	"slices"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
)

// Config configures the call path.
type Config struct {
	Now       func() time.Time
	Log       *slog.Logger
	Recorders []toolyard.Recorder

	MaxArgs, MaxResult int                                // in bytes; zero for no limit
	Timeout            time.Duration                      // per call; zero if there is none
	ToolTimeout        func(*toolyard.Tool) time.Duration // per tool; replaces Timeout if not nil

	Providers        func(kind string) toolyard.ContextProvider // returns nil for an unknown kind
	Policies         []toolyard.Policy                          // the embedding program's policies
	Governance       Governance
	Admitter         admission.Admitter
	AdmissionRequest func(*toolyard.Call) (*admission.Request, error)
}

// New returns the call path, which runs every call through its steps in order.
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

// Steps that mark when a call's tool starts and when it returns. The call is settled after stepRan.
const (
	stepRun = "run" // used by [toolyard.Call.Ran]
	stepRan = "ran"
)

// step is a policy and its name in a call's timeline.
type step struct {
	name   string
	policy toolyard.Policy // nil if the step is not used
}

// path wraps run in the steps. It marks each call when it reaches a step and when it returns from
// run.
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
