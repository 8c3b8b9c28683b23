package callpath

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
)

// Cap bounds the bytes of a call: arguments over args are refused before anything
// costly, a result over result is cut, with a mark and its true size. What a tool promises
// as structured output cannot be cut and is refused. Zero is no bound.
func Cap(args, result int) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			args, result := stricter(args, c.Tool.Bounds.Args), stricter(result, c.Tool.Bounds.Result)
			if args > 0 && len(c.Args) > args {
				return nil, toolyard.Errorf(toolyard.ArgsTooLarge, "The arguments have %d bytes, the limit is %d.", len(c.Args), args)
			}
			c.MaxResult = stricter(c.MaxResult, result)
			res, err := next(ctx, c)
			if err != nil || result <= 0 || res.Size() <= result {
				return res, err
			}
			if !res.CanTruncate() || (len(c.Tool.Output) > 0 && !res.IsError) {
				return nil, toolyard.Errorf(toolyard.ResultTooLarge, "The tool has run, but its result has %d bytes and the limit is %d.", res.Size(), result)
			}
			return res.Truncate(result), nil
		}
	}
}

// stricter is the smaller of two bounds; zero is none.
func stricter[T int | time.Duration](a, b T) T {
	if a <= 0 || (b > 0 && b < a) {
		return b
	}
	return a
}
