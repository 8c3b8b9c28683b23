package trading

import (
	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/marketdata"
)

// marketTools returns the tools for market data and news.
func marketTools() []*toolyard.Tool { return marketdata.Tools() }
