package engine

import (
	"fmt"
	"slices"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

// checkShape refuses proposals with missing, superfluous or contradictory fields.
func checkShape(in *Input, _ *Plan) string {
	p := &in.Proposal
	if p.Symbol == "" {
		return "symbol is missing"
	}
	for _, f := range p.amounts() {
		if f.value.Valid && !f.value.Decimal.IsPositive() {
			return f.name + " must be greater than zero"
		}
	}
	if p.Fraction.Valid && p.Fraction.Decimal.GreaterThan(decimal.NewFromInt(1)) {
		return "fraction must be at most 1"
	}
	switch p.Action {
	case Hold:
		return p.unexpected("hold", p.Side != "", p.OrderID != "")
	case CancelOne:
		if p.OrderID == "" {
			return "cancel requires orderId"
		}
		return p.unexpected("cancel", p.Side != "")
	case Open, Close, ReduceBy:
		return p.checkOrder(in.Quote.Mark)
	}
	return fmt.Sprintf("unknown action %q", p.Action)
}

type amount struct {
	name  string
	value decimal.NullDecimal
}

func (p *Proposal) amounts() []amount {
	return []amount{
		{"size", p.Size},
		{"notionalUsd", p.NotionalUSD},
		{"fraction", p.Fraction},
		{"limitPrice", p.LimitPrice},
		{"triggerPrice", p.TriggerPrice},
		{"stopLoss", p.StopLoss},
		{"takeProfit", p.TakeProfit},
	}
}

// unexpected refuses sizes and prices for an action that places no order.
func (p *Proposal) unexpected(action string, others ...bool) string {
	for _, f := range p.amounts() {
		if f.value.Valid {
			return fmt.Sprintf("%s does not accept %s", action, f.name)
		}
	}
	if p.Type != "" && p.Type != market.MarketOrder || p.TIF != "" || p.ReduceOnly || slices.Contains(others, true) {
		return action + " does not accept order fields"
	}
	return ""
}

func (p *Proposal) checkOrder(mark decimal.Decimal) string {
	sizes := 0
	for _, f := range p.amounts()[:3] {
		if f.value.Valid {
			sizes++
		}
	}
	switch {
	case p.OrderID != "":
		return "orderId is allowed only with cancel"
	case p.Action == Open && p.Side != market.Buy && p.Side != market.Sell:
		return "open requires side: buy or sell"
	case p.Action != Open && p.Side != "":
		return string(p.Action) + " does not accept side, because the position determines it"
	case p.Action == Close && sizes > 0:
		return "close does not accept a size because it closes the whole position; to close part of it, use reduce"
	case p.Action != Close && sizes != 1:
		return fmt.Sprintf("%s requires exactly one of size, notionalUsd and fraction", p.Action)
	case p.Action != Open && (p.StopLoss.Valid || p.TakeProfit.Valid):
		return "stopLoss and takeProfit are allowed only with open; to protect a position, close it with type stop or take_profit"
	case p.ReduceOnly && (p.StopLoss.Valid || p.TakeProfit.Valid):
		return "a reduce-only order does not accept stopLoss or takeProfit"
	}
	if problem := p.checkType(); problem != "" {
		return problem
	}
	return p.checkBrackets(mark)
}

func (p *Proposal) checkType() string {
	switch t := p.orderType(); t {
	case market.MarketOrder:
		switch {
		case p.LimitPrice.Valid:
			return "a market order does not accept limitPrice"
		case p.TriggerPrice.Valid:
			return "a market order does not accept triggerPrice"
		case p.TIF != "" && p.TIF != market.IOC:
			return "a market order does not accept tif"
		}
	case market.LimitOrder:
		switch {
		case !p.LimitPrice.Valid:
			return "a limit order requires limitPrice"
		case p.TriggerPrice.Valid:
			return "a limit order does not accept triggerPrice; use type stop or take_profit"
		}
	case market.StopOrder, market.TakeProfit:
		switch {
		case !p.TriggerPrice.Valid:
			return fmt.Sprintf("a %s order requires triggerPrice", t)
		case p.TIF != "" && p.TIF != market.GTC:
			return fmt.Sprintf("a %s order stays open until it is triggered; omit tif", t)
		case t == market.TakeProfit && !p.reduces():
			return "a take_profit order can only close or reduce a position"
		case p.StopLoss.Valid || p.TakeProfit.Valid:
			return fmt.Sprintf("a %s order does not accept stopLoss or takeProfit", t)
		}
	default:
		return fmt.Sprintf("unknown type %q", t)
	}
	if p.TIF != "" && !slices.Contains([]market.TimeInForce{market.GTC, market.IOC, market.ALO}, p.TIF) {
		return fmt.Sprintf("unknown tif %q", p.TIF)
	}
	return ""
}

// checkBrackets refuses a stop loss or take profit on the wrong side of the price.
func (p *Proposal) checkBrackets(mark decimal.Decimal) string {
	price := mark
	if p.LimitPrice.Valid {
		price = p.LimitPrice.Decimal
	}
	below := func(a, b decimal.Decimal) bool { return p.Side.Signed(b.Sub(a)).IsPositive() }
	switch {
	case !price.IsPositive():
		return "" // COLLAR refuses orders that have no price
	case p.StopLoss.Valid && !below(p.StopLoss.Decimal, price):
		return fmt.Sprintf("stopLoss %s is on the wrong side of the price %s", p.StopLoss.Decimal, price)
	case p.TakeProfit.Valid && !below(price, p.TakeProfit.Decimal):
		return fmt.Sprintf("takeProfit %s is on the wrong side of the price %s", p.TakeProfit.Decimal, price)
	}
	return ""
}
