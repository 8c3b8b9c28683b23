package marketdata

import (
	"context"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

type tradersArgs struct {
	Window             string `json:"window" enum:"day,week,month,allTime" default:"week" doc:"Period for which traders are ranked."`
	By                 string `json:"by" enum:"pnl,roi,vlm" default:"pnl" doc:"How traders are ranked. pnl: profit in USD. roi: return. vlm: volume."`
	Limit              int    `json:"limit" minimum:"1" maximum:"50" default:"10" doc:"Maximum number of traders to return."`
	MinAccountValueUSD int    `json:"minAccountValueUsd" minimum:"0" maximum:"1000000000" default:"10000" doc:"Omit accounts that are worth less than this, in US dollars, because their returns are mostly noise."`
}

type traderRow struct {
	Address         string          `json:"address"`
	Name            string          `json:"name,omitempty"`
	AccountValueUSD decimal.Decimal `json:"accountValueUsd"`
	PnlUSD          decimal.Decimal `json:"pnlUsd"`
	ROI             decimal.Decimal `json:"roi" doc:"Return on investment, where 0.1 is 10 %."`
	VolumeUSD       decimal.Decimal `json:"volumeUsd"`
}

type tradersResult struct {
	Traders   []traderRow `json:"traders"`
	FetchedAt time.Time   `json:"fetchedAt"`
}

func getTopTraders() *toolyard.Tool {
	return define("get_top_traders", marketData,
		"Returns the best accounts on the venue's leaderboard for a period. Past performance says little about future results. Account owners choose their own names.",
		"Use to find accounts that performed well, but not as a trading signal by itself",
		func(ctx context.Context, c *toolyard.Call, in tradersArgs) (*tradersResult, error) {
			source, err := client[market.Traders](c, "leaderboard")
			if err != nil {
				return nil, err
			}
			rows, at, err := source.Top(ctx, market.TradersQuery{
				AsOf: c.AsOf, Window: in.Window, By: in.By, Limit: in.Limit, MinAccountUSD: decimal.NewFromInt(int64(in.MinAccountValueUSD)),
			})
			if err != nil {
				return nil, err
			}
			out := &tradersResult{Traders: []traderRow{}, FetchedAt: at.UTC()}
			for _, t := range rows {
				out.Traders = append(out.Traders, traderRow{t.Address, printable(t.Name), t.AccountUSD, t.PnlUSD, t.Return, t.VolumeUSD})
			}
			return out, nil
		})
}

const maxDisplayName = 40

// printable reduces an untrusted name to letters, digits and common punctuation.
func printable(s string) string {
	out := []rune{}
	for _, r := range s {
		if r >= ' ' && r < 0x7f && len(out) < maxDisplayName {
			out = append(out, r)
		}
	}
	return string(out)
}

type fundingArgs struct {
	Symbol string `json:"symbol" minLength:"1" maxLength:"64" doc:"Symbol of the perpetual, such as BTC."`
	Hours  int    `json:"hours" minimum:"0" maximum:"500" default:"24" doc:"Number of hours of past rates to include."`
}

type rateRow struct {
	At   time.Time       `json:"at"`
	Rate decimal.Decimal `json:"rate"`
}

type venueRate struct {
	Venue string          `json:"venue"`
	Rate  decimal.Decimal `json:"rate"`
	Hours int             `json:"hours,omitempty" doc:"Length of the funding period in hours."`
}

type fundingResult struct {
	Symbol      string           `json:"symbol"`
	Hourly      decimal.Decimal  `json:"hourly" doc:"Rate for one hour. If it is positive, long positions pay short positions."`
	Predicted   bool             `json:"predicted" doc:"Whether the rate is a prediction because the hour has not ended."`
	Annualized  decimal.Decimal  `json:"annualized" doc:"hourly × 24 × 365, where 0.1 is 10 %."`
	NextAt      time.Time        `json:"nextAt"`
	Premium     *decimal.Decimal `json:"premium" doc:"Premium of the perpetual over the oracle price."`
	History     []rateRow        `json:"history" doc:"Rates that were paid, newest first."`
	OtherVenues []venueRate      `json:"otherVenues,omitempty" doc:"Predicted rates at other venues."`
}

var hoursPerYear = decimal.NewFromInt(24 * 365)

func getFundingRate() *toolyard.Tool {
	return define("get_funding_rate", marketData,
		"Returns the current and past funding rates of a perpetual. Funding is paid every hour: if the rate is positive, long positions pay short positions.",
		"Use before you hold a position for more than a few hours, to see what funding costs or earns",
		func(ctx context.Context, c *toolyard.Call, in fundingArgs) (*fundingResult, error) {
			source, err := client[market.Funding](c, "market data")
			if err != nil {
				return nil, err
			}
			rates, err := source.Rates(ctx, in.Symbol, c.AsOf.Add(-time.Duration(max(in.Hours, 2))*time.Hour), c.AsOf)
			if err != nil {
				return nil, explain(ctx, c, in.Symbol, err)
			}
			out := &fundingResult{Symbol: in.Symbol, History: []rateRow{}, NextAt: c.AsOf.UTC().Truncate(time.Hour).Add(time.Hour)}
			if err := out.addPresent(ctx, c, in.Symbol); err != nil {
				if toolyard.AsError(err).Code != toolyard.NoData || len(rates) == 0 {
					return nil, err
				}
				last := rates[len(rates)-1] // for a past time, only the history is available
				out.Hourly, out.Premium = last.Rate, pointer(last.Premium)
			}
			out.Annualized = out.Hourly.Mul(hoursPerYear)
			for _, r := range slices.Backward(rates) {
				if c.AsOf.Sub(r.At) < time.Duration(in.Hours)*time.Hour {
					out.History = append(out.History, rateRow{r.At, r.Rate})
				}
			}
			return out, nil
		})
}

// addPresent adds the current hour's rate and, if available, other venues' predictions.
func (f *fundingResult) addPresent(ctx context.Context, c *toolyard.Call, symbol string) error {
	a, err := contextOf(ctx, c, symbol)
	if err != nil {
		return err
	}
	f.Hourly, f.Premium, f.Predicted = a.Funding, pointer(a.Premium), true
	forecast, ok := toolyard.Client[market.FundingForecast](c)
	if !ok {
		return nil
	}
	list, err := forecast.Forecast(ctx, symbol)
	if err != nil {
		return nil //nolint:nilerr // predictions of other venues are optional
	}
	for _, p := range list {
		if p.Venue != ownVenue {
			f.OtherVenues = append(f.OtherVenues, venueRate{p.Venue, p.Rate, p.Hours})
		}
	}
	return nil
}

func pointer(d decimal.NullDecimal) *decimal.Decimal {
	if !d.Valid {
		return nil
	}
	return &d.Decimal
}

// ownVenue is Hyperliquid's name in its own predictions.
const ownVenue = "HlPerp"

// contextOf returns a market's current state.
func contextOf(ctx context.Context, c *toolyard.Call, symbol string) (market.AssetContext, error) {
	list, err := contexts(ctx, c)
	if err != nil {
		return market.AssetContext{}, err
	}
	known := make([]string, 0, len(list))
	for _, a := range list {
		if a.Symbol == symbol {
			return a, nil
		}
		known = append(known, a.Symbol)
	}
	return market.AssetContext{}, unknownSymbol(symbol, known)
}

func contexts(ctx context.Context, c *toolyard.Call) ([]market.AssetContext, error) {
	source, err := client[market.Markets](c, "market data")
	if err != nil {
		return nil, err
	}
	return source.Contexts(ctx, c.AsOf)
}

type interestArgs struct {
	Symbols []string `json:"symbols,omitempty" maxItems:"50" uniqueItems:"true" doc:"Symbols of the perpetuals, such as BTC. Default: the ten largest markets."`
}

type interestRow struct {
	Symbol string          `json:"symbol"`
	Base   decimal.Decimal `json:"base" doc:"Open interest in units of the asset."`
	USD    decimal.Decimal `json:"usd"`
	MarkPx decimal.Decimal `json:"markPx"`
	Share  decimal.Decimal `json:"share" doc:"Fraction of the open interest in all markets, where 0.1 is 10 %."`
}

const (
	largestMarkets = 10
	shareDecimals  = 6
)

func getOpenInterest() *toolyard.Tool {
	return define("get_open_interest", marketData,
		"Returns the open interest of perpetuals (the value of all open positions), largest first.",
		"Use to judge how crowded a market is, and whether a price move is backed by new positions",
		func(ctx context.Context, c *toolyard.Call, in interestArgs) ([]interestRow, error) {
			list, err := contexts(ctx, c)
			if err != nil {
				return nil, err
			}
			return openInterest(list, in.Symbols)
		})
}

func openInterest(list []market.AssetContext, symbols []string) ([]interestRow, error) {
	total := decimal.Zero
	var rows []interestRow
	known := make([]string, 0, len(list))
	for _, a := range list {
		usd := a.OpenInterest.Mul(a.Mark)
		total = total.Add(usd)
		known = append(known, a.Symbol)
		rows = append(rows, interestRow{Symbol: a.Symbol, Base: a.OpenInterest, USD: usd, MarkPx: a.Mark})
	}
	for _, s := range symbols {
		if !slices.Contains(known, s) {
			return nil, unknownSymbol(s, known)
		}
	}
	for i := range rows {
		if total.IsPositive() {
			rows[i].Share = rows[i].USD.DivRound(total, shareDecimals)
		}
	}
	slices.SortStableFunc(rows, func(a, b interestRow) int { return b.USD.Cmp(a.USD) })
	if len(symbols) == 0 {
		return rows[:min(len(rows), largestMarkets)], nil
	}
	return slices.DeleteFunc(rows, func(r interestRow) bool { return !slices.Contains(symbols, r.Symbol) }), nil
}
