// Package introspection provides tools that explain what an account did and why. They only read the
// journal and the portfolio of the gate's account, so a chat can answer questions about an agent's
// trades at another gate.
package introspection

import (
	"context"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
)

// Category is the tools' category.
const Category = "introspection"

// Tools returns the tools.
func Tools() []*toolyard.Tool {
	return []*toolyard.Tool{
		getRecentDecisions(), getDecisionSnapshot(), getCurrentPosition(), getPositionRisk(), getPnlSummary(),
		getNewsForWindow(), getCommandHistory(), getSkillConfig(), getEngineRejections(),
	}
}

// define defines a read-only tool in the category for the gate's account.
func define[In, Out any](name, description, hint string, fn func(context.Context, *toolyard.Call, *account.Access, In) (Out, error)) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{
		Name: name, Category: Category, Effects: toolyard.ReadOnly, Description: description, Hint: hint, Origin: "packs/trading",
	}, func(ctx context.Context, c *toolyard.Call, in In) (out Out, err error) {
		a, err := account.Of(c)
		if err != nil {
			return out, err
		}
		return fn(ctx, c, a, in)
	})
}

// day returns 00:00 UTC on the day of t.
func day(t time.Time) time.Time { return t.UTC().Truncate(24 * time.Hour) }
