package callpath

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/toolyard/toolyard"
)

// Recover turns a panic into an error, so that only the call fails.
func Recover() toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			return safely(ctx, c, next)
		}
	}
}

// safely calls next and converts a panic into an error. The error's cause, which is only logged,
// contains the panic value and the stack.
func safely(ctx context.Context, c *toolyard.Call, next toolyard.Handler) (res *toolyard.Result, err error) {
	defer func() {
		if p := recover(); p != nil {
			res, err = nil, &toolyard.Error{
				Code:    toolyard.Failed,
				Message: c.Tool.Name + " crashed.",
				Err:     fmt.Errorf("panic: %v\n%s", p, debug.Stack()),
			}
		}
	}()
	return next(ctx, c)
}
