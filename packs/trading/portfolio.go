package trading

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/introspection"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// maxOpenOrders limits the number of orders in a portfolio.
const maxOpenOrders = 50

func getPortfolio() *toolyard.Tool {
	type result struct {
		EquityUSD    decimal.Decimal    `json:"equity" doc:"Cash plus unrealized profit, in USD."`
		AvailableUSD decimal.Decimal    `json:"available" doc:"Equity that is not used as margin, in USD."`
		MarginUSD    decimal.Decimal    `json:"marginUsed"`
		Leverage     decimal.Decimal    `json:"leverage" doc:"Value of all positions divided by the equity."`
		Positions    []market.Position  `json:"positions"`
		OpenOrders   []market.OpenOrder `json:"openOrders" doc:"The 50 oldest open orders."`
		Orders       int                `json:"orders" doc:"Number of open orders."`
		Broker       string             `json:"broker"`
		AsOf         time.Time          `json:"asOf"`
	}
	return toolyard.Define(toolyard.Spec{
		Name: "get_portfolio", Category: portfolio, Effects: toolyard.ReadOnly, Origin: "packs/trading",
		Description: "Returns the account's equity, margin, positions and open orders.",
		Hint:        "Use before you decide on a size, and to see existing positions and open orders",
	}, func(ctx context.Context, c *toolyard.Call, _ struct{}) (*result, error) {
		a, err := account.Of(c)
		if err != nil {
			return nil, err
		}
		asOf, err := a.Time(ctx, c)
		if err != nil {
			return nil, err
		}
		s, err := a.Portfolio.At(ctx, asOf)
		if err != nil {
			return nil, err
		}
		out := &result{
			EquityUSD: s.EquityUSD, AvailableUSD: s.AvailableUSD, MarginUSD: s.MarginUsedUSD, Positions: append([]market.Position{}, s.Positions...),
			OpenOrders: append([]market.OpenOrder{}, s.Orders[:min(len(s.Orders), maxOpenOrders)]...), Orders: len(s.Orders), Broker: a.BrokerName, AsOf: asOf,
		}
		value := decimal.Zero
		for _, p := range s.Positions {
			value = value.Add(p.NotionalUSD())
		}
		if s.EquityUSD.IsPositive() {
			out.Leverage = value.DivRound(s.EquityUSD, 4)
		}
		return out, nil
	})
}

func readMyPriorDecisions() *toolyard.Tool {
	type args struct {
		Symbol string `json:"symbol,omitempty" maxLength:"32" doc:"Return only decisions about this symbol, such as BTC."`
		Limit  int    `json:"limit" minimum:"1" maximum:"50" default:"10" doc:"Maximum number of decisions to return."`
	}
	return toolyard.Define(toolyard.Spec{
		Name: "read_my_prior_decisions", Category: portfolio, Effects: toolyard.ReadOnly, Origin: "packs/trading",
		Description: "Lists your own earlier decisions, newest first, with their outcomes.",
		Hint:        "Use before you decide about a symbol again, to stay consistent and to learn from earlier outcomes",
	}, func(ctx context.Context, c *toolyard.Call, in args) ([]introspection.Summary, error) {
		a, err := account.Of(c)
		if err != nil {
			return nil, err
		}
		asOf, err := a.Time(ctx, c)
		if err != nil {
			return nil, err
		}
		records, err := a.Decisions(ctx, account.RecordQuery{AsOf: asOf, Symbol: in.Symbol, Caller: c.Caller.ID, Limit: in.Limit})
		if err != nil {
			return nil, err
		}
		return introspection.Summarize(ctx, a, records, asOf)
	})
}
