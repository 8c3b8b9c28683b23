package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/anishathalye/porcupine"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// testLedger is the ledger whose histories are recorded.
type testLedger interface {
	Exchange(context.Context, *ledger.Batch) (*ledger.Results, error)
	Fund(ctx context.Context, account string, amount toolyard.Money, reference string) error
	OpenSession(context.Context, ledger.Session) (*ledger.Balance, error)
	CloseSession(ctx context.Context, id string) (*ledger.Balance, error)
	Balance(ctx context.Context, id string) (*ledger.Balance, error)
}

// verb is the kind of an operation.
type verb int

const (
	doFund verb = iota
	doOpen
	doClose
	doLease
	doDrop
	doSettle // settles a call paid from a hold
	doAdmit
	doEnd   // ends an admitted call successfully
	doNever // ends an admitted call that did not run
	doLook
	verbs
)

// A history has an account with a session, and two keys with two calls each. All clients share the
// first hold, which belongs to the account. Each client also has a hold on the session.
const (
	anAccount = 0
	aSession  = 1
	keyCount  = 2
	clients   = 2 * keyCount
	holdCount = 1 + clients
)

// op is an operation.
type op struct {
	verb
	balance int   // anAccount or aSession
	n       int   // name of the hold, call or reference
	key     int   // key of an admission
	serial  int64 // serial number of a lease
	amount  toolyard.Money
	least   toolyard.Money
}

// seen is the result of an operation.
type seen struct {
	code  toolyard.Code // empty if there was no error
	money [3]toolyard.Money
}

// The sequential model: available money, holds and keys, as simple as possible.
type (
	modelBalance struct {
		there, closed    bool
		available, spent toolyard.Money // total spending of all its holds
	}
	modelHold struct {
		there   bool
		balance int
		serial  int64
		left    toolyard.Money
	}
	modelRun struct {
		state ledger.RunState
		call  int
	}
	modelBooks struct {
		balances [2]modelBalance
		holds    [holdCount]modelHold
		calls    [clients]modelHold // reservations, one per client
		runs     [keyCount]modelRun
		funded   uint64 // funding references
		charged  uint64 // calls
	}
)

// step applies one operation and returns the expected result.
func (m *modelBooks) step(o op) seen {
	p := &m.balances[o.balance]
	switch o.verb {
	case doFund:
		return m.fund(p, o)
	case doOpen:
		return m.open(o)
	case doClose:
		if !p.there {
			return seen{code: toolyard.NotFound}
		}
		p.closed = true
		m.refund()
	case doLease:
		return m.lease(p, o)
	case doDrop:
		m.release(&m.holds[o.n])
	case doSettle:
		h := &m.holds[o.n]
		if !h.there || h.left < o.amount {
			return seen{code: toolyard.OutcomeUnknown}
		}
		h.left, m.balances[h.balance].spent = h.left-o.amount, m.balances[h.balance].spent+o.amount
	case doAdmit:
		return m.admit(p, o)
	case doEnd, doNever:
		return m.end(o)
	case doLook:
		return m.look(p, o)
	}
	return seen{}
}

func (m *modelBooks) fund(p *modelBalance, o op) seen {
	if m.funded&(1<<o.n) != 0 {
		return seen{}
	}
	if p.available+o.amount < 0 {
		return seen{code: toolyard.BudgetExceeded}
	}
	m.funded |= 1 << o.n
	p.there, p.available = true, p.available+o.amount
	return seen{}
}

func (m *modelBooks) open(o op) seen {
	m.refund()
	account, session := &m.balances[anAccount], &m.balances[aSession]
	switch {
	case session.there:
		return seen{} // opening the same session again has no effect
	case account.available < o.amount:
		return seen{code: toolyard.BudgetExceeded}
	}
	account.available -= o.amount
	*session = modelBalance{there: true, available: o.amount}
	return seen{}
}

// refund returns a closed session's money. It needs both rows, so it does not happen when one of
// the session's holds ends, but in the next sweep.
func (m *modelBooks) refund() {
	if s := &m.balances[aSession]; s.closed {
		m.balances[anAccount].available += s.available
		s.available = 0
	}
}

func (m *modelBooks) lease(p *modelBalance, o op) seen {
	h := &m.holds[o.n]
	switch {
	case !p.there && o.balance == aSession:
		return m.granted(h, toolyard.NotFound)
	case !p.there || p.closed:
		return m.granted(h, toolyard.BudgetExceeded)
	case h.there && h.serial >= o.serial:
		return m.granted(h, "")
	case p.available < o.least:
		if h.there && h.left == 0 {
			*h = modelHold{}
		} else if h.there {
			h.serial = o.serial
		}
		return m.granted(h, toolyard.BudgetExceeded)
	}
	amount := max(o.least, min(o.amount, p.available/2))
	p.available -= amount
	*h = modelHold{there: true, balance: o.balance, serial: o.serial, left: h.left + amount}
	return m.granted(h, "")
}

func (m *modelBooks) granted(h *modelHold, code toolyard.Code) seen {
	return seen{code: code, money: [3]toolyard.Money{h.left}}
}

func (m *modelBooks) release(h *modelHold) {
	if h.there {
		m.balances[h.balance].available += h.left
		*h = modelHold{}
	}
}

func (m *modelBooks) admit(p *modelBalance, o op) seen {
	r := &m.runs[o.key]
	switch {
	case r.state == ledger.RunRunning && r.call == o.n:
		return seen{}
	case r.state == ledger.RunRunning:
		return seen{code: toolyard.InProgress}
	case r.state == ledger.RunDone:
		return seen{code: toolyard.IdempotencyConflict} // stands for a replay
	case !p.there && o.balance == aSession:
		return seen{code: toolyard.NotFound}
	case !p.there || p.closed || p.available < o.amount:
		return seen{code: toolyard.BudgetExceeded}
	}
	p.available -= o.amount
	m.calls[o.n] = modelHold{there: true, balance: o.balance, left: o.amount}
	*r = modelRun{ledger.RunRunning, o.n}
	return seen{}
}

func (m *modelBooks) end(o op) seen {
	h, r := &m.calls[o.n], &m.runs[o.key]
	amount := o.amount
	if o.verb == doNever {
		amount = 0
	}
	if m.charged&(1<<o.n) != 0 {
		return seen{}
	}
	if amount > 0 && (!h.there || h.left < amount) {
		return seen{code: toolyard.OutcomeUnknown}
	}
	if h.there {
		h.left, m.balances[h.balance].spent = h.left-amount, m.balances[h.balance].spent+amount
		m.release(h)
	}
	if amount > 0 {
		m.charged |= 1 << o.n
	}
	if r.call == o.n && r.state != "" {
		if r.state = ledger.RunDone; o.verb == doNever {
			*r = modelRun{}
		}
	}
	return seen{}
}

func (m *modelBooks) look(p *modelBalance, o op) seen {
	if !p.there {
		return seen{code: toolyard.NotFound}
	}
	held, spent := toolyard.Money(0), p.spent
	if o.balance == anAccount {
		spent += m.balances[aSession].spent
	}
	for _, h := range append(m.holds[:], m.calls[:]...) {
		if h.there && h.balance == o.balance {
			held += h.left
		}
	}
	return seen{money: [3]toolyard.Money{p.available, held, spent}}
}

// balanceModel is the checker's model.
var balanceModel = porcupine.Model{
	Init: func() any { return modelBooks{} },
	Step: func(state, input, output any) (bool, any) {
		m := state.(modelBooks)
		return m.step(input.(op)) == output.(seen), m
	},
}

// recorder performs operations on a ledger, with unique names for each history.
type recorder struct {
	testLedger
	name  string
	start time.Time
	mu    sync.Mutex
	all   []porcupine.Operation
}

func (r *recorder) balance(i int) string {
	return fmt.Sprint(r.name, "-", [2]string{"account", "session"}[i])
}

// do performs and records an operation.
func (r *recorder) do(ctx context.Context, client int, o op) error {
	call := time.Since(r.start).Nanoseconds()
	s, err := r.act(ctx, o)
	back := time.Since(r.start).Nanoseconds()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, porcupine.Operation{ClientId: client, Input: o, Call: call, Output: s, Return: back})
	return err
}

func (r *recorder) act(ctx context.Context, o op) (seen, error) {
	id := r.balance(o.balance)
	switch o.verb {
	case doFund:
		err := r.Fund(ctx, id, o.amount, fmt.Sprint(o.n))
		if err != nil && toolyard.AsError(err).Code == toolyard.IdempotencyConflict {
			err = nil // the reference was used for a different amount, so nothing happens
		}
		return codeSeen(err)
	case doOpen:
		_, err := r.OpenSession(ctx, ledger.Session{ID: id, Account: r.balance(anAccount), Limit: o.amount, TTL: time.Hour})
		return codeSeen(err)
	case doClose:
		_, err := r.CloseSession(ctx, id)
		return codeSeen(err)
	case doLook:
		p, err := r.Balance(ctx, id)
		if err != nil {
			return codeSeen(err)
		}
		return seen{money: [3]toolyard.Money{p.Remaining - p.Held, p.Held, p.Spent}}, nil
	}
	a, err := r.Exchange(ctx, r.batch(o))
	if err != nil {
		return seen{}, err
	}
	return answerSeen(a), nil
}

// batch returns an operation as sent by a replica.
func (r *recorder) batch(o op) *ledger.Batch {
	id, hold := r.balance(o.balance), fmt.Sprintf("%s-%d-hold-%d", r.name, o.balance, o.n)
	call := fmt.Sprint(r.name, "-call-", o.n)
	run := ledger.RunKey{Scope: r.name, Key: fmt.Sprint(o.key)}
	b := &ledger.Batch{Replica: "r"}
	switch o.verb {
	case doLease:
		b.Holds = []ledger.HoldRequest{{Hold: hold, Serial: o.serial, Balance: id, Account: r.balance(anAccount), Want: o.amount, Min: o.least, TTL: time.Hour}}
	case doDrop:
		b.Releases = []ledger.HoldRelease{{Hold: hold, Balance: id}}
	case doSettle:
		b.Settlements = []ledger.Settlement{{Call: fmt.Sprintf("%s-%d", hold, o.serial), Hold: hold, Balance: id, Amount: o.amount, Calls: 1}}
	case doAdmit:
		b.Admits = []ledger.AdmitRequest{{Call: call, Run: run, Balance: id, Account: r.balance(anAccount), Price: o.amount, Timeout: time.Hour}}
	case doEnd:
		b.Settlements = []ledger.Settlement{{Call: call, Run: &run, Hold: call, Balance: id, Amount: o.amount, Calls: 1, EndHold: true, Outcome: []byte("{}")}}
	case doNever:
		b.Settlements = []ledger.Settlement{{Call: call, Run: &run, Hold: call, Balance: id, EndHold: true, NotRun: true}}
	}
	return b
}

func codeSeen(err error) (seen, error) {
	if err == nil {
		return seen{}, nil
	}
	code := toolyard.AsError(err).Code
	if code == toolyard.BudgetExceeded || code == toolyard.NotFound {
		return seen{code: code}, nil
	}
	return seen{}, err
}

func answerSeen(a *ledger.Results) (s seen) {
	refused := (*ledger.Refusal)(nil)
	for _, f := range a.Holds {
		refused, s.money[0] = f.Refused, f.Unspent
	}
	for _, settled := range a.Settlements {
		refused = settled.Refused
	}
	for _, admitted := range a.Admits {
		refused = admitted.Refused
		if admitted.Replay != nil {
			s.code = toolyard.IdempotencyConflict
		}
	}
	if refused != nil {
		s.code = refused.Code
	}
	return s
}

// someOps returns operations for one client. The client has one call to admit, and does not admit
// it again after reporting that it did not run.
func someOps(r *rand.Rand, client, n int) (list []op) {
	over := false
	for i := range n {
		o := op{verb: verb(r.IntN(int(verbs))), balance: r.IntN(2), amount: toolyard.Money(1 + r.IntN(9)), serial: int64(1 + i*10 + client)}
		o.least = toolyard.Money(r.IntN(5))
		switch o.verb {
		case doFund:
			o.balance, o.n, o.amount = anAccount, r.IntN(4), []toolyard.Money{20, 20, 7, -5}[r.IntN(4)]
		case doOpen:
			o.balance, o.amount = aSession, 10
		case doClose:
			o.balance = aSession
		case doAdmit, doEnd, doNever:
			o.balance, o.n, o.key, o.amount = anAccount, client, client%keyCount, 4
			if over {
				o.verb = doLook
			}
			over = over || o.verb == doNever
		case doLease, doDrop, doSettle:
			o.n = o.balance * (1 + client)
		}
		list = append(list, o)
	}
	return list
}

// record lets several clients perform operations concurrently and returns the history.
func record(t testing.TB, l testLedger, name string, seed uint64) []porcupine.Operation {
	rec := &recorder{testLedger: l, name: name, start: time.Now()}
	if err := rec.do(t.Context(), 0, op{verb: doFund, n: 10, amount: 15}); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for client := range clients {
		r := rand.New(rand.NewPCG(seed, uint64(client)))
		all.Go(func() {
			for _, o := range someOps(r, client, 5) {
				if err := rec.do(t.Context(), client, o); err != nil {
					t.Errorf("history %s: %v", name, err)
				}
			}
		})
	}
	all.Wait()
	for i := range 2 {
		if err := rec.do(t.Context(), 0, op{verb: doLook, balance: i}); err != nil {
			t.Error(err)
		}
	}
	return rec.all
}

// histories returns the number of histories to check: the HISTORIES variable, or the default.
func histories(most int) int {
	if n, err := strconv.Atoi(os.Getenv("HISTORIES")); err == nil {
		return n
	}
	if testing.Short() {
		return most / 4
	}
	return most
}

func checkHistories(t *testing.T, l testLedger, n int) {
	for i := range n {
		h := record(t, l, fmt.Sprint("h", i), uint64(i))
		if !porcupine.CheckOperations(balanceModel, h) {
			t.Fatalf("history %d is not linearizable:\n%s", i, describe(h))
		}
	}
}

func describe(all []porcupine.Operation) (text string) {
	for _, o := range all {
		text += fmt.Sprintf("%d: %9d to %9d: %+v: %+v\n", o.ClientId, o.Call, o.Return, o.Input, o.Output)
	}
	return text
}

// The results of concurrent operations are consistent with a sequential order.
func TestHistories(t *testing.T) {
	t.Run("memory", func(t *testing.T) { checkHistories(t, openAt(t, "memory"), histories(1000)) })
	t.Run("sqlite", func(t *testing.T) { checkHistories(t, openAt(t, engines["sqlite"](t)), histories(60)) })
	t.Run("postgres", func(t *testing.T) { checkHistories(t, openAt(t, engines["postgres"](t)), histories(120)) })
}

// inTables is a ledger that is stored in maps.
type inTables struct {
	*Store
	tables *tables
}

// newInTables returns a ledger with an engine that stores everything in maps.
func newInTables(nothing *Store, e engine, in *tables) inTables {
	return inTables{newStore(&database{engine: e, db: nothing.db, reports: nothing.reports}, "", nil), in}
}

// OpenSession omits the final lookup in the database.
func (l inTables) OpenSession(ctx context.Context, s ledger.Session) (*ledger.Balance, error) {
	_, err := l.Store.OpenSession(ctx, s)
	if err != nil && toolyard.AsError(err).Code == toolyard.NotFound {
		err = nil
	}
	return nil, err
}

func (l inTables) CloseSession(ctx context.Context, id string) (*ledger.Balance, error) {
	p, err := l.Balance(ctx, id)
	if err != nil {
		return nil, err
	}
	return nil, closeIn(ctx, l.engine, id, p.Account)
}

func (l inTables) Balance(_ context.Context, id string) (*ledger.Balance, error) {
	l.tables.mu.Lock()
	defer l.tables.mu.Unlock()
	row, there := l.tables.balances[id]
	if !there {
		return nil, toolyard.Errorf(toolyard.NotFound, "There is no %s.", id)
	}
	p := &ledger.Balance{Account: row.Account, Remaining: row.Available, Spent: row.Spent}
	for _, session := range l.tables.balances {
		if id == row.Account && session.Account == id && session.ID != id {
			p.Spent += session.Spent
		}
	}
	for _, h := range l.tables.holds {
		if h.Balance == id {
			p.Remaining, p.Held = p.Remaining+h.Unspent, p.Held+h.Unspent
		}
		if h.Balance == id || id == row.Account && l.tables.balances[h.Balance].Account == id {
			p.Spent += h.Spent
		}
	}
	return p, nil
}

// faulty is an engine with a fault around each change.
type faulty struct {
	engine
	around func(r *ledger.Rows, change func() error) error
}

func (f faulty) exchange(ctx context.Context, refs ledger.Refs, change func(*ledger.Rows) error) error {
	return f.engine.exchange(ctx, refs, func(r *ledger.Rows) error {
		return f.around(r, func() error { return change(r) })
	})
}

// unfolded loses a hold's spending when the hold ends.
func unfolded(r *ledger.Rows, change func() error) error {
	spent := map[string]toolyard.Money{}
	for id, h := range r.Holds {
		spent[id] = h.Spent
	}
	err := change()
	for id, h := range r.Holds {
		if p := r.Balances[h.Balance]; p != nil && h.Change == ledger.Deleted {
			p.Spent -= spent[id]
		}
	}
	return err
}

// unchecked leases money that does not exist.
func unchecked(r *ledger.Rows, change func() error) error {
	for _, p := range r.Balances {
		p.Available += 100
	}
	err := change()
	for _, p := range r.Balances {
		if p.Available -= 100; p.Change == ledger.Created {
			p.Available += 100
		}
	}
	return err
}

// twice settles every call a second time under another name.
type twice struct{ testLedger }

func (l twice) Exchange(ctx context.Context, b *ledger.Batch) (*ledger.Results, error) {
	a, err := l.testLedger.Exchange(ctx, b)
	if err != nil || len(b.Settlements) == 0 {
		return a, err
	}
	s := b.Settlements[0]
	s.Call += " again"
	_, err = l.testLedger.Exchange(ctx, &ledger.Batch{Replica: b.Replica, Settlements: []ledger.Settlement{s}})
	return a, err
}

// The checker finds the faults in broken ledgers, and none in a correct one.
func TestHistoriesFindBrokenLedgers(t *testing.T) {
	nothing := openAt(t, "memory")
	for name, tt := range map[string]struct {
		broken bool
		make   func(*tables) testLedger
	}{
		"sound": {false, func(e *tables) testLedger { return newInTables(nothing, e, e) }},
		"writes what it read before": {true, func(e *tables) testLedger {
			e.careless = true
			return newInTables(nothing, e, e)
		}},
		"settles twice":                 {true, func(e *tables) testLedger { return twice{newInTables(nothing, e, e)} }},
		"forgets what a hold has spent": {true, func(e *tables) testLedger { return newInTables(nothing, faulty{e, unfolded}, e) }},
		"leases what is not there":      {true, func(e *tables) testLedger { return newInTables(nothing, faulty{e, unchecked}, e) }},
	} {
		t.Run(name, func(t *testing.T) {
			const most = 200
			found := 0
			for i := range most {
				h := record(t, tt.make(newTables()), fmt.Sprint("h", i), uint64(i))
				if !porcupine.CheckOperations(balanceModel, h) {
					found++
				}
			}
			t.Logf("%d of %d histories are impossible", found, most)
			if (found > 0) != tt.broken {
				t.Errorf("%d of %d histories are impossible", found, most)
			}
		})
	}
}
