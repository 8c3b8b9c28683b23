package hyperliquid

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// Weights of requests. The weight increases with every 20 items in a list, and with every 60
// candles.
const (
	weightLight      = 2 // for l2Book, clearinghouseState and orderStatus
	weightDefault    = 20
	weightUserRole   = 60
	itemsPerWeight   = 20
	candlesPerWeight = 60
)

// Limits on responses.
const (
	maxCandles  = 5000 // the venue has only this many for each interval
	maxAssets   = 5000
	maxLevels   = 100
	maxFunding  = 5000
	fundingPage = 500 // rates or payments per response
	maxOrders   = 1000
	maxFills    = 2000 // per response
	maxAgents   = 100
	maxVenues   = 20
	maxName     = 64 // bytes in a symbol
	universeTTL = 2 * time.Second
)

type candle struct {
	Start    millis `json:"t"`
	End      millis `json:"T"`
	Symbol   string `json:"s"`
	Interval string `json:"i"`
	Open     dec    `json:"o"`
	Close    dec    `json:"c"`
	High     dec    `json:"h"`
	Low      dec    `json:"l"`
	Volume   dec    `json:"v"`
	Trades   int64  `json:"n"`
}

// candles returns the bars from the one that contains from to the one that contains to, oldest
// first. The last bar may be unfinished, so callers must filter it.
func (c *Client) candles(ctx context.Context, coin, interval string, from, to time.Time) ([]candle, error) {
	step := market.Interval(interval).Duration()
	count := int(to.Sub(from)/step) + 1
	type req struct {
		Coin      string `json:"coin"`
		Interval  string `json:"interval"`
		StartTime int64  `json:"startTime"`
		EndTime   int64  `json:"endTime"`
	}
	request := struct {
		Type string `json:"type"`
		Req  req    `json:"req"`
	}{"candleSnapshot", req{coin, interval, from.UnixMilli(), to.UnixMilli()}}
	var out []candle
	weight := weightDefault + min(count, maxCandles)/candlesPerWeight
	if err := c.info(ctx, "candleSnapshot", weight, request, &out); err != nil {
		return nil, explainCoin(coin, err)
	}
	if len(out) > maxCandles+1 {
		return nil, unexpected("candleSnapshot", fmt.Errorf("%d candles", len(out)))
	}
	return out, checkCandles(out, coin, interval, step)
}

// checkCandles checks that candles belong to the request, are aligned and are in order.
func checkCandles(list []candle, coin, interval string, step time.Duration) error {
	for i := range list {
		b := &list[i]
		start := time.UnixMilli(int64(b.Start))
		switch {
		case b.Symbol != coin || b.Interval != interval:
			return unexpected("candleSnapshot", fmt.Errorf("candle of %q %q", b.Symbol, b.Interval))
		case !start.Truncate(step).Equal(start) || int64(b.End) != int64(b.Start)+step.Milliseconds()-1:
			return unexpected("candleSnapshot", fmt.Errorf("candle from %d to %d is not aligned", b.Start, b.End))
		case i > 0 && b.Start <= list[i-1].Start:
			return unexpected("candleSnapshot", errors.New("candles are out of order"))
		case b.Low.GreaterThan(b.High.Decimal) || !b.Low.IsPositive() || b.Volume.IsNegative() || b.Trades < 0 ||
			b.Open.LessThan(b.Low.Decimal) || b.Open.GreaterThan(b.High.Decimal) || b.Close.LessThan(b.Low.Decimal) || b.Close.GreaterThan(b.High.Decimal):
			return unexpected("candleSnapshot", fmt.Errorf("candle at %d has impossible prices", b.Start))
		}
	}
	return nil
}

// explainCoin converts the venue's responses for an unknown coin, which are null or status 500.
func explainCoin(coin string, err error) error {
	if status, ok := errors.AsType[*statusError](err); errors.Is(err, errNull) || ok && status.status == 500 {
		return &toolyard.Error{Code: toolyard.NoData, Message: fmt.Sprintf("Hyperliquid has no data for %q.", coin), Err: err}
	}
	return err
}

// universe is the response to metaAndAssetCtxs.
type universe struct {
	assets []asset
	tables map[int]marginTable
	byName map[string]int // index in assets, which is the asset ID
	at     time.Time
}

// asset is a perpetual with its current data.
type asset struct {
	assetMeta
	assetContext
}

type assetMeta struct {
	Name          string `json:"name"`
	SzDecimals    int    `json:"szDecimals"`
	MaxLeverage   int    `json:"maxLeverage"`
	MarginTableID int    `json:"marginTableId"`
	Delisted      bool   `json:"isDelisted"`
	OnlyIsolated  bool   `json:"onlyIsolated"`
}

type assetContext struct {
	Funding      dec  `json:"funding"`
	OpenInterest dec  `json:"openInterest"`
	PrevDayPx    dec  `json:"prevDayPx"`
	DayNtlVlm    dec  `json:"dayNtlVlm"`
	Premium      *dec `json:"premium"`
	OraclePx     dec  `json:"oraclePx"`
	MarkPx       dec  `json:"markPx"`
	MidPx        *dec `json:"midPx"`
}

type marginTable struct {
	Tiers []struct {
		LowerBound  dec `json:"lowerBound"`
		MaxLeverage int `json:"maxLeverage"`
	} `json:"marginTiers"`
}

// fetchUniverse requests all perpetuals and their current data, at most once every two seconds.
func (c *Client) fetchUniverse(ctx context.Context) (*universe, error) {
	return c.universe.get(ctx, c.now, universeTTL, func(ctx context.Context) (*universe, error) {
		var answer []json.RawMessage
		if err := c.info(ctx, "metaAndAssetCtxs", weightDefault, map[string]string{"type": "metaAndAssetCtxs"}, &answer); err != nil {
			return nil, err
		}
		u, err := readUniverse(answer)
		if err != nil {
			return nil, unexpected("metaAndAssetCtxs", err)
		}
		u.at = c.now()
		return u, nil
	})
}

func readUniverse(answer []json.RawMessage) (*universe, error) {
	if len(answer) != 2 {
		return nil, fmt.Errorf("expected 2 members, got %d", len(answer))
	}
	var meta struct {
		Universe     []assetMeta          `json:"universe"`
		MarginTables [][2]json.RawMessage `json:"marginTables"`
	}
	var contexts []assetContext
	if err := json.Unmarshal(answer[0], &meta); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(answer[1], &contexts); err != nil {
		return nil, err
	}
	if len(meta.Universe) != len(contexts) || len(contexts) > maxAssets || len(meta.MarginTables) > maxAssets {
		return nil, fmt.Errorf("%d assets, %d contexts", len(meta.Universe), len(contexts))
	}
	u := &universe{byName: make(map[string]int, len(contexts)), tables: make(map[int]marginTable, len(meta.MarginTables))}
	for _, pair := range meta.MarginTables {
		var id int
		var table marginTable
		if err := errors.Join(json.Unmarshal(pair[0], &id), json.Unmarshal(pair[1], &table)); err != nil {
			return nil, err
		}
		u.tables[id] = table
	}
	for i, m := range meta.Universe {
		if !validName(m.Name) || m.SzDecimals < 0 || m.SzDecimals > maxPriceDecimals || m.MaxLeverage < 1 {
			return nil, fmt.Errorf("asset %d is invalid", i)
		}
		u.byName[m.Name] = i
		u.assets = append(u.assets, asset{m, contexts[i]})
	}
	return u, nil
}

func validName(s string) bool {
	return s != "" && len(s) <= maxName && strings.IndexFunc(s, func(r rune) bool { return r <= ' ' || r >= 0x7f }) < 0
}

type fundingWire struct {
	Coin    string `json:"coin"`
	Rate    dec    `json:"fundingRate"`
	Premium *dec   `json:"premium"`
	Time    millis `json:"time"`
}

// fundingHistory returns the rates in a period, oldest first. The venue returns at most 500 at a
// time, so it is queried repeatedly.
func (c *Client) fundingHistory(ctx context.Context, coin string, from, to time.Time) ([]fundingWire, error) {
	type request struct {
		Type      string `json:"type"`
		Coin      string `json:"coin"`
		StartTime int64  `json:"startTime"`
		EndTime   int64  `json:"endTime"`
	}
	var out []fundingWire
	for from.Before(to) || from.Equal(to) {
		var page []fundingWire
		hours := min(int(to.Sub(from)/time.Hour)+1, fundingPage)
		err := c.info(ctx, "fundingHistory", weightDefault+hours/itemsPerWeight, request{"fundingHistory", coin, from.UnixMilli(), to.UnixMilli()}, &page)
		if err != nil {
			return nil, explainCoin(coin, err)
		}
		if len(page) == 0 {
			break
		}
		for i, r := range page {
			if r.Coin != coin || i > 0 && r.Time <= page[i-1].Time || int64(r.Time) < from.UnixMilli() {
				return nil, unexpected("fundingHistory", errors.New("rates are not in order"))
			}
		}
		out = append(out, page...)
		if len(out) > maxFunding {
			return nil, unexpected("fundingHistory", fmt.Errorf("more than %d rates", maxFunding))
		}
		from = time.UnixMilli(int64(page[len(page)-1].Time) + 1)
		if len(page) < fundingPage {
			break
		}
	}
	return out, nil
}

// readForecasts returns all venues' predictions for a coin.
func readForecasts(answer [][2]json.RawMessage, coin string) ([]market.Forecast, error) {
	for _, pair := range answer {
		var name string
		if err := json.Unmarshal(pair[0], &name); err != nil {
			return nil, err
		}
		if name != coin {
			continue
		}
		var venues [][2]json.RawMessage
		if err := json.Unmarshal(pair[1], &venues); err != nil {
			return nil, err
		}
		var out []market.Forecast
		for _, v := range venues[:min(len(venues), maxVenues)] {
			var p struct {
				Rate  dec    `json:"fundingRate"`
				Next  millis `json:"nextFundingTime"`
				Hours int    `json:"fundingIntervalHours"`
			}
			var venue string
			if err := errors.Join(json.Unmarshal(v[0], &venue), json.Unmarshal(v[1], &p)); err != nil {
				return nil, err
			}
			if string(v[1]) != "null" && validName(venue) {
				out = append(out, market.Forecast{Venue: venue, Rate: p.Rate.Decimal, Next: time.UnixMilli(int64(p.Next)).UTC(), Hours: p.Hours})
			}
		}
		return out, nil
	}
	return nil, nil
}

type bookWire struct {
	Coin   string         `json:"coin"`
	Time   millis         `json:"time"`
	Levels [2][]levelWire `json:"levels"`
}

type levelWire struct {
	Px     dec `json:"px"`
	Sz     dec `json:"sz"`
	Orders int `json:"n"`
}

func (c *Client) l2Book(ctx context.Context, coin string) (bookWire, error) {
	var out bookWire
	if err := c.info(ctx, "l2Book", weightLight, map[string]string{"type": "l2Book", "coin": coin}, &out); err != nil {
		return bookWire{}, explainCoin(coin, err)
	}
	if out.Coin != coin || len(out.Levels[0]) > maxLevels || len(out.Levels[1]) > maxLevels {
		return bookWire{}, unexpected("l2Book", fmt.Errorf("book of %.60q", out.Coin))
	}
	return out, nil
}
