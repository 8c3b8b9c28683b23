// Package market defines the domain of the trading pack: bars, markets, orders and portfolios,
// and the clients that provide them.
//
// No type in this package has a clock. Every query specifies the time that it refers to, so that
// the same code serves live calls and backtests. Prices, sizes and amounts are decimals.
package market

import (
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Interval is the length of a bar.
type Interval string

// Intervals lists all intervals, shortest first.
var Intervals = []Interval{"1m", "5m", "15m", "1h", "4h", "1d"}

var durations = map[Interval]time.Duration{
	"1m": time.Minute, "5m": 5 * time.Minute, "15m": 15 * time.Minute,
	"1h": time.Hour, "4h": 4 * time.Hour, "1d": 24 * time.Hour,
}

// Duration returns the interval's length, or zero if the interval is unknown.
func (i Interval) Duration() time.Duration { return durations[i] }

// Valid reports whether the interval is known.
func (i Interval) Valid() bool { return slices.Contains(Intervals, i) }

// LastClosed returns the start of the newest bar that is closed at asOf.
func (i Interval) LastClosed(asOf time.Time) time.Time {
	d := i.Duration()
	return asOf.UTC().Truncate(d).Add(-d)
}

// Bar is the price action of one interval.
type Bar struct {
	Start, End             time.Time // End is the next bar's start
	Open, High, Low, Close decimal.Decimal
	Volume                 decimal.Decimal // in units of the base asset
	Trades                 int
}

// ClosedAt reports whether the bar is complete at t. An incomplete bar must not be shown, because
// its prices are still in the future.
func (b Bar) ClosedAt(t time.Time) bool { return !b.End.After(t) }

// MinOrderUSD is the minimum value of an order, unless it closes a position.
var MinOrderUSD = decimal.NewFromInt(10)

// Market is a perpetual that can be traded, and the rules for its orders.
type Market struct {
	Symbol       string
	Asset        int   // index at the venue, used to sign orders
	SizeDecimals int32 // decimal places in a size
	MaxLeverage  int   // for a small position
	Tiers        []MarginTier
	Delisted     bool
}

// MarginTier limits the leverage of positions above a given value.
type MarginTier struct {
	LowerBoundUSD decimal.Decimal
	MaxLeverage   int
}

// maxPriceDecimals and maxPriceDigits limit the precision of perpetuals' prices.
const (
	maxPriceDecimals = 6
	maxPriceDigits   = 5
)

// Lot returns the smallest size of an order.
func (m Market) Lot() decimal.Decimal { return decimal.New(1, -m.SizeDecimals) }

// RoundSize rounds a size towards zero to whole lots.
func (m Market) RoundSize(size decimal.Decimal) decimal.Decimal { return size.Truncate(m.SizeDecimals) }

// RoundPrice rounds a price to the nearest tick: five significant digits and 6 − SizeDecimals
// decimal places. Whole numbers are always valid.
func (m Market) RoundPrice(price decimal.Decimal) decimal.Decimal {
	places := min(maxPriceDecimals-m.SizeDecimals, maxPriceDigits-leadingDigits(price))
	return price.Round(max(places, 0))
}

// leadingDigits returns the number of digits before the decimal point. It is negative if zeros
// follow the point: -2 for 0.00123.
func leadingDigits(d decimal.Decimal) int32 {
	if d.IsZero() {
		return 1
	}
	return int32(d.NumDigits()) + d.Exponent() //nolint:gosec // no decimal here has so many digits
}

// LeverageAt returns the maximum leverage for a position of the given value.
func (m Market) LeverageAt(notionalUSD decimal.Decimal) int {
	leverage := m.MaxLeverage
	for _, t := range m.Tiers {
		if notionalUSD.GreaterThanOrEqual(t.LowerBoundUSD) {
			leverage = t.MaxLeverage
		}
	}
	return max(leverage, 1)
}

// AssetContext is a market's state at a given time.
type AssetContext struct {
	Symbol        string
	At            time.Time
	Mark, Oracle  decimal.Decimal
	Mid           decimal.NullDecimal // absent if one side of the book is empty
	Funding       decimal.Decimal     // predicted hourly rate
	Premium       decimal.NullDecimal
	OpenInterest  decimal.Decimal // in units of the base asset
	DayVolumeUSD  decimal.Decimal
	PreviousClose decimal.Decimal // price 24 hours ago
}

// Book is a snapshot of an order book, with the best prices first.
type Book struct {
	Symbol     string
	At         time.Time
	Bids, Asks []Level
}

// Level is the size offered at one price.
type Level struct {
	Price, Size decimal.Decimal
	Orders      int
}

// Rate is a funding rate that was paid: a long position pays Rate × value × hours.
type Rate struct {
	At      time.Time
	Rate    decimal.Decimal // per hour
	Premium decimal.NullDecimal
}

// Post is a news item. Its text is untrusted.
type Post struct {
	ID          string
	PublishedAt time.Time
	Title       string
	Source      string
	URL         string
	Symbols     []string
	Kind        string
	// Votes are the readers' reactions until today, or nil. They must not be shown for a past time,
	// because they include later reactions.
	Votes *Votes
}

// Votes are readers' reactions to a post.
type Votes struct{ Positive, Negative, Important int }
