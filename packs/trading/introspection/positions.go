package introspection

import (
	"context"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/market"
)

type symbolArgs struct {
	Symbol string `json:"symbol" minLength:"1" maxLength:"32" doc:"Symbol of the perpetual, such as BTC."`
}

func getCurrentPosition() *toolyard.Tool {
	type result struct {
		Position *market.Position   `json:"position" doc:"The position. Null if there is none."`
		Orders   []market.OpenOrder `json:"orders" doc:"Open orders for the symbol."`
		Since    *time.Time         `json:"since,omitempty"`
		Decision string             `json:"decision,omitempty" doc:"ID of the decision that last opened or added to the position."`
		AsOf     time.Time          `json:"asOf"`
	}
	return define("get_current_position", "Shows the account's position in a symbol, its open orders, how long it has been held, and the decision that opened it.",
		"Use before you explain or change a position.",
		func(ctx context.Context, c *toolyard.Call, a *account.Access, in symbolArgs) (*result, error) {
			asOf, err := a.Time(ctx, c)
			if err != nil {
				return nil, err
			}
			s, err := a.Portfolio.At(ctx, asOf)
			if err != nil {
				return nil, err
			}
			out := &result{Orders: []market.OpenOrder{}, AsOf: asOf}
			for _, o := range s.Orders {
				if o.Symbol == in.Symbol {
					out.Orders = append(out.Orders, o)
				}
			}
			p, held := s.Position(in.Symbol)
			if !held {
				return out, nil
			}
			out.Position = &p
			if !p.Since.IsZero() {
				out.Since = &p.Since
			}
			records, err := a.Decisions(ctx, account.RecordQuery{AsOf: asOf, Symbol: in.Symbol, Limit: 20})
			if err != nil {
				return nil, err
			}
			for i := range records {
				if r := &records[i]; r.Order != nil && !r.Order.ReduceOnly && r.Kind == account.Pending {
					out.Decision = r.ID
					break
				}
			}
			return out, nil
		})
}

// share states how much of a limit is used.
type share struct {
	Limit   string          `json:"limit"`
	Used    decimal.Decimal `json:"used"`
	Of      decimal.Decimal `json:"of"`
	Percent decimal.Decimal `json:"percent"`
}

func getPositionRisk() *toolyard.Tool {
	type result struct {
		NotionalUSD      decimal.Decimal  `json:"notionalUsd"`
		Leverage         decimal.Decimal  `json:"leverage" doc:"Value of the position divided by the equity."`
		LiquidationPrice *decimal.Decimal `json:"liquidationPrice" doc:"Liquidation price. Null if the position cannot be liquidated at any price."`
		DistancePct      *decimal.Decimal `json:"distancePct" doc:"Distance from the current price to the liquidation price, in percent."`
		LossAtStopUSD    *decimal.Decimal `json:"lossAtStopUsd" doc:"Loss, from the current price, if the nearest stop is filled at its trigger price. Null if there is no stop."`
		Limits           []share          `json:"limits"`
		AsOf             time.Time        `json:"asOf"`
	}
	return define("get_position_risk", "Shows the risk of a position: its value, leverage, liquidation price and distance to that price, the loss at the stop, and how much of each limit is used.",
		"Use to explain how risky a position is, or how much room the limits leave.",
		func(ctx context.Context, c *toolyard.Call, a *account.Access, in symbolArgs) (*result, error) {
			asOf, err := a.Time(ctx, c)
			if err != nil {
				return nil, err
			}
			s, err := a.Portfolio.At(ctx, asOf)
			if err != nil {
				return nil, err
			}
			p, held := s.Position(in.Symbol)
			if !held {
				return nil, toolyard.Errorf(toolyard.NoData, "The account has no position in %s.", in.Symbol)
			}
			out := &result{NotionalUSD: p.NotionalUSD(), Leverage: ratio(p.NotionalUSD(), s.EquityUSD), Limits: limitsOf(a, &s, p), AsOf: asOf}
			if p.LiquidationPrice.Valid {
				at := p.LiquidationPrice.Decimal
				distance := ratio(at.Sub(p.MarkPrice).Abs().Mul(hundred), p.MarkPrice)
				out.LiquidationPrice, out.DistancePct = &at, &distance
			}
			out.LossAtStopUSD = lossAtStop(&s, p)
			return out, nil
		})
}

var hundred = decimal.NewFromInt(100)

func ratio(a, b decimal.Decimal) decimal.Decimal {
	if !b.IsPositive() {
		return decimal.Zero
	}
	return a.DivRound(b, 4)
}

// lossAtStop returns the loss if the stop closest to the price is filled.
func lossAtStop(s *market.Snapshot, p market.Position) *decimal.Decimal {
	var nearest *decimal.Decimal
	for _, o := range s.Orders {
		if o.Symbol == p.Symbol && o.Type == market.StopOrder && o.Side == p.Side().Opposite() && o.Trigger.Valid {
			loss := p.MarkPrice.Sub(o.Trigger.Decimal).Mul(p.Size)
			if nearest == nil || loss.LessThan(*nearest) {
				nearest = &loss
			}
		}
	}
	return nearest
}

func limitsOf(a *account.Access, s *market.Snapshot, p market.Position) []share {
	exposure := decimal.Zero
	for _, other := range s.Positions {
		exposure = exposure.Add(other.NotionalUSD())
	}
	m := &a.Mandate
	of := func(pct decimal.Decimal) decimal.Decimal { return s.EquityUSD.Mul(pct).Div(hundred) }
	list := []share{}
	for _, l := range []share{
		{Limit: "maxPositionUsd", Used: p.NotionalUSD(), Of: m.MaxPositionUSD},
		{Limit: "maxPositionPct", Used: p.NotionalUSD(), Of: of(m.MaxPositionPct)},
		{Limit: "maxExposurePct", Used: exposure, Of: of(m.MaxExposurePct)},
		{Limit: "maxLeverage", Used: ratio(exposure, s.EquityUSD), Of: m.MaxLeverage},
	} {
		if l.Of.IsPositive() {
			l.Percent = ratio(l.Used.Mul(hundred), l.Of)
			list = append(list, l)
		}
	}
	return list
}

func getPnlSummary() *toolyard.Tool {
	type args struct {
		Window string `json:"window" enum:"day,week,month,all" default:"day" doc:"Period to summarize, including today (UTC): the last day, 7 days or 30 days, or the whole history."`
	}
	type result struct {
		From           *time.Time       `json:"from,omitempty"`
		To             time.Time        `json:"to"`
		RealizedUSD    decimal.Decimal  `json:"realizedUsd"`
		UnrealizedUSD  decimal.Decimal  `json:"unrealizedUsd" doc:"Unrealized profit of the positions that are open now."`
		FeesUSD        decimal.Decimal  `json:"feesUsd"`
		FundingUSD     *decimal.Decimal `json:"fundingUsd" doc:"Funding received, or negative if it was paid. Null if the broker does not report it."`
		NetUSD         decimal.Decimal  `json:"netUsd" doc:"Realized and unrealized profit plus funding, minus fees."`
		Trades         int              `json:"trades" doc:"Number of fills that closed all or part of a position."`
		Wins           int              `json:"wins"`
		MaxDrawdownPct decimal.Decimal  `json:"maxDrawdownPct" doc:"Maximum drawdown in percent, based on the equity at each decision and now."`
		EquityUSD      decimal.Decimal  `json:"equityUsd"`
	}
	return define("get_pnl_summary", "Summarizes the account's profit and loss for a period: realized and unrealized profit, fees, funding, trades, wins and drawdown.",
		"Use to explain how the account is doing.",
		func(ctx context.Context, c *toolyard.Call, a *account.Access, in args) (*result, error) {
			asOf, err := a.Time(ctx, c)
			if err != nil {
				return nil, err
			}
			out := &result{To: asOf}
			days := map[string]int{"day": 1, "week": 7, "month": 30}[in.Window]
			var from time.Time
			if days > 0 {
				from = day(asOf).AddDate(0, 0, 1-days).Add(-time.Microsecond)
				start := from.Add(time.Microsecond)
				out.From = &start
			}
			fills, err := a.Fills(ctx, from, asOf)
			if err != nil {
				return nil, err
			}
			for _, f := range fills {
				out.RealizedUSD, out.FeesUSD = out.RealizedUSD.Add(f.RealizedUSD), out.FeesUSD.Add(f.FeeUSD)
				if !f.RealizedUSD.IsZero() {
					out.Trades++
				}
				if f.RealizedUSD.IsPositive() {
					out.Wins++
				}
			}
			payments, known, err := a.Payments(ctx, from, asOf)
			if err != nil {
				return nil, err
			}
			funding := decimal.Zero
			for _, p := range payments {
				funding = funding.Add(p.AmountUSD)
			}
			if known {
				out.FundingUSD = &funding
			}
			s, err := a.Portfolio.At(ctx, asOf)
			if err != nil {
				return nil, err
			}
			for _, p := range s.Positions {
				out.UnrealizedUSD = out.UnrealizedUSD.Add(p.UnrealizedUSD)
			}
			out.EquityUSD = s.EquityUSD
			out.NetUSD = out.RealizedUSD.Add(out.UnrealizedUSD).Add(funding).Sub(out.FeesUSD)
			out.MaxDrawdownPct, err = drawdown(ctx, a, from, asOf, s.EquityUSD)
			return out, err
		})
}

// drawdown returns the largest drop in equity from its peak, in percent.
func drawdown(ctx context.Context, a *account.Access, from, asOf time.Time, now decimal.Decimal) (decimal.Decimal, error) {
	records, err := a.Decisions(ctx, account.RecordQuery{AsOf: asOf, Limit: 1000})
	if err != nil {
		return decimal.Zero, err
	}
	low, worst := now, decimal.Zero // going back in time: lowest equity after each point
	for i := range records {
		r := &records[i]
		if !r.At.After(from) {
			break
		}
		low = decimal.Min(low, r.EquityUSD)
		worst = decimal.Max(worst, ratio(r.EquityUSD.Sub(low).Mul(hundred), r.EquityUSD))
	}
	return worst, nil
}
