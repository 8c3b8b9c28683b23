package callpath

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/base/stack"
)

// Deadline ends a call after the limit, or after the tool's timeout if that is shorter. It cancels
// the tool's context. If the tool ignores that, the caller still receives the error, and the tool
// continues in the background.
func Deadline(limit time.Duration) toolyard.Policy {
	return deadline(func(*toolyard.Tool) time.Duration { return limit })
}

// deadline is like Deadline, but with a separate limit for each tool.
func deadline(limit func(*toolyard.Tool) time.Duration) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			timeout := stricter(limit(c.Tool), c.Tool.Timeout)
			if timeout <= 0 {
				return next(ctx, c)
			}
			ctx, cancel := context.WithTimeout(ctx, timeout)
			defer cancel()
			return await(ctx, c, timeout, next)
		}
	}
}

type outcome struct {
	res *toolyard.Result
	err error
}

// await runs next in another goroutine, so that the caller can return when ctx ends.
func await(ctx context.Context, c *toolyard.Call, timeout time.Duration, next toolyard.Handler) (*toolyard.Result, error) {
	done := make(chan outcome, 1)
	go func() {
		stack.Reserve()
		res, err := safely(ctx, c, next)
		done <- outcome{res, err}
	}()
	select {
	case o := <-done:
		return o.res, o.err
	case <-ctx.Done():
	}
	if ctx.Err() == context.DeadlineExceeded {
		return nil, tookTooLong(c, timeout)
	}
	return nil, ctx.Err()
}

func tookTooLong(c *toolyard.Call, timeout time.Duration) error {
	return toolyard.Errorf(toolyard.Timeout, "%s timed out after %v and was stopped.", c.Tool.Name, timeout)
}
