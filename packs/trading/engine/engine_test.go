package engine_test

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func d(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func nd(s string) decimal.NullDecimal { return decimal.NewNullDecimal(d(s)) }

// input returns a proposal to buy 1 BTC at 100 for an account that has 10,000 USD and no limits.
func input(edit ...func(*engine.Input)) engine.Input {
	in := engine.Input{
		Mandate: &engine.Mandate{CollarBps: 100},
		Account: market.Snapshot{AsOf: noon, EquityUSD: d("10000"), AvailableUSD: d("10000")},
		History: engine.History{Trading: engine.Active, DayStartUSD: d("10000"), HighUSD: d("10000")},
		Market:  market.Market{Symbol: "BTC", SizeDecimals: 3, MaxLeverage: 40}, Listed: true,
		Quote:    engine.Quote{Mid: d("100"), Mark: d("100"), At: noon, MaxAge: 30 * time.Second},
		Fees:     market.Fees{Taker: d("0.00045"), Maker: d("0.00015")},
		Proposal: engine.Proposal{Symbol: "BTC", Action: engine.Open, Side: market.Buy, Size: nd("1")},
		ClientID: market.ClientID("test", "1"), Now: noon,
	}
	for _, f := range edit {
		f(&in)
	}
	return in
}

func size(s string) func(*engine.Input) { return func(in *engine.Input) { in.Proposal.Size = nd(s) } }

func limit(price string) func(*engine.Input) {
	return func(in *engine.Input) { in.Proposal.Type, in.Proposal.LimitPrice = market.LimitOrder, nd(price) }
}

func sell(in *engine.Input) { in.Proposal.Side = market.Sell }

func mandate(edit func(*engine.Mandate)) func(*engine.Input) {
	return func(in *engine.Input) { edit(in.Mandate) }
}

func proposal(p engine.Proposal) func(*engine.Input) {
	return func(in *engine.Input) {
		if p.Symbol == "" {
			p.Symbol = "BTC"
		}
		in.Proposal = p
	}
}

// position gives the account a position in a symbol at 100.
func position(symbol, size string) func(*engine.Input) {
	return func(in *engine.Input) {
		in.Account.Positions = append(in.Account.Positions, market.Position{
			Symbol: symbol, Size: d(size), EntryPrice: d("100"), MarkPrice: d("100"), MarginUSD: d(size).Abs().Mul(d("10")),
		})
	}
}

func resting(symbol string, side market.Side, size string, reduceOnly bool) func(*engine.Input) {
	return func(in *engine.Input) {
		in.Account.Orders = append(in.Account.Orders, market.OpenOrder{
			Order:     market.Order{Symbol: symbol, Side: side, Type: market.LimitOrder, Size: d(size), Price: d("100"), ReduceOnly: reduceOnly},
			Remaining: d(size),
		})
	}
}

// TestRulesRefuseBeyondTheirEdge has one row on each side of each limit, mostly one lot apart.
func TestRulesRefuseBeyondTheirEdge(t *testing.T) {
	closeAll, closeStop := engine.Proposal{Action: engine.Close}, engine.Proposal{Action: engine.Close, Type: market.StopOrder}
	reduceBy := func(s string) engine.Proposal { return engine.Proposal{Action: engine.ReduceBy, Size: nd(s)} }
	open := engine.Proposal{Action: engine.Open, Side: market.Buy, Size: nd("1")}
	with := func(p engine.Proposal, edit func(*engine.Proposal)) engine.Proposal { edit(&p); return p }
	stopped := func(p *engine.Proposal) { p.StopLoss = nd("90") }

	for _, test := range []struct {
		name string
		rule engine.Rule // rule that refuses; empty if the order passes
		edit []func(*engine.Input)
	}{
		{"plain", "", nil},

		{"no symbol", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Symbol = "" }}},
		{"unknown action", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Action = "buy" }}},
		{"open without side", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Side = "" }}},
		{"open without size", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Size = decimal.NullDecimal{} }}},
		{"two sizes", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Fraction = nd("0.1") }}},
		{"size zero", engine.Shape, []func(*engine.Input){size("0")}},
		{"negative size", engine.Shape, []func(*engine.Input){size("-1")}},
		{"fraction of all", "", []func(*engine.Input){proposal(engine.Proposal{Action: engine.Open, Side: market.Buy, Fraction: nd("0.99")})}},
		{"fraction over 1", engine.Shape, []func(*engine.Input){proposal(engine.Proposal{Action: engine.Open, Side: market.Buy, Fraction: nd("1.001")})}},
		{"market order with a limit", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.LimitPrice = nd("100") }}},
		{"market order with a trigger", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.TriggerPrice = nd("100") }}},
		{"market order that rests", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.TIF = market.GTC }}},
		{"limit order without a price", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Type = market.LimitOrder }}},
		{"limit order with a trigger", engine.Shape, []func(*engine.Input){limit("100"), func(in *engine.Input) { in.Proposal.TriggerPrice = nd("1") }}},
		{"unknown tif", engine.Shape, []func(*engine.Input){limit("100"), func(in *engine.Input) { in.Proposal.TIF = "Fok" }}},
		{"unknown type", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Type = "iceberg" }}},
		{"stop without a trigger", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.Type = market.StopOrder }}},
		{"stop with tif", engine.Shape, []func(*engine.Input){proposal(engine.Proposal{Action: engine.Open, Side: market.Buy, Size: nd("1"), Type: market.StopOrder, TriggerPrice: nd("101"), TIF: market.IOC})}},
		{"take_profit that opens", engine.Shape, []func(*engine.Input){proposal(engine.Proposal{Action: engine.Open, Side: market.Buy, Size: nd("1"), Type: market.TakeProfit, TriggerPrice: nd("99")})}},
		{"stop loss above a long entry", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.StopLoss = nd("100") }}},
		{"stop loss below a long entry", "", []func(*engine.Input){func(in *engine.Input) { in.Proposal.StopLoss = nd("99.99") }}},
		{"stop loss below a short entry", engine.Shape, []func(*engine.Input){sell, func(in *engine.Input) { in.Proposal.StopLoss = nd("100") }}},
		{"take profit below a long entry", engine.Shape, []func(*engine.Input){func(in *engine.Input) { in.Proposal.TakeProfit = nd("100") }}},
		{"take profit above a long entry", "", []func(*engine.Input){func(in *engine.Input) { in.Proposal.TakeProfit = nd("100.01") }}},
		{"hold", "", []func(*engine.Input){proposal(engine.Proposal{Action: engine.Hold})}},
		{"hold with a side", engine.Shape, []func(*engine.Input){proposal(engine.Proposal{Action: engine.Hold, Side: market.Buy})}},
		{"hold with a size", engine.Shape, []func(*engine.Input){proposal(engine.Proposal{Action: engine.Hold, Size: nd("1")})}},
		{"cancel", "", []func(*engine.Input){proposal(engine.Proposal{Action: engine.CancelOne, OrderID: "7"})}},
		{"cancel nothing", engine.Shape, []func(*engine.Input){proposal(engine.Proposal{Action: engine.CancelOne})}},
		{"close with a size", engine.Shape, []func(*engine.Input){position("BTC", "1"), proposal(with(closeAll, func(p *engine.Proposal) { p.Size = nd("1") }))}},
		{"close with a side", engine.Shape, []func(*engine.Input){position("BTC", "1"), proposal(with(closeAll, func(p *engine.Proposal) { p.Side = market.Sell }))}},
		{"close with a bracket", engine.Shape, []func(*engine.Input){position("BTC", "1"), proposal(with(closeAll, stopped))}},
		{"reduce without a size", engine.Shape, []func(*engine.Input){position("BTC", "1"), proposal(engine.Proposal{Action: engine.ReduceBy})}},
		{"open with an order ID", engine.Shape, []func(*engine.Input){proposal(with(open, func(p *engine.Proposal) { p.OrderID = "7" }))}},

		{"halted", engine.State, []func(*engine.Input){func(in *engine.Input) { in.History.Trading = engine.Halted }}},
		{"close while halted", engine.State, []func(*engine.Input){position("BTC", "1"), proposal(closeAll), func(in *engine.Input) { in.History.Trading = engine.Halted }}},
		{"hold while halted", "", []func(*engine.Input){proposal(engine.Proposal{Action: engine.Hold}), func(in *engine.Input) { in.History.Trading = engine.Halted }}},
		{"open while reducing", engine.State, []func(*engine.Input){func(in *engine.Input) { in.History.Trading = engine.Reducing }}},
		{"close while reducing", "", []func(*engine.Input){position("BTC", "1"), proposal(closeAll), func(in *engine.Input) { in.History.Trading = engine.Reducing }}},
		{"cancel while reducing", "", []func(*engine.Input){proposal(engine.Proposal{Action: engine.CancelOne, OrderID: "7"}), func(in *engine.Input) { in.History.Trading = engine.Reducing }}},

		{"symbol in scope", "", []func(*engine.Input){mandate(func(m *engine.Mandate) { m.AllowedSymbols = []string{"ETH", "BTC"} })}},
		{"symbol out of scope", engine.Scope, []func(*engine.Input){mandate(func(m *engine.Mandate) { m.AllowedSymbols = []string{"ETH"} })}},
		{"close out of scope", engine.Scope, []func(*engine.Input){position("BTC", "1"), proposal(closeAll), mandate(func(m *engine.Mandate) { m.AllowedSymbols = []string{"ETH"} })}},
		{"hold out of scope", engine.Scope, []func(*engine.Input){proposal(engine.Proposal{Action: engine.Hold}), mandate(func(m *engine.Mandate) { m.AllowedSymbols = []string{"ETH"} })}},
		{"unlisted symbol", engine.Scope, []func(*engine.Input){func(in *engine.Input) { in.Listed = false }}},
		{"open a delisted symbol", engine.Scope, []func(*engine.Input){func(in *engine.Input) { in.Market.Delisted = true }}},
		{"close a delisted symbol", "", []func(*engine.Input){position("BTC", "1"), proposal(closeAll), func(in *engine.Input) { in.Market.Delisted = true }}},

		{"one lot", engine.Notional, []func(*engine.Input){size("0.001")}},
		{"less than one lot", engine.Precision, []func(*engine.Input){size("0.0009")}},
		{"less than one tick", engine.Precision, []func(*engine.Input){limit("0.0001")}},

		{"worth the minimum", "", []func(*engine.Input){size("0.1")}},
		{"one lot below the minimum", engine.Notional, []func(*engine.Input){size("0.099")}},
		{"close less than the minimum", "", []func(*engine.Input){position("BTC", "0.05"), proposal(closeAll)}},
		{"reduce by less than the minimum", engine.Notional, []func(*engine.Input){position("BTC", "1"), proposal(reduceBy("0.05"))}},
		{"at maxOrderUsd", "", []func(*engine.Input){size("2"), mandate(func(m *engine.Mandate) { m.MaxOrderUSD = d("200") })}},
		{"one lot above maxOrderUsd", engine.Notional, []func(*engine.Input){size("2.001"), mandate(func(m *engine.Mandate) { m.MaxOrderUSD = d("200") })}},
		{"close above maxOrderUsd", "", []func(*engine.Input){position("BTC", "9"), proposal(closeAll), mandate(func(m *engine.Mandate) { m.MaxOrderUSD = d("200") })}},

		{"buy limit at the collar", "", []func(*engine.Input){limit("101")}},
		{"buy limit beyond the collar", engine.Collar, []func(*engine.Input){limit("101.01")}},
		{"buy limit far below", "", []func(*engine.Input){limit("80")}},
		{"sell limit at the collar", "", []func(*engine.Input){sell, limit("99")}},
		{"sell limit beyond the collar", engine.Collar, []func(*engine.Input){sell, limit("98.99")}},
		{"beyond mid, within mark", "", []func(*engine.Input){limit("101.5"), func(in *engine.Input) { in.Quote.Mark = d("100.6") }}},
		{"mid and mark together", "", []func(*engine.Input){func(in *engine.Input) { in.Quote.Mid = d("101") }}},
		{"mid and mark apart", engine.Collar, []func(*engine.Input){func(in *engine.Input) { in.Quote.Mid = d("101.01") }}},
		{"old price", "", []func(*engine.Input){func(in *engine.Input) { in.Quote.At = noon.Add(-30 * time.Second) }}},
		{"stale price", engine.Collar, []func(*engine.Input){func(in *engine.Input) { in.Quote.At = noon.Add(-30*time.Second - 1) }}},
		{"stale price for a close", engine.Collar, []func(*engine.Input){position("BTC", "1"), proposal(closeAll), func(in *engine.Input) { in.Quote.At = noon.Add(-time.Hour) }}},
		{"no price", engine.Collar, []func(*engine.Input){limit("100"), func(in *engine.Input) { in.Quote.Mid = decimal.Zero }}},
		{"stop below the price", "", []func(*engine.Input){position("BTC", "1"), proposal(with(closeStop, func(p *engine.Proposal) { p.TriggerPrice = nd("99.99") }))}},
		{"stop at the price", engine.Collar, []func(*engine.Input){position("BTC", "1"), proposal(with(closeStop, func(p *engine.Proposal) { p.TriggerPrice = nd("100") }))}},
		{"target above the price", "", []func(*engine.Input){position("BTC", "1"), proposal(engine.Proposal{Action: engine.Close, Type: market.TakeProfit, TriggerPrice: nd("100.01")})}},
		{"target at the price", engine.Collar, []func(*engine.Input){position("BTC", "1"), proposal(engine.Proposal{Action: engine.Close, Type: market.TakeProfit, TriggerPrice: nd("100")})}},
		{"stop limit beyond the trigger", engine.Collar, []func(*engine.Input){position("BTC", "1"), proposal(with(closeStop, func(p *engine.Proposal) { p.TriggerPrice, p.LimitPrice = nd("90"), nd("89") }))}},

		{"at maxPositionUsd", "", []func(*engine.Input){size("20"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"one lot above maxPositionUsd", engine.Position, []func(*engine.Input){size("20.001"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"short at maxPositionUsd", "", []func(*engine.Input){sell, size("20"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"short above maxPositionUsd", engine.Position, []func(*engine.Input){sell, size("20.001"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"position and order at the limit", "", []func(*engine.Input){position("BTC", "15"), size("5"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"position and order above the limit", engine.Position, []func(*engine.Input){position("BTC", "15"), size("5.001"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"resting order counts as filled", engine.Position, []func(*engine.Input){resting("BTC", market.Buy, "15", false), size("5.001"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"resting reduce-only order does not count", "", []func(*engine.Input){resting("BTC", market.Buy, "15", true), size("5.001"), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"reduce a position above the limit", "", []func(*engine.Input){position("BTC", "30"), proposal(reduceBy("1")), mandate(func(m *engine.Mandate) { m.MaxPositionUSD = d("2000") })}},
		{"at maxPositionPct", "", []func(*engine.Input){size("25"), mandate(func(m *engine.Mandate) { m.MaxPositionPct = d("25") })}},
		{"one lot above maxPositionPct", engine.Position, []func(*engine.Input){size("25.001"), mandate(func(m *engine.Mandate) { m.MaxPositionPct = d("25") })}},
		{"no equity", engine.Position, []func(*engine.Input){mandate(func(m *engine.Mandate) { m.MaxPositionPct = d("25") }), func(in *engine.Input) { in.Account.EquityUSD = decimal.Zero }}},

		{"at maxExposurePct", "", []func(*engine.Input){position("ETH", "60"), size("40"), mandate(func(m *engine.Mandate) { m.MaxExposurePct = d("100") })}},
		{"one lot above maxExposurePct", engine.Exposure, []func(*engine.Input){position("ETH", "60"), size("40.001"), mandate(func(m *engine.Mandate) { m.MaxExposurePct = d("100") })}},
		{"close above maxExposurePct", "", []func(*engine.Input){position("BTC", "1"), position("ETH", "600"), proposal(closeAll), mandate(func(m *engine.Mandate) { m.MaxExposurePct = d("100") })}},
		{"at maxSymbols", "", []func(*engine.Input){position("ETH", "1"), mandate(func(m *engine.Mandate) { m.MaxSymbols = 2 })}},
		{"above maxSymbols", engine.Exposure, []func(*engine.Input){position("ETH", "1"), resting("SOL", market.Buy, "1", false), mandate(func(m *engine.Mandate) { m.MaxSymbols = 2 })}},
		{"add to one of maxSymbols", "", []func(*engine.Input){position("ETH", "1"), position("BTC", "1"), mandate(func(m *engine.Mandate) { m.MaxSymbols = 2 })}},

		{"at maxLeverage", "", []func(*engine.Input){size("300"), mandate(func(m *engine.Mandate) { m.MaxLeverage = d("3") }), func(in *engine.Input) { in.Fees = market.Fees{} }}},
		{"one lot above maxLeverage", engine.Leverage, []func(*engine.Input){size("300.001"), mandate(func(m *engine.Mandate) { m.MaxLeverage = d("3") }), func(in *engine.Input) { in.Fees = market.Fees{} }}},
		{"margin available", "", []func(*engine.Input){size("4"), func(in *engine.Input) { in.Account.AvailableUSD, in.Fees = d("10"), market.Fees{} }}},
		{"margin not available", engine.Leverage, []func(*engine.Input){size("4.001"), func(in *engine.Input) { in.Account.AvailableUSD, in.Fees = d("10"), market.Fees{} }}},
		{"stop before liquidation", "", []func(*engine.Input){size("1000"), func(in *engine.Input) { in.Fees = market.Fees{}; in.Proposal.StopLoss = nd("91.2") }}},
		{"liquidation before stop", engine.Leverage, []func(*engine.Input){size("1000"), func(in *engine.Input) { in.Fees = market.Fees{}; in.Proposal.StopLoss = nd("91.1") }}},
		{"no equity, no limits", engine.Leverage, []func(*engine.Input){func(in *engine.Input) { in.Account.EquityUSD = decimal.Zero }}},

		{"at maxDailyLossUsd", "", []func(*engine.Input){func(in *engine.Input) { in.History.DayStartUSD = d("10200") }, mandate(func(m *engine.Mandate) { m.MaxDailyLossUSD = d("200") })}},
		{"above maxDailyLossUsd", engine.DailyLoss, []func(*engine.Input){func(in *engine.Input) { in.History.DayStartUSD = d("10200.01") }, mandate(func(m *engine.Mandate) { m.MaxDailyLossUSD = d("200") })}},
		{"close above maxDailyLossUsd", "", []func(*engine.Input){position("BTC", "1"), proposal(closeAll), func(in *engine.Input) { in.History.DayStartUSD = d("99999") }, mandate(func(m *engine.Mandate) { m.MaxDailyLossUSD = d("200") })}},
		{"at maxDailyLossPct", "", []func(*engine.Input){func(in *engine.Input) { in.Account.EquityUSD, in.History.DayStartUSD = d("9500"), d("10000") }, mandate(func(m *engine.Mandate) { m.MaxDailyLossPct = d("5") })}},
		{"above maxDailyLossPct", engine.DailyLoss, []func(*engine.Input){func(in *engine.Input) { in.Account.EquityUSD, in.History.DayStartUSD = d("9499.99"), d("10000") }, mandate(func(m *engine.Mandate) { m.MaxDailyLossPct = d("5") })}},
		{"at maxDrawdownPct", "", []func(*engine.Input){func(in *engine.Input) { in.Account.EquityUSD, in.History.HighUSD = d("8000"), d("10000") }, mandate(func(m *engine.Mandate) { m.MaxDrawdownPct = d("20") })}},
		{"above maxDrawdownPct", engine.Drawdown, []func(*engine.Input){func(in *engine.Input) { in.Account.EquityUSD, in.History.HighUSD = d("7999.99"), d("10000") }, mandate(func(m *engine.Mandate) { m.MaxDrawdownPct = d("20") })}},

		{"fifth order in a minute", "", []func(*engine.Input){proposalsAgo(59, 50, 40, 30, 20), mandate(func(m *engine.Mandate) { m.OrdersPerMinute = 6 })}},
		{"seventh order in a minute", engine.Pace, []func(*engine.Input){proposalsAgo(59, 50, 40, 30, 20, 10), mandate(func(m *engine.Mandate) { m.OrdersPerMinute = 6 })}},
		{"seventh order after a minute", "", []func(*engine.Input){proposalsAgo(60, 50, 40, 30, 20, 10), mandate(func(m *engine.Mandate) { m.OrdersPerMinute = 6 })}},
		{"close in a busy minute", "", []func(*engine.Input){position("BTC", "1"), proposal(closeAll), proposalsAgo(59, 50, 40, 30, 20, 10), mandate(func(m *engine.Mandate) { m.OrdersPerMinute = 6 })}},
		{"after the cooldown", "", []func(*engine.Input){func(in *engine.Input) { in.History.LastClosed = noon.Add(-time.Hour) }, mandate(func(m *engine.Mandate) { m.Cooldown = time.Hour })}},
		{"in the cooldown", engine.Pace, []func(*engine.Input){func(in *engine.Input) { in.History.LastClosed = noon.Add(-time.Hour + 1) }, mandate(func(m *engine.Mandate) { m.Cooldown = time.Hour })}},
		{"three stops", "", []func(*engine.Input){func(in *engine.Input) { in.History.StopsToday = 3 }, mandate(func(m *engine.Mandate) { m.MaxStopsPerDay = 4 })}},
		{"four stops", engine.Pace, []func(*engine.Input){func(in *engine.Input) { in.History.StopsToday = 4 }, mandate(func(m *engine.Mandate) { m.MaxStopsPerDay = 4 })}},

		{"known client ID", engine.Duplicate, []func(*engine.Input){func(in *engine.Input) { in.History.ClientIDUsed = true }}},
		{"equal order", engine.Duplicate, []func(*engine.Input){placedAgo(59*time.Second, "1"), mandate(func(m *engine.Mandate) { m.DuplicateWithin = time.Minute })}},
		{"equal order a minute ago", "", []func(*engine.Input){placedAgo(time.Minute, "1"), mandate(func(m *engine.Mandate) { m.DuplicateWithin = time.Minute })}},
		{"equal order with a new key", "", []func(*engine.Input){placedAgo(time.Second, "1"), func(in *engine.Input) { in.History.ExplicitKey = true }, mandate(func(m *engine.Mandate) { m.DuplicateWithin = time.Minute })}},
		{"order that differs by one lot", "", []func(*engine.Input){placedAgo(time.Second, "1.001"), mandate(func(m *engine.Mandate) { m.DuplicateWithin = time.Minute })}},

		{"close", "", []func(*engine.Input){position("BTC", "-3"), proposal(closeAll)}},
		{"close nothing", engine.Reduce, []func(*engine.Input){proposal(closeAll)}},
		{"reduce by all", "", []func(*engine.Input){position("BTC", "3"), proposal(reduceBy("3"))}},
		{"reduce by one lot too much", engine.Reduce, []func(*engine.Input){position("BTC", "3"), proposal(reduceBy("3.001"))}},
		{"reduce-only that adds", engine.Reduce, []func(*engine.Input){position("BTC", "3"), func(in *engine.Input) { in.Proposal.ReduceOnly = true }}},
		{"reduce-only that reduces", "", []func(*engine.Input){position("BTC", "-3"), func(in *engine.Input) { in.Proposal.ReduceOnly = true }}},

		{"open with a stop", "", []func(*engine.Input){proposal(with(open, stopped)), mandate(func(m *engine.Mandate) { m.RequireStop = true })}},
		{"open without a stop", engine.Stop, []func(*engine.Input){mandate(func(m *engine.Mandate) { m.RequireStop = true })}},
		{"close without a stop", "", []func(*engine.Input){position("BTC", "1"), proposal(closeAll), mandate(func(m *engine.Mandate) { m.RequireStop = true })}},
	} {
		t.Run(test.name, func(t *testing.T) {
			decision := engine.Evaluate(input(test.edit...))
			refusal, _ := decision.Refusal()
			if refusal.Rule != test.rule {
				t.Errorf("refused by %q (%s), want %q", refusal.Rule, refusal.Detail, test.rule)
			}
			all := engine.EvaluateAll(input(test.edit...))
			if first, _ := all.Refusal(); first != refusal {
				t.Errorf("EvaluateAll refuses by %+v, Evaluate by %+v", first, refusal)
			}
			if len(all.Verdicts) != len(engine.Rules()) {
				t.Errorf("EvaluateAll has %d verdicts", len(all.Verdicts))
			}
		})
	}
}

func proposalsAgo(seconds ...int) func(*engine.Input) {
	return func(in *engine.Input) {
		for _, s := range seconds {
			in.History.Proposals = append(in.History.Proposals, noon.Add(-time.Duration(s)*time.Second))
		}
	}
}

func placedAgo(age time.Duration, size string) func(*engine.Input) {
	return func(in *engine.Input) {
		in.History.Orders = []engine.RecentOrder{{At: noon.Add(-age), Symbol: "BTC", Side: market.Buy, Size: d(size)}}
	}
}

func TestRulesAreInOrder(t *testing.T) {
	want := "SHAPE STATE SCOPE PRECISION NOTIONAL COLLAR POSITION EXPOSURE LEVERAGE DAILY_LOSS DRAWDOWN PACE DUPLICATE REDUCE STOP"
	if got := strings.Trim(fmt.Sprint(engine.Rules()), "[]"); got != want {
		t.Errorf("rules %s, want %s", got, want)
	}
}

func TestLossesChangeTheState(t *testing.T) {
	daily := engine.Evaluate(input(mandate(func(m *engine.Mandate) { m.MaxDailyLossUSD = d("1") }), func(in *engine.Input) { in.Account.EquityUSD = d("9000") }))
	if h := daily.Halt; h == nil || h.Trading != engine.Reducing || !h.Until.Equal(noon.Add(12*time.Hour)) {
		t.Errorf("a daily loss causes %+v", h)
	}
	drawdown := engine.Evaluate(input(mandate(func(m *engine.Mandate) { m.MaxDrawdownPct = d("1") }), func(in *engine.Input) { in.Account.EquityUSD = d("9000") }))
	if h := drawdown.Halt; h == nil || h.Trading != engine.Halted || !h.Until.IsZero() {
		t.Errorf("a drawdown causes %+v", h)
	}
	plain := engine.Evaluate(input())
	if plain.Halt != nil {
		t.Errorf("an accepted order causes %+v", plain.Halt)
	}
}

func TestOrdersAreRoundedAndSaySo(t *testing.T) {
	in := input(size("1.23456"), limit("100.12345"), func(in *engine.Input) { in.Proposal.StopLoss = nd("90.00009") })
	got := engine.Evaluate(in)
	want := market.Order{
		ClientID: in.ClientID, Symbol: "BTC", Side: market.Buy, Type: market.LimitOrder, Size: d("1.234"), Price: d("100.12"),
		TIF: market.GTC, StopLoss: nd("90"),
	}
	if diff := cmp.Diff(want, got.Order); diff != "" {
		t.Error(diff)
	}
	if want := []string{"limitPrice 100.12345 was rounded to 100.12", "stopLoss 90.00009 was rounded to 90", "size 1.23456 was rounded down to 1.234"}; !cmp.Equal(got.Adjusted, want) {
		t.Errorf("adjusted %q", got.Adjusted)
	}
}

func TestSizesFollowFromValueAndFraction(t *testing.T) {
	for _, test := range []struct {
		name     string
		proposal engine.Proposal
		size     string
		side     market.Side
	}{
		{"value", engine.Proposal{Action: engine.Open, Side: market.Buy, NotionalUSD: nd("250")}, "2.5", market.Buy},
		{"value at a limit", engine.Proposal{Action: engine.Open, Side: market.Buy, Type: market.LimitOrder, LimitPrice: nd("50"), NotionalUSD: nd("250")}, "5", market.Buy},
		{"fraction of the equity", engine.Proposal{Action: engine.Open, Side: market.Sell, Fraction: nd("0.1")}, "10", market.Sell},
		{"fraction of the position", engine.Proposal{Action: engine.ReduceBy, Fraction: nd("0.5")}, "2", market.Sell},
		{"whole position", engine.Proposal{Action: engine.Close}, "4", market.Sell},
	} {
		got := engine.Evaluate(input(position("BTC", "4"), proposal(test.proposal)))
		if got.Order.Size.String() != test.size || got.Order.Side != test.side {
			t.Errorf("%s: %s %s, want %s %s", test.name, got.Order.Side, got.Order.Size, test.side, test.size)
		}
	}
}

func TestMarketOrdersArePricedAtTheCollar(t *testing.T) {
	buy, short := engine.Evaluate(input()), engine.Evaluate(input(sell))
	if buy.Order.Price.String() != "101" || short.Order.Price.String() != "99" || buy.Order.TIF != market.IOC {
		t.Errorf("buy at %s, sell at %s", buy.Order.Price, short.Order.Price)
	}
	if buy.Estimate.Price.String() != "100" || buy.Estimate.FeeUSD.String() != "0.045" {
		t.Errorf("estimate %+v", buy.Estimate)
	}
}

// A limit on risk must never trap an account in a position, regardless of the account's state.
func TestClosingPassesAllLimitsOnRisk(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		in := input(position("BTC", decimal.New(r.Int64N(100_000)+1, -3).String()), proposal(engine.Proposal{Action: engine.Close}),
			proposalsAgo(1, 2, 3, 4, 5, 6, 7, 8), func(in *engine.Input) {
				*in.Mandate = engine.DefaultMandate()
				in.Mandate.MaxPositionUSD, in.Mandate.MaxOrderUSD, in.Mandate.RequireStop = d("10"), d("10"), true
				in.Account.EquityUSD = decimal.New(r.Int64N(20_000)-5000, 0)
				in.Account.AvailableUSD = decimal.Zero
				in.History.StopsToday, in.History.LastClosed = 99, noon
			})
		if refusal, refused := refusalOf(engine.Evaluate(in)); refused {
			t.Fatalf("closing was refused by %+v", refusal)
		}
	}
}

func refusalOf(d engine.Decision) (engine.Verdict, bool) { return d.Refusal() }

func TestAccountsCanOnlyTightenTheMandate(t *testing.T) {
	base := engine.DefaultMandate()
	base.AllowedSymbols, base.MaxPositionUSD, base.Cooldown = []string{"BTC", "ETH"}, d("2000"), time.Minute
	for _, test := range []struct {
		name  string
		edit  func(*engine.Mandate)
		wider bool
	}{
		{"equal", func(*engine.Mandate) {}, false},
		{"tighter", func(m *engine.Mandate) { m.MaxPositionUSD, m.AllowedSymbols = d("100"), []string{"BTC"} }, false},
		{"new limit", func(m *engine.Mandate) { m.MaxOrderUSD = d("5") }, false},
		{"wider", func(m *engine.Mandate) { m.MaxPositionUSD = d("2000.01") }, true},
		{"no limit", func(m *engine.Mandate) { m.MaxPositionUSD = decimal.Zero }, true},
		{"another symbol", func(m *engine.Mandate) { m.AllowedSymbols = []string{"BTC", "DOGE"} }, true},
		{"all symbols", func(m *engine.Mandate) { m.AllowedSymbols = nil }, true},
		{"shorter cooldown", func(m *engine.Mandate) { m.Cooldown = time.Second }, true},
	} {
		own := base
		test.edit(&own)
		if err := own.CheckTightens(&base); (err != nil) != test.wider {
			t.Errorf("%s: %v", test.name, err)
		}
	}
}
