package market

import (
	"context"
	"time"

	"github.com/shopspring/decimal"
)

// The clients return errors of type *toolyard.Error: NoData for an unknown symbol or if there is no
// data for the time, Unavailable if the venue fails, and RateLimited with RetryAfter.

// Bars provides price bars.
type Bars interface {
	// Recent returns at most n bars that are closed at asOf, newest first.
	Recent(ctx context.Context, symbol string, interval Interval, n int, asOf time.Time) ([]Bar, error)
	// Between returns the bars with from ≤ Start and End ≤ to, oldest first. Intervals that had no
	// trades may be missing.
	Between(ctx context.Context, symbol string, interval Interval, from, to time.Time) ([]Bar, error)
}

// Markets provides a venue's perpetuals and their state.
type Markets interface {
	// Specs returns the rules for all markets, by symbol. These are the current rules, because no
	// venue publishes their history.
	Specs(ctx context.Context) (map[string]Market, error)
	// Contexts and Book return NoData for a past time that is not recorded.
	Contexts(ctx context.Context, asOf time.Time) ([]AssetContext, error)
	Book(ctx context.Context, symbol string, asOf time.Time) (Book, error)
}

// Funding provides the history of funding rates.
type Funding interface {
	// Rates returns the rates with from < At ≤ to, oldest first.
	Rates(ctx context.Context, symbol string, from, to time.Time) ([]Rate, error)
}

// News provides headlines.
type News interface {
	// Posts returns posts, newest first.
	Posts(ctx context.Context, q NewsQuery) ([]Post, error)
}

// NewsQuery selects posts with From ≤ PublishedAt ≤ To about any of the symbols, or about
// anything if there are none.
type NewsQuery struct {
	Symbols  []string
	From, To time.Time
	Limit    int
}

// Portfolio provides an account's state. A live account has no history and returns NoData for a
// past time.
type Portfolio interface {
	At(ctx context.Context, asOf time.Time) (Snapshot, error)
}

// Fees are an account's fee rates, as a share of a fill's value.
type Fees struct{ Taker, Maker decimal.Decimal }

// Broker places and cancels an account's orders. It is lent only in mode write.
//
// A broker holds no state between calls, so that every replica can use it. The account draws a
// Stamp for each action from its journal, in the same append that records the intent, and
// records the outcome afterwards.
//
// Place and Cancel return an error with code OutcomeUnknown if the venue may have received the
// action. The account then calls Find until the action has expired: an order that is not found
// after Stamp.Expires was not placed and never will be. Any other error means that nothing
// happened. If the venue refuses an order, Place returns no error but a Placed with Status Rejected.
type Broker interface {
	Place(ctx context.Context, o Order, s Stamp) (Placed, error)
	// Cancel cancels an order. It is not an error if the order is no longer open.
	Cancel(ctx context.Context, r Ref, s Stamp) error
	Find(ctx context.Context, clientID string) (placed Placed, found bool, err error)
}

// Stamp makes a signed action unique and limits its lifetime.
type Stamp struct {
	At      time.Time `json:"at"`      // as-of time of the action
	Nonce   int64     `json:"nonce"`   // in milliseconds; greater than all of the account's earlier nonces
	Expires time.Time `json:"expires"` // the venue refuses the action after this time
}

// StampLifetime is the time from drawing a stamp to its expiry.
const StampLifetime = 10 * time.Second

// NextStamp returns the stamp that follows an account's last one. Store it with the intent in a
// single append to the account's journal: the journal's version check prevents two replicas from
// using the same nonce.
func NextStamp(last int64, now time.Time) Stamp {
	return Stamp{At: now, Nonce: max(now.UnixMilli(), last+1), Expires: now.Add(StampLifetime)}
}

// SwitchedBroker is implemented by a broker whose venue can cancel all of an account's orders at a
// set time, even if the yard is down by then.
type SwitchedBroker interface {
	// CancelAllAt schedules the cancellation of all open orders. The time must be at least 5
	// seconds away.
	CancelAllAt(ctx context.Context, at time.Time, s Stamp) error
}

// LocalBroker is implemented by a broker that can cancel orders while no venue can be reached.
type LocalBroker interface {
	// CancelAll cancels all open orders and returns their number.
	CancelAll(ctx context.Context, at time.Time) (int, error)
}

// FillHistory is implemented by a Portfolio that can list its fills.
type FillHistory interface {
	// Fills returns the fills with from < At ≤ to, oldest first.
	Fills(ctx context.Context, from, to time.Time) ([]Fill, error)
}

// FundingHistory is implemented by a Portfolio that can list its funding payments.
type FundingHistory interface {
	// Payments returns the payments with from < At ≤ to, oldest first.
	Payments(ctx context.Context, from, to time.Time) ([]Payment, error)
}

// Payment is a funding payment that an account received or, if negative, made.
type Payment struct {
	At        time.Time       `json:"at"`
	Symbol    string          `json:"symbol"`
	Rate      decimal.Decimal `json:"rate"`
	AmountUSD decimal.Decimal `json:"amountUsd"`
}

// FeeSchedule is implemented by a Portfolio that can report its fee rates.
type FeeSchedule interface {
	Fees(ctx context.Context) (Fees, error)
}
