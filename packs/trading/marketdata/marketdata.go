// Package marketdata provides tools that read markets: bars, news, funding, open interest, the
// leaderboard, chart patterns and value at risk. They return only data that was known at the call's
// as-of time.
package marketdata

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/similar"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// The tools' categories.
const (
	marketData = "market_data"
	news       = "news"
	portfolio  = "portfolio"
)

// Tools returns the tools.
func Tools() []*toolyard.Tool {
	return []*toolyard.Tool{
		fetchRecentBars(), fetchNewsSentiment(), getTopTraders(), getFundingRate(), getOpenInterest(), analyzeChartPattern(), computeVaR(),
	}
}

// define defines a read-only tool.
func define[In, Out any](name, category, description, hint string, fn func(context.Context, *toolyard.Call, In) (Out, error)) *toolyard.Tool {
	return toolyard.Define(toolyard.Spec{
		Name: name, Category: category, Effects: toolyard.ReadOnly, Description: description, Hint: hint, Origin: "packs/trading",
	}, fn)
}

// client returns a client that the gate lends.
func client[T any](c *toolyard.Call, what string) (T, error) {
	got, ok := toolyard.Client[T](c)
	if !ok {
		return got, toolyard.Errorf(toolyard.NoData, "Gate %s has no %s. An operator can configure it in packs.trading.", c.Gate, what)
	}
	return got, nil
}

// explain converts the error for an unknown symbol into one that suggests similar symbols.
func explain(ctx context.Context, c *toolyard.Call, symbol string, err error) error {
	if err == nil || toolyard.AsError(err).Code != toolyard.NoData {
		return err
	}
	markets, ok := toolyard.Client[market.Markets](c)
	if !ok {
		return err
	}
	specs, failed := markets.Specs(ctx)
	if _, listed := specs[symbol]; failed != nil || listed {
		return err
	}
	return unknownSymbol(symbol, slices.Collect(maps.Keys(specs)))
}

// unknownSymbol returns the error for a symbol that the venue does not have.
func unknownSymbol(symbol string, known []string) error {
	message := fmt.Sprintf("unknown symbol %.40q", symbol)
	if near := nearest(symbol, known); len(near) > 0 {
		message += " (did you mean " + strings.Join(near, ", ") + "?)"
	}
	return &toolyard.Error{Code: toolyard.Invalid, Message: "Unknown symbol", Issues: []toolyard.Issue{{Path: "symbol", Message: message}}}
}

const maxNear = 3

// nearest returns symbols that resemble the given one: in different case, with a suffix such as
// -USD, or with only a few different letters.
func nearest(symbol string, known []string) []string {
	wanted := strings.ToUpper(symbol)
	base, _, _ := strings.Cut(strings.NewReplacer("-", "/", "_", "/", "USDT", "/", "USDC", "/", "USD", "/").Replace(wanted), "/")
	var list []similar.Candidate
	for _, name := range known {
		upper := strings.ToUpper(name)
		d := min(distance(upper, wanted), distance(upper, base))
		if strings.HasPrefix(upper, wanted) || upper == "K"+wanted {
			d = min(d, 1)
		}
		if d <= min(max(1, len(base)/3), 3) {
			list = append(list, similar.Candidate{Name: name, Distance: d})
		}
	}
	return similar.Closest(list, maxNear)
}

const maxCompared = 20 // in characters

// distance returns the edit distance between two symbols. Long symbols are not compared.
func distance(a, b string) int {
	if len(a) > maxCompared || len(b) > maxCompared {
		return maxCompared
	}
	return similar.Distance(a, b)
}
