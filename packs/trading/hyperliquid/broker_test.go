package hyperliquid

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/acceptance/fakemarkets"
	"github.com/toolyard/toolyard/packs/trading/market"
)

func cloid(key string) string { return market.ClientID("test", key) }

// order returns an order to buy ETH.
func order(key, size, price string, tif market.TimeInForce) market.Order {
	return market.Order{ClientID: cloid(key), Symbol: "ETH", Side: market.Buy, Type: market.LimitOrder, Size: d(size), Price: d(price), TIF: tif}
}

func TestOrdersAreSignedAndExecuted(t *testing.T) {
	f, b := trader(t)
	ctx := t.Context()
	placed, err := b.Place(ctx, order("1", "0.5", "4100", market.IOC), stamp())
	if err != nil || placed.Status != market.Filled || !placed.Filled.Equal(d("0.5")) || !placed.AvgPrice.IsPositive() || !placed.FeeUSD.IsPositive() {
		t.Errorf("market order: %+v, %v", placed, err)
	}
	found, ok, err := b.Find(ctx, cloid("1"))
	if err != nil || !ok || found.Status != market.Filled || !found.Filled.Equal(d("0.5")) || !found.FeeUSD.Equal(placed.FeeUSD) || found.OrderID != placed.OrderID {
		t.Errorf("find: %+v, %v, %v", found, ok, err)
	}
	placed, err = b.Place(ctx, order("2", "0.0147", "1670.1", market.GTC), stamp())
	if err != nil || placed.Status != market.Resting || placed.OrderID == "" {
		t.Errorf("limit order: %+v, %v", placed, err)
	}
	for range 2 { // canceling twice is not an error
		if err := b.Cancel(ctx, market.Ref{Symbol: "ETH", ClientID: cloid("2")}, stamp()); err != nil {
			t.Error(err)
		}
	}
	if found, ok, err := b.Find(ctx, cloid("2")); err != nil || !ok || found.Status != market.Canceled {
		t.Errorf("canceled: %+v, %v, %v", found, ok, err)
	}
	if _, ok, err := b.Find(ctx, cloid("none")); ok || err != nil {
		t.Errorf("an order that does not exist: %v, %v", ok, err)
	}
	placed, err = b.Place(ctx, order("3", "0.1", "3000", market.GTC), stamp())
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Cancel(ctx, market.Ref{Symbol: "ETH", OrderID: placed.OrderID}, stamp()); err != nil {
		t.Error(err)
	}
	if n := len(f.Orders(owner)); n != 3 {
		t.Errorf("%d orders", n)
	}
}

func TestEntryWithStops(t *testing.T) {
	f, b := trader(t)
	o := order("1", "0.5", "4100", market.IOC)
	o.Type = market.MarketOrder
	o.StopLoss, o.TakeProfit = decimal.NewNullDecimal(d("3800")), decimal.NewNullDecimal(d("4400"))
	placed, err := b.Place(t.Context(), o, stamp())
	if err != nil || placed.Status != market.Filled || placed.Detail != "" {
		t.Fatalf("%+v, %v", placed, err)
	}
	if n := len(f.Orders(owner)); n != 3 {
		t.Errorf("%d orders", n)
	}
	f.SetPrice("ETH", "3700")
	found, ok, err := b.Find(t.Context(), market.ChildID(o.ClientID, market.StopOrder))
	if err != nil || !ok || found.Status != market.Filled {
		t.Errorf("stop: %+v, %v, %v", found, ok, err)
	}
	s, err := b.At(t.Context(), time.Now())
	if err != nil || len(s.Positions) != 0 {
		t.Errorf("positions after the stop: %+v, %v", s.Positions, err)
	}
}

func TestRefusalsOfTheVenue(t *testing.T) {
	_, b := trader(t)
	alo, reduce := order("alo", "0.1", "4500", market.ALO), order("reduce", "0.1", "4500", market.IOC)
	reduce.ReduceOnly = true
	for text, o := range map[string]market.Order{
		"Order must have minimum value of $10.":                         order("small", "0.001", "3000", market.GTC),
		"Post only order would have immediately matched":                alo,
		"Reduce only order would increase position.":                    reduce,
		"Insufficient margin to place order.":                           order("huge", "1000", "3000", market.GTC),
		"Order could not immediately match against any resting orders.": order("ioc", "0.1", "3000", market.IOC),
	} {
		placed, err := b.Place(t.Context(), o, stamp())
		want := market.Rejected
		if strings.HasPrefix(text, "Order could") {
			want = market.Canceled
		}
		if err != nil || placed.Status != want || !strings.HasPrefix(placed.Detail, text) {
			t.Errorf("%s: %+v, %v", text, placed, err)
		}
	}
}

func TestInexactOrdersAreNotSent(t *testing.T) {
	f, b := trader(t)
	bad := order("1", "0.1", "4000", market.GTC)
	bad.ClientID = "no"
	for name, o := range map[string]market.Order{
		"price digits": order("1", "0.1", "1670.12", market.GTC), "lot": order("1", "0.12345", "4000", market.GTC), "size": order("1", "0", "4000", market.GTC),
		"price": order("1", "0.1", "-1", market.GTC), "tif": order("1", "0.1", "4000", "Fok"), "client id": bad,
	} {
		if _, err := b.Place(t.Context(), o, stamp()); codeOf(err) != toolyard.Invalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, r := range f.Requests() {
		if r.Path == "/exchange" {
			t.Error("a request was sent")
		}
	}
}

func TestLostAnswers(t *testing.T) {
	f, b := trader(t)
	ctx := t.Context()
	if err := b.Verify(ctx); err != nil {
		t.Fatal(err)
	}
	f.LoseAnswers(1)
	if _, err := b.Place(ctx, order("1", "0.5", "4100", market.IOC), stamp()); codeOf(err) != toolyard.OutcomeUnknown {
		t.Errorf("lost answer: %v", err)
	}
	if found, ok, err := b.Find(ctx, cloid("1")); err != nil || !ok || found.Status != market.Filled {
		t.Errorf("the order exists: %+v, %v, %v", found, ok, err)
	}
	for name, fail := range map[string]func(){
		"cut": func() { f.Cut(true) }, "garbage": func() { f.Garbage(`{"status":"maybe"}`) }, "500": func() { f.Status(500) }, "down": func() { f.Down(true) },
	} {
		fail()
		if _, err := b.Place(ctx, order(name, "0.5", "3000", market.GTC), stamp()); codeOf(err) != toolyard.OutcomeUnknown {
			t.Errorf("%s: %v", name, err)
		}
		f.Cut(false)
		f.Garbage("")
		f.Status(0)
		f.Down(false)
	}
}

func TestErrorsThatMeanThatNothingHappened(t *testing.T) {
	f, b := trader(t)
	ctx := t.Context()
	if err := b.Verify(ctx); err != nil {
		t.Fatal(err)
	}
	expired := stamp()
	expired.Expires = time.Now().Add(-time.Second)
	if _, err := b.Place(ctx, order("1", "0.5", "4100", market.IOC), expired); codeOf(err) != toolyard.Unavailable {
		t.Errorf("expired: %v", err)
	}
	f.Status(422)
	if _, err := b.Place(ctx, order("1", "0.5", "4100", market.IOC), stamp()); codeOf(err) != toolyard.Unavailable {
		t.Errorf("422: %v", err)
	}
	f.Status(0)
	f.Close()
	b.client.http.CloseIdleConnections()
	if _, err := b.Place(ctx, order("1", "0.5", "4100", market.IOC), stamp()); codeOf(err) != toolyard.Unavailable {
		t.Errorf("no connection: %v", err)
	}
	if n := len(f.Orders(owner)); n != 0 {
		t.Errorf("%d orders", n)
	}
}

func TestANonceIsUsedOnce(t *testing.T) {
	f, b := trader(t)
	s := stamp()
	if _, err := b.Place(t.Context(), order("1", "0.5", "3000", market.GTC), s); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Place(t.Context(), order("2", "0.5", "3000", market.GTC), s); codeOf(err) != toolyard.OutcomeUnknown {
		t.Errorf("second use: %v", err)
	}
	if n := len(f.Orders(owner)); n != 1 {
		t.Errorf("%d orders", n)
	}
}

func TestBrokerRefusesUnsafeKeys(t *testing.T) {
	_, c := open(t)
	a, err := NewAccount(c, agent)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewBroker(a, testKey, false); err == nil || strings.Contains(err.Error(), testKey[2:]) {
		t.Errorf("NewBroker with the account's own key: error %v", err)
	}
	mainnet, err := New(Options{HTTP: http.DefaultClient})
	if err != nil {
		t.Fatal(err)
	}
	a, err = NewAccount(mainnet, owner)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := NewBroker(a, testKey, false); err == nil {
		t.Error("mainnet without live")
	}
	if _, err := NewBroker(a, testKey, true); err != nil {
		t.Error(err)
	}
}

func TestUnapprovedAgentsAndWrongAddresses(t *testing.T) {
	for name, test := range map[string]struct {
		prepare func(*fakemarkets.Hyperliquid)
		address string
		text    string
	}{
		"no account":   {func(*fakemarkets.Hyperliquid) {}, owner, "has no account"},
		"not approved": {func(f *fakemarkets.Hyperliquid) { f.Deposit(owner, "100") }, owner, "is not approved"},
		"of another": {func(f *fakemarkets.Hyperliquid) {
			f.Deposit(owner, "100")
			f.Deposit("0x00000000000000000000000000000000000000b2", "100")
			f.Approve("0x00000000000000000000000000000000000000b2", agent)
		}, owner, "is not approved"},
		"an agent": {func(f *fakemarkets.Hyperliquid) {
			f.Deposit(owner, "100")
			f.Approve(owner, "0x00000000000000000000000000000000000000c3")
		}, "0x00000000000000000000000000000000000000c3", "Set address to the account"},
	} {
		t.Run(name, func(t *testing.T) {
			f, c := open(t)
			test.prepare(f)
			a, err := NewAccount(c, test.address)
			if err != nil {
				t.Fatal(err)
			}
			b, err := NewBroker(a, testKey, false)
			if err != nil {
				t.Fatal(err)
			}
			_, err = b.Place(t.Context(), order("1", "0.5", "4100", market.IOC), stamp())
			if err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("got %v, want %s", err, test.text)
			}
		})
	}
}

func TestSignatureForAnotherNetworkIsRefused(t *testing.T) {
	_, b := trader(t)
	if err := b.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	b.signer.source = "a"
	if _, err := b.Place(t.Context(), order("1", "0.5", "4100", market.IOC), stamp()); codeOf(err) != toolyard.PermissionDenied {
		t.Errorf("got %v", err)
	}
}

func TestScheduledCancellation(t *testing.T) {
	f, b := trader(t)
	ctx := t.Context()
	if _, err := b.Place(ctx, order("1", "0.5", "3000", market.GTC), stamp()); err != nil {
		t.Fatal(err)
	}
	if err := b.CancelAllAt(ctx, time.Now().Add(time.Second), stamp()); codeOf(err) != toolyard.Failed {
		t.Errorf("too early: %v", err)
	}
	if err := b.CancelAllAt(ctx, time.Now().Add(time.Minute), stamp()); err != nil {
		t.Fatal(err)
	}
	f.SetNow(func() time.Time { return time.Now().Add(time.Minute + time.Second) })
	s, err := b.At(ctx, time.Now())
	if err != nil || len(s.Orders) != 0 {
		t.Errorf("%+v, %v", s.Orders, err)
	}
}

func TestPricesAndSizesOnTheWire(t *testing.T) {
	for _, s := range []string{"1", "1.0", "1.10", "100000", "0.0016010", "1e3", "12.340"} {
		got := wireDecimal(d(s))
		if strings.ContainsAny(got, "eE") || strings.Contains(got, ".") && strings.HasSuffix(got, "0") || !d(got).Equal(d(s)) {
			t.Errorf("%s is sent as %s", s, got)
		}
	}
	for _, test := range []struct {
		price    string
		decimals int
		ok       bool
	}{
		{"123456", 5, true},
		{"1234567", 0, true},
		{"1234.5", 1, true},
		{"1234.56", 1, false},
		{"0.001234", 0, true},
		{"0.0012345", 0, false},
		{"0.01234", 2, false},
		{"12.3450", 0, true},
		{"0", 0, false},
		{"-1", 0, false},
	} {
		if err := checkPrice(d(test.price), test.decimals); (err == nil) != test.ok {
			t.Errorf("price %s with %d: %v", test.price, test.decimals, err)
		}
	}
}

// The fake checks signatures with its own encoder, so a mistake in either encoder is detected.
func TestEveryActionIsAcceptedByTheVenue(t *testing.T) {
	_, b := trader(t)
	if err := b.Verify(t.Context()); err != nil {
		t.Fatal(err)
	}
	for i, a := range []action{
		scheduleCancelAction{Type: "scheduleCancel"},
		cancelAction{Type: "cancel", Cancels: []cancelWire{{1, 1 << 40}}},
		cancelByCloidAction{Type: "cancelByCloid", Cancels: []cancelByCloidWire{{0, cloid("1")}, {300, cloid("2")}}},
	} {
		if _, err := b.act(t.Context(), a, stamp()); err != nil {
			t.Errorf("action %d: %v", i, err)
		}
	}
}
