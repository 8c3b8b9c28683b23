package market

import "github.com/shopspring/decimal"

// MaintenanceRate returns the share of a position's value that the account's equity must not fall
// below: half of the initial margin at the highest leverage in the position's tier.
func (m Market) MaintenanceRate(notionalUSD decimal.Decimal) decimal.Decimal {
	return decimal.NewFromInt(1).DivRound(decimal.NewFromInt(int64(2*m.LeverageAt(notionalUSD))), 10)
}

// LiquidationPrice returns the price at which a position is liquidated if all other prices stay the
// same. At that price, the account's equity equals the maintenance margin of all positions. equity
// is the equity at the given price, and other is the maintenance margin of the other positions. The
// result is absent if no positive price liquidates the position.
func (m Market) LiquidationPrice(size, price, equity, other decimal.Decimal) decimal.NullDecimal {
	if size.IsZero() {
		return decimal.NullDecimal{}
	}
	rate := m.MaintenanceRate(size.Mul(price).Abs())
	// Solve equity + size·(p − price) = other + |size|·p·rate for p.
	slope := size.Sub(size.Abs().Mul(rate))
	at := other.Add(size.Mul(price)).Sub(equity).DivRound(slope, 10)
	if !at.IsPositive() {
		return decimal.NullDecimal{}
	}
	return decimal.NewNullDecimal(m.RoundPrice(at))
}
