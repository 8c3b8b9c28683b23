package engine

import (
	"fmt"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

// Action is the action that a proposal requests.
type Action string

// The actions. Hold means doing nothing.
const (
	Open      Action = "open"
	Close     Action = "close"
	ReduceBy  Action = "reduce"
	CancelOne Action = "cancel"
	Hold      Action = "hold"
)

// Proposal is an order proposed by a caller.
type Proposal struct {
	Symbol string           `json:"symbol"`
	Action Action           `json:"action"`
	Side   market.Side      `json:"side,omitempty"`
	Type   market.OrderType `json:"type,omitempty"` // empty for a market order

	// Exactly one of these determines an order's size. Fraction is a share of the position to
	// reduce, or of the equity to open a position with.
	Size        decimal.NullDecimal `json:"size,omitzero"`
	NotionalUSD decimal.NullDecimal `json:"notionalUsd,omitzero"`
	Fraction    decimal.NullDecimal `json:"fraction,omitzero"`

	LimitPrice   decimal.NullDecimal `json:"limitPrice,omitzero"`
	TriggerPrice decimal.NullDecimal `json:"triggerPrice,omitzero"`
	TIF          market.TimeInForce  `json:"tif,omitempty"`
	ReduceOnly   bool                `json:"reduceOnly,omitempty"`
	StopLoss     decimal.NullDecimal `json:"stopLoss,omitzero"`
	TakeProfit   decimal.NullDecimal `json:"takeProfit,omitzero"`
	OrderID      string              `json:"orderId,omitempty"` // order to cancel: the venue's or the client's order ID
}

// PlacesOrder reports whether the proposal results in an order.
func (p *Proposal) PlacesOrder() bool { return p.Action != Hold && p.Action != CancelOne }

// reduces reports whether the order can only reduce a position: brokers reject a reduce-only order
// that would add to a position or reverse it.
func (p *Proposal) reduces() bool {
	return p.Action == Close || p.Action == ReduceBy || p.Action == Open && p.ReduceOnly
}

func (p *Proposal) addsRisk() bool { return p.PlacesOrder() && !p.reduces() }

// Plan is the order that a proposal results in.
type Plan struct {
	Order    market.Order
	Adjusted []string // descriptions of rounded values
	Estimate Estimate
	Held     decimal.Decimal // size of the position before the order; negative if it is short

	requested decimal.Decimal // size before rounding
	reference decimal.Decimal // price at which the order is valued
}

// Estimate is the cost of an order at the current prices.
type Estimate struct {
	Price            decimal.Decimal     `json:"price"`
	NotionalUSD      decimal.Decimal     `json:"notionalUsd"`
	FeeUSD           decimal.Decimal     `json:"feeUsd"`
	MarginAfterUSD   decimal.Decimal     `json:"marginAfterUsd" doc:"Margin used by all positions after the order is filled."`
	LiquidationPrice decimal.NullDecimal `json:"liquidationPrice,omitzero" doc:"Liquidation price of the position after the order is filled. Absent if the position cannot be liquidated at any price."`
}

const bps = 10_000

// newPlan derives the order. The proposal's shape must be valid and its market must be listed.
func newPlan(in *Input) Plan {
	p := &in.Proposal
	if !p.PlacesOrder() || !in.Listed {
		return Plan{}
	}
	position, _ := in.Account.Position(p.Symbol)
	o := market.Order{
		ClientID: in.ClientID, Symbol: p.Symbol, Side: p.Side, Type: p.orderType(), TIF: p.timeInForce(), ReduceOnly: p.reduces(),
	}
	if p.Action != Open {
		o.Side = position.Side().Opposite()
	}
	plan := Plan{Order: o, Held: position.Size}
	plan.setPrices(in)
	plan.setSize(in, position)
	plan.estimate(in, position)
	return plan
}

func (p *Proposal) orderType() market.OrderType {
	if p.Type == "" {
		return market.MarketOrder
	}
	return p.Type
}

func (p *Proposal) timeInForce() market.TimeInForce {
	switch {
	case p.orderType() == market.MarketOrder:
		return market.IOC
	case p.TIF == "":
		return market.GTC
	}
	return p.TIF
}

// setPrices rounds the prices to ticks. A market order is a limit order at the collar.
func (plan *Plan) setPrices(in *Input) {
	o, p := &plan.Order, &in.Proposal
	round := func(name string, price decimal.NullDecimal) decimal.NullDecimal {
		if !price.Valid {
			return price
		}
		rounded := in.Market.RoundPrice(price.Decimal)
		if !rounded.Equal(price.Decimal) {
			plan.Adjusted = append(plan.Adjusted, fmt.Sprintf("%s %s was rounded to %s", name, price.Decimal, rounded))
		}
		return decimal.NewNullDecimal(rounded)
	}
	limit := round("limitPrice", p.LimitPrice)
	o.Trigger = round("triggerPrice", p.TriggerPrice)
	o.StopLoss = round("stopLoss", p.StopLoss)
	o.TakeProfit = round("takeProfit", p.TakeProfit)
	switch {
	case limit.Valid:
		o.Price, plan.reference = limit.Decimal, limit.Decimal
	case o.Trigger.Valid:
		o.Price, plan.reference = in.Market.RoundPrice(collared(o.Side, o.Trigger.Decimal, in.Mandate.CollarBps)), o.Trigger.Decimal
	default:
		o.Price, plan.reference = in.Market.RoundPrice(collared(o.Side, in.Quote.Mid, in.Mandate.CollarBps)), in.Quote.Mid
	}
}

// collared returns the worst price that the collar allows for an order at price.
func collared(side market.Side, price decimal.Decimal, collarBps int) decimal.Decimal {
	return price.Mul(decimal.NewFromInt(bps).Add(side.Signed(decimal.NewFromInt(int64(collarBps))))).Div(decimal.NewFromInt(bps))
}

func (plan *Plan) setSize(in *Input, position market.Position) {
	p := &in.Proposal
	size := position.Size.Abs()
	switch {
	case p.Size.Valid:
		size = p.Size.Decimal
	case p.NotionalUSD.Valid:
		size = divide(p.NotionalUSD.Decimal, plan.reference)
	case p.Fraction.Valid && p.Action == Open:
		size = divide(in.Account.EquityUSD.Mul(p.Fraction.Decimal), plan.reference)
	case p.Fraction.Valid:
		size = size.Mul(p.Fraction.Decimal)
	}
	plan.requested, plan.Order.Size = size, in.Market.RoundSize(size)
	if p.Size.Valid && !plan.Order.Size.Equal(size) {
		plan.Adjusted = append(plan.Adjusted, fmt.Sprintf("size %s was rounded down to %s", size, plan.Order.Size))
	}
}

// divide returns a/b, or zero if b is zero because there is no price.
func divide(a, b decimal.Decimal) decimal.Decimal {
	if !b.IsPositive() {
		return decimal.Zero
	}
	return a.DivRound(b, 16)
}

func (plan *Plan) estimate(in *Input, position market.Position) {
	o := &plan.Order
	fee := in.Fees.Taker
	if o.TIF == market.ALO || o.Type == market.LimitOrder && !crosses(o, in.Quote.Mid) {
		fee = in.Fees.Maker
	}
	notional := o.Size.Mul(plan.reference)
	after := position.Size.Add(o.Side.Signed(o.Size))
	margin := in.Account.MarginUsedUSD.Sub(position.MarginUSD).Add(after.Abs().Mul(plan.reference).DivRound(plan.leverage(in, after), 8))
	equity := in.Account.EquityUSD.Sub(notional.Mul(fee))
	plan.Estimate = Estimate{
		Price: plan.reference, NotionalUSD: notional, FeeUSD: notional.Mul(fee), MarginAfterUSD: margin,
		LiquidationPrice: in.Market.LiquidationPrice(after, plan.reference, equity, in.otherMaintenance()),
	}
}

// crosses reports whether a limit order would be filled immediately.
func crosses(o *market.Order, mid decimal.Decimal) bool {
	if o.Side == market.Buy {
		return o.Price.GreaterThanOrEqual(mid)
	}
	return o.Price.LessThanOrEqual(mid)
}

// leverage returns the leverage that the mandate and the venue allow for a position.
func (plan *Plan) leverage(in *Input, size decimal.Decimal) decimal.Decimal {
	venue := decimal.NewFromInt(int64(in.Market.LeverageAt(size.Abs().Mul(plan.reference))))
	if in.Mandate.MaxLeverage.IsPositive() {
		return decimal.Min(venue, in.Mandate.MaxLeverage)
	}
	return venue
}

// otherMaintenance estimates the maintenance margin of the positions in other symbols as half
// of the margin that they use.
func (in *Input) otherMaintenance() decimal.Decimal {
	sum := decimal.Zero
	for _, p := range in.Account.Positions {
		if p.Symbol != in.Proposal.Symbol {
			sum = sum.Add(p.MarginUSD.Div(decimal.NewFromInt(2)))
		}
	}
	return sum
}
