package market

import (
	"time"

	"github.com/shopspring/decimal"
)

// Watermark records the equity from which losses are measured.
type Watermark struct {
	HighUSD     decimal.Decimal `json:"highUsd"`
	Day         time.Time       `json:"day,omitzero"` // 00:00 UTC of the last observation
	DayStartUSD decimal.Decimal `json:"dayStartUsd"`  // first equity on that day
}

// Observe adds the equity at the given time. Times must not decrease.
func (w *Watermark) Observe(at time.Time, equity decimal.Decimal) {
	if day := at.UTC().Truncate(24 * time.Hour); day.After(w.Day) {
		w.Day, w.DayStartUSD = day, equity
	}
	w.HighUSD = decimal.Max(w.HighUSD, equity)
}
