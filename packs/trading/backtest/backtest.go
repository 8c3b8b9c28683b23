// Package backtest runs a strategy over past data and reports how it performed.
//
// A strategy is a tool. The runner calls it once for every bar, with the end of the bar as the
// as-of time, and all tools that the strategy calls see the market at that time. Nothing depends on
// the clock or on chance, so the same input always produces the same report and digest.
package backtest

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// Account is the simulated account that the strategy trades with.
type Account interface {
	market.Portfolio
	market.FillHistory
	market.FundingHistory
	// FundingHours returns how many hours of funding were paid, and how many were due.
	FundingHours(ctx context.Context, asOf time.Time) (paid, due int, err error)
}

// Config describes a backtest.
type Config struct {
	Strategy string
	Symbol   string
	Interval market.Interval
	From, To time.Time
	Account  Account
	Rules    []string // assumptions about fills, for the report

	// Step runs the strategy at an as-of time.
	Step func(ctx context.Context, asOf time.Time) error
	// Rejections returns the number of decisions and the rejections by rule, for the whole run.
	Rejections func(ctx context.Context, asOf time.Time) (decisions int, byRule map[engine.Rule]int, err error)
	// Digest returns a digest of the journal.
	Digest func(ctx context.Context) (string, error)
	// Progress is called from time to time. It may be nil.
	Progress func(done, total int)
}

// MaxTicks limits the length of a backtest.
const MaxTicks = 200_000

// maxFailures is the number of failed calls after which a run is stopped.
const maxFailures = 100

// Run runs a backtest.
func Run(ctx context.Context, c Config) (*Report, error) {
	step := c.Interval.Duration()
	from, to := c.From.UTC().Truncate(step), c.To.UTC().Truncate(step)
	if from.Before(c.From) {
		from = from.Add(step)
	}
	total := int(to.Sub(from)/step) + 1
	if total < 2 || total > MaxTicks {
		return nil, fmt.Errorf("a backtest must have 2 to %d bars, not %d", MaxTicks, max(total, 0))
	}
	r := &Report{Strategy: c.Strategy, Symbol: c.Symbol, Interval: c.Interval, From: from, To: to, Assumptions: c.Rules}
	for i := range total {
		asOf := from.Add(time.Duration(i) * step)
		if err := r.step(ctx, &c, asOf); err != nil {
			return nil, err
		}
		if c.Progress != nil && (i%500 == 0 || i == total-1) {
			c.Progress(i+1, total)
		}
	}
	return r, r.finish(ctx, &c)
}

// step calls the strategy once and records the equity.
func (r *Report) step(ctx context.Context, c *Config, asOf time.Time) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	r.Ticks++
	if err := c.Step(ctx, asOf); err != nil {
		e := toolyard.AsError(err)
		if e.Code.Correctable() || errors.Is(err, context.Canceled) {
			return fmt.Errorf("cannot call the strategy at %s: %w", asOf.Format(time.RFC3339), err)
		}
		if r.Failures++; r.FirstFailure == "" {
			r.FirstFailure = fmt.Sprintf("%s: %s", asOf.Format(time.RFC3339), e.Error())
		}
		if r.Failures >= maxFailures {
			return fmt.Errorf("the strategy failed %d times; the first time at %s", r.Failures, r.FirstFailure)
		}
	}
	snapshot, err := c.Account.At(ctx, asOf)
	if err != nil {
		return err
	}
	r.Curve = append(r.Curve, Point{asOf, snapshot.EquityUSD})
	return nil
}

// finish collects fills, funding and statistics.
func (r *Report) finish(ctx context.Context, c *Config) (err error) {
	if r.Fills, err = c.Account.Fills(ctx, time.Time{}, r.To); err != nil {
		return err
	}
	for _, f := range r.Fills {
		r.FeesUSD = r.FeesUSD.Add(f.FeeUSD)
		if f.RealizedUSD.IsZero() {
			continue
		}
		r.Trades++
		r.RealizedUSD = r.RealizedUSD.Add(f.RealizedUSD)
		if f.RealizedUSD.IsPositive() {
			r.Wins++
		}
	}
	payments, err := c.Account.Payments(ctx, time.Time{}, r.To)
	if err != nil {
		return err
	}
	for _, p := range payments {
		r.FundingUSD = r.FundingUSD.Add(p.AmountUSD)
	}
	paid, due, err := c.Account.FundingHours(ctx, r.To)
	if err != nil {
		return err
	}
	r.MissingFunding = due - paid
	if r.Decisions, r.Rejections, err = c.Rejections(ctx, r.To); err != nil {
		return err
	}
	r.statistics(c.Interval.Duration())
	r.Digest, err = c.Digest(ctx)
	return err
}

// Point is the equity at one point in time.
type Point struct {
	At        time.Time       `json:"at"`
	EquityUSD decimal.Decimal `json:"equityUsd"`
}
