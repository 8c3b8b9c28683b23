// Package account runs the trading pack's accounts: it applies the engine's rules to proposals,
// places each order at most once, and records every decision in the account's journal.
//
// The journal is the only state. An account reads it, decides, and appends with the sequence number
// that it read; if another replica was faster, it starts over. An order is recorded as an intent,
// with its nonce, before it is sent. Whatever happens next, the intent eventually has an outcome:
// placed, not placed or unknown. An unknown outcome blocks new risk until it is resolved.
package account

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Submission determines whether proposals become orders.
type Submission string

// Possible submissions. With Confirm, a person has to agree to every order.
const (
	Auto    Submission = "auto"
	Confirm Submission = "confirm"
	Never   Submission = "never"
)

// Data provides the prices that decisions are based on.
type Data interface {
	market.Bars
	market.Markets
}

// Options describe an account.
type Options struct {
	Name       string
	BrokerName string // such as paper
	Mandate    engine.Mandate
	Submit     Submission
	Portfolio  market.Portfolio
	Data       Data
	// Interval is the interval of the bars whose closing prices a simulated account uses.
	Interval market.Interval
	Journal  yard.Journal
	Now      func() time.Time
	Log      *slog.Logger
}

// Account is an account that can be traded.
type Account struct {
	Options
	ledger ledgerCache
}

// New returns an account.
func New(o Options) *Account {
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	return &Account{Options: o}
}

// Restart gives the account a new, empty state with another journal. The account must not be in
// use.
func (a *Account) Restart(j yard.Journal, i market.Interval) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	a.Journal, a.Interval, a.ledger.ledger = j, i, Ledger{}
}

func (a *Account) stream() string { return "account/" + a.Name }

// maxQuoteAge is the maximum age of a price, in addition to the length of a bar.
const maxQuoteAge = 30 * time.Second

// quote returns a symbol's price: the venue's price or, in a simulation, the last close. The zero
// quote means that there is none.
func (a *Account) quote(ctx context.Context, symbol string, asOf time.Time, simulated bool) (engine.Quote, error) {
	if simulated {
		bars, err := a.Data.Recent(ctx, symbol, a.Interval, 1, asOf)
		if err != nil || len(bars) == 0 {
			return engine.Quote{}, ignoreNoData(err)
		}
		return engine.Quote{Mid: bars[0].Close, Mark: bars[0].Close, At: bars[0].End, MaxAge: a.Interval.Duration() + maxQuoteAge}, nil
	}
	contexts, err := a.Data.Contexts(ctx, asOf)
	if err != nil {
		return engine.Quote{}, err
	}
	for _, c := range contexts {
		if c.Symbol == symbol {
			return engine.Quote{Mid: c.Mid.Decimal, Mark: c.Mark, At: c.At, MaxAge: maxQuoteAge}, nil
		}
	}
	return engine.Quote{}, nil
}

// Streams returns the journal streams with a caller's decisions and observations.
func (a *Account) Streams(caller string) []string {
	return []string{a.stream(), a.observationStream(caller)}
}

// HasCode reports whether an error has the given platform code.
func HasCode(err error, code toolyard.Code) bool {
	e, ok := errors.AsType[*toolyard.Error](err)
	return ok && e.Code == code
}

func ignoreNoData(err error) error {
	if HasCode(err, toolyard.NoData) {
		return nil
	}
	return err
}

// Fills returns the fills in a period, or nil if the broker has no history.
func (a *Account) Fills(ctx context.Context, from, to time.Time) ([]market.Fill, error) {
	if h, ok := a.Portfolio.(market.FillHistory); ok {
		return h.Fills(ctx, from, to)
	}
	return nil, nil
}

// Payments returns the funding payments in a period. It reports false if the broker has no history.
func (a *Account) Payments(ctx context.Context, from, to time.Time) ([]market.Payment, bool, error) {
	h, ok := a.Portfolio.(market.FundingHistory)
	if !ok {
		return nil, false, nil
	}
	list, err := h.Payments(ctx, from, to)
	return list, true, err
}

// input collects everything that a decision depends on. The ledger must be read before the
// portfolio: if an order is placed in between, this causes a version conflict, and the order is not
// overlooked.
func (a *Account) input(ctx context.Context, l *Ledger, r *Request) (engine.Input, error) {
	in := engine.Input{
		Mandate: &a.Mandate, Proposal: r.Proposal, ClientID: r.clientID(a.Name, l), Now: r.AsOf,
		History: l.history(r.AsOf, r.ExplicitKey),
	}
	specs, err := a.Data.Specs(ctx)
	if err != nil {
		return in, err
	}
	in.Market, in.Listed = specs[r.Proposal.Symbol]
	if in.Account, err = a.Portfolio.At(ctx, r.AsOf); err != nil {
		return in, err
	}
	l.addIntents(&in.Account)
	mark := l.mark(&in.Account)
	in.History.DayStartUSD, in.History.HighUSD = mark.DayStartUSD, mark.HighUSD
	if in.Listed && r.Proposal.PlacesOrder() {
		if in.Quote, err = a.quote(ctx, r.Proposal.Symbol, r.AsOf, r.Simulated); err != nil {
			return in, err
		}
	}
	if schedule, ok := a.Portfolio.(market.FeeSchedule); ok {
		if in.Fees, err = schedule.Fees(ctx); err != nil {
			return in, err
		}
	}
	if in.History.LastClosed, in.History.StopsToday, err = a.closings(ctx, r.Proposal.Symbol, r.AsOf); err != nil {
		return in, err
	}
	used, err := a.Journal.List(ctx, a.stream(), yard.JournalQuery{After: l.resetSeq, Key: in.ClientID, Limit: 1})
	in.History.ClientIDUsed = len(used) > 0
	return in, err
}

// closings returns when a position in the symbol was last closed, and how many stop losses were
// filled since midnight.
func (a *Account) closings(ctx context.Context, symbol string, now time.Time) (last time.Time, stops int, err error) {
	if a.Mandate.Cooldown == 0 && a.Mandate.MaxStopsPerDay == 0 {
		return last, 0, nil
	}
	midnight := now.UTC().Truncate(24 * time.Hour)
	from := midnight.Add(-1)
	if cooled := now.Add(-a.Mandate.Cooldown); cooled.Before(from) {
		from = cooled
	}
	fills, err := a.Fills(ctx, from, now)
	for _, f := range fills {
		if f.Symbol == symbol && f.After.IsZero() {
			last = f.At
		}
		if f.Reason == market.StoppedOut && !f.At.Before(midnight) {
			stops++
		}
	}
	return last, stops, err
}
