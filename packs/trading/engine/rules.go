package engine

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

var hundred = decimal.NewFromInt(100)

// checkState refuses everything while trading is halted, and refuses orders that add risk while
// only reducing is allowed.
func checkState(in *Input, _ *Plan) string {
	switch h := in.History; {
	case in.Proposal.Action == Hold:
		return ""
	case h.Trading == Halted:
		return "trading is halted: " + h.Reason
	case h.Trading == Reducing && in.Proposal.addsRisk():
		return "only orders that reduce a position are accepted: " + h.Reason
	}
	return ""
}

func checkScope(in *Input, _ *Plan) string {
	p := &in.Proposal
	allowed := in.Mandate.AllowedSymbols
	switch {
	case len(allowed) > 0 && !slices.Contains(allowed, p.Symbol):
		return fmt.Sprintf("%s is not one of the allowed symbols: %s", p.Symbol, strings.Join(allowed, ", "))
	case p.Action == Hold:
		return ""
	case !in.Listed:
		return fmt.Sprintf("the venue has no market %s", p.Symbol)
	case in.Market.Delisted && p.addsRisk():
		return fmt.Sprintf("%s is delisted; positions can only be reduced", p.Symbol)
	}
	return ""
}

func checkPrecision(in *Input, plan *Plan) string {
	if !in.Proposal.PlacesOrder() {
		return ""
	}
	o := &plan.Order
	if o.Size.IsZero() && plan.requested.IsPositive() {
		return fmt.Sprintf("size %s is less than one lot of %s", plan.requested, in.Market.Lot())
	}
	for _, price := range []amount{
		{"limitPrice", in.Proposal.LimitPrice}, {"triggerPrice", o.Trigger}, {"stopLoss", o.StopLoss}, {"takeProfit", o.TakeProfit},
	} {
		if price.value.Valid && !in.Market.RoundPrice(price.value.Decimal).IsPositive() {
			return price.name + " is less than one tick"
		}
	}
	return ""
}

func checkNotional(in *Input, plan *Plan) string {
	if !in.Proposal.PlacesOrder() {
		return ""
	}
	o := &plan.Order
	position, _ := in.Account.Position(o.Symbol)
	closes := o.ReduceOnly && o.Size.GreaterThanOrEqual(position.Size.Abs())
	value := o.Size.Mul(plan.reference)
	switch {
	case value.LessThan(market.MinOrderUSD) && !closes:
		return fmt.Sprintf("the order is worth %s, less than the minimum of %s", usd(value), usd(market.MinOrderUSD))
	case exceeds(value, in.Mandate.MaxOrderUSD) && !o.ReduceOnly:
		return fmt.Sprintf("the order is worth %s, more than maxOrderUsd %s", usd(value), in.Mandate.MaxOrderUSD)
	}
	return ""
}

// checkCollar refuses orders that could be filled far from the market, and orders for which there
// is no current price. A limit order that is less aggressive than the market rests in the book and
// is not restricted.
func checkCollar(in *Input, plan *Plan) string {
	if !in.Proposal.PlacesOrder() {
		return ""
	}
	q, o, collar := in.Quote, &plan.Order, in.Mandate.CollarBps
	if !q.Mid.IsPositive() || !q.Mark.IsPositive() {
		return "no current price is available"
	}
	if age := in.Now.Sub(q.At); age > q.MaxAge {
		return fmt.Sprintf("the price is %s old, more than %s", age.Round(time.Second), q.MaxAge)
	}
	if collar == 0 {
		return ""
	}
	if apart := distanceBps(q.Mid, q.Mark); apart.GreaterThan(decimal.NewFromInt(int64(collar))) {
		return fmt.Sprintf("mid %s and mark %s are %s bps apart, more than collarBps %d", q.Mid, q.Mark, apart.Round(1), collar)
	}
	if o.Trigger.Valid {
		return checkTrigger(in, plan)
	}
	if !in.Proposal.LimitPrice.Valid {
		return "" // a market order is priced at the collar
	}
	beyond := func(reference decimal.Decimal) bool {
		return o.Side.Signed(o.Price.Sub(collared(o.Side, reference, collar))).IsPositive()
	}
	if beyond(q.Mid) && beyond(q.Mark) {
		return fmt.Sprintf("limitPrice %s is more than %d bps beyond mid %s and mark %s", o.Price, collar, q.Mid, q.Mark)
	}
	return ""
}

// checkTrigger refuses a trigger that has already been reached, and a limit that is far beyond the
// trigger.
func checkTrigger(in *Input, plan *Plan) string {
	o := &plan.Order
	away := o.Side.Signed(o.Trigger.Decimal.Sub(in.Quote.Mark)) // positive if the price gets worse
	if o.Type == market.TakeProfit {
		away = away.Neg()
	}
	if !away.IsPositive() {
		return fmt.Sprintf("triggerPrice %s has already been reached: mark is %s", o.Trigger.Decimal, in.Quote.Mark)
	}
	if in.Proposal.LimitPrice.Valid && o.Side.Signed(o.Price.Sub(collared(o.Side, o.Trigger.Decimal, in.Mandate.CollarBps))).IsPositive() {
		return fmt.Sprintf("limitPrice %s is more than %d bps beyond triggerPrice %s", o.Price, in.Mandate.CollarBps, o.Trigger.Decimal)
	}
	return ""
}

func distanceBps(a, b decimal.Decimal) decimal.Decimal {
	return a.Sub(b).Abs().Mul(decimal.NewFromInt(bps)).DivRound(b, 4)
}

func checkPosition(in *Input, plan *Plan) string {
	value := in.worstValue(plan, plan.Order.Symbol)
	switch {
	case exceeds(value, in.Mandate.MaxPositionUSD):
		return fmt.Sprintf("the position could be worth %s, more than maxPositionUsd %s", usd(value), in.Mandate.MaxPositionUSD)
	case exceeds(value, in.shareOfEquity(in.Mandate.MaxPositionPct)) || in.isBroke(in.Mandate.MaxPositionPct):
		return fmt.Sprintf("the position could be worth %s, more than %s%% of the equity of %s (maxPositionPct)", usd(value), in.Mandate.MaxPositionPct, usd(in.Account.EquityUSD))
	}
	return ""
}

func checkExposure(in *Input, plan *Plan) string {
	sum, count := in.exposure(plan)
	switch {
	case exceeds(sum, in.shareOfEquity(in.Mandate.MaxExposurePct)) || in.isBroke(in.Mandate.MaxExposurePct):
		return fmt.Sprintf("all positions together could be worth %s, more than %s%% of the equity of %s (maxExposurePct)", usd(sum), in.Mandate.MaxExposurePct, usd(in.Account.EquityUSD))
	case in.Mandate.MaxSymbols > 0 && count > in.Mandate.MaxSymbols:
		return fmt.Sprintf("%d symbols would be open, more than maxSymbols %d", count, in.Mandate.MaxSymbols)
	}
	return ""
}

func checkLeverage(in *Input, plan *Plan) string {
	equity := in.Account.EquityUSD
	if !equity.IsPositive() {
		return "the account has no equity"
	}
	sum, _ := in.exposure(plan)
	o := &plan.Order
	position, _ := in.Account.Position(o.Symbol)
	after := position.Size.Add(o.Side.Signed(o.Size))
	added := decimal.Max(decimal.Zero, after.Abs().Sub(position.Size.Abs()))
	margin := added.Mul(plan.reference).DivRound(plan.leverage(in, after), 8).Add(plan.Estimate.FeeUSD)
	switch {
	case in.Mandate.MaxLeverage.IsPositive() && sum.GreaterThan(equity.Mul(in.Mandate.MaxLeverage)):
		return fmt.Sprintf("the leverage could be %s, more than maxLeverage %s", sum.DivRound(equity, 2), in.Mandate.MaxLeverage)
	case margin.GreaterThan(in.Account.AvailableUSD):
		return fmt.Sprintf("the order requires a margin of %s, but only %s is available", usd(margin), usd(in.Account.AvailableUSD))
	}
	liquidation := plan.Estimate.LiquidationPrice
	if o.StopLoss.Valid && liquidation.Valid && !o.Side.Signed(o.StopLoss.Decimal.Sub(liquidation.Decimal)).IsPositive() {
		return fmt.Sprintf("the position would be liquidated at %s, before stopLoss %s", liquidation.Decimal, o.StopLoss.Decimal)
	}
	return ""
}

func checkDailyLoss(in *Input, _ *Plan) string {
	start := in.History.DayStartUSD
	if !start.IsPositive() {
		return ""
	}
	loss := start.Sub(in.Account.EquityUSD)
	switch m := in.Mandate; {
	case exceeds(loss, m.MaxDailyLossUSD):
		return fmt.Sprintf("the loss since 00:00 UTC is %s, more than maxDailyLossUsd %s", usd(loss), m.MaxDailyLossUSD)
	case exceeds(loss.Mul(hundred), start.Mul(m.MaxDailyLossPct)):
		return fmt.Sprintf("the loss since 00:00 UTC is %s, more than %s%% of %s (maxDailyLossPct)", usd(loss), m.MaxDailyLossPct, usd(start))
	}
	return ""
}

func checkDrawdown(in *Input, _ *Plan) string {
	high := in.History.HighUSD
	if !high.IsPositive() {
		return ""
	}
	if loss := high.Sub(in.Account.EquityUSD); exceeds(loss.Mul(hundred), high.Mul(in.Mandate.MaxDrawdownPct)) {
		return fmt.Sprintf("the equity of %s is more than %s%% below its high of %s (maxDrawdownPct)", usd(in.Account.EquityUSD), in.Mandate.MaxDrawdownPct, usd(high))
	}
	return ""
}

func checkPace(in *Input, _ *Plan) string {
	h, m := &in.History, in.Mandate
	recent := 0
	for _, at := range h.Proposals {
		if in.Now.Sub(at) < time.Minute {
			recent++
		}
	}
	switch {
	case m.OrdersPerMinute > 0 && recent >= m.OrdersPerMinute:
		return fmt.Sprintf("%d orders were proposed within a minute; ordersPerMinute is %d", recent, m.OrdersPerMinute)
	case !h.LastClosed.IsZero() && in.Now.Sub(h.LastClosed) < m.Cooldown:
		return fmt.Sprintf("a position in %s was closed %s ago; cooldown is %s", in.Proposal.Symbol, in.Now.Sub(h.LastClosed).Round(time.Second), m.Cooldown)
	case m.MaxStopsPerDay > 0 && h.StopsToday >= m.MaxStopsPerDay:
		return fmt.Sprintf("%d stop losses were filled today; maxStopsPerDay is %d", h.StopsToday, m.MaxStopsPerDay)
	}
	return ""
}

func checkDuplicate(in *Input, plan *Plan) string {
	if !in.Proposal.PlacesOrder() {
		return ""
	}
	if in.History.ClientIDUsed {
		return fmt.Sprintf("an order with client order ID %s already exists", in.ClientID)
	}
	if in.History.ExplicitKey {
		return ""
	}
	o := &plan.Order
	for _, other := range in.History.Orders {
		if age := in.Now.Sub(other.At); age < in.Mandate.DuplicateWithin && other.Symbol == o.Symbol && other.Side == o.Side && other.Size.Equal(o.Size) {
			return fmt.Sprintf("an identical order was placed %s ago; to repeat it, pass a new clientOrderId", age.Round(time.Second))
		}
	}
	return ""
}

func checkReduce(in *Input, plan *Plan) string {
	o := &plan.Order
	if !o.ReduceOnly {
		return ""
	}
	position, ok := in.Account.Position(o.Symbol)
	switch {
	case !ok || position.Size.IsZero():
		return fmt.Sprintf("no position in %s to reduce", o.Symbol)
	case o.Side == position.Side():
		return fmt.Sprintf("a reduce-only %s order would add to the position of %s", o.Side, position.Size)
	case o.Size.GreaterThan(position.Size.Abs()):
		return fmt.Sprintf("size %s is more than the position of %s", o.Size, position.Size)
	}
	return ""
}

func checkStop(in *Input, plan *Plan) string {
	if in.Mandate.RequireStop && in.Proposal.addsRisk() && !plan.Order.StopLoss.Valid {
		return "opening orders require a stopLoss (requireStop)"
	}
	return ""
}

// worstValue returns the highest value that the position in a symbol can reach if the planned order
// and open orders are filled.
func (in *Input) worstValue(plan *Plan, symbol string) decimal.Decimal {
	position, _ := in.Account.Position(symbol)
	long, short, price := position.Size, position.Size, position.MarkPrice
	add := func(o *market.Order, size, at decimal.Decimal) {
		if o.ReduceOnly {
			return
		}
		if o.Side == market.Buy {
			long = long.Add(size)
		} else {
			short = short.Sub(size)
		}
		price = decimal.Max(price, at)
	}
	for i := range in.Account.Orders {
		if o := &in.Account.Orders[i]; o.Symbol == symbol {
			add(&o.Order, o.Remaining, valueOf(&o.Order))
		}
	}
	if symbol == plan.Order.Symbol {
		price = decimal.Max(price, in.Quote.Mark)
		add(&plan.Order, plan.Order.Size, plan.reference)
	}
	return decimal.Max(long, short.Neg()).Mul(price)
}

// valueOf returns the price at which an open order is valued.
func valueOf(o *market.Order) decimal.Decimal {
	if o.Trigger.Valid {
		return o.Trigger.Decimal
	}
	return o.Price
}

// exposure returns the highest value that all positions can reach, and the number of symbols with a
// position or an order that could open one.
func (in *Input) exposure(plan *Plan) (sum decimal.Decimal, symbols int) {
	names := []string{plan.Order.Symbol}
	for _, p := range in.Account.Positions {
		names = append(names, p.Symbol)
	}
	for _, o := range in.Account.Orders {
		if !o.ReduceOnly {
			names = append(names, o.Symbol)
		}
	}
	slices.Sort(names)
	names = slices.Compact(names)
	for _, name := range names {
		sum = sum.Add(in.worstValue(plan, name))
	}
	return sum, len(names)
}

func (in *Input) shareOfEquity(pct decimal.Decimal) decimal.Decimal {
	return in.Account.EquityUSD.Mul(pct).Div(hundred)
}

// isBroke reports whether limits relative to the equity allow nothing because there is no equity.
func (in *Input) isBroke(pct decimal.Decimal) bool {
	return pct.IsPositive() && !in.Account.EquityUSD.IsPositive()
}

// exceeds reports whether a value is above a limit. A limit of zero does not apply.
func exceeds(value, limit decimal.Decimal) bool {
	return limit.IsPositive() && value.GreaterThan(limit)
}

func usd(d decimal.Decimal) string { return d.StringFixed(2) + " USD" }
