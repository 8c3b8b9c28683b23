package hyperliquid

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/internal/base/leaktest"
	"github.com/toolyard/toolyard/packs/trading/market"
)

func TestMain(m *testing.M) { leaktest.Main(m) }

const (
	owner = "0x00000000000000000000000000000000000000a1"
	agent = "0x14791697260e4c9a71f18484c9f997b308e59325" // address of testKey
)

// open starts a venue and a client.
func open(t *testing.T) (*fakemarkets.Hyperliquid, *Client) {
	t.Helper()
	f := fakemarkets.NewHyperliquid()
	t.Cleanup(f.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := New(Options{URL: f.URL, Testnet: true, Leaderboard: f.URL + "/Mainnet/leaderboard", HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	return f, c
}

// trader returns a venue and a broker with an approved agent.
func trader(t *testing.T) (*fakemarkets.Hyperliquid, *Broker) {
	t.Helper()
	f, c := open(t)
	f.Deposit(owner, "10000")
	f.Approve(owner, agent)
	a, err := NewAccount(c, owner)
	if err != nil {
		t.Fatal(err)
	}
	b, err := NewBroker(a, testKey, false)
	if err != nil {
		t.Fatal(err)
	}
	return f, b
}

var lastNonce int64

// stamp returns a stamp that no other test has used.
func stamp() market.Stamp {
	s := market.NextStamp(lastNonce, time.Now())
	lastNonce = s.Nonce
	return s
}

func d(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func codeOf(err error) toolyard.Code {
	if err == nil {
		return ""
	}
	return toolyard.AsError(err).Code
}

func TestRecentBarsAreClosed(t *testing.T) {
	f, c := open(t)
	now := time.Date(2026, 3, 1, 10, 7, 30, 0, time.UTC)
	f.SetNow(func() time.Time { return now })
	c.now = func() time.Time { return now }
	bars, err := c.Recent(t.Context(), "BTC", "5m", 10, now)
	if err != nil || len(bars) != 10 {
		t.Fatal(len(bars), err)
	}
	if want := now.Truncate(5 * time.Minute); !bars[0].End.Equal(want) {
		t.Errorf("the newest bar ends at %s, want %s", bars[0].End, want)
	}
	for i := 1; i < len(bars); i++ {
		if !bars[i].Start.Before(bars[i-1].Start) {
			t.Errorf("bars are not in descending order")
		}
	}
	for _, r := range f.Requests() {
		if strings.Contains(r.Body, "candleSnapshot") && !strings.Contains(r.Body, `"endTime":1772359499999`) {
			t.Errorf("the request reaches beyond the last closed bar: %s", r.Body)
		}
	}
}

func TestHistoryEndsAfterFiveThousandBars(t *testing.T) {
	f, c := open(t)
	now := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	f.SetNow(func() time.Time { return now })
	c.now = func() time.Time { return now }
	bars, err := c.Between(t.Context(), "BTC", "1m", now.Add(-100*24*time.Hour), now)
	if err != nil || len(bars) < 4999 || len(bars) > 5000 {
		t.Errorf("%d bars, %v", len(bars), err)
	}
}

func TestMarketDataHasTheShapeOfTheVenue(t *testing.T) {
	_, c := open(t)
	specs, err := c.Specs(t.Context())
	if err != nil || specs["ETH"].Asset != 1 || specs["ETH"].SizeDecimals != 4 || len(specs["BTC"].Tiers) != 2 {
		t.Errorf("specs %+v, %v", specs, err)
	}
	contexts, err := c.Contexts(t.Context(), time.Now())
	if err != nil || len(contexts) != 4 || !contexts[0].Mark.Equal(d("100000")) || !contexts[0].Mid.Valid {
		t.Errorf("contexts %+v, %v", contexts, err)
	}
	book, err := c.Book(t.Context(), "BTC", time.Now())
	if err != nil || len(book.Bids) != 20 || len(book.Asks) != 20 || !book.Bids[0].Price.LessThan(book.Asks[0].Price) {
		t.Errorf("book %+v, %v", book, err)
	}
	to := time.Now().Truncate(time.Hour).Add(-59 * time.Minute) // within an hour that is over
	rates, err := c.Rates(t.Context(), "BTC", to.Add(-24*time.Hour), to)
	if err != nil || len(rates) != 24 || rates[23].At.After(to) {
		t.Errorf("%d rates, %v", len(rates), err)
	}
	forecast, err := c.Forecast(t.Context(), "BTC")
	if err != nil || len(forecast) != 2 || forecast[1].Venue != "HlPerp" || forecast[1].Hours != 1 {
		t.Errorf("forecast %+v, %v", forecast, err)
	}
}

func TestLongFundingHistoryIsReadInPages(t *testing.T) {
	f, c := open(t)
	to := time.Now().Truncate(time.Hour)
	rates, err := c.Rates(t.Context(), "ETH", to.Add(-1200*time.Hour), to)
	if err != nil || len(rates) != 1200 {
		t.Errorf("%d rates, %v", len(rates), err)
	}
	if n := len(f.Requests()); n != 3 {
		t.Errorf("%d requests", n)
	}
}

func TestUnknownSymbolsAndThePastHaveNoData(t *testing.T) {
	_, c := open(t)
	ctx, past := t.Context(), time.Now().Add(-time.Hour)
	for name, call := range map[string]func() error{
		"bars":          func() error { _, err := c.Recent(ctx, "NOPE", "1h", 5, time.Now()); return err },
		"book":          func() error { _, err := c.Book(ctx, "NOPE", time.Now()); return err },
		"rates":         func() error { _, err := c.Rates(ctx, "NOPE", past, time.Now()); return err },
		"past book":     func() error { _, err := c.Book(ctx, "BTC", past); return err },
		"past contexts": func() error { _, err := c.Contexts(ctx, past); return err },
	} {
		if err := call(); codeOf(err) != toolyard.NoData {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestFailuresOfTheVenue(t *testing.T) {
	for name, test := range map[string]struct {
		fail func(*fakemarkets.Hyperliquid)
		code toolyard.Code
	}{
		"down":    {func(f *fakemarkets.Hyperliquid) { f.Down(true) }, toolyard.Unavailable},
		"cut":     {func(f *fakemarkets.Hyperliquid) { f.Cut(true) }, toolyard.Unavailable},
		"422":     {func(f *fakemarkets.Hyperliquid) { f.Status(422) }, toolyard.Unavailable},
		"429":     {func(f *fakemarkets.Hyperliquid) { f.Status(429) }, toolyard.RateLimited},
		"html":    {func(f *fakemarkets.Hyperliquid) { f.Garbage("<html>") }, toolyard.Unavailable},
		"trailer": {func(f *fakemarkets.Hyperliquid) { f.Garbage("[] []") }, toolyard.Unavailable},
		"null":    {func(f *fakemarkets.Hyperliquid) { f.Garbage("null") }, toolyard.Unavailable},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := open(t)
			test.fail(f)
			a, err := NewAccount(c, owner)
			if err != nil {
				t.Fatal(err)
			}
			_, err = a.At(t.Context(), time.Now())
			if codeOf(err) != test.code {
				t.Errorf("got %v, want %s", err, test.code)
			}
			if test.code == toolyard.RateLimited && toolyard.AsError(err).RetryAfter == 0 {
				t.Error("no time to wait")
			}
		})
	}
}

func TestBudgetIsNotExceeded(t *testing.T) {
	f, c := open(t)
	for {
		if _, err := c.Forecast(t.Context(), "BTC"); err != nil {
			if e := toolyard.AsError(err); e.Code != toolyard.RateLimited || e.RetryAfter <= 0 || strings.Contains(e.Message, "received") {
				t.Errorf("got %v", err)
			}
			break
		}
	}
	if n := len(f.Requests()); n != budget/weightDefault {
		t.Errorf("%d requests", n)
	}
}

func TestPortfolio(t *testing.T) {
	f, b := trader(t)
	ctx := t.Context()
	if _, err := b.Place(ctx, order("1", "0.5", "4100", market.IOC), stamp()); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Place(ctx, order("2", "1", "3500", market.GTC), stamp()); err != nil {
		t.Fatal(err)
	}
	f.SetPrice("ETH", "4100")
	s, err := b.At(ctx, time.Now())
	if err != nil || len(s.Positions) != 1 || len(s.Orders) != 1 {
		t.Fatalf("%+v, %v", s, err)
	}
	p, o := s.Positions[0], s.Orders[0]
	if p.Symbol != "ETH" || !p.Size.Equal(d("0.5")) || !p.MarkPrice.Equal(d("4100")) || !p.UnrealizedUSD.IsPositive() {
		t.Errorf("position %+v", p)
	}
	if o.ClientID != cloid("2") || !o.Remaining.Equal(d("1")) || o.Side != market.Buy || o.TIF != market.GTC {
		t.Errorf("order %+v", o)
	}
	if _, err := b.At(ctx, time.Now().Add(-time.Hour)); codeOf(err) != toolyard.NoData {
		t.Errorf("past: %v", err)
	}
	fees, err := b.Fees(ctx)
	if err != nil || !fees.Taker.Equal(d("0.00045")) || !fees.Maker.Equal(d("0.00015")) {
		t.Errorf("fees %+v, %v", fees, err)
	}
}

func TestHistoryOfAnAccount(t *testing.T) {
	f, b := trader(t)
	ctx, start := t.Context(), time.Now()
	for i, price := range []string{"4100", "3900"} {
		o := order(price, "0.5", price, market.IOC)
		o.Side = []market.Side{market.Buy, market.Sell}[i]
		if placed, err := b.Place(ctx, o, stamp()); err != nil || placed.Status != market.Filled {
			t.Fatal(placed, err)
		}
	}
	fills, err := b.Fills(ctx, start.Add(-time.Second), time.Now())
	if err != nil || len(fills) != 2 || !fills[0].After.Equal(d("0.5")) || !fills[1].After.IsZero() || !fills[1].RealizedUSD.IsNegative() || !fills[0].FeeUSD.IsPositive() {
		t.Errorf("%+v, %v", fills, err)
	}
	if fills, err := b.Fills(ctx, start.Add(-time.Hour), start.Add(-time.Minute)); err != nil || len(fills) != 0 {
		t.Errorf("before: %+v, %v", fills, err)
	}
	if _, err := b.Place(ctx, order("3", "0.5", "4100", market.IOC), stamp()); err != nil {
		t.Fatal(err)
	}
	f.SetNow(func() time.Time { return start.Add(700 * time.Hour) })
	payments, err := b.Payments(ctx, start, start.Add(600*time.Hour))
	if err != nil || len(payments) != 600 || payments[0].Symbol != "ETH" {
		t.Errorf("%d payments, %v", len(payments), err)
	}
}

func TestLeaderboardKeepsTheBest(t *testing.T) {
	f, c := open(t)
	var rows []fakemarkets.HyperliquidLeader
	for i := range 1000 {
		rows = append(rows, fakemarkets.HyperliquidLeader{
			Address: "0x" + strings.Repeat("0", 36) + decimal.NewFromInt(int64(1000+i)).String(), AccountValue: "50000.5",
			Pnl: decimal.NewFromInt(int64(i)).String() + ".5", Roi: "0.1", Vlm: "3.0",
		})
	}
	rows = append(rows, fakemarkets.HyperliquidLeader{Address: owner, AccountValue: "3.0", Pnl: "1.0", Roi: "900.0", Name: "dust"})
	f.SetLeaders(rows...)
	top, at, err := c.Top(t.Context(), market.TradersQuery{AsOf: time.Now(), Window: "week", By: "pnl", Limit: 3, MinAccountUSD: d("10000")})
	if err != nil || len(top) != 3 || !top[0].PnlUSD.Equal(d("999.5")) || at.IsZero() {
		t.Errorf("%+v, %v", top, err)
	}
	top, _, err = c.Top(t.Context(), market.TradersQuery{AsOf: time.Now(), Window: "day", By: "roi", Limit: 1})
	if err != nil || len(top) != 1 || top[0].Name != "dust" {
		t.Errorf("%+v, %v", top, err)
	}
	if n := len(f.Requests()); n != 1 {
		t.Errorf("%d requests", n)
	}
}

func TestEveryCallerSharesOneFetch(t *testing.T) {
	f, c := open(t)
	f.Delay(50 * time.Millisecond)
	done := make(chan error)
	for range 20 {
		go func() {
			_, err := c.Specs(context.WithoutCancel(t.Context()))
			done <- err
		}()
	}
	var all error
	for range 20 {
		all = errors.Join(all, <-done)
	}
	if n := len(f.Requests()); all != nil || n != 1 {
		t.Errorf("%d requests, %v", n, all)
	}
}
