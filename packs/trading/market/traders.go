package market

import (
	"context"
	"time"

	"github.com/shopspring/decimal"
)

// Traders provides a venue's leaderboard. It has no history.
type Traders interface {
	Top(ctx context.Context, q TradersQuery) (rows []Trader, fetchedAt time.Time, err error)
}

// TradersQuery selects the best accounts in a period.
type TradersQuery struct {
	AsOf          time.Time
	Window        string // day, week, month or allTime
	By            string // pnl, roi or vlm
	MinAccountUSD decimal.Decimal
	Limit         int
}

// Trader is an account on the leaderboard, with its results for the period.
type Trader struct {
	Address    string
	Name       string // chosen by its owner; may be empty
	AccountUSD decimal.Decimal
	PnlUSD     decimal.Decimal
	Return     decimal.Decimal // as a fraction: 0.1 is 10 %
	VolumeUSD  decimal.Decimal
}

// FundingForecast provides predictions of the next funding rate, at this and other venues.
type FundingForecast interface {
	Forecast(ctx context.Context, symbol string) ([]Forecast, error)
}

// Forecast is one venue's predicted funding rate.
type Forecast struct {
	Venue string
	Rate  decimal.Decimal // for the number of Hours
	Next  time.Time
	Hours int
}
