package fakemarkets

import (
	"cmp"
	"encoding/json"
	"hash/fnv"
	"math"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/shopspring/decimal"
)

// HyperliquidMarket is a perpetual. Only [Hyperliquid.SetPrice] changes its price, unless
// [Hyperliquid.Move] was called.
type HyperliquidMarket struct {
	Name                    string
	SzDecimals, MaxLeverage int
	Mid                     string
	Delisted                bool

	base string // price that a moving market's price is computed from; defaults to Mid
}

// HyperliquidCandle is a bar that replaces a generated one.
type HyperliquidCandle struct {
	Start                          int64 // in milliseconds
	Open, High, Low, Close, Volume string
	Trades                         int
}

// HyperliquidLeader is a row in the leaderboard, with the same result in every window.
type HyperliquidLeader struct {
	Address, Name, AccountValue, Pnl, Roi, Vlm string
}

const (
	newestCandles  = 5000
	fundingPage    = 500
	bookLevels     = 20
	candleSamples  = 12
	dayMillis      = 24 * 60 * 60 * 1000
	hourMillis     = 60 * 60 * 1000
	lateFunding    = 22 // milliseconds after the full hour, as observed at the real venue
	fundingDivisor = 1e7
)

var candleIntervals = map[string]int64{
	"1m": 60_000, "3m": 180_000, "5m": 300_000, "15m": 900_000, "30m": 1_800_000, "1h": hourMillis, "2h": 2 * hourMillis,
	"4h": 4 * hourMillis, "8h": 8 * hourMillis, "12h": 12 * hourMillis, "1d": dayMillis,
}

// SetMarkets replaces the markets.
func (h *Hyperliquid) SetMarkets(list ...HyperliquidMarket) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.markets = nil
	for _, m := range list {
		h.markets = append(h.markets, &m)
	}
}

// SetCandles sets a market's bars, oldest first. Missing bars are gaps.
func (h *Hyperliquid) SetCandles(coin, interval string, list []HyperliquidCandle) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.candles[coin+" "+interval] = slices.Clone(list)
}

// SetLeaders sets the leaderboard's rows.
func (h *Hyperliquid) SetLeaders(list ...HyperliquidLeader) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.leaders = slices.Clone(list)
}

func (h *Hyperliquid) market(coin string) (int, *HyperliquidMarket) {
	for i, m := range h.markets {
		if m.Name == coin {
			return i, m
		}
	}
	return 0, nil
}

// marketInfo handles requests about markets. It returns false if the request is about a user.
func (h *Hyperliquid) marketInfo(q *infoRequest) (reply, bool) {
	switch q.Type {
	case "candleSnapshot":
		return h.candleSnapshot(q), true
	case "meta":
		return reply{20, http.StatusOK, h.meta()}, true
	case "allMids":
		mids := map[string]string{}
		for _, m := range h.markets {
			mids[m.Name] = m.Mid
		}
		return reply{2, http.StatusOK, mids}, true
	case "metaAndAssetCtxs":
		return reply{20, http.StatusOK, []any{h.meta(), h.contexts()}}, true
	case "fundingHistory":
		return h.fundingHistory(q), true
	case "predictedFundings":
		return reply{20, http.StatusOK, h.predictedFundings()}, true
	case "l2Book":
		return h.l2Book(q), true
	}
	return reply{}, false
}

func (h *Hyperliquid) meta() any {
	assets := []any{}
	for _, m := range h.markets {
		a := map[string]any{"name": m.Name, "szDecimals": m.SzDecimals, "maxLeverage": m.MaxLeverage, "marginTableId": m.MaxLeverage}
		if m.Delisted {
			a["isDelisted"] = true
		}
		assets = append(assets, a)
	}
	return map[string]any{"universe": assets, "collateralToken": 0, "marginTables": []any{
		[]any{40, map[string]any{"description": "tiered 40x", "marginTiers": []any{
			map[string]any{"lowerBound": "0.0", "maxLeverage": 40}, map[string]any{"lowerBound": "150000000.0", "maxLeverage": 20},
		}}},
	}}
}

// spread returns the best bid and ask, which are two hundredths of a percent from the mid price.
func spread(m *HyperliquidMarket) (bid, ask decimal.Decimal) {
	mid := decimal.RequireFromString(m.Mid)
	half := mid.Div(decimal.NewFromInt(5_000))
	return tick(mid.Sub(half), m), tick(mid.Add(half), m)
}

// tick rounds a price to one that the venue accepts.
func tick(p decimal.Decimal, m *HyperliquidMarket) decimal.Decimal {
	digits := int32(len(p.Truncate(0).Coefficient().String()))
	if p.LessThan(decimal.NewFromInt(1)) {
		digits = int32(p.NumDigits()) + p.Exponent()
	}
	return p.Round(max(0, min(5-digits, int32(6-m.SzDecimals))))
}

func (h *Hyperliquid) contexts() any {
	out := []any{}
	for _, m := range h.markets {
		bid, ask := spread(m)
		rate := fundingRate(m.Name, h.now().UnixMilli()/hourMillis)
		out = append(out, map[string]any{
			"funding": rate, "openInterest": "25877.14916", "prevDayPx": m.Mid, "dayNtlVlm": "1000000.0", "premium": "-0.00022",
			"oraclePx": m.Mid, "markPx": m.Mid, "midPx": m.Mid, "impactPxs": []string{bid.String(), ask.String()}, "dayBaseVlm": "10.0",
		})
	}
	return out
}

// fundingRate returns a rate that depends only on the coin and the hour.
func fundingRate(coin string, hour int64) string {
	f := fnv.New32a()
	_, _ = f.Write([]byte(coin + strconv.FormatInt(hour, 10)))
	return strconv.FormatFloat(float64(int(f.Sum32()%400)-100)/fundingDivisor, 'f', 7, 64)
}

func (h *Hyperliquid) fundingHistory(q *infoRequest) reply {
	if q.StartTime == nil {
		return invalidBody
	}
	if _, m := h.market(q.Coin); m == nil {
		return reply{20, http.StatusInternalServerError, "null"}
	}
	end := h.now().UnixMilli()
	if q.EndTime != nil {
		end = min(end, *q.EndTime)
	}
	out := []any{}
	for hour := (*q.StartTime - lateFunding + hourMillis - 1) / hourMillis; hour*hourMillis+lateFunding <= end && len(out) < fundingPage; hour++ {
		out = append(out, map[string]any{
			"coin": q.Coin, "fundingRate": fundingRate(q.Coin, hour), "premium": "0.00029005", "time": hour*hourMillis + lateFunding,
		})
	}
	return reply{20 + len(out)/20, http.StatusOK, out}
}

func (h *Hyperliquid) predictedFundings() any {
	out := []any{}
	next := (h.now().UnixMilli()/hourMillis + 1) * hourMillis
	for _, m := range h.markets {
		out = append(out, []any{m.Name, []any{
			[]any{"BinPerp", map[string]any{"fundingRate": "0.0001", "nextFundingTime": next, "fundingIntervalHours": 8}},
			[]any{"HlPerp", map[string]any{"fundingRate": fundingRate(m.Name, next/hourMillis-1), "nextFundingTime": next, "fundingIntervalHours": 1}},
			[]any{"BybitPerp", nil},
		}})
	}
	return out
}

func (h *Hyperliquid) l2Book(q *infoRequest) reply {
	_, m := h.market(q.Coin)
	if m == nil {
		return reply{2, http.StatusOK, nil}
	}
	bid, ask := spread(m)
	step := ask.Sub(bid)
	sides := [2][]any{}
	for i := range bookLevels {
		off := step.Mul(decimal.NewFromInt(int64(i)))
		for side, px := range []decimal.Decimal{bid.Sub(off), ask.Add(off)} {
			sides[side] = append(sides[side], map[string]any{"px": tick(px, m).String(), "sz": levelSize(m).String(), "n": i + 1})
		}
	}
	return reply{2, http.StatusOK, map[string]any{"coin": q.Coin, "time": h.now().UnixMilli(), "levels": sides}}
}

// levelSize returns the size at each price in the book, which is worth 50,000 USD.
func levelSize(m *HyperliquidMarket) decimal.Decimal {
	return decimal.NewFromInt(50_000).Div(decimal.RequireFromString(m.Mid)).Round(int32(m.SzDecimals))
}

func (h *Hyperliquid) candleSnapshot(q *infoRequest) reply {
	if q.Req == nil || q.Req.StartTime == nil || candleIntervals[q.Req.Interval] == 0 {
		return invalidBody
	}
	_, m := h.market(q.Req.Coin)
	if m == nil {
		return reply{20, http.StatusInternalServerError, "null"}
	}
	step, now := candleIntervals[q.Req.Interval], h.now().UnixMilli()
	end := now
	if q.Req.EndTime != nil {
		end = min(end, *q.Req.EndTime)
	}
	// The bars that contain the start and the end are included, even if the last one has not ended.
	first, last := floor(*q.Req.StartTime, step), floor(end, step)
	first = max(first, floor(now, step)-(newestCandles-1)*step)
	own, listed := h.candles[q.Req.Coin+" "+q.Req.Interval]
	out := []any{}
	for t := first; t <= last; t += step {
		c := generated(m, t, min(t+step, now))
		if listed {
			i := slices.IndexFunc(own, func(c HyperliquidCandle) bool { return c.Start == t })
			if i < 0 {
				continue
			}
			c = own[i]
		}
		out = append(out, map[string]any{
			"t": t, "T": t + step - 1, "s": q.Req.Coin, "i": q.Req.Interval,
			"o": c.Open, "c": c.Close, "h": c.High, "l": c.Low, "v": orZero(c.Volume), "n": c.Trades,
		})
	}
	return reply{20 + len(out)/60, http.StatusOK, out}
}

func floor(t, step int64) int64 { return t - ((t%step)+step)%step }

// generated returns the bar for a period, computed from the price as a function of time.
func generated(m *HyperliquidMarket, from, to int64) HyperliquidCandle {
	mid := m.basePrice()
	open, last := priceAt(mid, from), priceAt(mid, to)
	high, low := max(open, last), min(open, last)
	for i := range int64(candleSamples) {
		p := priceAt(mid, from+(to-from)*i/candleSamples)
		high, low = max(high, p), min(low, p)
	}
	text := func(p float64) string { return tick(decimal.NewFromFloat(p).Round(8), m).String() }
	minutes := max((to-from)/60_000, 1)
	return HyperliquidCandle{
		Start: from, Open: text(open), High: text(high), Low: text(low), Close: text(last),
		Volume: strconv.FormatInt(minutes*100, 10) + ".0", Trades: int(minutes * 7),
	}
}

// Move makes the prices follow the generated candles.
func (h *Hyperliquid) Move() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.moving = true
}

// follow sets moving markets' prices to those at the current time. The server must be locked.
func (h *Hyperliquid) follow() {
	if !h.moving {
		return
	}
	now := h.now().UnixMilli()
	for _, m := range h.markets {
		m.base = cmp.Or(m.base, m.Mid)
		m.Mid = tick(decimal.NewFromFloat(priceAt(m.basePrice(), now)).Round(8), m).String()
	}
}

func (m *HyperliquidMarket) basePrice() float64 {
	price, _ := decimal.RequireFromString(cmp.Or(m.base, m.Mid)).Float64()
	return price
}

// priceAt returns a price that moves around mid in waves of a day, three hours and some minutes.
func priceAt(mid float64, t int64) float64 {
	wave := func(period, size float64) float64 {
		return size * math.Sin(2*math.Pi*math.Mod(float64(t), period)/period)
	}
	return mid * (1 + wave(dayMillis, 0.02) + wave(3.1*hourMillis, 0.006) + wave(1.7e6, 0.002))
}

// leaderboard returns all rows at once, as the venue does.
func (h *Hyperliquid) leaderboard() reply {
	h.mu.Lock()
	defer h.mu.Unlock()
	rows := []any{}
	for _, l := range h.leaders {
		result := map[string]string{"pnl": orZero(l.Pnl), "roi": orZero(l.Roi), "vlm": orZero(l.Vlm)}
		var windows []any
		for _, w := range []string{"day", "week", "month", "allTime"} {
			windows = append(windows, []any{w, result})
		}
		row := map[string]any{
			"ethAddress": l.Address, "accountValue": orZero(l.AccountValue), "windowPerformances": windows, "prize": 0, "displayName": nil,
		}
		if l.Name != "" {
			row["displayName"] = l.Name
		}
		rows = append(rows, row)
	}
	return reply{0, http.StatusOK, map[string]any{"leaderboardRows": rows}}
}

// order returns the client order ID or the order number in an orderStatus request.
func (q *infoRequest) order() (cloid string, id uint64) {
	if json.Unmarshal(q.Oid, &cloid) == nil {
		return strings.ToLower(cloid), 0
	}
	id, _ = strconv.ParseUint(cmp.Or(string(q.Oid), "0"), 10, 64)
	return "", id
}
