package callpath

import (
	"context"
	"slices"

	"github.com/toolyard/toolyard"
)

// Chain puts policies in front of run; the first policy runs first.
func Chain(run toolyard.Handler, policies ...toolyard.Policy) toolyard.Handler {
	for _, p := range slices.Backward(policies) {
		run = p(run)
	}
	return run
}

// Run is the end of the call path: it runs the tool and checks its output.
func Run(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) { return c.Tool.Run(ctx, c) }
