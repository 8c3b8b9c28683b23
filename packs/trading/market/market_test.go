package market_test

import (
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

func TestPricesAreRoundedToTheTick(t *testing.T) {
	for _, test := range []struct {
		sizeDecimals int32
		price, want  string
	}{
		{5, "113106.04", "113106"}, // whole numbers keep all digits
		{5, "1234567.8", "1234568"},
		{5, "98765.43", "98765"},
		{4, "1670.123", "1670.1"},
		{4, "4307.45", "4307.5"},
		{1, "12.34567", "12.346"},
		{0, "0.0016012345", "0.001601"}, // six decimal places
		{0, "0.12345678", "0.12346"},
		{2, "0.0123456", "0.0123"}, // 6 − 2 decimal places
		{0, "0", "0"},
		{6, "1.5", "2"},
	} {
		m := market.Market{SizeDecimals: test.sizeDecimals}
		if got := m.RoundPrice(decimal.RequireFromString(test.price)); got.String() != test.want {
			t.Errorf("RoundPrice(%s) with %d size decimals = %s, want %s", test.price, test.sizeDecimals, got, test.want)
		}
	}
}

func TestSizesAreRoundedTowardsZero(t *testing.T) {
	m := market.Market{SizeDecimals: 2}
	for size, want := range map[string]string{"0.019": "0.01", "-0.019": "-0.01", "0.009": "0", "3": "3"} {
		if got := m.RoundSize(decimal.RequireFromString(size)); got.String() != want {
			t.Errorf("RoundSize(%s) = %s, want %s", size, got, want)
		}
	}
	if m.Lot().String() != "0.01" {
		t.Errorf("lot %s", m.Lot())
	}
}

func TestABarIsVisibleAfterItsEnd(t *testing.T) {
	at := func(s string) time.Time {
		v, err := time.Parse(time.RFC3339Nano, s)
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	bar := market.Bar{Start: at("2026-03-01T10:00:00Z"), End: at("2026-03-01T10:05:00Z")}
	if bar.ClosedAt(at("2026-03-01T10:04:59.999Z")) || !bar.ClosedAt(bar.End) {
		t.Error("a bar must be visible from its end on")
	}
	for asOf, want := range map[string]string{
		"2026-03-01T10:05:00Z":       "2026-03-01T10:00:00Z",
		"2026-03-01T10:04:59.999Z":   "2026-03-01T09:55:00Z",
		"2026-03-01T11:09:00+01:00":  "2026-03-01T10:00:00Z",
		"2026-03-01T10:09:59.9999Z":  "2026-03-01T10:00:00Z",
		"2026-03-01T10:10:00.00001Z": "2026-03-01T10:05:00Z",
	} {
		if got := market.Interval("5m").LastClosed(at(asOf)); !got.Equal(at(want)) {
			t.Errorf("LastClosed(%s) = %s, want %s", asOf, got, want)
		}
	}
	for _, i := range market.Intervals {
		if i.Duration() == 0 || !i.Valid() {
			t.Errorf("interval %s has no duration", i)
		}
	}
}

func TestLeverageFallsWithTheValueOfAPosition(t *testing.T) {
	m := market.Market{MaxLeverage: 40, Tiers: []market.MarginTier{
		{LowerBoundUSD: decimal.Zero, MaxLeverage: 40}, {LowerBoundUSD: decimal.NewFromInt(1000), MaxLeverage: 20},
	}}
	for usd, want := range map[int64]int{0: 40, 999: 40, 1000: 20} {
		if got := m.LeverageAt(decimal.NewFromInt(usd)); got != want {
			t.Errorf("LeverageAt(%d) = %d, want %d", usd, got, want)
		}
	}
}

func TestNoncesIncrease(t *testing.T) {
	now := time.UnixMilli(1000)
	for _, test := range []struct{ last, want int64 }{{0, 1000}, {999, 1000}, {1000, 1001}, {5000, 5001}} {
		s := market.NextStamp(test.last, now)
		if s.Nonce != test.want || !s.Expires.Equal(now.Add(market.StampLifetime)) {
			t.Errorf("NextStamp(%d) = %+v, want nonce %d", test.last, s, test.want)
		}
	}
}

func TestClientIDsDependOnAccountAndKey(t *testing.T) {
	a := market.ClientID("main", "k1")
	if len(a) != 34 || a[:2] != "0x" || a != market.ClientID("main", "k1") {
		t.Errorf("client ID %q", a)
	}
	for _, other := range []string{market.ClientID("main", "k2"), market.ClientID("lab", "k1"), market.ClientID("maink", "1"), market.ChildID(a, market.StopOrder)} {
		if other == a {
			t.Errorf("%q is used twice", a)
		}
	}
}
