package trading

import (
	"context"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
)

// observed wraps the tools so that the results of read-only tools at write gates are recorded. The
// snapshot of a decision then shows what its caller saw. If a result cannot be recorded, it is
// returned anyway.
func observed(tools []*toolyard.Tool) []*toolyard.Tool {
	list := make([]*toolyard.Tool, len(tools))
	for i, t := range tools {
		list[i] = t
		if !t.IsReadOnly() {
			continue
		}
		wrapped, err := toolyard.NewTool(t.Spec, func(ctx context.Context, c *toolyard.Call) (*toolyard.Result, error) {
			res, err := t.Run(ctx, c)
			if err == nil && c.Mode == toolyard.Write && len(res.Structured) > 0 {
				observe(ctx, c, res)
			}
			return res, err
		})
		if err != nil {
			panic(err) // cannot happen: the tool was defined with the same Spec
		}
		list[i] = wrapped
	}
	return list
}

func observe(ctx context.Context, c *toolyard.Call, res *toolyard.Result) {
	a, err := account.Of(c)
	if err != nil {
		return
	}
	if err := a.Observe(ctx, c, res.Structured); err != nil {
		c.Logger().Warn("could not record an observation", "account", a.Name, "error", err)
	}
}
