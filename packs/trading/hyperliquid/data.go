package hyperliquid

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// maxAge is the maximum age of an as-of time for data that has no history at the venue.
const maxAge = 5 * time.Minute

var (
	_ market.Bars            = (*Client)(nil)
	_ market.Markets         = (*Client)(nil)
	_ market.Funding         = (*Client)(nil)
	_ market.FundingForecast = (*Client)(nil)
	_ market.Traders         = (*Client)(nil)
)

// Recent implements [market.Bars]. It requests only closed bars, because the venue would also
// return the unfinished bar that contains the end time.
func (c *Client) Recent(ctx context.Context, symbol string, interval market.Interval, n int, asOf time.Time) ([]market.Bar, error) {
	last := interval.LastClosed(asOf)
	from := last.Add(-time.Duration(n-1) * interval.Duration())
	bars, err := c.Between(ctx, symbol, interval, from, last.Add(interval.Duration()))
	if err != nil {
		return nil, err
	}
	out := make([]market.Bar, 0, n)
	for i := len(bars) - 1; i >= 0 && len(out) < n; i-- {
		if bars[i].ClosedAt(asOf) {
			out = append(out, bars[i])
		}
	}
	return out, nil
}

// Between implements [market.Bars]. The venue has only the latest 5,000 bars for each interval.
func (c *Client) Between(ctx context.Context, symbol string, interval market.Interval, from, to time.Time) ([]market.Bar, error) {
	if !interval.Valid() {
		return nil, toolyard.Errorf(toolyard.Invalid, "No bars found for %q.", interval)
	}
	if _, err := c.assetOf(ctx, symbol); err != nil {
		return nil, err
	}
	d := interval.Duration()
	end := interval.LastClosed(c.now()).Add(d) // later bars have not ended yet
	if to.Before(end) {
		end = to.UTC().Truncate(d)
	}
	start := from.UTC().Truncate(d)
	if start.Before(from) {
		start = start.Add(d)
	}
	start = later(start, interval.LastClosed(c.now()).Add(-maxCandles*d)) // earlier bars do not exist
	if !start.Before(end) {
		return nil, nil
	}
	list, err := c.candles(ctx, symbol, string(interval), start, end.Add(-time.Millisecond))
	if err != nil {
		return nil, err
	}
	out := make([]market.Bar, 0, len(list))
	for i := range list {
		b := list[i].bar()
		if !b.Start.Before(start) && b.ClosedAt(end) {
			out = append(out, b)
		}
	}
	return out, nil
}

func later(a, b time.Time) time.Time {
	if a.Before(b) {
		return b
	}
	return a
}

func (b *candle) bar() market.Bar {
	return market.Bar{
		Start: time.UnixMilli(int64(b.Start)).UTC(), End: time.UnixMilli(int64(b.End) + 1).UTC(),
		Open: b.Open.Decimal, High: b.High.Decimal, Low: b.Low.Decimal, Close: b.Close.Decimal,
		Volume: b.Volume.Decimal, Trades: int(b.Trades),
	}
}

// ParseCandles decodes bars in the Info API's format, oldest first. It is used for imports.
func ParseCandles(data []byte, symbol string, interval market.Interval) ([]market.Bar, error) {
	var list []candle
	if err := decode(data, &list); err != nil {
		return nil, err
	}
	if err := checkCandles(list, symbol, string(interval), interval.Duration()); err != nil {
		return nil, fmt.Errorf("%w: %w", err, toolyard.AsError(err).Err)
	}
	out := make([]market.Bar, len(list))
	for i := range list {
		out[i] = list[i].bar()
	}
	return out, nil
}

// assetOf returns a symbol's asset ID, or a NoData error.
func (c *Client) assetOf(ctx context.Context, symbol string) (int, error) {
	u, err := c.fetchUniverse(ctx)
	if err != nil {
		return 0, err
	}
	i, ok := u.byName[symbol]
	if !ok {
		return 0, toolyard.Errorf(toolyard.NoData, "Hyperliquid has no perpetual %q.", symbol)
	}
	return i, nil
}

// Specs implements [market.Markets].
func (c *Client) Specs(ctx context.Context) (map[string]market.Market, error) {
	u, err := c.fetchUniverse(ctx)
	if err != nil {
		return nil, err
	}
	out := make(map[string]market.Market, len(u.assets))
	for i := range u.assets {
		m := u.market(i)
		out[m.Symbol] = m
	}
	return out, nil
}

func (u *universe) market(i int) market.Market {
	a := &u.assets[i]
	m := market.Market{
		Symbol: a.Name, Asset: i, SizeDecimals: int32(a.SzDecimals), //nolint:gosec // G115: at most 6
		MaxLeverage: a.MaxLeverage, Delisted: a.Delisted,
	}
	for _, tier := range u.tables[a.MarginTableID].Tiers {
		m.Tiers = append(m.Tiers, market.MarginTier{LowerBoundUSD: tier.LowerBound.Decimal, MaxLeverage: tier.MaxLeverage})
	}
	return m
}

// present returns a NoData error if the time is in the past.
func (c *Client) present(what string, asOf time.Time) error {
	if c.now().Sub(asOf) > maxAge {
		return toolyard.Errorf(toolyard.NoData, "No %s is available for %s: Hyperliquid does not keep its history.", what, asOf.UTC().Format(time.RFC3339))
	}
	return nil
}

// Contexts implements [market.Markets].
func (c *Client) Contexts(ctx context.Context, asOf time.Time) ([]market.AssetContext, error) {
	if err := c.present("market state", asOf); err != nil {
		return nil, err
	}
	u, err := c.fetchUniverse(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]market.AssetContext, 0, len(u.assets))
	for i := range u.assets {
		a := &u.assets[i]
		out = append(out, market.AssetContext{
			Symbol: a.Name, At: u.at, Mark: a.MarkPx.Decimal, Oracle: a.OraclePx.Decimal, Mid: optional(a.MidPx),
			Funding: a.Funding.Decimal, Premium: optional(a.Premium), OpenInterest: a.OpenInterest.Decimal,
			DayVolumeUSD: a.DayNtlVlm.Decimal, PreviousClose: a.PrevDayPx.Decimal,
		})
	}
	return out, nil
}

func optional(d *dec) decimal.NullDecimal {
	if d == nil {
		return decimal.NullDecimal{}
	}
	return decimal.NewNullDecimal(d.Decimal)
}

// Book implements [market.Markets].
func (c *Client) Book(ctx context.Context, symbol string, asOf time.Time) (market.Book, error) {
	if err := c.present("order book", asOf); err != nil {
		return market.Book{}, err
	}
	b, err := c.l2Book(ctx, symbol)
	if err != nil {
		return market.Book{}, err
	}
	return market.Book{
		Symbol: symbol, At: time.UnixMilli(int64(b.Time)).UTC(), Bids: levels(b.Levels[0]), Asks: levels(b.Levels[1]),
	}, nil
}

func levels(list []levelWire) []market.Level {
	out := make([]market.Level, len(list))
	for i, l := range list {
		out[i] = market.Level{Price: l.Px.Decimal, Size: l.Sz.Decimal, Orders: l.Orders}
	}
	return out
}

// Rates implements [market.Funding].
func (c *Client) Rates(ctx context.Context, symbol string, from, to time.Time) ([]market.Rate, error) {
	list, err := c.fundingHistory(ctx, symbol, from.Add(time.Millisecond), to)
	if err != nil {
		return nil, err
	}
	out := make([]market.Rate, 0, len(list))
	for _, r := range list {
		at := time.UnixMilli(int64(r.Time)).UTC()
		if at.After(from) && !at.After(to) {
			out = append(out, market.Rate{At: at, Rate: r.Rate.Decimal, Premium: optional(r.Premium)})
		}
	}
	return out, nil
}

// Forecast implements [market.FundingForecast].
func (c *Client) Forecast(ctx context.Context, symbol string) ([]market.Forecast, error) {
	var answer [][2]json.RawMessage
	if err := c.info(ctx, "predictedFundings", weightDefault, map[string]string{"type": "predictedFundings"}, &answer); err != nil {
		return nil, noNull("predictedFundings", err)
	}
	out, err := readForecasts(answer, symbol)
	if err != nil {
		return nil, unexpected("predictedFundings", err)
	}
	return out, nil
}
