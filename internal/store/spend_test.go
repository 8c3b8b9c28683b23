package store

import (
	"context"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// spendModel is the specification of spend limits: a list of calls that is searched every time.
type spendModel struct {
	limits []ledger.SpendLimit
	calls  map[string]*modelCall
}

// modelCall is an admitted call.
type modelCall struct {
	price   toolyard.Money
	balance string
	keys    []string
	start   map[string]time.Time // start of each limit's period
	until   time.Time
	held    bool            // the money is reserved
	gone    map[string]bool // limits whose reservation has expired
	charged toolyard.Money
	ended   bool
}

// modelStart returns the start of the period that contains a time.
func modelStart(p ledger.Period, at time.Time) time.Time {
	if p == ledger.Month {
		return time.Date(at.Year(), at.Month(), 1, 0, 0, 0, 0, time.UTC)
	}
	return at.Truncate(24 * time.Hour)
}

// used returns the amount that counts against a limit in a period.
func (m *spendModel) used(key string, start time.Time) (sum toolyard.Money) {
	for _, c := range m.calls {
		if c.start[key].Equal(start) {
			sum += c.charged
			if !c.ended && !c.gone[key] {
				sum += c.price
			}
		}
	}
	return sum
}

// admit reports whether a call is admitted.
func (m *spendModel) admit(now time.Time, id, balance string, price toolyard.Money, limits []ledger.SpendLimit) bool {
	m.expireHolds(now, balance)
	call := &modelCall{price: price, balance: balance, start: map[string]time.Time{}, until: now.Add(time.Minute + ledger.Grace), held: true, gone: map[string]bool{}}
	for _, l := range limits {
		for _, c := range m.calls {
			if slices.Contains(c.keys, l.Key) && !c.until.After(now) {
				c.gone[l.Key] = true
			}
		}
		call.start[l.Key] = modelStart(l.Period, now)
		call.keys = append(call.keys, l.Key)
		if m.used(l.Key, call.start[l.Key])+price > l.Max {
			return false
		}
	}
	m.calls[id] = call
	return true
}

// settle reports whether a call can be charged.
func (m *spendModel) settle(now time.Time, id string, amount toolyard.Money) bool {
	c := m.calls[id]
	good := c.held && !slices.ContainsFunc(c.keys, func(key string) bool { return c.gone[key] })
	if c.ended = true; good {
		c.charged = amount
	}
	c.held = false
	m.expireHolds(now, c.balance)
	return good || amount == 0
}

func (m *spendModel) expireHolds(now time.Time, balance string) {
	for _, c := range m.calls {
		if c.balance == balance && !c.until.After(now) {
			c.held = false
		}
	}
}

// In every store, every admission and charge matches the model's prediction, while days and months
// pass and replicas settle late or never.
func TestSpendLimitsMatchModel(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		for seed := range uint64(3) {
			spendHistory(t, s, seed)
		}
	})
}

func spendHistory(t *testing.T, s *Store, seed uint64) {
	random, account := rand.New(rand.NewPCG(seed, 1)), fmt.Sprint("acme", seed)
	if err := s.Fund(t.Context(), account, 1000, "money"); err != nil {
		t.Fatal(err)
	}
	session := account + "-session"
	if _, err := s.OpenSession(t.Context(), ledger.Session{ID: session, Account: account, Limit: 400, TTL: time.Hour}); err != nil {
		t.Fatal(err)
	}
	m := &spendModel{calls: map[string]*modelCall{}}
	for i, l := range []ledger.SpendLimit{{Max: 20, Period: ledger.Month}, {Max: 10, Period: ledger.Day}, {Max: 15, Period: ledger.Day}} {
		l.Key, l.Name = fmt.Sprint("spend", seed, "/", i), "the gate g"
		m.limits = append(m.limits, l)
	}
	now := time.Date(2020, 1, 30, 20, 0, 0, 0, time.UTC) // in the past, so that the engine reads all expired holds
	apply := func(b *ledger.Batch) (results *ledger.Results) {
		exchange(t, s, b.Refs(), func(r *ledger.Rows) {
			var err error
			r.Now = now
			if results, err = ledger.Apply(r, b); err != nil {
				t.Fatal(err)
			}
		})
		return results
	}
	var open []string
	for i := range 150 {
		now = now.Add([]time.Duration{0, time.Second, 20 * time.Second, 40 * time.Second, 70 * time.Second, 20 * time.Hour}[random.IntN(51)/10])
		if len(open) > 0 && random.IntN(2) == 0 {
			n := random.IntN(len(open))
			id := open[n]
			call := m.calls[id]
			if open = slices.Delete(open, n, n+1); random.IntN(10) == 0 {
				continue // the replica has died
			}
			amount := []toolyard.Money{0, call.price}[min(1, random.IntN(4))]
			settlement := ledger.Settlement{Call: id, Hold: id, Balance: call.balance, Amount: amount, Spend: call.keys, Calls: 1, Seller: "shop", EndHold: true, Run: &ledger.RunKey{Scope: "call", Key: id}}
			want := m.settle(now, id, amount)
			for range 1 + random.IntN(2) { // the reply may be lost
				results := apply(&ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{settlement}})
				if got := results.Settlements[0].Refused == nil; got != want {
					t.Fatalf("step %d at %v: settled %v, want %v: %+v", i, now, got, want, results.Settlements[0].Refused)
				}
			}
			continue
		}
		id := fmt.Sprint("call", seed, "-", i)
		request := ledger.AdmitRequest{Call: id, Run: ledger.RunKey{Scope: "call", Key: id}, Balance: []string{account, session}[random.IntN(2)], Account: account, Price: toolyard.Money(1 + random.IntN(6)), Timeout: time.Minute}
		for _, n := range [][]int{{0, 1}, {1}, {0, 2}, {2}, {0}}[random.IntN(5)] {
			request.Spend = append(request.Spend, m.limits[n])
		}
		want := m.admit(now, id, request.Balance, request.Price, request.Spend)
		for range 1 + random.IntN(2) {
			refused := apply(&ledger.Batch{Replica: "r", Admits: []ledger.AdmitRequest{request}}).Admits[0].Refused
			if (refused == nil) != want || refused != nil && (refused.Code != toolyard.BudgetExceeded || refused.SpendLimit == "") {
				t.Fatalf("step %d at %v: refused %+v, want admitted: %v", i, now, refused, want)
			}
		}
		if want {
			open = append(open, id)
		}
	}
	for _, l := range m.limits {
		sums := map[time.Time]toolyard.Money{}
		for _, c := range m.calls {
			sums[c.start[l.Key]] += c.charged
		}
		delete(sums, time.Time{})
		if most := slices.Max(slices.Collect(maps.Values(sums))); most > l.Max || most < l.Max/4 {
			t.Errorf("at most %v of %v was charged in a period", most, l.Max)
		}
	}
}

// A spend limit's state survives maintenance until its period ends.
func TestMaintenanceKeepsSpendLimits(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		for key, next := range map[string]time.Duration{"current": time.Hour, "over": -time.Hour} {
			at := time.Now().UTC()
			state := fmt.Sprintf(`{"start":%q,"spent":"7","next":%q,"last":%q}`, at.Add(-72*time.Hour).Format(time.RFC3339), at.Add(next).Format(time.RFC3339), at.Add(-48*time.Hour).Format(time.RFC3339))
			exchange(t, s, ledger.Refs{Limits: []string{key}}, func(r *ledger.Rows) {
				r.Limits[key].State, r.Limits[key].Change = []byte(state), ledger.Changed
			})
		}
		if err := s.Maintain(t.Context(), Retention{}); err != nil {
			t.Fatal(err)
		}
		used, err := s.SpendUsage(t.Context(), map[string]ledger.Period{"current": ledger.Day, "over": ledger.Day})
		if _, kept := used["current"]; err != nil || !kept || len(used) != 1 {
			t.Error(used, err)
		}
	})
}

// Three replicas charge exactly the limit, no matter which calls they run at the same time.
func TestReplicasShareSpendLimits(t *testing.T) {
	onEngines(t, func(t *testing.T, s *Store) {
		if err := s.Fund(t.Context(), "acme", 1000, "money"); err != nil {
			t.Fatal(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		var running, calling sync.WaitGroup
		var mu sync.Mutex
		charged := toolyard.Money(0)
		var refusals []*toolyard.Error
		for replica := range 3 {
			c := admission.New(s, admission.Options{Replica: fmt.Sprint("r", replica)})
			running.Go(func() { c.Run(ctx) })
			for worker := range 4 {
				calling.Go(func() {
					for call := range 5 {
						r := &admission.Request{
							CallID: fmt.Sprint("call", replica, worker, call), Caller: "ann", Account: "acme", Balance: "acme", Seller: "shop", Price: 1, Timeout: time.Minute, Wait: time.Minute,
							Spend: []ledger.SpendLimit{{Key: "gate/g/spend/month/for caller/ann", Name: "gate g for you", Max: 20, Period: ledger.Month}},
						}
						a, err := c.Admit(ctx, r)
						if err != nil {
							mu.Lock()
							refusals = append(refusals, toolyard.AsError(err))
							mu.Unlock()
							continue
						}
						o := toolyard.Outcome{Result: &toolyard.Result{}}
						if call == 0 { // this call fails and costs nothing
							o = toolyard.Outcome{Err: &toolyard.Error{Code: toolyard.Failed, Message: "no"}}
						}
						receipt, err := c.Settle(ctx, a, o)
						if err != nil {
							t.Error(err)
							continue
						}
						mu.Lock()
						charged += receipt.Price
						mu.Unlock()
					}
				})
			}
		}
		calling.Wait()
		cancel()
		running.Wait()
		if charged > 20 { // a replica may stop waiting for the reservation of a failing call
			t.Errorf("%v was charged, more than the limit of 20", charged)
		}
		used, err := s.SpendUsage(t.Context(), map[string]ledger.Period{"gate/g/spend/month/for caller/ann": ledger.Month})
		if err != nil || used["gate/g/spend/month/for caller/ann"].Spent != charged {
			t.Errorf("%+v %v, want %v", used, err, charged)
		}
		for _, e := range refusals {
			if e.Code != toolyard.BudgetExceeded && e.Code != toolyard.Unavailable || e.RetryAfter <= 0 {
				t.Errorf("%v after %v", e, e.RetryAfter)
			}
		}
		if err := s.Audit(t.Context()); err != nil {
			t.Error(err)
		}
	})
}
