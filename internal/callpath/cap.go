package callpath

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
)

// Cap limits the size of arguments and results in bytes. It refuses arguments that are too large.
// It truncates text results and appends a note with the full size; structured output cannot be
// truncated, so it is refused. Zero means no limit.
func Cap(args, result int) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			args, result := stricter(args, c.Tool.MaxArgs), stricter(result, c.Tool.MaxResult)
			if args > 0 && len(c.Args) > args {
				return nil, toolyard.Errorf(toolyard.ArgsTooLarge, "The arguments are %d bytes; the limit is %d.", len(c.Args), args)
			}
			c.MaxResult = stricter(c.MaxResult, result)
			res, err := next(ctx, c)
			if err != nil || result <= 0 || res.Size() <= result {
				return res, err
			}
			if !res.CanTruncate() || (len(c.Tool.Output) > 0 && !res.IsError) {
				return nil, toolyard.Errorf(toolyard.ResultTooLarge, "The tool ran, but its result is %d bytes; the limit is %d.", res.Size(), result)
			}
			return res.Truncate(result), nil
		}
	}
}

// stricter returns the smaller of two limits, where zero means no limit.
func stricter[T int | time.Duration](a, b T) T {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
