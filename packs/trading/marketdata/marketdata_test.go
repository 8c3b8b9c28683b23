package marketdata

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/packs/trading/cryptopanic"
	"github.com/toolyard/toolyard/packs/trading/hyperliquid"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/toolyardtest"
)

var now = time.Now().UTC().Truncate(time.Hour).Add(7*time.Minute + 30*time.Second)

// world is a venue and a news service, with the clients that a gate lends.
type world struct {
	venue   *fakemarkets.Hyperliquid
	news    *fakemarkets.CryptoPanic
	clients *toolyard.Clients
}

type holdings []market.Position

func (h holdings) At(_ context.Context, asOf time.Time) (market.Snapshot, error) {
	return market.Snapshot{AsOf: asOf, EquityUSD: decimal.NewFromInt(10_000), Positions: h}, nil
}

func newWorld(t *testing.T, positions ...market.Position) *world {
	t.Helper()
	w := &world{venue: fakemarkets.NewHyperliquid(), news: fakemarkets.NewCryptoPanic("t"), clients: &toolyard.Clients{}}
	t.Cleanup(w.venue.Close)
	t.Cleanup(w.news.Close)
	w.venue.SetNow(func() time.Time { return now })
	clock := func() time.Time { return now }
	hl, err := hyperliquid.New(hyperliquid.Options{URL: w.venue.URL, Testnet: true, Leaderboard: w.venue.URL + "/Mainnet/leaderboard", HTTP: http.DefaultClient, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	cp, err := cryptopanic.New(cryptopanic.Options{URL: w.news.URL, Token: "t", HTTP: http.DefaultClient, Now: clock})
	if err != nil {
		t.Fatal(err)
	}
	toolyard.Lend[market.Bars](w.clients, hl)
	toolyard.Lend[market.Markets](w.clients, hl)
	toolyard.Lend[market.Funding](w.clients, hl)
	toolyard.Lend[market.FundingForecast](w.clients, hl)
	toolyard.Lend[market.Traders](w.clients, hl)
	toolyard.Lend[market.News](w.clients, cp)
	toolyard.Lend[market.Portfolio](w.clients, holdings(positions))
	return w
}

func tool(t *testing.T, name string) *toolyard.Tool {
	t.Helper()
	for _, tool := range Tools() {
		if tool.Name == name {
			return tool
		}
	}
	t.Fatalf("no tool %s", name)
	return nil
}

// call calls a tool at an as-of time and returns its structured result.
func (w *world) call(t *testing.T, name, args string, asOf time.Time) (json.RawMessage, error) {
	t.Helper()
	o := &toolyardtest.Options{AsOf: asOf, Clients: w.clients}
	res, err := toolyardtest.Call(t, tool(t, name), args, o)
	if err != nil {
		return nil, err
	}
	return res.Structured, nil
}

func (w *world) get(t *testing.T, name, args string, asOf time.Time, out any) {
	t.Helper()
	raw, err := w.call(t, name, args, asOf)
	if err != nil {
		t.Fatalf("%s %s: %v", name, args, err)
	}
	if err := json.Unmarshal(raw, out); err != nil {
		t.Fatalf("%s: %v in %s", name, err, raw)
	}
}

func TestBarsEndBeforeTheAsOfTime(t *testing.T) {
	w := newWorld(t)
	var first, later []barRow
	w.get(t, "fetch_recent_bars", `{"symbol":"BTC","interval":"5m","lookback":10}`, now.Add(-time.Hour), &first)
	w.get(t, "fetch_recent_bars", `{"symbol":"BTC","interval":"5m","lookback":10}`, now, &later)
	for name, list := range map[string][]barRow{"first": first, "later": later} {
		asOf := now
		if name == "first" {
			asOf = now.Add(-time.Hour)
		}
		if len(list) != 10 {
			t.Fatalf("%s: %d bars", name, len(list))
		}
		for i, b := range list {
			if end := time.UnixMilli(b.TS).Add(5 * time.Minute); end.After(asOf) || i > 0 && b.TS >= list[i-1].TS {
				t.Errorf("%s: bar %d ends at %s", name, i, end)
			}
		}
	}
	if later[0].TS-first[0].TS != time.Hour.Milliseconds() {
		t.Errorf("an hour later, the bars are %d ms later", later[0].TS-first[0].TS)
	}
	var columns barColumns
	w.get(t, "fetch_recent_bars", `{"symbol":"BTC","interval":"5m","lookback":10,"shape":"columns"}`, now, &columns)
	if len(columns.TS) != 10 || columns.TS[0] != later[0].TS || !columns.Close[9].Equal(later[9].Close) {
		t.Errorf("columns differ from objects: %+v", columns)
	}
}

func TestUnknownSymbolsAreExplained(t *testing.T) {
	w := newWorld(t)
	for _, test := range []struct{ name, args, want string }{
		{"fetch_recent_bars", `{"symbol":"btc","interval":"1h"}`, "did you mean BTC"},
		{"fetch_recent_bars", `{"symbol":"ETH-USD","interval":"1h"}`, "did you mean ETH"},
		{"get_funding_rate", `{"symbol":"PEPE"}`, "did you mean kPEPE"},
		{"get_open_interest", `{"symbols":["SOLL"]}`, "did you mean SOL"},
		{"analyze_chart_pattern", `{"symbol":"XXXXXX","interval":"1h"}`, "unknown symbol"},
	} {
		_, err := w.call(t, test.name, test.args, now)
		if e := toolyard.AsError(err); err == nil || e.Code != toolyard.Invalid || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s %s: %v", test.name, test.args, err)
		}
	}
}

func TestWithoutClientsThereIsNoData(t *testing.T) {
	for name, args := range map[string]string{
		"fetch_recent_bars": `{"symbol":"BTC","interval":"1h"}`, "fetch_news_sentiment": `{"symbols":["BTC"]}`, "get_top_traders": `{}`, "get_funding_rate": `{"symbol":"BTC"}`,
		"get_open_interest": `{}`, "analyze_chart_pattern": `{"symbol":"BTC","interval":"1h"}`, "compute_var": `{}`,
	} {
		w := &world{clients: &toolyard.Clients{}}
		if _, err := w.call(t, name, args, now); toolyard.AsError(err).Code != toolyard.NoData {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestDataWithoutHistoryIsNotShownForThePast(t *testing.T) {
	w := newWorld(t)
	w.venue.SetLeaders(fakemarkets.HyperliquidLeader{Address: "0x00000000000000000000000000000000000000a1", AccountValue: "20000.0", Pnl: "5.0", Name: "a\u202eb"})
	for name, args := range map[string]string{"get_top_traders": `{}`, "get_open_interest": `{}`} {
		if _, err := w.call(t, name, args, now); err != nil {
			t.Errorf("%s now: %v", name, err)
		}
		if _, err := w.call(t, name, args, now.Add(-time.Hour)); toolyard.AsError(err).Code != toolyard.NoData {
			t.Errorf("%s in the past: %v", name, err)
		}
	}
	var top tradersResult
	w.get(t, "get_top_traders", `{}`, now, &top)
	if len(top.Traders) != 1 || top.Traders[0].Name != "ab" {
		t.Errorf("%+v", top)
	}
}

func TestFundingOfThePastComesFromHistory(t *testing.T) {
	w := newWorld(t)
	past := now.Add(-100 * time.Hour)
	var present, old fundingResult
	w.get(t, "get_funding_rate", `{"symbol":"BTC","hours":48}`, now, &present)
	w.get(t, "get_funding_rate", `{"symbol":"BTC","hours":3}`, past, &old)
	if len(present.History) != 48 || !present.Predicted || len(present.OtherVenues) != 1 || !present.Annualized.Equal(present.Hourly.Mul(hoursPerYear)) {
		t.Errorf("now: %+v", present)
	}
	if len(old.History) != 3 || old.Predicted || old.History[0].At.After(past) || !old.Hourly.Equal(old.History[0].Rate) || old.OtherVenues != nil || !old.NextAt.After(past) {
		t.Errorf("past: %+v", old)
	}
}

func TestVotesAreNotShownForThePast(t *testing.T) {
	w := newWorld(t)
	w.news.Set(
		fakemarkets.CryptoPanicPost{ID: 1, Title: "New", Published: now.Add(-time.Minute), Symbols: []string{"BTC"}, Positive: 3, Negative: 1},
		fakemarkets.CryptoPanicPost{ID: 2, Title: "Old", Published: now.Add(-5 * time.Hour), Symbols: []string{"BTC"}, Positive: 4, Important: 2},
	)
	var present, past newsResult
	w.get(t, "fetch_news_sentiment", `{"symbols":["BTC"]}`, now, &present)
	w.get(t, "fetch_news_sentiment", `{"symbols":["BTC"]}`, now.Add(-time.Hour), &past)
	if len(present.Posts) != 2 || present.Votes == nil || *present.Votes != (voteRow{7, 1, 2}) {
		t.Errorf("now: %+v", present)
	}
	if len(past.Posts) != 1 || past.Posts[0].Title != "Old" || past.Posts[0].Votes != nil || past.Votes != nil {
		t.Errorf("past: %+v", past)
	}
	w.news.Set(fakemarkets.CryptoPanicPost{ID: 3, Title: "Few", Published: now, Symbols: []string{"ETH"}, Positive: 2})
	w.get(t, "fetch_news_sentiment", `{"symbols":["ETH"]}`, now, &present)
	if present.Votes != nil {
		t.Errorf("two votes are counted: %+v", present.Votes)
	}
}

func TestOpenInterest(t *testing.T) {
	w := newWorld(t)
	var all, some []interestRow
	w.get(t, "get_open_interest", `{}`, now, &all)
	w.get(t, "get_open_interest", `{"symbols":["ETH","SOL"]}`, now, &some)
	if len(all) != 4 || all[0].Symbol != "BTC" || len(some) != 2 || some[0].Symbol != "ETH" {
		t.Errorf("%+v, %+v", all, some)
	}
	sum := decimal.Zero
	for _, r := range all {
		sum = sum.Add(r.Share)
	}
	if sum.Sub(decimal.NewFromInt(1)).Abs().GreaterThan(decimal.RequireFromString("0.0001")) {
		t.Errorf("the shares add up to %s", sum)
	}
}

// makeBars returns bars with the given open, high, low and close.
func makeBars(rows ...[4]float64) []market.Bar {
	var out []market.Bar
	for i, r := range rows {
		start := now.Truncate(time.Hour).Add(time.Duration(i) * time.Hour)
		out = append(out, market.Bar{
			Start: start, End: start.Add(time.Hour), Open: decimal.NewFromFloat(r[0]), High: decimal.NewFromFloat(r[1]), Low: decimal.NewFromFloat(r[2]), Close: decimal.NewFromFloat(r[3]),
		})
	}
	return out
}

func TestChartPatterns(t *testing.T) {
	flat := func(n int) [][4]float64 { return slices.Repeat([][4]float64{{100, 102, 98, 101}}, n) }
	top := append(flat(4), [][4]float64{{105, 110, 104, 106}}...)
	top = append(top, flat(6)...)
	top = append(top, [][4]float64{{105, 110.1, 104, 106}}...)
	top = append(top, flat(4)...)
	for name, test := range map[string]struct {
		bars      [][4]float64
		direction string
	}{
		"doji":                 {append(flat(3), [4]float64{100, 103, 97, 100.1}), neutral},
		"hammer":               {append(flat(3), [4]float64{100, 101.1, 95, 101}), bullish},
		"shooting_star":        {append(flat(3), [4]float64{101, 106, 99.9, 100}), bearish},
		"engulfing":            {append(flat(3), [4]float64{102, 102.5, 97, 99}), bearish},
		"inside_bar":           {append(flat(3), [4]float64{100, 101, 99, 100.9}), neutral},
		"three_in_a_row":       {append(flat(3), [4]float64{100, 103, 100, 103}, [4]float64{103, 106, 103, 106}, [4]float64{106, 109, 106, 109}), bullish},
		"range_breakout":       {append(flat(25), [4]float64{101, 97, 90, 91}), bearish},
		"moving_average_cross": {append(append(slices.Repeat([][4]float64{{100, 101, 99, 100}}, 30), [4]float64{100, 100, 98, 99}), [4]float64{100, 130, 100, 130}), bullish},
		"double_top":           {top, bearish},
	} {
		got := findPatterns(makeBars(test.bars...))
		i := slices.IndexFunc(got, func(p pattern) bool { return p.Pattern == name })
		if i < 0 || got[i].Direction != test.direction || got[i].Strength < 0 || got[i].Strength > 1 || got[i].Rule == "" || got[i].Bars[0] > got[i].Bars[1] {
			t.Errorf("%s: %+v", name, got)
		}
	}
	if got := findPatterns(makeBars(slices.Repeat([][4]float64{{100, 102, 98, 101}}, 60)...)); len(got) != 0 {
		t.Errorf("patterns without a change: %+v", got)
	}
	w := newWorld(t)
	var list []pattern
	w.get(t, "analyze_chart_pattern", `{"symbol":"ETH","interval":"15m","lookback":200}`, now, &list)
	for _, p := range list {
		if p.Bars[1] >= now.UnixMilli() {
			t.Errorf("%+v is in the future", p)
		}
	}
}

func TestValueAtRisk(t *testing.T) {
	// With losses of 1 to 100 USD, the fifth worst is 96.
	var closes []market.Bar
	price := decimal.NewFromInt(1000)
	for i := range 101 {
		start := now.Truncate(24*time.Hour).AddDate(0, 0, -i)
		closes = append(closes, market.Bar{Start: start, Close: price})
		price = price.DivRound(decimal.NewFromInt(1).Sub(decimal.New(int64(i+1), -4)), 20)
	}
	s := &market.Snapshot{EquityUSD: decimal.NewFromInt(20_000), Positions: []market.Position{{Symbol: "BTC", Size: decimal.NewFromInt(10), MarkPrice: decimal.NewFromInt(1000)}}}
	got, err := valueAtRisk(s, map[string][]market.Bar{"BTC": closes}, decimal.RequireFromString("0.95"), "1d")
	if err != nil || got.VaRUSD.String() != "96" || got.ShortfallUSD.String() != "98" || got.OfEquity.String() != "0.0048" || got.Observations != 100 {
		t.Errorf("%+v, %v", got, err)
	}
	s.Positions[0].Size = s.Positions[0].Size.Neg() // a short position gains whenever the price falls
	if got, err := valueAtRisk(s, map[string][]market.Bar{"BTC": closes}, decimal.RequireFromString("0.95"), "1d"); err != nil || !got.VaRUSD.IsZero() {
		t.Errorf("short: %+v, %v", got, err)
	}
	if _, err := valueAtRisk(s, map[string][]market.Bar{"BTC": closes[:20]}, decimal.RequireFromString("0.95"), "1d"); toolyard.AsError(err).Code != toolyard.NoData {
		t.Errorf("few observations: %v", err)
	}
	w := newWorld(t, market.Position{Symbol: "BTC", Size: decimal.NewFromInt(1), MarkPrice: decimal.NewFromInt(100_000)}, market.Position{Symbol: "ETH", Size: decimal.NewFromInt(-5), MarkPrice: decimal.NewFromInt(4000)})
	var result varResult
	w.get(t, "compute_var", `{"horizon":"1h","observations":200}`, now, &result)
	if result.Observations != 200 || !result.VaRUSD.IsPositive() || result.ShortfallUSD.LessThan(result.VaRUSD) {
		t.Errorf("%+v", result)
	}
}

func TestHintsSayWhenToUseATool(t *testing.T) {
	for _, tool := range Tools() {
		if !strings.HasPrefix(tool.Hint, "Use ") || tool.Modes()[0] != toolyard.Read {
			t.Errorf("%s: hint %q, modes %v", tool.Name, tool.Hint, tool.Modes())
		}
	}
	if got := tool(t, "fetch_recent_bars").Hint; got != "Use to read recent price action before deciding to trade" {
		t.Errorf("hint %q", got)
	}
}

func TestNearestSymbols(t *testing.T) {
	known := []string{"BTC", "ETH", "SOL", "kPEPE", "AVAX"}
	for symbol, want := range map[string]string{"bitcoin": "[]", "BTCUSDT": "[BTC]", "PEPE": "[kPEPE]", "AVA": "[AVAX]", strings.Repeat("A", 100): "[]"} {
		if got := fmt.Sprint(nearest(symbol, known)); got != want {
			t.Errorf("%s: %s, want %s", symbol, got, want)
		}
	}
}
