package callpath

import (
	"context"
	"encoding/json"
	"errors"
	"time"

	"github.com/toolyard/toolyard"
)

// Validate fills in defaults and checks the arguments against the tool's schema, so
// that a tool only ever runs with arguments that fit. It ends after the limit, or the tool's
// own timeout when that is shorter, and when the caller leaves. Zero is no limit.
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
