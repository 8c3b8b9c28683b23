package trading

import "github.com/toolyard/toolyard"

// marketTools returns the tools for market data and news.
func marketTools() []*toolyard.Tool { return nil }
