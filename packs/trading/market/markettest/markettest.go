// Package markettest provides market data for tests: in-memory bars that need no network.
package markettest

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

// Data implements the market data clients. It returns only data that is known at the given time.
type Data struct {
	Listed   map[string]market.Market
	Step     market.Interval          // interval of Series
	Series   map[string][]market.Bar  // oldest first
	Funding  map[string][]market.Rate // oldest first
	Headline []market.Post            // newest first
	Books    map[string]market.Book   // current order books
	Present  time.Time                // Contexts and Book have no data before this time

	Calls atomic.Int64 // number of requests for bars
}

// New returns data for the markets BTC and ETH, with no bars.
func New(step market.Interval) *Data {
	return &Data{
		Step: step, Series: map[string][]market.Bar{}, Funding: map[string][]market.Rate{}, Books: map[string]market.Book{},
		Listed: map[string]market.Market{
			"BTC": {Symbol: "BTC", SizeDecimals: 5, MaxLeverage: 40},
			"ETH": {Symbol: "ETH", Asset: 1, SizeDecimals: 4, MaxLeverage: 25},
		},
	}
}

// Walk adds n bars of a random walk that starts at the given price. The same seed produces the same
// bars.
func (d *Data) Walk(symbol string, seed uint64, from time.Time, n int, price float64) {
	r := rand.New(rand.NewPCG(seed, 1)) //nolint:gosec // deterministic test data
	round := func(v float64) decimal.Decimal { return decimal.NewFromFloat(v).Round(2) }
	at := from
	for range n {
		open := price
		price *= 1 + r.NormFloat64()*0.004
		high, low := max(open, price)*(1+r.Float64()*0.003), min(open, price)*(1-r.Float64()*0.003)
		d.Series[symbol] = append(d.Series[symbol], market.Bar{
			Start: at, End: at.Add(d.Step.Duration()), Open: round(open), High: round(high), Low: round(low), Close: round(price),
			Volume: decimal.NewFromInt(r.Int64N(900) + 100), Trades: r.IntN(500),
		})
		at = at.Add(d.Step.Duration())
		if at.Truncate(time.Hour).Equal(at) {
			d.Funding[symbol] = append(d.Funding[symbol], market.Rate{At: at.Add(22 * time.Millisecond), Rate: decimal.New(r.Int64N(40)-15, -6)})
		}
	}
}

// Add appends bars, each given as open, high, low and close, starting at the given time.
func (d *Data) Add(symbol string, from time.Time, prices ...[4]string) {
	for _, p := range prices {
		d.Series[symbol] = append(d.Series[symbol], market.Bar{
			Start: from, End: from.Add(d.Step.Duration()), Volume: decimal.NewFromInt(1000),
			Open: decimal.RequireFromString(p[0]), High: decimal.RequireFromString(p[1]), Low: decimal.RequireFromString(p[2]), Close: decimal.RequireFromString(p[3]),
		})
		from = from.Add(d.Step.Duration())
	}
}

// Poison returns a copy in which everything that is not known at t is replaced with garbage.
func (d *Data) Poison(t time.Time) *Data {
	c := &Data{Step: d.Step, Listed: d.Listed, Present: d.Present, Series: map[string][]market.Bar{}, Funding: map[string][]market.Rate{}}
	r := rand.New(rand.NewPCG(99, 99)) //nolint:gosec // as above
	garbage := func() decimal.Decimal { return decimal.New(r.Int64N(1_000_000)+1, -2) }
	for symbol, bars := range d.Series {
		bars = slices.Clone(bars)
		for i := range bars {
			if b := &bars[i]; b.End.After(t) {
				b.Open, b.High, b.Low, b.Close, b.Volume = garbage(), garbage(), garbage(), garbage(), garbage()
			}
		}
		c.Series[symbol] = bars
	}
	for symbol, rates := range d.Funding {
		rates = slices.Clone(rates)
		for i := range rates {
			if rates[i].At.After(t) {
				rates[i].Rate = garbage()
			}
		}
		c.Funding[symbol] = rates
	}
	for _, p := range d.Headline {
		if p.PublishedAt.After(t) {
			p.Title = "poison"
		}
		c.Headline = append(c.Headline, p)
	}
	return c
}

// Recent implements [market.Bars].
func (d *Data) Recent(_ context.Context, symbol string, interval market.Interval, n int, asOf time.Time) ([]market.Bar, error) {
	d.Calls.Add(1)
	var list []market.Bar
	if interval == d.Step {
		end, _ := slices.BinarySearchFunc(d.Series[symbol], asOf, func(b market.Bar, t time.Time) int {
			if b.ClosedAt(t) {
				return -1
			}
			return 1
		})
		list = slices.Clone(d.Series[symbol][max(0, end-n):end])
		slices.Reverse(list)
	}
	return list, nil
}

// Between implements [market.Bars].
func (d *Data) Between(_ context.Context, symbol string, interval market.Interval, from, to time.Time) ([]market.Bar, error) {
	d.Calls.Add(1)
	if interval != d.Step {
		return nil, nil
	}
	bars := d.Series[symbol]
	start, _ := slices.BinarySearchFunc(bars, from, func(b market.Bar, t time.Time) int { return b.Start.Compare(t) })
	var list []market.Bar
	for _, b := range bars[start:] {
		if b.End.After(to) {
			break
		}
		list = append(list, b)
	}
	return list, nil
}

// Specs implements [market.Markets].
func (d *Data) Specs(context.Context) (map[string]market.Market, error) { return d.Listed, nil }

// Contexts implements [market.Markets]. The prices come from the last bar.
func (d *Data) Contexts(_ context.Context, asOf time.Time) ([]market.AssetContext, error) {
	var list []market.AssetContext
	for symbol := range d.Listed {
		for _, b := range slices.Backward(d.Series[symbol]) {
			if b.ClosedAt(asOf) {
				list = append(list, market.AssetContext{Symbol: symbol, At: asOf, Mark: b.Close, Oracle: b.Close, Mid: decimal.NewNullDecimal(b.Close)})
				break
			}
		}
	}
	return list, nil
}

// Book implements [market.Markets].
func (d *Data) Book(_ context.Context, symbol string, asOf time.Time) (market.Book, error) {
	b := d.Books[symbol]
	b.Symbol, b.At = symbol, asOf
	return b, nil
}

// Rates implements [market.Funding].
func (d *Data) Rates(_ context.Context, symbol string, from, to time.Time) ([]market.Rate, error) {
	rates := d.Funding[symbol]
	start, _ := slices.BinarySearchFunc(rates, from, func(r market.Rate, t time.Time) int { return r.At.Compare(t.Add(1)) })
	var list []market.Rate
	for _, r := range rates[start:] {
		if r.At.After(to) {
			break
		}
		list = append(list, r)
	}
	return list, nil
}

// Posts implements [market.News].
func (d *Data) Posts(_ context.Context, q market.NewsQuery) ([]market.Post, error) {
	var list []market.Post
	for _, p := range d.Headline {
		if len(list) < q.Limit && !p.PublishedAt.After(q.To) && !p.PublishedAt.Before(q.From) {
			list = append(list, p)
		}
	}
	return list, nil
}
