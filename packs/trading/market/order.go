package market

import (
	"time"

	"github.com/shopspring/decimal"
)

// Side is the direction of an order.
type Side string

// The sides.
const (
	Buy  Side = "buy"
	Sell Side = "sell"
)

// Opposite returns the other side.
func (s Side) Opposite() Side {
	if s == Buy {
		return Sell
	}
	return Buy
}

// Signed returns a size with the sign of the side: positive for Buy, negative for Sell.
func (s Side) Signed(size decimal.Decimal) decimal.Decimal {
	if s == Sell {
		return size.Neg()
	}
	return size
}

// OrderType determines how an order is triggered and priced.
type OrderType string

// The order types. A market order is sent as a limit order with time in force Ioc.
const (
	MarketOrder OrderType = "market"
	LimitOrder  OrderType = "limit"
	StopOrder   OrderType = "stop"
	TakeProfit  OrderType = "take_profit"
)

// Triggered reports whether orders of the type wait for a trigger price.
func (t OrderType) Triggered() bool { return t == StopOrder || t == TakeProfit }

// TimeInForce determines how long an order may rest in the book.
type TimeInForce string

// Values of TimeInForce: until canceled, not at all, and only as a maker.
const (
	GTC TimeInForce = "Gtc"
	IOC TimeInForce = "Ioc"
	ALO TimeInForce = "Alo"
)

// Order is an order that can be sent unchanged: sizes are whole lots and prices are whole ticks.
type Order struct {
	ClientID   string              `json:"clientOrderId"` // 0x and 32 hexadecimal digits; see ClientID
	Symbol     string              `json:"symbol"`
	Side       Side                `json:"side"`
	Type       OrderType           `json:"type"`
	Size       decimal.Decimal     `json:"size"`
	Price      decimal.Decimal     `json:"price"`                 // limit; for a market order, the worst acceptable price
	Trigger    decimal.NullDecimal `json:"triggerPrice,omitzero"` // for a stop or take_profit
	TIF        TimeInForce         `json:"tif"`
	ReduceOnly bool                `json:"reduceOnly,omitempty"`

	// StopLoss and TakeProfit are trigger prices of reduce-only orders that close the position that
	// the order opens. Each has its own client ID; see ChildID.
	StopLoss   decimal.NullDecimal `json:"stopLoss,omitzero"`
	TakeProfit decimal.NullDecimal `json:"takeProfit,omitzero"`
}

// Status is an order's state at a broker.
type Status string

// The states. Pending means that the order was accepted but its fill is not known yet.
const (
	Pending  Status = "pending"
	Resting  Status = "resting"
	Filled   Status = "filled"
	Canceled Status = "canceled" // the unfilled part was canceled
	Rejected Status = "rejected" // refused by the broker; nothing was filled
)

// Open reports whether an order in this state can still be filled.
func (s Status) Open() bool { return s == Pending || s == Resting }

// Placed is a broker's response about an order.
type Placed struct {
	ClientID string          `json:"clientOrderId"`
	OrderID  string          `json:"orderId,omitempty"` // assigned by the venue
	Status   Status          `json:"status"`
	At       time.Time       `json:"at"`
	Filled   decimal.Decimal `json:"filled"`           // filled size
	AvgPrice decimal.Decimal `json:"avgPrice"`         // zero if nothing was filled
	FeeUSD   decimal.Decimal `json:"feeUsd"`           // zero if not known yet
	Detail   string          `json:"detail,omitempty"` // the broker's reason for a rejection or cancellation
}

// Ref identifies an order at its broker. One of the IDs is enough.
type Ref struct {
	Symbol   string `json:"symbol"`
	ClientID string `json:"clientOrderId,omitempty"`
	OrderID  string `json:"orderId,omitempty"`
}

// Fill is one execution of an order.
type Fill struct {
	ID          string          `json:"id"` // unique within the account
	ClientID    string          `json:"clientOrderId,omitempty"`
	OrderID     string          `json:"orderId,omitempty"`
	Symbol      string          `json:"symbol"`
	Side        Side            `json:"side"`
	Size        decimal.Decimal `json:"size"`
	Price       decimal.Decimal `json:"price"`
	FeeUSD      decimal.Decimal `json:"feeUsd"`
	RealizedUSD decimal.Decimal `json:"realizedUsd"` // profit on the closed part, before fees
	After       decimal.Decimal `json:"after"`       // size of the position after the fill
	At          time.Time       `json:"at"`
	Reason      FillReason      `json:"reason,omitempty"`
}

// FillReason is the reason why an order was filled. It is empty for an ordinary fill.
type FillReason string

// The reasons.
const (
	StoppedOut FillReason = "stop"
	TookProfit FillReason = "take_profit"
	Liquidated FillReason = "liquidation"
)
