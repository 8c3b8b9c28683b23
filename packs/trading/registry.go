package trading

import (
	"slices"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/introspection"
)

// The tools' categories, in addition to introspection.
const (
	marketData = "market_data"
	news       = "news"
	portfolio  = "portfolio"
	execution  = "execution"
)

// Tools returns all of the pack's tools.
func Tools() []*toolyard.Tool {
	return slices.Concat(marketTools(), accountTools(), introspection.Tools())
}

func accountTools() []*toolyard.Tool {
	return []*toolyard.Tool{getPortfolio(), proposeOrder(), simulateAction(), readMyPriorDecisions()}
}

// TradingToolNames returns the tools that a trading agent uses: those that can be called in mode
// write and are not for introspection.
func TradingToolNames() []string { //nolint:revive // the conventional name for the list, next to IntrospectionToolNames
	return names(func(t *toolyard.Tool) bool {
		return slices.Contains(t.Modes(), toolyard.Write) && t.Category != introspection.Category
	})
}

// IntrospectionToolNames returns the tools that explain an account's activity.
func IntrospectionToolNames() []string {
	return names(func(t *toolyard.Tool) bool { return t.Category == introspection.Category })
}

func names(include func(*toolyard.Tool) bool) (list []string) {
	for _, t := range Tools() {
		if include(t) {
			list = append(list, t.Name)
		}
	}
	return list
}
