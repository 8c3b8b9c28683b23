// Package paper simulates a broker.
//
// An account is event-sourced: its state at any time is a fold over the events in its journal up to
// that time. Orders are filled by price bars, and only by bars that are closed, so a backtest and a
// live paper account share one implementation and neither sees the future.
//
// Simplifications, in favor of worse results where there is a choice:
//   - A market order fills at the open of the first bar that begins after the decision, plus
//     slippage, up to a tenth of the volume of that bar. With a live order book it walks the
//     book instead.
//   - A limit order fills at its price if a bar trades through it, not if a bar touches it.
//   - A stop fills at its trigger, or at the open of the bar if the price gapped over it, plus
//     slippage. If a bar touches a stop and a target, the stop is filled.
//   - Funding is paid on the value at the close of the last bar, not at the oracle price.
//   - A position is liquidated at the adverse extreme of a bar if its equity falls below the
//     maintenance margin there.
package paper

import (
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

// Settings are a paper account's rules.
type Settings struct {
	DepositUSD  decimal.Decimal
	Interval    market.Interval // interval of the bars that fill orders
	SlippageBps int
	Fees        market.Fees
}

// DefaultFees are Hyperliquid's rates for an account with no trading volume.
var DefaultFees = market.Fees{Taker: decimal.New(45, -5), Maker: decimal.New(15, -5)}

// volumeShare is the share of a bar's volume that one order can fill.
var volumeShare = decimal.New(1, -1)

const bps = 10_000

// slip returns a price that is worse for the side by the slippage.
func (s *Settings) slip(side market.Side, price decimal.Decimal) decimal.Decimal {
	return price.Mul(decimal.NewFromInt(bps).Add(side.Signed(decimal.NewFromInt(int64(s.SlippageBps))))).Div(decimal.NewFromInt(bps))
}

// Event is a change to an account. Exactly one of its pointers is set.
type Event struct {
	AsOf    time.Time       `json:"-"` // time when the event becomes known, which may be after it happened
	Open    *Opening        `json:"open,omitempty"`
	Order   *Order          `json:"order,omitempty"`
	Fill    *market.Fill    `json:"fill,omitempty"`
	Cancel  *Cancellation   `json:"cancel,omitempty"`
	Funding *market.Payment `json:"funding,omitempty"`
	Mark    *Mark           `json:"mark,omitempty"`
}

// Kinds of events in the journal.
const (
	kindOpen    = "open"
	kindOrder   = "order"
	kindFill    = "fill"
	kindCancel  = "cancel"
	kindFunding = "funding"
	kindMark    = "mark"
)

// kind returns the event's kind and the client order ID that it refers to.
func (e *Event) kind() (kind, key string) {
	switch {
	case e.Open != nil:
		return kindOpen, ""
	case e.Order != nil:
		return kindOrder, e.Order.ClientID
	case e.Fill != nil:
		return kindFill, e.Fill.ClientID
	case e.Cancel != nil:
		return kindCancel, e.Cancel.ClientID
	case e.Funding != nil:
		return kindFunding, ""
	}
	return kindMark, ""
}

// Opening opens an account, or resets it.
type Opening struct {
	DepositUSD decimal.Decimal `json:"depositUsd"`
}

// Order is one of the account's orders.
type Order struct {
	market.OpenOrder
	Parent string `json:"parent,omitempty"` // client ID of the order that this one protects
	Refuse string `json:"refuse,omitempty"` // why the order was rejected; empty if it was accepted
}

// Cancellation removes an order.
type Cancellation struct {
	ClientID string `json:"clientOrderId"`
	Reason   string `json:"reason"`
}

// Mark records how far the account has been settled.
type Mark struct {
	Prices    map[string]decimal.Decimal `json:"prices,omitempty"`
	Settled   map[string]time.Time       `json:"settled,omitempty"` // end of the last bar, by symbol
	Funded    map[string]time.Time       `json:"funded,omitempty"`  // time of the last funding rate, by symbol
	Watermark market.Watermark           `json:"watermark"`
	HeldHours int                        `json:"heldHours,omitempty"` // hours for which funding was due
}
