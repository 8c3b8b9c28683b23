package marketdata

import (
	"context"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

type varArgs struct {
	Confidence   float64 `json:"confidence" minimum:"0.9" maximum:"0.999" default:"0.95" doc:"Confidence level, such as 0.95: the probability that the loss does not exceed the value at risk."`
	Horizon      string  `json:"horizon" enum:"1h,1d" default:"1d" doc:"Period over which the loss is measured: an hour or a day."`
	Observations int     `json:"observations" minimum:"30" maximum:"500" default:"250" doc:"Number of past periods to use."`
}

type varResult struct {
	VaRUSD       decimal.Decimal `json:"varUsd" doc:"Loss that was not exceeded in the given share of past periods, in US dollars."`
	ShortfallUSD decimal.Decimal `json:"expectedShortfallUsd" doc:"Mean loss in the periods in which varUsd was exceeded."`
	OfEquity     decimal.Decimal `json:"ofEquity" doc:"varUsd as a fraction of the equity, where 0.1 is 10 %."`
	Observations int             `json:"observations"`
	Method       string          `json:"method"`
	Assumptions  []string        `json:"assumptions"`
}

const (
	minObservations = 30
	usdDecimals     = 2
)

func computeVaR() *toolyard.Tool {
	return define("compute_var", portfolio,
		"Computes the value at risk of the account's current positions by historical simulation: the returns of past periods are applied to the current positions.",
		"Use before you add a position, and to explain how much the account can lose in an hour or a day",
		func(ctx context.Context, c *toolyard.Call, in varArgs) (*varResult, error) {
			account, err := client[market.Portfolio](c, "trading account")
			if err != nil {
				return nil, err
			}
			snapshot, err := account.At(ctx, c.AsOf)
			if err != nil {
				return nil, err
			}
			history := map[string][]market.Bar{}
			for _, p := range snapshot.Positions {
				if history[p.Symbol], err = recentBars(ctx, c, p.Symbol, market.Interval(in.Horizon), in.Observations+1); err != nil {
					return nil, err
				}
			}
			return valueAtRisk(&snapshot, history, decimal.NewFromFloat(in.Confidence), market.Interval(in.Horizon))
		})
}

// valueAtRisk simulates the current positions over the periods for which all of their markets have
// data.
func valueAtRisk(s *market.Snapshot, history map[string][]market.Bar, confidence decimal.Decimal, horizon market.Interval) (*varResult, error) {
	out := &varResult{Method: "historical", Assumptions: []string{
		"The positions do not change during the period and are closed at its end.",
		"The past periods are representative; crises outside them are not included.",
		"Liquidations, gaps beyond the worst past move, fees, funding and missing liquidity are not included.",
		"Losses are measured at the end of the period; they can be larger during the period.",
	}}
	if len(s.Positions) == 0 {
		out.Assumptions = []string{"There are no open positions."}
		return out, nil
	}
	results := simulate(s.Positions, history, horizon)
	if len(results) < minObservations {
		return nil, toolyard.Errorf(toolyard.NoData, "Only %d past periods are available for all positions; value at risk requires at least %d.", len(results), minObservations)
	}
	slices.SortFunc(results, decimal.Decimal.Cmp)
	tail := max(1, int(one.Sub(confidence).Mul(decimal.NewFromInt(int64(len(results)))).IntPart()))
	sum := decimal.Zero
	for _, r := range results[:tail] {
		sum = sum.Add(r)
	}
	out.Observations = len(results)
	out.VaRUSD = decimal.Max(results[tail-1].Neg(), decimal.Zero).Round(usdDecimals)
	out.ShortfallUSD = decimal.Max(sum.DivRound(decimal.NewFromInt(int64(tail)), usdDecimals).Neg(), decimal.Zero)
	if s.EquityUSD.IsPositive() {
		out.OfEquity = out.VaRUSD.DivRound(s.EquityUSD, shareDecimals)
	}
	return out, nil
}

// simulate returns the positions' profit in every period for which all of their markets have two
// consecutive bars.
func simulate(positions []market.Position, history map[string][]market.Bar, horizon market.Interval) []decimal.Decimal {
	sums, counts := map[time.Time]decimal.Decimal{}, map[time.Time]int{}
	for _, p := range positions {
		list := history[p.Symbol] // newest first
		value := p.Size.Mul(p.MarkPrice)
		for i := range len(list) - 1 {
			now, before := list[i], list[i+1]
			if !now.Start.Equal(before.Start.Add(horizon.Duration())) {
				continue
			}
			change := now.Close.Sub(before.Close).DivRound(before.Close, 12)
			sums[now.Start], counts[now.Start] = sums[now.Start].Add(value.Mul(change)), counts[now.Start]+1
		}
	}
	var out []decimal.Decimal
	for start, n := range counts {
		if n == len(positions) {
			out = append(out, sums[start])
		}
	}
	return out
}
