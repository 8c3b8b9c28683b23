package callpath

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
)

// Validate sets defaults and validates the arguments against the input schema. Validation ends
// after the limit, or after the tool's timeout if that is shorter. Zero means no limit.
func Validate(limit time.Duration) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			args, err := validate(ctx, c, stricter(limit, c.Tool.Timeout))
			if err != nil {
				return nil, err
			}
			c.Args = args
			return next(ctx, c)
		}
	}
}

func validate(ctx context.Context, c *toolyard.Call, timeout time.Duration) (json.RawMessage, error) {
	if timeout <= 0 {
		return c.Tool.Validate(ctx, c.Args)
	}
	timed, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	args, err := c.Tool.Validate(timed, c.Args)
	if errors.Is(err, context.DeadlineExceeded) && ctx.Err() == nil {
		return nil, tookTooLong(c, timeout)
	}
	return args, err
}
