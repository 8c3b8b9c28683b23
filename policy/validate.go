package policy

import (
	"context"

	"github.com/toolyard/toolyard"
)

// Validate fills in defaults and checks the arguments against the tool's schema, so
// that a tool only ever runs with arguments that fit.
func Validate() toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			args, err := c.Tool.Validate(c.Args)
			if err != nil {
				return nil, err
			}
			c.Args = args
			return next(ctx, c)
		}
	}
}
