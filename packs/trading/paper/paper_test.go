package paper_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/packs/trading/market/markettest"
	"github.com/toolyard/toolyard/packs/trading/paper"
	"github.com/toolyard/toolyard/yard"
)

var start = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

func d(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func nd(s string) decimal.NullDecimal { return decimal.NewNullDecimal(d(s)) }

func settings() paper.Settings {
	return paper.Settings{DepositUSD: d("10000"), Interval: "5m", SlippageBps: 10, Fees: market.Fees{Taker: d("0.001"), Maker: d("0.0005")}}
}

func at(bars int) time.Time { return start.Add(time.Duration(bars) * 5 * time.Minute) }

type bar = [4]string

// buy returns a market order to buy 1 BTC at up to 110.
func buy(edit ...func(*market.Order)) market.Order {
	o := market.Order{ClientID: "a", Symbol: "BTC", Side: market.Buy, Type: market.MarketOrder, Size: d("1"), Price: d("110"), TIF: market.IOC}
	for _, f := range edit {
		f(&o)
	}
	return o
}

func limit(side market.Side, price string) func(*market.Order) {
	return func(o *market.Order) {
		o.Type, o.Side, o.Price, o.TIF = market.LimitOrder, side, d(price), market.GTC
	}
}

func TestOrdersFillByBars(t *testing.T) {
	for _, test := range []struct {
		name  string
		order market.Order
		bars  []bar
		fills string // side, size, price and reason of each fill
		ends  market.Status
	}{
		{"market order at the next open", buy(), []bar{{"100", "105", "99", "104"}}, "buy 1 100.1", market.Filled},
		{"market order beyond its collar", buy(), []bar{{"110", "115", "109", "114"}}, "", market.Canceled},
		{"market order for a tenth of the volume", buy(func(o *market.Order) { o.Size = d("101") }), []bar{{"50", "50", "50", "50"}}, "buy 100 50.05", market.Canceled},
		{"no bar yet", buy(), nil, "", market.Pending},
		{"limit that is touched", buy(limit(market.Buy, "95")), []bar{{"100", "101", "95", "96"}}, "", market.Resting},
		{"limit that is traded through", buy(limit(market.Buy, "95")), []bar{{"100", "101", "94.99", "96"}}, "buy 1 95", market.Filled},
		{"sell limit that is traded through", buy(limit(market.Sell, "105")), []bar{{"100", "105.01", "99", "100"}}, "sell 1 105", market.Filled},
		{"limit that crosses the open", buy(limit(market.Buy, "102")), []bar{{"100", "101", "99.5", "100"}}, "buy 1 100.1", market.Filled},
		{"limit that almost crosses the open", buy(limit(market.Buy, "100.05")), []bar{{"100", "101", "99.5", "100"}}, "buy 1 100.05", market.Filled},
		{"immediate limit that does not cross", buy(limit(market.Buy, "95"), func(o *market.Order) { o.TIF = market.IOC }), []bar{{"100", "101", "90", "96"}}, "", market.Canceled},
		{"stop entry", buy(func(o *market.Order) { o.Type, o.Trigger, o.TIF = market.StopOrder, nd("105"), market.GTC }), []bar{{"100", "104", "99", "103"}, {"103", "105", "102", "104"}}, "buy 1 105.105", market.Filled},
		{"stop entry over a gap", buy(func(o *market.Order) { o.Type, o.Trigger, o.TIF = market.StopOrder, nd("105"), market.GTC }), []bar{{"106", "107", "105", "106"}}, "buy 1 106.106", market.Filled},
		{"stop loss", buy(func(o *market.Order) { o.StopLoss = nd("95") }), []bar{{"100", "101", "99", "100"}, {"100", "101", "94", "96"}}, "buy 1 100.1, sell 1 94.905 stop", market.Filled},
		{"stop loss over a gap", buy(func(o *market.Order) { o.StopLoss = nd("95") }), []bar{{"100", "101", "99", "100"}, {"90", "91", "89", "90"}}, "buy 1 100.1, sell 1 89.91 stop", market.Filled},
		{"stop loss in the bar of the entry", buy(func(o *market.Order) { o.StopLoss = nd("95") }), []bar{{"100", "101", "94", "100"}}, "buy 1 100.1, sell 1 94.905 stop", market.Filled},
		{"take profit", buy(func(o *market.Order) { o.TakeProfit = nd("105") }), []bar{{"100", "101", "99", "100"}, {"100", "106", "99", "100"}}, "buy 1 100.1, sell 1 104.895 take_profit", market.Filled},
		{"stop and target in one bar", buy(func(o *market.Order) { o.StopLoss, o.TakeProfit = nd("95"), nd("105") }), []bar{{"100", "101", "99", "100"}, {"100", "106", "94", "100"}}, "buy 1 100.1, sell 1 94.905 stop", market.Filled},
		{"target does not fill in the bar of a limit entry", buy(limit(market.Buy, "95"), func(o *market.Order) { o.TakeProfit = nd("100.5") }), []bar{{"100", "101", "94", "100"}}, "buy 1 95", market.Filled},
		{"stop fills in the bar of a limit entry", buy(limit(market.Buy, "95"), func(o *market.Order) { o.StopLoss = nd("94") }), []bar{{"100", "101", "93", "100"}}, "buy 1 95, sell 1 93.906 stop", market.Filled},
		{"short with a stop", buy(func(o *market.Order) { o.Side, o.Price, o.StopLoss = market.Sell, d("90"), nd("105") }), []bar{{"100", "101", "99", "100"}, {"100", "106", "99", "100"}}, "sell 1 99.9, buy 1 105.105 stop", market.Filled},
		{"liquidation", buy(func(o *market.Order) { o.Size = d("900") }), []bar{{"100", "100", "100", "100"}, {"100", "100", "80", "85"}}, "buy 100 100.1", market.Canceled},
	} {
		t.Run(test.name, func(t *testing.T) {
			data := markettest.New("5m")
			data.Add("BTC", start, test.bars...)
			account := paper.Open("lab", settings(), yard.MemoryJournal(), data)
			if _, err := account.Simulator().Place(t.Context(), test.order, market.Stamp{At: start}); err != nil {
				t.Fatal(err)
			}
			end := at(len(test.bars))
			check := func() {
				t.Helper()
				fills, err := account.Fills(t.Context(), time.Time{}, end)
				if err != nil || describe(fills) != test.fills {
					t.Errorf("fills %q, want %q (%v)", describe(fills), test.fills, err)
				}
			}
			check()
			if err := account.Settle(t.Context(), end); err != nil {
				t.Fatal(err)
			}
			check()
			placed, _, err := account.Simulator().Find(t.Context(), "a")
			if err != nil || placed.Status != test.ends {
				t.Errorf("status %s (%s), want %s (%v)", placed.Status, placed.Detail, test.ends, err)
			}
		})
	}
}

func describe(fills []market.Fill) string {
	var list []string
	for _, f := range fills {
		list = append(list, strings.TrimSpace(fmt.Sprintf("%s %s %s %s", f.Side, f.Size, f.Price, f.Reason)))
	}
	return strings.Join(list, ", ")
}

func TestEquityIsCashAndUnrealizedProfit(t *testing.T) {
	data := markettest.New("5m")
	data.Add("BTC", start, bar{"100", "100", "100", "100"}, bar{"100", "120", "100", "120"}, bar{"120", "120", "110", "110"})
	data.Funding["BTC"] = []market.Rate{{At: at(2).Add(22 * time.Millisecond), Rate: d("0.0001")}}
	account := paper.Open("lab", settings(), yard.MemoryJournal(), data)
	order := buy(func(o *market.Order) { o.Size = d("10"); o.Price = d("101") })
	if _, err := account.Simulator().Place(t.Context(), order, market.Stamp{At: start}); err != nil {
		t.Fatal(err)
	}
	for bars, want := range []string{
		"10000",     // the order is not filled yet
		"9997.999",  // bought at 100.1, paid a fee of 1.001, marked at 100
		"10197.999", // marked at 120
		"10097.879", // marked at 110, paid 0.12 of funding on 1,200
	} {
		snapshot, err := account.At(t.Context(), at(bars))
		if err != nil || snapshot.EquityUSD.String() != want {
			t.Errorf("equity after %d bars %s, want %s (%v)", bars, snapshot.EquityUSD, want, err)
		}
	}
	high, err := account.At(t.Context(), at(3))
	if err != nil || high.Watermark.HighUSD.String() != "10197.999" || high.Watermark.DayStartUSD.String() != "10000" {
		t.Errorf("watermark %+v (%v)", high.Watermark, err)
	}
}

func TestFundingIsPaidOnce(t *testing.T) {
	data := markettest.New("5m")
	for i := range 36 {
		data.Add("BTC", at(i), bar{"100", "100", "100", "100"})
		if i%12 == 11 {
			data.Funding["BTC"] = append(data.Funding["BTC"], market.Rate{At: at(i + 1).Add(22 * time.Millisecond), Rate: d("0.0001")})
		}
	}
	account := paper.Open("lab", settings(), yard.MemoryJournal(), data)
	if _, err := account.Simulator().Place(t.Context(), buy(), market.Stamp{At: start}); err != nil {
		t.Fatal(err)
	}
	for s := range 3 * 60 {
		if err := account.Settle(t.Context(), start.Add(time.Duration(s)*time.Minute+30*time.Millisecond)); err != nil {
			t.Fatal(err)
		}
	}
	payments, err := account.Payments(t.Context(), time.Time{}, at(36))
	if err != nil || len(payments) != 2 || payments[0].AmountUSD.String() != "-0.01" {
		t.Errorf("payments %+v (%v)", payments, err)
	}
	if paid, due, err := account.FundingHours(t.Context(), at(36)); err != nil || paid != 2 || due != 3 {
		t.Errorf("funding paid for %d of %d hours (%v)", paid, due, err)
	}
}

func TestPositionsAreLiquidated(t *testing.T) {
	data := markettest.New("5m")
	data.Add("BTC", start, bar{"100", "100", "100", "100"}, bar{"100", "100", "80", "85"})
	for i := range data.Series["BTC"] {
		data.Series["BTC"][i].Volume = d("100000")
	}
	account := paper.Open("lab", settings(), yard.MemoryJournal(), data)
	order := buy(func(o *market.Order) { o.Size = d("900"); o.Price = d("101") })
	if _, err := account.Simulator().Place(t.Context(), order, market.Stamp{At: start}); err != nil {
		t.Fatal(err)
	}
	before, err := account.At(t.Context(), at(1))
	if err != nil || len(before.Positions) != 1 || !before.Positions[0].LiquidationPrice.Valid {
		t.Fatalf("positions %+v (%v)", before.Positions, err)
	}
	fills, err := account.Fills(t.Context(), time.Time{}, at(2))
	if err != nil || len(fills) != 2 || fills[1].Reason != market.Liquidated {
		t.Fatalf("fills %+v (%v)", fills, err)
	}
	price, liquidation := fills[1].Price, before.Positions[0].LiquidationPrice.Decimal
	if price.GreaterThan(liquidation) || price.LessThan(liquidation.Mul(d("0.998"))) {
		t.Errorf("liquidated at %s, want about %s", price, liquidation)
	}
}

func TestLiveOrdersWalkTheBook(t *testing.T) {
	data := markettest.New("5m")
	data.Books["BTC"] = market.Book{
		Bids: []market.Level{{Price: d("99"), Size: d("1")}},
		Asks: []market.Level{{Price: d("100"), Size: d("0.4")}, {Price: d("101"), Size: d("0.4")}, {Price: d("120"), Size: d("9")}},
	}
	broker := paper.Open("lab", settings(), yard.MemoryJournal(), data).Broker()
	placed, err := broker.Place(t.Context(), buy(), market.Stamp{At: start})
	if err != nil || placed.Status != market.Canceled || placed.Filled.String() != "0.8" || placed.AvgPrice.String() != "100.5" {
		t.Errorf("placed %+v (%v)", placed, err)
	}
	alo := buy(limit(market.Buy, "100"), func(o *market.Order) { o.ClientID, o.TIF = "b", market.ALO })
	if placed, err = broker.Place(t.Context(), alo, market.Stamp{At: start}); err != nil || placed.Status != market.Rejected || !strings.HasPrefix(placed.Detail, "Post only") {
		t.Errorf("placed %+v (%v)", placed, err)
	}
}

func TestPlacingTwiceHasNoEffect(t *testing.T) {
	account := paper.Open("lab", settings(), yard.MemoryJournal(), markettest.New("5m"))
	for range 3 {
		if _, err := account.Simulator().Place(t.Context(), buy(), market.Stamp{At: start}); err != nil {
			t.Fatal(err)
		}
	}
	snapshot, err := account.At(t.Context(), start)
	if err != nil || len(snapshot.Orders) != 1 {
		t.Errorf("orders %+v (%v)", snapshot.Orders, err)
	}
}

func TestTimeDoesNotGoBack(t *testing.T) {
	account := paper.Open("lab", settings(), yard.MemoryJournal(), markettest.New("5m"))
	broker := account.Simulator()
	if _, err := broker.Place(t.Context(), buy(), market.Stamp{At: at(9)}); err != nil {
		t.Fatal(err)
	}
	other := buy(func(o *market.Order) { o.ClientID = "b" })
	if _, err := broker.Place(t.Context(), other, market.Stamp{At: at(8)}); toolyard.AsError(err).Code != toolyard.Invalid {
		t.Errorf("an order in the past: %v", err)
	}
	if err := account.Reset(t.Context(), at(1)); err != nil {
		t.Fatal(err)
	}
	if _, err := broker.Place(t.Context(), other, market.Stamp{At: at(8)}); err != nil {
		t.Errorf("an order after a reset: %v", err)
	}
	if snapshot, err := account.At(t.Context(), at(9)); err != nil || len(snapshot.Orders) != 1 || snapshot.Orders[0].ClientID != "b" {
		t.Errorf("orders after a reset %+v (%v)", snapshot.Orders, err)
	}
}

// The state at a given time does not depend on when or where it is computed, or on later events.
func TestStateAtATimeIsAFold(t *testing.T) {
	data := markettest.New("5m")
	data.Walk("BTC", 7, start, 300, 100)
	journal := yard.MemoryJournal()
	trade := func(ctx context.Context, account *paper.Account) (seen []string) {
		for i := 0; i < 300; i += 5 {
			snapshot, err := account.At(ctx, at(i).Add(-time.Microsecond))
			if err != nil {
				t.Fatal(err)
			}
			seen = append(seen, fmt.Sprintf("%+v", snapshot))
			o := buy(func(o *market.Order) {
				o.ClientID, o.Price, o.Side = fmt.Sprint(i), d("1000"), market.Buy
				if i%2 == 0 {
					o.Side, o.Price = market.Sell, d("1")
				}
				if i%3 == 0 {
					o.StopLoss = decimal.NewNullDecimal(d("100"))
				}
			})
			if _, err := account.Simulator().Place(ctx, o, market.Stamp{At: at(i)}); err != nil {
				t.Fatal(err)
			}
		}
		return seen
	}
	seen := trade(t.Context(), paper.Open("lab", settings(), journal, data))
	again := trade(t.Context(), paper.Open("lab", settings(), yard.MemoryJournal(), data))
	reader := paper.Open("lab", settings(), journal, data)
	for i := range seen {
		if seen[i] != again[i] {
			t.Fatalf("two runs differ at %d:\n%s\n%s", i, seen[i], again[i])
		}
		late, err := reader.At(t.Context(), at(i*5).Add(-time.Microsecond))
		if err != nil {
			t.Fatal(err)
		}
		if got := fmt.Sprintf("%+v", late); got != seen[i] {
			t.Fatalf("later, the state at %d is\n%s\nnot\n%s", i, got, seen[i])
		}
	}
}
