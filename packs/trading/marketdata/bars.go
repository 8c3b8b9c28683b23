package marketdata

import (
	"context"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

type barsArgs struct {
	Symbol   string `json:"symbol" minLength:"1" maxLength:"64" doc:"Symbol of the perpetual, such as BTC."`
	Interval string `json:"interval" enum:"1m,5m,15m,1h,4h,1d" doc:"Length of each bar."`
	Lookback int    `json:"lookback" minimum:"1" maximum:"500" default:"100" doc:"Number of bars to return, counted back from now."`
	Shape    string `json:"shape" enum:"objects,columns" default:"objects" doc:"Format of the result. objects: a list of bars. columns: one list for each field, which uses fewer tokens."`
}

// barRow is a bar in results. Decimals are strings, so that no digit is lost.
type barRow struct {
	TS     int64           `json:"ts"` // start of the bar, in milliseconds
	Open   decimal.Decimal `json:"open"`
	High   decimal.Decimal `json:"high"`
	Low    decimal.Decimal `json:"low"`
	Close  decimal.Decimal `json:"close"`
	Volume decimal.Decimal `json:"volume"`
	Trades int             `json:"trades"`
}

type barColumns struct {
	TS     []int64           `json:"ts"`
	Open   []decimal.Decimal `json:"open"`
	High   []decimal.Decimal `json:"high"`
	Low    []decimal.Decimal `json:"low"`
	Close  []decimal.Decimal `json:"close"`
	Volume []decimal.Decimal `json:"volume"`
	Trades []int             `json:"trades"`
}

func fetchRecentBars() *toolyard.Tool {
	return define("fetch_recent_bars", marketData,
		"Returns the most recent closed price bars (OHLCV) of a perpetual, newest first. ts is the start of the bar in milliseconds since 1970. Prices and volumes are decimal strings.",
		"Use to read recent price action before deciding to trade",
		func(ctx context.Context, c *toolyard.Call, in barsArgs) (any, error) {
			list, err := recentBars(ctx, c, in.Symbol, market.Interval(in.Interval), in.Lookback)
			if err != nil {
				return nil, err
			}
			if in.Shape == "columns" {
				return columnsOf(list), nil
			}
			out := make([]barRow, len(list))
			for i, b := range list {
				out[i] = barRow{b.Start.UnixMilli(), b.Open, b.High, b.Low, b.Close, b.Volume, b.Trades}
			}
			return out, nil
		})
}

// recentBars returns closed bars, newest first. There is at least one.
func recentBars(ctx context.Context, c *toolyard.Call, symbol string, interval market.Interval, n int) ([]market.Bar, error) {
	bars, err := client[market.Bars](c, "market data")
	if err != nil {
		return nil, err
	}
	list, err := bars.Recent(ctx, symbol, interval, n, c.AsOf)
	if err == nil && len(list) == 0 {
		err = toolyard.Errorf(toolyard.NoData, "No %s bars are available for %s at this time.", interval, symbol)
	}
	return list, explain(ctx, c, symbol, err)
}

func columnsOf(list []market.Bar) barColumns {
	var out barColumns
	for _, b := range list {
		out.TS, out.Trades = append(out.TS, b.Start.UnixMilli()), append(out.Trades, b.Trades)
		out.Open, out.High = append(out.Open, b.Open), append(out.High, b.High)
		out.Low, out.Close = append(out.Low, b.Low), append(out.Close, b.Close)
		out.Volume = append(out.Volume, b.Volume)
	}
	return out
}
