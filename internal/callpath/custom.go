package callpath

import (
	"bytes"
	"context"
	"encoding/json"

	"github.com/toolyard/toolyard"
)

// Custom runs the embedding program's policies. Arguments that a policy
// replaces are validated again. It returns nil if there are no policies.
func Custom(policies []toolyard.Policy, validate toolyard.Policy) toolyard.Policy {
	if len(policies) == 0 {
		return nil
	}
	return func(next toolyard.Handler) toolyard.Handler {
		revalidated := validate(next)
		run := Chain(func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			if args, _ := ctx.Value(validArgs{}).(json.RawMessage); bytes.Equal(args, c.Args) {
				return next(ctx, c)
			}
			return revalidated(ctx, c)
		}, policies...)
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			return run(context.WithValue(ctx, validArgs{}, c.Args), c)
		}
	}
}

// validArgs is the context key for the arguments that were validated before the policies ran.
type validArgs struct{}
