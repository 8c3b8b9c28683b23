package callpath

import (
	"context"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard"
)

// Record reports the outcome of every call to the recorders. It is the first step, so it also
// reports refused calls, and it converts every error to *toolyard.Error.
func Record(now func() time.Time, recorders ...toolyard.Recorder) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			start := now()
			o := outcomeOf(next(ctx, c))
			o.Start, o.Elapsed = start, now().Sub(start)
			for _, r := range recorders {
				r.Outcome(context.WithoutCancel(ctx), c, o) // even if the caller disconnected
			}
			if o.Err != nil {
				return nil, o.Err
			}
			return o.Result, nil
		}
	}
}

func outcomeOf(res *toolyard.Result, err error) toolyard.Outcome {
	if err != nil {
		return toolyard.Outcome{Err: toolyard.AsError(err)}
	}
	return toolyard.Outcome{Result: res}
}

// Intend passes the intent of a write call to the recorders before the tool runs. With a store, the
// intent is durable before the call continues; a call whose intent cannot be recorded is refused.
func Intend(recorders ...toolyard.Recorder) toolyard.Policy {
	return func(next toolyard.Handler) toolyard.Handler {
		return func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			if !c.Tool.IsReadOnly() {
				for _, r := range recorders {
					if err := r.Intent(ctx, c); err != nil {
						if ctx.Err() != nil {
							return nil, ctx.Err() // the caller disconnected: don't report a recording failure
						}
						return nil, &toolyard.Error{Code: toolyard.Unavailable, Message: "The call could not be recorded, so it was not run.", RetryAfter: time.Second, Err: err}
					}
				}
			}
			return next(ctx, c)
		}
	}
}

// Log is a recorder that logs one line per call.
type Log struct{ *slog.Logger }

// Intent implements toolyard.Recorder.
func (l Log) Intent(ctx context.Context, c *toolyard.Call) error {
	l.DebugContext(ctx, "call started", "call", c.ID, "tool", c.Tool.Name, "caller", c.Caller.ID)
	return nil
}

// Outcome implements toolyard.Recorder.
func (l Log) Outcome(ctx context.Context, c *toolyard.Call, o toolyard.Outcome) {
	level := slog.LevelInfo
	attrs := make([]slog.Attr, 0, 10)
	attrs = append(attrs,
		slog.String("call", c.ID),
		slog.String("tool", c.Tool.Name),
		slog.String("gate", c.Gate),
		slog.String("caller", c.Caller.ID),
		slog.String("code", string(o.Code())),
		slog.Float64("elapsedMs", float64(o.Elapsed.Microseconds())/1000))
	if c.Tool.Server != "" {
		attrs = append(attrs, slog.String("server", c.Tool.Server))
	}
	if o.Err != nil && len(c.Tool.Contexts) > 0 {
		level = slog.LevelWarn // omits the message, which may contain data about the caller
	} else if o.Err != nil {
		level = slog.LevelWarn
		attrs = append(attrs, slog.String("error", o.Err.Redacted().Error()))
		if o.Err.Err != nil && o.Err.Err.Error() != o.Err.Message {
			attrs = append(attrs, slog.String("cause", o.Err.Err.Error()))
		}
	}
	l.LogAttrs(ctx, level, "call", attrs...)
}
