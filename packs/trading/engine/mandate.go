package engine

import (
	"fmt"
	"slices"
	"time"

	"github.com/shopspring/decimal"
)

// Mandate limits what may be traded. A zero limit does not apply.
type Mandate struct {
	AllowedSymbols []string // empty for all symbols
	RequireStop    bool     // whether opening orders need a stop loss
	CollarBps      int      // maximum distance of an order's price beyond the market

	MaxOrderUSD    decimal.Decimal
	MaxPositionUSD decimal.Decimal
	MaxPositionPct decimal.Decimal // percent of the equity
	MaxExposurePct decimal.Decimal // percent of the equity, for all positions together
	MaxSymbols     int
	MaxLeverage    decimal.Decimal

	Losses
	Frequency
}

// Losses limits losses.
type Losses struct {
	MaxDailyLossUSD decimal.Decimal // since 00:00 UTC
	MaxDailyLossPct decimal.Decimal // percent of the equity at 00:00 UTC
	MaxDrawdownPct  decimal.Decimal // percent of the highest equity
}

// Frequency limits how often an account trades.
type Frequency struct {
	OrdersPerMinute int
	Cooldown        time.Duration // wait after closing a position before the symbol can be opened again
	MaxStopsPerDay  int           // number of stop losses after which opening orders are refused
	DuplicateWithin time.Duration // period in which an identical order counts as a duplicate
}

// DefaultMandate returns the limits for an account that does not set any.
func DefaultMandate() Mandate {
	return Mandate{
		CollarBps: 100, MaxPositionPct: decimal.NewFromInt(25), MaxExposurePct: decimal.NewFromInt(100), MaxSymbols: 5, MaxLeverage: decimal.NewFromInt(3),
		Losses:    Losses{MaxDailyLossPct: decimal.NewFromInt(5), MaxDrawdownPct: decimal.NewFromInt(20)},
		Frequency: Frequency{OrdersPerMinute: 6, MaxStopsPerDay: 4, DuplicateWithin: time.Minute},
	}
}

// CheckTightens returns an error for the first limit in m that is less strict than the same limit
// in base.
func (m *Mandate) CheckTightens(base *Mandate) error {
	for _, s := range m.AllowedSymbols {
		if len(base.AllowedSymbols) > 0 && !slices.Contains(base.AllowedSymbols, s) {
			return fmt.Errorf("allowedSymbols: %s is not allowed for all accounts", s)
		}
	}
	if len(m.AllowedSymbols) == 0 && len(base.AllowedSymbols) > 0 {
		return fmt.Errorf("allowedSymbols: an empty list would allow more symbols than the list for all accounts")
	}
	if base.RequireStop && !m.RequireStop {
		return fmt.Errorf("requireStop: cannot be false because it is true for all accounts")
	}
	if base.Cooldown > m.Cooldown {
		return fmt.Errorf("cooldown: %s is shorter than %s, which applies to all accounts", m.Cooldown, base.Cooldown)
	}
	if base.DuplicateWithin > m.DuplicateWithin {
		return fmt.Errorf("duplicateWithin: %s is shorter than %s, which applies to all accounts", m.DuplicateWithin, base.DuplicateWithin)
	}
	n := func(i int) decimal.Decimal { return decimal.NewFromInt(int64(i)) }
	for _, limit := range []struct {
		name       string
		own, limit decimal.Decimal
	}{
		{"maxOrderUsd", m.MaxOrderUSD, base.MaxOrderUSD},
		{"maxPositionUsd", m.MaxPositionUSD, base.MaxPositionUSD},
		{"maxPositionPct", m.MaxPositionPct, base.MaxPositionPct},
		{"maxExposurePct", m.MaxExposurePct, base.MaxExposurePct},
		{"maxSymbols", n(m.MaxSymbols), n(base.MaxSymbols)},
		{"maxLeverage", m.MaxLeverage, base.MaxLeverage},
		{"collarBps", n(m.CollarBps), n(base.CollarBps)},
		{"maxDailyLossUsd", m.MaxDailyLossUSD, base.MaxDailyLossUSD},
		{"maxDailyLossPct", m.MaxDailyLossPct, base.MaxDailyLossPct},
		{"maxDrawdownPct", m.MaxDrawdownPct, base.MaxDrawdownPct},
		{"ordersPerMinute", n(m.OrdersPerMinute), n(base.OrdersPerMinute)},
		{"maxStopsPerDay", n(m.MaxStopsPerDay), n(base.MaxStopsPerDay)},
	} {
		if limit.limit.IsPositive() && (limit.own.IsZero() || limit.own.GreaterThan(limit.limit)) {
			return fmt.Errorf("%s: %s is more than %s, which applies to all accounts", limit.name, limit.own, limit.limit)
		}
	}
	return nil
}

// Describe returns the limits that apply, keyed by the names of their settings.
func (m *Mandate) Describe() map[string]any {
	limits := map[string]any{"allowedSymbols": append([]string{}, m.AllowedSymbols...), "requireStop": m.RequireStop}
	for name, limit := range map[string]decimal.Decimal{
		"maxOrderUsd": m.MaxOrderUSD, "maxPositionUsd": m.MaxPositionUSD, "maxPositionPct": m.MaxPositionPct, "maxExposurePct": m.MaxExposurePct,
		"maxLeverage": m.MaxLeverage, "maxDailyLossUsd": m.MaxDailyLossUSD, "maxDailyLossPct": m.MaxDailyLossPct, "maxDrawdownPct": m.MaxDrawdownPct,
	} {
		if limit.IsPositive() {
			limits[name] = limit
		}
	}
	for name, limit := range map[string]int{
		"maxSymbols": m.MaxSymbols, "collarBps": m.CollarBps, "ordersPerMinute": m.OrdersPerMinute, "maxStopsPerDay": m.MaxStopsPerDay,
	} {
		if limit > 0 {
			limits[name] = limit
		}
	}
	for name, limit := range map[string]time.Duration{"cooldown": m.Cooldown, "duplicateWithin": m.DuplicateWithin} {
		if limit > 0 {
			limits[name] = limit.String()
		}
	}
	return limits
}
