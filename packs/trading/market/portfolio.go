package market

import (
	"time"

	"github.com/shopspring/decimal"
)

// Snapshot is an account's state at a given time.
type Snapshot struct {
	AsOf          time.Time
	EquityUSD     decimal.Decimal // cash plus unrealized profit
	AvailableUSD  decimal.Decimal // not used as margin
	MarginUsedUSD decimal.Decimal
	Positions     []Position  // sorted by symbol
	Orders        []OpenOrder // oldest first
	Watermark     Watermark   // zero if the broker does not have one
}

// Position returns the position in a symbol.
func (s *Snapshot) Position(symbol string) (Position, bool) {
	for _, p := range s.Positions {
		if p.Symbol == symbol {
			return p, true
		}
	}
	return Position{Symbol: symbol}, false
}

// Position is an open position.
type Position struct {
	Symbol           string              `json:"symbol"`
	Size             decimal.Decimal     `json:"size"` // negative for a short position
	EntryPrice       decimal.Decimal     `json:"entryPrice"`
	MarkPrice        decimal.Decimal     `json:"markPrice"`
	UnrealizedUSD    decimal.Decimal     `json:"unrealizedUsd"`
	MarginUSD        decimal.Decimal     `json:"marginUsd"`
	Leverage         decimal.Decimal     `json:"leverage"`
	LiquidationPrice decimal.NullDecimal `json:"liquidationPrice,omitzero"` // absent if no price liquidates the position
	Since            time.Time           `json:"since,omitzero"`            // zero if unknown
}

// NotionalUSD returns the position's absolute value.
func (p Position) NotionalUSD() decimal.Decimal { return p.Size.Mul(p.MarkPrice).Abs() }

// Side returns the side that opens the position.
func (p Position) Side() Side {
	if p.Size.IsNegative() {
		return Sell
	}
	return Buy
}

// OpenOrder is an order that can still be filled.
type OpenOrder struct {
	Order
	OrderID   string          `json:"orderId,omitempty"`
	At        time.Time       `json:"at"`
	Remaining decimal.Decimal `json:"remaining"` // unfilled size
}
