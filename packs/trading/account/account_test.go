package account_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/account"
	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/packs/trading/market/markettest"
	"github.com/toolyard/toolyard/packs/trading/paper"
	"github.com/toolyard/toolyard/yard"
)

var noon = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func d(s string) decimal.Decimal { return decimal.RequireFromString(s) }

func nd(s string) decimal.NullDecimal { return decimal.NewNullDecimal(d(s)) }

// desk is one replica's view of an account.
type desk struct {
	*account.Account
	broker market.Broker
}

// open opens an account that has 10,000 USD and uses the given journal. BTC trades at 100.
func open(j yard.Journal, now func() time.Time, edit ...func(*engine.Mandate)) desk {
	data := markettest.New("5m")
	data.Add("BTC", noon.Add(-5*time.Minute), [4]string{"100", "100", "100", "100"})
	data.Books["BTC"] = market.Book{
		Bids: []market.Level{{Price: d("99.9"), Size: d("100000")}}, Asks: []market.Level{{Price: d("100.1"), Size: d("100000")}},
	}
	p := paper.Open("main", paper.Settings{DepositUSD: d("10000"), Interval: "5m", Fees: paper.DefaultFees}, j, data)
	mandate := engine.DefaultMandate()
	mandate.OrdersPerMinute = 0
	for _, f := range edit {
		f(&mandate)
	}
	return desk{account.New(account.Options{
		Name: "main", BrokerName: "paper", Mandate: mandate, Submit: account.Auto, Portfolio: p, Data: data, Interval: "5m", Journal: j, Now: now,
	}), p.Broker()}
}

func at(t time.Time) func() time.Time { return func() time.Time { return t } }

func (k desk) propose(ctx context.Context, p engine.Proposal, key string) (*account.Result, error) {
	return k.Propose(ctx, account.Request{
		Proposal: p, Reasoning: "a test needs an order", Key: key, ExplicitKey: true, Caller: "agent", Gate: "trade", AsOf: k.Now(), Broker: k.broker,
	})
}

func buy(size string) engine.Proposal {
	return engine.Proposal{Symbol: "BTC", Action: engine.Open, Side: market.Buy, Size: nd(size)}
}

// TestSimulationAndProposalAgree compares the verdicts on random orders.
func TestSimulationAndProposalAgree(t *testing.T) {
	orders := 10_000
	if testing.Short() {
		orders = 2_000
	}
	r := rand.New(rand.NewPCG(1, 1))
	var k desk
	rejected := map[engine.Rule]int{}
	for i := range orders {
		if i%500 == 0 { // starts a new account from time to time, so that some orders are accepted
			k = open(yard.MemoryJournal(), at(noon), func(m *engine.Mandate) { m.MaxPositionUSD, m.AllowedSymbols = d("2000"), []string{"BTC", "ETH"} })
		}
		p := randomProposal(r)
		request := account.Request{
			Proposal: p, Reasoning: "a random test", Key: fmt.Sprint(i), ExplicitKey: i%2 == 0, Caller: "agent", AsOf: noon, Broker: k.broker,
		}
		simulated, err := k.Evaluate(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		proposed, err := k.Propose(t.Context(), request)
		if err != nil {
			t.Fatal(err)
		}
		refusal, refused := simulated.Refusal()
		if proposed.Rule == account.RuleVenue && !refused {
			continue // the broker has its own rules
		}
		if refused != (proposed.Kind == account.Rejected) || refusal.Rule != proposed.Rule || refusal.Detail != proposed.Detail && refused {
			t.Fatalf("%+v\nsimulated %+v\nproposed %+v", p, refusal, proposed)
		}
		rejected[proposed.Rule]++
	}
	if len(rejected) < 6 {
		t.Errorf("the orders are not random enough: %v", rejected)
	}
}

func randomProposal(r *rand.Rand) engine.Proposal {
	price := func() decimal.NullDecimal { return decimal.NewNullDecimal(decimal.New(9000+r.Int64N(2000), -2)) }
	p := engine.Proposal{Symbol: []string{"BTC", "BTC", "BTC", "ETH", "DOGE"}[r.IntN(5)], Action: []engine.Action{engine.Open, engine.Open, engine.Open, engine.Close, engine.ReduceBy, engine.Hold}[r.IntN(6)]}
	if p.Action == engine.Open {
		p.Side = []market.Side{market.Buy, market.Sell}[r.IntN(2)]
	}
	if p.Action == engine.Open || p.Action == engine.ReduceBy {
		p.Size = decimal.NewNullDecimal(decimal.New(r.Int64N(4000), -int32(r.IntN(6))))
	}
	switch r.IntN(4) {
	case 0:
		p.Type, p.LimitPrice = market.LimitOrder, price()
	case 1:
		p.StopLoss = price()
	case 2:
		if r.IntN(3) == 0 {
			p.Type, p.TriggerPrice = market.StopOrder, price()
		}
	}
	return p
}

// Eight replicas that propose at the same time must never exceed the limit together.
func TestReplicasNeverExceedThePositionLimit(t *testing.T) {
	journal := yard.MemoryJournal()
	var wg sync.WaitGroup
	var mu sync.Mutex
	kinds := map[account.Kind]int{}
	for replica := range 8 {
		k := open(journal, at(noon), func(m *engine.Mandate) { m.MaxPositionUSD, m.MaxPositionPct = d("2000"), d("100") })
		wg.Go(func() {
			for i := range 10 {
				result, err := k.propose(t.Context(), buy("0.9"), fmt.Sprintf("%d/%d", replica, i))
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				kinds[result.Kind]++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	k := open(journal, at(noon))
	snapshot, err := k.Portfolio.At(t.Context(), noon)
	if err != nil {
		t.Fatal(err)
	}
	position, _ := snapshot.Position("BTC")
	if value := position.Size.Mul(d("100")); value.GreaterThan(d("2000")) || value.LessThan(d("1800")) {
		t.Errorf("the position is worth %s; outcomes %v", value, kinds)
	}
}

// lossyBroker places orders but loses the responses.
type lossyBroker struct {
	market.Broker
	lost  bool // whether orders never arrive
	blind bool // whether Find does not respond
}

func (b *lossyBroker) Place(ctx context.Context, o market.Order, s market.Stamp) (market.Placed, error) {
	if !b.lost {
		if _, err := b.Broker.Place(ctx, o, s); err != nil {
			return market.Placed{}, err
		}
	}
	return market.Placed{}, toolyard.Errorf(toolyard.OutcomeUnknown, "the answer was lost")
}

func (b *lossyBroker) Find(ctx context.Context, id string) (market.Placed, bool, error) {
	if b.blind {
		return market.Placed{}, false, toolyard.Errorf(toolyard.Unavailable, "the venue does not answer")
	}
	return b.Broker.Find(ctx, id)
}

func TestLostAnswersAreFoundOut(t *testing.T) {
	for _, test := range []struct {
		name string
		lost bool
		want account.Kind
	}{{"the order arrived", false, account.Executed}, {"the order did not arrive", true, account.Rejected}} {
		synctest.Test(t, func(t *testing.T) {
			k := open(yard.MemoryJournal(), synced(t))
			k.broker = &lossyBroker{Broker: k.broker, lost: test.lost}
			result, err := k.propose(t.Context(), buy("1"), "k")
			if err != nil || result.Kind != test.want {
				t.Errorf("%s: %+v (%v)", test.name, result, err)
			}
		})
	}
}

// synced returns a clock that starts at noon and follows the time of a synctest bubble.
func synced(*testing.T) func() time.Time {
	began := time.Now()
	return func() time.Time { return noon.Add(time.Since(began)) }
}

func TestAnUnknownOutcomeStopsNewRisk(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		k := open(yard.MemoryJournal(), synced(t))
		blind := &lossyBroker{Broker: k.broker, blind: true}
		k.broker = blind
		if _, err := k.propose(t.Context(), buy("1"), "first"); toolyard.AsError(err).Code != toolyard.OutcomeUnknown {
			t.Fatalf("the outcome is known: %v", err)
		}
		result, err := k.propose(t.Context(), buy("1"), "second")
		if err != nil || result.Kind != account.Rejected || result.Rule != engine.State {
			t.Fatalf("new risk after an unknown outcome: %+v (%v)", result, err)
		}
		blind.blind = false
		again, err := k.propose(t.Context(), buy("1"), "first")
		if err != nil || again.Kind != account.Executed || !again.Repeated {
			t.Errorf("the first order: %+v (%v)", again, err)
		}
		snapshot, err := k.Portfolio.At(t.Context(), k.Now())
		if err != nil || len(snapshot.Positions) != 1 || snapshot.Positions[0].Size.String() != "1" {
			t.Errorf("positions %+v (%v)", snapshot.Positions, err)
		}
	})
}

func TestTheSameKeyPlacesOneOrder(t *testing.T) {
	k := open(yard.MemoryJournal(), at(noon))
	first, err := k.propose(t.Context(), buy("1"), "k")
	if err != nil || first.Kind != account.Executed {
		t.Fatalf("%+v (%v)", first, err)
	}
	again, err := k.propose(t.Context(), buy("1"), "k")
	if err != nil || !again.Repeated || again.Decision != first.Decision || again.Kind != account.Executed {
		t.Errorf("repeated: %+v (%v)", again, err)
	}
	other, err := k.propose(t.Context(), buy("2"), "k")
	if err != nil || other.Rule != engine.Duplicate {
		t.Errorf("another order with the same key: %+v (%v)", other, err)
	}
}

// A replica that dies between the intent and the outcome leaves an intent behind.
func TestIntentsOfAKilledReplicaAreResolved(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		journal := yard.MemoryJournal()
		now := synced(t)
		dying := open(journal, now)
		ctx, cancel := context.WithCancel(t.Context())
		dying.broker = killed{dying.broker, cancel}
		func() {
			defer func() { _ = recover() }()
			_, _ = dying.propose(ctx, buy("1"), "k")
		}()
		time.Sleep(20 * time.Second)
		survivor := open(journal, now)
		result, err := survivor.propose(t.Context(), buy("1"), "k")
		if err != nil || !result.Repeated || result.Kind != account.Executed {
			t.Errorf("%+v (%v)", result, err)
		}
		snapshot, err := survivor.Portfolio.At(t.Context(), now())
		if err != nil || len(snapshot.Positions) != 1 || snapshot.Positions[0].Size.String() != "1" {
			t.Errorf("positions %+v (%v)", snapshot.Positions, err)
		}
	})
}

// killed is a broker whose replica dies after placing an order.
type killed struct {
	market.Broker
	kill context.CancelFunc
}

func (k killed) Place(ctx context.Context, o market.Order, s market.Stamp) (market.Placed, error) {
	if _, err := k.Broker.Place(ctx, o, s); err != nil {
		return market.Placed{}, err
	}
	panic("killed")
}

func TestOperatorsRestrictAndFlatten(t *testing.T) {
	k := open(yard.MemoryJournal(), at(noon))
	command := func(name string) {
		t.Helper()
		if _, err := k.Command(t.Context(), account.Instruction{Command: name, By: "ops", Reason: "a test", At: noon, Broker: k.broker}); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
	}
	n := 0
	expect := func(p engine.Proposal, kind account.Kind, rule engine.Rule) {
		t.Helper()
		n++
		if result, err := k.propose(t.Context(), p, fmt.Sprint(n)); err != nil || result.Kind != kind || result.Rule != rule {
			t.Errorf("%s: %+v (%v), want %s %s", p.Action, result, err, kind, rule)
		}
	}
	reduce := engine.Proposal{Symbol: "BTC", Action: engine.ReduceBy, Size: nd("0.5")}
	resting := buy("1")
	resting.Type, resting.LimitPrice = market.LimitOrder, nd("90")

	expect(buy("2"), account.Executed, "")
	expect(resting, account.Resting, "")
	command("reduce")
	expect(buy("1"), account.Rejected, engine.State)
	expect(reduce, account.Executed, "")
	command("pause")
	expect(reduce, account.Rejected, engine.State)
	command("resume")
	expect(reduce, account.Executed, "")
	command("kill")
	expect(reduce, account.Rejected, engine.State)
	command("resume") // does not lift kill
	expect(reduce, account.Rejected, engine.State)
	command("flatten") // works while halted
	snapshot, err := k.Portfolio.At(t.Context(), noon)
	if err != nil || len(snapshot.Positions)+len(snapshot.Orders) != 0 {
		t.Errorf("after flatten: %+v (%v)", snapshot, err)
	}
	command("clear-halt")
	expect(buy("1"), account.Executed, "")
	history, err := k.History(t.Context(), noon, 50)
	if err != nil || len(history) != 7 || history[0].Name != "clear-halt" || history[0].By != "ops" {
		t.Errorf("history %+v (%v)", history, err)
	}
}

func TestLossesHaltTheAccount(t *testing.T) {
	journal := yard.MemoryJournal()
	k := open(journal, at(noon), func(m *engine.Mandate) { m.MaxDrawdownPct, m.MaxPositionPct = d("0.001"), d("100") })
	if r, err := k.propose(t.Context(), buy("90"), "1"); err != nil || r.Kind != account.Executed {
		t.Fatalf("%+v (%v)", r, err)
	}
	if r, err := k.propose(t.Context(), buy("1"), "2"); err != nil || r.Rule != engine.Drawdown {
		t.Fatalf("%+v (%v)", r, err)
	}
	if r, err := k.propose(t.Context(), engine.Proposal{Symbol: "BTC", Action: engine.Close}, "3"); err != nil || r.Rule != engine.State {
		t.Errorf("the account is not halted: %+v (%v)", r, err)
	}
}
