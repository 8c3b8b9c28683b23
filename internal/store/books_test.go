package store

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// tables is an engine that stores rows in maps. It is not durable.
type tables struct {
	engine    // nil, because documents are not used
	mu        sync.Mutex
	now       time.Time
	limits    map[string]ledger.LimitRow
	balances  map[string]ledger.BalanceRow
	holds     map[string]ledger.HoldRow
	runs      map[ledger.RunKey]ledger.RunRow
	transfers map[string]ledger.Transfer
	careless  bool // other writers may write between read and write
}

func newTables() *tables {
	return &tables{
		now: time.Date(2026, 11, 15, 12, 0, 0, 0, time.UTC), limits: map[string]ledger.LimitRow{}, balances: map[string]ledger.BalanceRow{},
		holds: map[string]ledger.HoldRow{}, runs: map[ledger.RunKey]ledger.RunRow{}, transfers: map[string]ledger.Transfer{},
	}
}

func (t *tables) exchange(_ context.Context, refs ledger.Refs, change func(*ledger.Rows) error) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	r := t.read(refs)
	if t.careless {
		t.mu.Unlock()
		time.Sleep(50 * time.Microsecond)
		t.mu.Lock()
	}
	if err := change(r); err != nil {
		return err
	}
	return t.write(r)
}

// pickRows copies the named rows.
func pickRows[K comparable, R any](from map[K]R, into map[K]*R, names []K) {
	for _, name := range names {
		if row, ok := from[name]; ok {
			into[name] = &row
		}
	}
}

func (t *tables) read(refs ledger.Refs) *ledger.Rows {
	r := ledger.NewRows()
	r.Now = t.now
	for _, key := range refs.Limits {
		row := t.limits[key]
		r.Limits[key] = &row
	}
	pickRows(t.balances, r.Balances, refs.Balances)
	pickRows(t.runs, r.Runs, refs.Runs)
	holds := slices.Clone(refs.Holds)
	for id, h := range t.holds {
		if slices.Contains(refs.Balances, h.Balance) && !h.Expires.After(t.now) {
			holds = append(holds, id)
		}
	}
	pickRows(t.holds, r.Holds, holds)
	for _, c := range refs.Calls {
		if _, ok := t.transfers[c.ID]; ok {
			r.Charged[c.ID] = true
		}
	}
	return r
}

// keep writes rows like a database: inserted rows must be new, and updated rows must exist.
func keep[K comparable, R any](into map[K]R, changes map[K]*R, what func(*R) *ledger.Change) error {
	for key, row := range changes {
		_, there := into[key]
		c := what(row)
		switch how := *c; {
		case how == ledger.Created && there, how == ledger.Changed && !there:
			return fmt.Errorf("row %v: it is there is %v", key, there)
		case how == ledger.Deleted:
			delete(into, key)
		case how != ledger.Unchanged:
			*c = ledger.Unchanged
			into[key] = *row
		}
	}
	return nil
}

func (t *tables) write(r *ledger.Rows) error {
	for key, p := range r.Limits {
		t.limits[key] = ledger.LimitRow{State: p.State}
	}
	if t.careless { // accepts everything
		for _, p := range r.Balances {
			if p.Change = ledger.Created; t.balances[p.ID].ID != "" {
				p.Change = ledger.Changed
			}
		}
	}
	err := errors.Join(
		keep(t.balances, r.Balances, func(p *ledger.BalanceRow) *ledger.Change { return &p.Change }),
		keep(t.holds, r.Holds, func(h *ledger.HoldRow) *ledger.Change { return &h.Change }),
		keep(t.runs, r.Runs, func(r *ledger.RunRow) *ledger.Change { return &r.Change }),
	)
	for _, m := range r.Transfers {
		if _, there := t.transfers[m.ID]; there && !t.careless {
			err = errors.Join(err, fmt.Errorf("transfer %s is there already", m.ID))
		}
		t.transfers[m.ID] = m
	}
	if t.careless {
		return nil
	}
	return err
}

func (*tables) explain(err error) error { return err }

func (t *tables) stale(context.Context, int) ([]ledger.Refs, error) {
	var r ledger.Refs
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, h := range t.holds {
		if !h.Expires.After(t.now) {
			r.Holds, r.Balances = append(r.Holds, id), append(r.Balances, h.Balance, t.balances[h.Balance].Account)
		}
	}
	for id, p := range t.balances {
		if over := !p.Expires.IsZero() && !p.Expires.After(t.now); p.State == ledger.StateOpen && over || p.State != ledger.StateOpen && p.Available > 0 {
			r.Balances = append(r.Balances, id, p.Account)
		}
	}
	for id, run := range t.runs {
		if run.State == ledger.RunRunning && !run.Until.After(t.now) {
			r.Runs = append(r.Runs, id)
		}
	}
	r.Sort()
	return []ledger.Refs{r}, nil
}

// closeIn closes a session like CloseSession, but without a database.
func closeIn(ctx context.Context, e engine, id, account string) error {
	return e.exchange(ctx, ledger.Refs{Balances: []string{id, account}}, func(r *ledger.Rows) error {
		ledger.Close(r, id)
		return nil
	})
}

// sums holds the totals of each balance's transfers and holds.
type sums struct {
	net     map[string]toolyard.Money // by place
	charges map[string]toolyard.Money // by balance, like all fields below
	held    map[string]toolyard.Money
	spent   map[string]toolyard.Money
	calls   map[string]int
}

func (t *tables) sums() (sums, error) {
	s := sums{map[string]toolyard.Money{}, map[string]toolyard.Money{}, map[string]toolyard.Money{}, map[string]toolyard.Money{}, map[string]int{}}
	for _, m := range t.transfers {
		s.net[m.From] -= m.Amount
		s.net[m.To] += m.Amount
		if m.Amount < 0 {
			return s, fmt.Errorf("transfer %s moves %s", m.ID, m.Amount)
		}
		if m.Kind == "charge" {
			s.charges[m.Balance] += m.Amount
		}
	}
	for id, h := range t.holds {
		s.held[h.Balance] += h.Unspent + h.Spent
		s.spent[h.Balance] += h.Spent
		s.calls[h.Balance] += h.CallsUnspent + h.CallsSpent
		if h.Unspent < 0 || h.Spent < 0 || h.CallsUnspent < 0 || h.CallsSpent < 0 || s.net["hold/"+id] != h.Unspent {
			return s, fmt.Errorf("hold %+v, by its transfers %s", h, s.net["hold/"+id])
		}
		delete(s.net, "hold/"+id)
	}
	return s, nil
}

// check returns inconsistencies.
func (t *tables) check() error {
	s, err := t.sums()
	if err != nil {
		return err
	}
	for id, p := range t.balances {
		switch {
		case p.Available < 0 || p.Held < 0 || p.Spent < 0 || p.Calls < 0 || p.HeldCalls < 0:
			return fmt.Errorf("less than nothing: %+v", p)
		case p.Held != s.held[id] || p.HeldCalls != s.calls[id]:
			return fmt.Errorf("its holds have %s and %d calls: %+v", s.held[id], s.calls[id], p)
		case p.Available != s.net["balance/"+id]:
			return fmt.Errorf("by its transfers it has %s: %+v", s.net["balance/"+id], p)
		case p.Spent+s.spent[id] != s.charges[id]:
			return fmt.Errorf("its charges are %s: %+v", s.charges[id], p)
		case p.MaxCalls > 0 && p.Calls+p.HeldCalls > p.MaxCalls:
			return fmt.Errorf("it made too many calls: %+v", p)
		case p.ID != p.Account && s.charges[id] > p.Limit:
			return fmt.Errorf("it spent %s: %+v", s.charges[id], p)
		}
		delete(s.net, "balance/"+id)
	}
	for place, amount := range s.net {
		if place != "world" && place[:6] != "sales/" && amount != 0 {
			return fmt.Errorf("%s is missing, with %s", place, amount)
		}
	}
	return nil
}

// used returns the spending and the number of counted calls of each balance.
func (t *tables) used() map[string][2]int64 {
	all := map[string][2]int64{}
	for id, p := range t.balances {
		all[id] = [2]int64{int64(p.Spent), int64(p.Calls)}
	}
	for _, h := range t.holds {
		u := all[h.Balance]
		all[h.Balance] = [2]int64{u[0] + int64(h.Spent), u[1] + int64(h.CallsSpent)}
	}
	return all
}

// bookMachine drives the books at random.
type bookMachine struct {
	*tables
	store   inTables
	serial  int64
	calls   int
	holds   []ledger.HoldRequest // holds that replicas have requested
	retired map[string]int
	admits  []ledger.AdmitRequest // admitted calls that are not settled yet
	last    *ledger.Batch
	answers *ledger.Results
	charged map[string]toolyard.Money // reported charges
}

func newBookMachine(nothing *Store) *bookMachine {
	t := newTables()
	return &bookMachine{tables: t, store: newInTables(nothing, t, t), retired: map[string]int{}, charged: map[string]toolyard.Money{}}
}

var (
	someAccounts = []string{"a", "b"}
	someBalances = []string{"a", "b", "s", "t", "u"} // s and t belong to a, and u belongs to b
	accountOf    = map[string]string{"a": "a", "b": "b", "s": "a", "t": "a", "u": "b"}
)

func money(t *rapid.T, most int, label string) toolyard.Money {
	return toolyard.Money(rapid.IntRange(0, most).Draw(t, label))
}

func (m *bookMachine) fund(t *rapid.T) {
	amount := money(t, 100, "amount")
	if rapid.IntRange(0, 3).Draw(t, "out") == 0 {
		amount = -amount
	}
	err := m.store.Fund(t.Context(), rapid.SampledFrom(someAccounts).Draw(t, "account"), amount, fmt.Sprint(rapid.IntRange(0, 30).Draw(t, "ref")))
	if err != nil && toolyard.AsError(err).Code != toolyard.BudgetExceeded {
		t.Fatal(err)
	}
}

func (m *bookMachine) open(t *rapid.T) {
	id := rapid.SampledFrom(someBalances[2:]).Draw(t, "session")
	if _, there := m.balances[id]; there {
		return
	}
	open := ledger.Session{ID: id, Account: accountOf[id], Limit: money(t, 60, "limit"), Calls: rapid.SampledFrom([]int{0, 1, 7}).Draw(t, "calls"), TTL: time.Minute}
	_, err := m.store.OpenSession(t.Context(), open)
	if err != nil && toolyard.AsError(err).Code != toolyard.BudgetExceeded {
		t.Fatal(err)
	}
}

func (m *bookMachine) shut(t *rapid.T) {
	id := rapid.SampledFrom(someBalances[2:]).Draw(t, "session")
	if _, there := m.balances[id]; !there {
		return
	}
	if err := closeIn(t.Context(), m.tables, id, accountOf[id]); err != nil {
		t.Fatal(err)
	}
}

// settles returns settlements for some of the running calls: calls paid from a replica's hold, and
// admitted calls.
func (m *bookMachine) settles(t *rapid.T) (list []ledger.Settlement) {
	for range rapid.IntRange(0, 2).Draw(t, "settles") {
		if len(m.holds) == 0 {
			break
		}
		h := rapid.SampledFrom(m.holds).Draw(t, "hold")
		m.calls++
		price := money(t, 5, "price")
		list = append(list, ledger.Settlement{Call: fmt.Sprint("c", m.calls), Hold: h.Hold, Balance: h.Balance, Amount: price, Calls: 1, Seller: "shop"})
	}
	for len(m.admits) > 0 && rapid.Bool().Draw(t, "end") {
		a := m.admits[0]
		m.admits = m.admits[1:]
		s := ledger.Settlement{Call: a.Call, Run: &a.Run, Calls: 1, EndHold: true, Outcome: []byte("{}"), Seller: "shop"}
		if a.Balance != "" {
			s.Hold, s.Balance = a.Call, a.Balance
		}
		switch rapid.IntRange(0, 3).Draw(t, "how") {
		case 0:
			s.NotRun = true
		case 1:
			s.Unknown = true
		default:
			s.Amount = a.Price
		}
		list = append(list, s)
	}
	return list
}

func (m *bookMachine) leases(t *rapid.T) (list []ledger.HoldRequest) {
	for range rapid.IntRange(0, 2).Draw(t, "funds") {
		m.serial++
		balance := rapid.SampledFrom(someBalances).Draw(t, "balance")
		name := fmt.Sprintf("h%d%s", rapid.IntRange(0, 1).Draw(t, "n"), balance)
		f := ledger.HoldRequest{Hold: fmt.Sprint(name, ".", m.retired[name]), Balance: balance, Account: accountOf[balance]}
		f.Serial, f.TTL, f.Calls = m.serial, 20*time.Second, rapid.IntRange(0, 4).Draw(t, "calls")
		f.Want, f.Min, f.Idle = money(t, 30, "want"), money(t, 10, "least"), money(t, 10, "idle")
		if !slices.ContainsFunc(list, func(other ledger.HoldRequest) bool { return other.Hold == f.Hold }) {
			list = append(list, f)
		}
	}
	return list
}

func (m *bookMachine) admissions(t *rapid.T) (list []ledger.AdmitRequest) {
	for range rapid.IntRange(0, 2).Draw(t, "admits") {
		m.calls++
		balance := rapid.SampledFrom(append(someBalances, "")).Draw(t, "balance")
		a := ledger.AdmitRequest{Call: fmt.Sprint("c", m.calls), Balance: balance, Account: accountOf[balance], Timeout: 10 * time.Second}
		a.Run = ledger.RunKey{Scope: "scope", Key: fmt.Sprint(rapid.IntRange(0, 5).Draw(t, "key"))}
		if balance != "" {
			a.Price = money(t, 10, "price")
		}
		list = append(list, a)
	}
	return list
}

// batch sends a batch that contains requests of every kind.
func (m *bookMachine) batch(t *rapid.T) {
	b := &ledger.Batch{Replica: "r", Settlements: m.settles(t), Holds: m.leases(t), Admits: m.admissions(t)}
	for range rapid.IntRange(0, 1).Draw(t, "drops") {
		if len(m.holds) > 0 {
			h := rapid.SampledFrom(m.holds).Draw(t, "dropped")
			if slices.ContainsFunc(b.Settlements, func(s ledger.Settlement) bool { return s.Hold == h.Hold }) {
				continue // a replica returns a hold only after its calls are settled
			}
			b.Holds = slices.DeleteFunc(b.Holds, func(f ledger.HoldRequest) bool { return f.Hold == h.Hold })
			m.serial++
			b.Releases = append(b.Releases, ledger.HoldRelease{Hold: h.Hold, Balance: h.Balance, Serial: m.serial, Keep: money(t, 10, "keep"), KeepCalls: rapid.IntRange(0, 2).Draw(t, "keep calls")})
		}
	}
	m.send(t, b)
	m.holds = append(m.holds, b.Holds...)
	m.retire(b.Releases)
	for i, a := range m.answers.Admits {
		if a.Refused == nil && a.Replay == nil {
			m.admits = append(m.admits, b.Admits[i])
		}
	}
}

// retire forgets holds that were returned completely, because a replica does not request them
// again.
func (m *bookMachine) retire(drops []ledger.HoldRelease) {
	for _, d := range drops {
		if d.Keep == 0 && d.KeepCalls == 0 {
			m.holds = slices.DeleteFunc(m.holds, func(f ledger.HoldRequest) bool { return f.Hold == d.Hold })
			name, _, _ := strings.Cut(d.Hold, ".")
			m.retired[name]++
		}
	}
}

func (m *bookMachine) send(t *rapid.T, b *ledger.Batch) {
	a, err := m.store.Exchange(t.Context(), b)
	if err != nil {
		t.Fatal(err)
	}
	m.last, m.answers = b, a
	for i, s := range b.Settlements {
		if a.Settlements[i].Refused == nil {
			m.charged[s.Call] = s.Amount
		}
	}
}

// again resends the last batch, like a replica that received no reply.
func (m *bookMachine) again(t *rapid.T) {
	if m.last == nil {
		return
	}
	before, first := m.used(), m.answers
	m.send(t, m.last)
	refused := slices.ContainsFunc(first.Settlements, func(s ledger.SettlementResult) bool { return s.Refused != nil }) // may be settled now
	if now := m.used(); !refused && !maps.Equal(before, now) {
		t.Fatalf("a batch that was sent twice counted twice:\n%v\n%v", before, now)
	}
	for i := range first.Settlements {
		if first.Settlements[i].Refused == nil && m.answers.Settlements[i].Refused != nil {
			t.Fatalf("settled, and then refused: %+v: %+v", m.last.Settlements[i], m.answers.Settlements[i].Refused)
		}
	}
	for i := range first.Admits {
		if first.Admits[i].Refused == nil && first.Admits[i].Replay == nil && m.answers.Admits[i].Refused != nil {
			t.Fatalf("admitted, and then refused: %+v: %+v", m.last.Admits[i], m.answers.Admits[i].Refused)
		}
	}
	m.last = nil // a replica would not send a later one
}

func (m *bookMachine) sweep(t *rapid.T) {
	if _, err := m.store.Sweep(t.Context(), 100); err != nil {
		t.Fatal(err)
	}
}

func (m *bookMachine) later(t *rapid.T) {
	m.now = m.now.Add(time.Duration(rapid.IntRange(1, 20_000).Draw(t, "ms")) * time.Millisecond)
	m.last = nil
}

// invariant is checked after every step.
func (m *bookMachine) invariant(t *rapid.T) {
	if err := m.check(); err != nil {
		t.Fatal(err)
	}
	for call, amount := range m.charged {
		if got := m.transfers[call]; got.Amount != amount {
			t.Fatalf("%s was settled with %s, and charged %s", call, amount, got.Amount)
		}
	}
	for id, m2 := range m.transfers {
		if _, said := m.charged[id]; m2.Kind == "charge" && !said {
			t.Fatalf("%s was charged but reported as not charged", id)
		}
	}
}

// finish lets everything expire, so that no money is on hold.
func (m *bookMachine) finish(t *rapid.T) {
	m.now = m.now.Add(time.Hour)
	m.sweep(t)
	m.sweep(t)
	m.invariant(t)
	in, spent, there := toolyard.Money(0), toolyard.Money(0), toolyard.Money(0)
	for _, move := range m.transfers {
		switch {
		case move.From == "world":
			in += move.Amount
		case move.To == "world":
			in -= move.Amount
		case move.Kind == "charge":
			spent += move.Amount
		}
	}
	for _, id := range someAccounts {
		there += m.balances[id].Available
	}
	if len(m.tables.holds) > 0 || there+spent != in {
		t.Fatalf("of %s, %s was spent, and %s is there; %d holds", in, spent, there, len(m.tables.holds))
	}
}

func TestBooksAddUp(t *testing.T) {
	nothing := openAt(t, "memory")
	for range 10 { // each time with different random sequences
		rapid.Check(t, func(t *rapid.T) {
			m := newBookMachine(nothing)
			if err := m.store.Fund(t.Context(), "a", 200, "start"); err != nil {
				t.Fatal(err)
			}
			t.Repeat(map[string]func(*rapid.T){
				"fund": m.fund, "open": m.open, "shut": m.shut, "batch": m.batch, "batch 2": m.batch, "batch 3": m.batch,
				"again": m.again, "sweep": m.sweep, "later": m.later, "": m.invariant,
			})
			m.finish(t)
		})
	}
}

// bookkeeper returns a ledger in which account a and its session s each have 10. The session allows
// 5 calls.
func bookkeeper(t *testing.T) (*tables, func(*ledger.Batch) *ledger.Results) {
	kept := newTables()
	s := newStore(&database{engine: kept}, "", nil)
	kept.balances["a"] = ledger.BalanceRow{ID: "a", Account: "a", State: ledger.StateOpen, Available: 10}
	kept.balances["s"] = ledger.BalanceRow{ID: "s", Account: "a", State: ledger.StateOpen, Available: 10, Limit: 10, MaxCalls: 5}
	kept.transfers["0"] = ledger.Transfer{ID: "0", From: "world", To: "balance/a", Amount: 10}
	kept.transfers["1"] = ledger.Transfer{ID: "1", From: "world", To: "balance/s", Amount: 10}
	return kept, func(b *ledger.Batch) *ledger.Results {
		t.Helper()
		a, err := s.Exchange(t.Context(), b)
		if err != nil {
			t.Fatal(err)
		}
		if err := kept.check(); err != nil {
			t.Fatal(err)
		}
		return a
	}
}

// A free call is counted once, no matter how often its replica reports its end.
func TestACallIsCountedOnce(t *testing.T) {
	kept, ask := bookkeeper(t)
	ask(&ledger.Batch{Replica: "r", Holds: []ledger.HoldRequest{{Hold: "h", Serial: 1, Balance: "s", Account: "a", Calls: 3, TTL: time.Minute}}})
	for range 3 {
		ask(&ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{{Call: "c", Hold: "h", Balance: "s", Calls: 1}}})
	}
	if h := kept.holds["h"]; h.CallsSpent != 1 || h.CallsUnspent != 2 {
		t.Errorf("%+v", h)
	}
}

// A settled call stays settled if its replica repeats the request after the hold was returned, even
// if the call was free and there were no calls left to count.
func TestASettledCallStaysSettled(t *testing.T) {
	_, ask := bookkeeper(t)
	ask(&ledger.Batch{Replica: "r", Holds: []ledger.HoldRequest{{Hold: "h", Serial: 1, Balance: "s", Account: "a", Calls: 1, TTL: time.Minute}}})
	b := &ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{{Call: "c", Hold: "h", Balance: "s", Calls: 1}, {Call: "d", Hold: "h", Balance: "s", Calls: 1}}}
	ask(b)
	ask(&ledger.Batch{Replica: "r", Releases: []ledger.HoldRelease{{Hold: "h", Balance: "s", Serial: 2}}})
	for i, s := range ask(b).Settlements {
		if s.Refused != nil {
			t.Errorf("%s: %s", b.Settlements[i].Call, s.Refused.Message)
		}
	}
}

// A call whose money was returned because it took too long is not charged or reported as charged,
// even if its key is already marked as unknown.
func TestAnExpiredReservationIsNotCharged(t *testing.T) {
	for _, swept := range []bool{false, true} {
		kept, ask := bookkeeper(t)
		run := ledger.RunKey{Scope: "scope", Key: "key"}
		ask(&ledger.Batch{Replica: "r", Admits: []ledger.AdmitRequest{{Call: "c", Run: run, Balance: "s", Account: "a", Price: 3, Timeout: time.Second}}})
		kept.now = kept.now.Add(time.Minute)
		if swept {
			if _, err := newStore(&database{engine: kept}, "", nil).Sweep(t.Context(), 10); err != nil {
				t.Fatal(err)
			}
		}
		end := ledger.Settlement{Call: "c", Run: &run, Hold: "c", Balance: "s", Amount: 3, Calls: 1, EndHold: true, Outcome: []byte("{}")}
		refused := ask(&ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{end}}).Settlements[0].Refused
		_, charged := kept.transfers["c"]
		if charged == (refused != nil) || swept == charged {
			t.Errorf("swept %v: charged %v, refused %v", swept, charged, refused)
		}
	}
}

// An unused reservation is returned once, no matter how often its replica returns it.
func TestAnUnusedReservationIsReturnedOnce(t *testing.T) {
	kept, ask := bookkeeper(t)
	run := ledger.RunKey{Scope: "scope", Key: "key"}
	admit := ledger.AdmitRequest{Call: "c", Run: run, Balance: "s", Account: "a", Price: 3, Timeout: time.Second}
	ask(&ledger.Batch{Replica: "r", Admits: []ledger.AdmitRequest{admit}})
	for range 2 {
		a := ask(&ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{{Call: "c", Run: &run, Hold: "c", Balance: "s", EndHold: true, NotRun: true}}})
		if r := a.Settlements[0].Refused; r != nil {
			t.Error(r.Message)
		}
	}
	if p := kept.balances["s"]; p.Available != 10 || p.Held != 0 || p.Calls != 0 {
		t.Errorf("%+v", p)
	}
	admit.Call = "d"
	if a := ask(&ledger.Batch{Replica: "r", Admits: []ledger.AdmitRequest{admit}}); a.Admits[0].Refused != nil {
		t.Errorf("the key is not free: %s", a.Admits[0].Refused.Message)
	}
}

// A call that has no hold is not charged.
func TestNothingIsChargedWithoutAHold(t *testing.T) {
	_, ask := bookkeeper(t)
	if ask(&ledger.Batch{Replica: "r", Settlements: []ledger.Settlement{{Call: "c", Amount: 1}}}).Settlements[0].Refused == nil {
		t.Error("an unpaid call was settled")
	}
}

// A replica gets at least what its first caller needs, even if it expects to need less.
func TestALeaseIsNeverTooSmallToUse(t *testing.T) {
	_, ask := bookkeeper(t)
	g := ask(&ledger.Batch{Replica: "r", Holds: []ledger.HoldRequest{{Hold: "h", Serial: 1, Balance: "a", Account: "a", Want: 1, Min: 8, TTL: time.Minute}}}).Holds[0]
	if g.Unspent != 8 || g.Refused != nil {
		t.Errorf("%+v", g)
	}
}

// Two payments are distinct, regardless of their accounts and references.
func TestFundingsAreDistinct(t *testing.T) {
	s, err := Open(t.Context(), "memory")
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // the store is in memory
	for _, f := range [][2]string{{"a", "b/c"}, {"a/b", "c"}, {"a/b", "c"}, {"a", "b/c"}} {
		if err := s.Fund(t.Context(), f[0], 1, f[1]); err != nil {
			t.Fatal(err)
		}
	}
	for _, account := range []string{"a", "a/b"} {
		if p, err := s.Balance(t.Context(), account); err != nil || p.Remaining != 1 {
			t.Errorf("%+v %v", p, err)
		}
	}
	if err := s.Fund(t.Context(), "a", 2, "b/c"); toolyard.AsError(err).Code != toolyard.IdempotencyConflict {
		t.Errorf("a different amount under the same reference: %v", err)
	}
	for _, amount := range []toolyard.Money{-1, -1} {
		if err := s.Fund(t.Context(), "a", amount, "back"); err != nil {
			t.Error(err)
		}
	}
}
