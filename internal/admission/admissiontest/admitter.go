package admissiontest

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

// Replicas opens n admitters that share one ledger, like replicas that share a store.
type Replicas func(t *testing.T, n int) ([]admission.Admitter, ledger.Ledger)

// TestAdmit checks the guarantees of admission.Admitter: limits and budgets hold across replicas,
// and each call runs once.
func TestAdmit(t *testing.T, open Replicas) {
	for name, test := range map[string]func(*testing.T, Replicas){
		"nothing to take":                 testNothing,
		"concurrency":                     testConcurrency,
		"cooldown":                        testCooldown,
		"a minute's calls, then refusals": testPerMinute,
		"a refusal says when":             testRetryAfter,
		"one budget, three replicas":      testBudget,
		"a failed call costs nothing":     testFailedCall,
		"a session of so many calls":      testCalls,
		"a session that is closed":        testClosed,
		"another's session":               testForeign,
		"one key, one run":                testOneRun,
		"a key is for one call":           testConflict,
		"a key after a failure":           testKeyAfterFailure,
		"callers take turns":              testTurns,
		"all or nothing":                  testAllOrNothing,
	} {
		t.Run(name, func(t *testing.T) { test(t, open) })
	}
}

// asks numbers the requests, so that each has a unique ID.
var asks atomic.Int64

func ask(change func(*admission.Request)) *admission.Request {
	a := &admission.Request{
		CallID: fmt.Sprintf("call-%d-%d", time.Now().UnixNano(), asks.Add(1)), Caller: "ann", Account: "acme", Seller: "shop",
		Timeout: 5 * time.Second, Wait: 10 * time.Second,
	}
	a.Call = &toolyard.Call{ID: a.CallID, Tool: asked, Caller: toolyard.Caller{ID: a.Caller, Account: a.Account}}
	change(a)
	return a
}

// asked is the tool that all requests call.
var asked = toolyard.Define(toolyard.Spec{Name: "asked"}, func(context.Context, *toolyard.Call, struct{}) (string, error) { return "done", nil })

// paced returns a request with one limit.
func paced(key string, l toolyard.Limit) *admission.Request {
	return ask(func(a *admission.Request) {
		a.Limits = []admission.LimitRef{{Key: key, Name: "tool " + key, Limit: l}}
	})
}

// paid returns a request with a price.
func paid(balance, price string) *admission.Request {
	return ask(func(a *admission.Request) { a.Balance, a.Price = balance, USD(price) })
}

// USD parses an amount in dollars and panics if it is invalid.
func USD(s string) toolyard.Money {
	m, err := toolyard.ParseMoney(s)
	if err != nil {
		panic(err)
	}
	return m
}

// ran is the outcome of a successful call.
var ran = toolyard.Outcome{Result: &toolyard.Result{Content: []toolyard.Content{toolyard.Text("done")}}}

// failed is the outcome of a failed call.
var failed = toolyard.Outcome{Err: &toolyard.Error{Code: toolyard.Failed, Message: "it broke"}}

// patience limits waits that are only long on a busy machine.
const patience = time.Minute

// admit admits a call. It retries calls that did not run because the store replied too late, which
// happens on a busy machine.
func admit(ctx context.Context, a admission.Admitter, needs *admission.Request) (*admission.Admission, error) {
	late := false
	for end := time.Now().Add(patience); ; time.Sleep(10 * time.Millisecond) {
		t, err := a.Admit(ctx, needs)
		late = late || codeOf(err) == toolyard.Unavailable
		repeat := codeOf(err) == toolyard.Unavailable || late && codeOf(err) == toolyard.InProgress // the key is being released
		if !repeat || time.Now().After(end) {
			return t, err
		}
		again := *needs
		again.CallID = fmt.Sprint(needs.CallID, "-", asks.Add(1))
		needs = &again
	}
}

// run admits a call, runs it and settles it as a success.
func run(ctx context.Context, a admission.Admitter, needs *admission.Request, work func()) (*toolyard.Receipt, error) {
	t, err := admit(ctx, a, needs)
	if err != nil {
		return nil, err
	}
	if t.Replay != nil {
		return nil, errReplay
	}
	if work != nil {
		work()
	}
	return a.Settle(ctx, t, ran)
}

var errReplay = errors.New("the call has already run")

// codeOf returns an error's code, or OK for nil.
func codeOf(err error) toolyard.Code {
	if err == nil {
		return toolyard.OK
	}
	return toolyard.AsError(err).Code
}

func fund(t *testing.T, l ledger.Ledger, account, amount string) {
	t.Helper()
	if err := l.Fund(t.Context(), account, USD(amount), fmt.Sprint(asks.Add(1))); err != nil {
		t.Fatal(err)
	}
}

func session(t *testing.T, l ledger.Ledger, limit string, calls int) string {
	t.Helper()
	fund(t, l, "acme", limit)
	p, err := l.OpenSession(t.Context(), ledger.Session{
		ID: fmt.Sprint("session-", asks.Add(1)), Account: "acme", Limit: USD(limit), Calls: calls, TTL: time.Hour,
	})
	if err != nil {
		t.Fatal(err)
	}
	return p.ID
}

// audit waits until nothing is on hold, checks the ledger, and returns the balance.
func audit(t *testing.T, l ledger.Ledger, balance string) *ledger.Balance {
	t.Helper()
	if err := l.Audit(t.Context()); err != nil {
		t.Error(err)
	}
	for end := time.Now().Add(time.Minute); ; time.Sleep(50 * time.Millisecond) {
		p, err := l.Balance(t.Context(), balance)
		if err != nil {
			t.Fatal(err)
		}
		if p.Held == 0 || time.Now().After(end) {
			return p
		}
	}
}

func testNothing(t *testing.T, open Replicas) {
	a, _ := open(t, 1)
	if r, err := run(t.Context(), a[0], ask(func(*admission.Request) {}), nil); err != nil || r != nil {
		t.Error(r, err)
	}
}

func testConcurrency(t *testing.T, open Replicas) {
	replicas, _ := open(t, 3)
	var now, most atomic.Int64
	var wg sync.WaitGroup
	for i := range 60 {
		wg.Go(func() {
			a := paced("at-once", toolyard.Limit{Concurrency: 4})
			a.Wait = patience
			_, err := run(t.Context(), replicas[i%3], a, func() {
				n := now.Add(1)
				for m := most.Load(); n > m && !most.CompareAndSwap(m, n); m = most.Load() {
				}
				time.Sleep(20 * time.Millisecond)
				now.Add(-1)
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if most.Load() > 4 {
		t.Errorf("%d calls ran at once, the limit is 4", most.Load())
	}
}

func testCooldown(t *testing.T, open Replicas) {
	replicas, _ := open(t, 3)
	const cooldown = 60 * time.Millisecond
	shortest := time.Duration(0)
	for round := 0; shortest < cooldown; round++ {
		if round == 5 {
			t.Fatalf("a call began %v after the one before it", shortest)
		}
		began := time.Now()
		starts := record(t, replicas, 15, func() *admission.Request {
			a := paced(fmt.Sprint("cooldown-", round), toolyard.Limit{Cooldown: cooldown})
			a.Wait = patience
			return a
		})
		if took := time.Since(began); took < 14*cooldown {
			t.Fatalf("15 calls began within %v", took)
		}
		// A call that is delayed between its admission and its start may start too close to the
		// next one. This does not happen in every round.
		shortest = time.Hour
		for i := 1; i < len(starts); i++ {
			shortest = min(shortest, starts[i].Sub(starts[i-1]))
		}
	}
}

// record makes n calls on several replicas concurrently and returns their start times.
func record(t *testing.T, replicas []admission.Admitter, n int, next func() *admission.Request) []time.Time {
	var mu sync.Mutex
	var starts []time.Time
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			_, err := run(t.Context(), replicas[i%len(replicas)], next(), func() {
				mu.Lock()
				defer mu.Unlock()
				starts = append(starts, time.Now())
			})
			if err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	slices.SortFunc(starts, time.Time.Compare)
	return starts
}

func testPerMinute(t *testing.T, open Replicas) {
	replicas, _ := open(t, 3)
	admitted := 0
	for i := range 12 {
		a := paced("per-minute", toolyard.Limit{PerMinute: 5})
		a.Wait = 20 * time.Second // long enough for another replica to return permits
		switch _, err := run(t.Context(), replicas[i%3], a, nil); codeOf(err) {
		case toolyard.OK:
			admitted++
		case toolyard.RateLimited:
		default:
			t.Error(err)
		}
	}
	if admitted != 5 {
		t.Errorf("%d calls began within a minute, the limit is 5", admitted)
	}
}

func testRetryAfter(t *testing.T, open Replicas) {
	replicas, _ := open(t, 1)
	var last error
	start := time.Now()
	for range 2 {
		a := paced("retry-after", toolyard.Limit{PerMinute: 1})
		a.Wait = 40 * time.Second // not enough
		_, last = run(t.Context(), replicas[0], a, nil)
	}
	e := toolyard.AsError(cmp.Or(last, errors.New("none")))
	if e.Code != toolyard.RateLimited || e.RetryAfter < 50*time.Second || e.RetryAfter > 70*time.Second || !e.Code.Retryable() {
		t.Errorf("%+v", e)
	}
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("a refusal that was certain took %v", took)
	}
}

func testBudget(t *testing.T, open Replicas) {
	replicas, l := open(t, 3)
	balance := session(t, l, "0.2505", 0)
	var ok, refused atomic.Int64
	var wg sync.WaitGroup
	for i := range 400 {
		wg.Go(func() {
			switch _, err := run(t.Context(), replicas[i%3], paid(balance, "0.001"), nil); codeOf(err) {
			case toolyard.OK:
				ok.Add(1)
			case toolyard.BudgetExceeded:
				refused.Add(1)
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	audit(t, l, balance) // one replica held money while another refused a call; that money was returned
	for range 300 {
		if _, err := run(t.Context(), replicas[0], paid(balance, "0.001"), nil); err != nil {
			break
		}
		ok.Add(1)
	}
	p := audit(t, l, balance)
	if ok.Load() != 250 || refused.Load() < 150 || p.Spent != USD("0.25") || p.Remaining != USD("0.0005") {
		t.Errorf("%d calls were made and %d refused: %+v", ok.Load(), refused.Load(), p)
	}
}

func testFailedCall(t *testing.T, open Replicas) {
	replicas, l := open(t, 1)
	for _, key := range []string{"", "k-failed"} {
		balance := session(t, l, "0.002", 0)
		for range 3 {
			a := paid(balance, "0.002")
			if key != "" {
				a.Scope, a.Key = "failed", key+fmt.Sprint(asks.Add(1))
			}
			ticket, err := admit(t.Context(), replicas[0], a)
			if err != nil {
				t.Fatal(err)
			}
			if _, err := replicas[0].Settle(t.Context(), ticket, failed); err != nil {
				t.Fatal(err)
			}
		}
		receipt, err := run(t.Context(), replicas[0], paid(balance, "0.002"), nil)
		if err != nil || receipt.Price != USD("0.002") || *receipt.Remaining != 0 {
			t.Errorf("%+v %v", receipt, err)
		}
		if p := audit(t, l, balance); p.Spent != USD("0.002") {
			t.Errorf("%+v", p)
		}
	}
}

func testCalls(t *testing.T, open Replicas) {
	replicas, l := open(t, 2)
	balance := session(t, l, "0", 100)
	var ok atomic.Int64
	call := func(i int) toolyard.Code {
		ticket, err := admit(t.Context(), replicas[i%2], paid(balance, "0"))
		if err == nil {
			ok.Add(1)
			o := ran
			if i%3 == 0 {
				o = failed // failed calls count too
			}
			_, err = replicas[i%2].Settle(t.Context(), ticket, o)
		}
		code := codeOf(err)
		if code != toolyard.OK && code != toolyard.BudgetExceeded {
			t.Error(err)
		}
		return code
	}
	var wg sync.WaitGroup
	for i := range 130 {
		wg.Go(func() { call(i) })
	}
	wg.Wait()
	audit(t, l, balance)
	for i := 0; call(i) == toolyard.OK; i++ { // uses the calls that one replica held while another refused
	}
	if p := audit(t, l, balance); ok.Load() != 100 || p.Calls != 100 {
		t.Errorf("%d calls were made: %+v", ok.Load(), p)
	}
}

func testClosed(t *testing.T, open Replicas) {
	replicas, l := open(t, 1)
	balance := session(t, l, "1", 0)
	if _, err := run(t.Context(), replicas[0], paid(balance, "0.25"), nil); err != nil {
		t.Fatal(err)
	}
	audit(t, l, balance) // nothing is on hold
	if p, err := l.CloseSession(t.Context(), balance); err != nil || p.State != ledger.StateClosed || p.Spent != USD("0.25") {
		t.Errorf("%+v %v", p, err)
	}
	if _, err := run(t.Context(), replicas[0], paid(balance, "0.25"), nil); codeOf(err) != toolyard.BudgetExceeded {
		t.Error(err)
	}
	if p := audit(t, l, "acme"); p.Remaining != USD("0.75") {
		t.Errorf("%+v", p)
	}
}

func testForeign(t *testing.T, open Replicas) {
	replicas, l := open(t, 1)
	balance := session(t, l, "1", 0)
	for _, key := range []string{"", "k"} {
		a := paid(balance, "0.25")
		a.Account, a.Scope, a.Key = "mallory", "mallory", key
		if _, err := run(t.Context(), replicas[0], a, nil); codeOf(err) != toolyard.NotFound {
			t.Error(err)
		}
	}
	if p := audit(t, l, balance); p.Spent != 0 {
		t.Errorf("%+v", p)
	}
}

// keyed returns a request with an idempotency key.
func keyed(balance, key, body string) *admission.Request {
	a := paid(balance, "0.001")
	a.Scope, a.Key, a.Digest, a.Writes = "acme/ann", key, sha256.Sum256([]byte(body)), true
	return a
}

func testOneRun(t *testing.T, open Replicas) {
	replicas, l := open(t, 3)
	balance := session(t, l, "1", 0)
	var runs, replays, told atomic.Int64
	var wg sync.WaitGroup
	end := time.Now().Add(patience)
	for i := range 200 {
		wg.Go(func() {
			for time.Now().Before(end) {
				a := keyed(balance, "one", "body")
				a.Timeout = 2 * patience
				_, err := run(t.Context(), replicas[i%3], a, func() {
					for runs.Add(1); told.Load() == 0 && time.Now().Before(end); {
						time.Sleep(30 * time.Millisecond)
					}
				})
				switch {
				case err == nil:
					return
				case errors.Is(err, errReplay):
					replays.Add(1)
					return
				case codeOf(err) == toolyard.InProgress:
					told.Add(1)
					time.Sleep(20 * time.Millisecond)
				default:
					t.Error(err)
					return
				}
			}
		})
	}
	wg.Wait()
	if p := audit(t, l, balance); runs.Load() != 1 || replays.Load() != 199 || told.Load() == 0 || p.Spent != USD("0.001") {
		t.Errorf("it ran %d times, was replayed %d times, %d were told to wait: %+v", runs.Load(), replays.Load(), told.Load(), p)
	}
}

func testConflict(t *testing.T, open Replicas) {
	replicas, l := open(t, 1)
	balance := session(t, l, "1", 0)
	if _, err := run(t.Context(), replicas[0], keyed(balance, "same", "one"), nil); err != nil {
		t.Fatal(err)
	}
	if _, err := run(t.Context(), replicas[0], keyed(balance, "same", "other"), nil); codeOf(err) != toolyard.IdempotencyConflict {
		t.Error(err)
	}
	other := keyed(balance, "same", "other")
	other.Scope = "acme/bob"
	if _, err := run(t.Context(), replicas[0], other, nil); err != nil {
		t.Errorf("the key of another caller is another key: %v", err)
	}
	ticket, err := admit(t.Context(), replicas[0], keyed(balance, "same", "one"))
	if err != nil || ticket.Replay == nil {
		t.Fatal(ticket, err)
	}
	if raw := string(ticket.Replay.Raw()); raw == "" {
		t.Error("the replay is empty")
	}
}

// testKeyAfterFailure checks that a call can be repeated with its key if the failure was retryable, and
// cannot if the call may have had an effect.
func testKeyAfterFailure(t *testing.T, open Replicas) {
	replicas, l := open(t, 1)
	balance := session(t, l, "1", 0)
	for key, test := range map[string]struct {
		failure *toolyard.Error
		want    toolyard.Code // code of the repeated call
	}{
		"not sent":     {&toolyard.Error{Code: toolyard.Unavailable, Message: "The server is down.", RetryAfter: time.Second}, toolyard.OK},
		"rate limited": {&toolyard.Error{Code: toolyard.RateLimited, Message: "Too many requests."}, toolyard.OK},
		"lost":         {&toolyard.Error{Code: toolyard.Unavailable, Message: "The server ended."}, toolyard.OutcomeUnknown},
		"timed out":    {&toolyard.Error{Code: toolyard.Timeout, Message: "The call timed out."}, toolyard.OutcomeUnknown},
	} {
		admitted, err := admit(t.Context(), replicas[0], keyed(balance, key, "body"))
		if err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if _, err := replicas[0].Settle(t.Context(), admitted, toolyard.Outcome{Err: test.failure}); err != nil {
			t.Fatalf("%s: %v", key, err)
		}
		if _, err := run(t.Context(), replicas[0], keyed(balance, key, "body"), nil); codeOf(err) != test.want {
			t.Errorf("%s: the repeated call ends with %v, want %s", key, err, test.want)
		}
	}
}

// testTurns floods a limit with calls from one caller and checks that another caller still gets its
// turn.
func testTurns(t *testing.T, open Replicas) {
	replicas, _ := open(t, 1)
	var order []string
	var mu sync.Mutex
	var wg sync.WaitGroup
	turn := func(caller string) *admission.Request {
		a := paced("turns", toolyard.Limit{Concurrency: 1})
		a.Caller, a.Timeout, a.Wait = caller, 2*patience, 2*patience
		return a
	}
	first, err := admit(t.Context(), replicas[0], turn("first")) // the others queue behind it
	if err != nil {
		t.Fatal(err)
	}
	begin := func(caller string) {
		wg.Go(func() {
			a := turn(caller)
			if _, err := run(t.Context(), replicas[0], a, func() {
				mu.Lock()
				order = append(order, caller)
				mu.Unlock()
				time.Sleep(2 * time.Millisecond)
			}); err != nil {
				t.Error(err)
			}
		})
	}
	queued := func(n int) {
		t.Helper()
		for end := time.Now().Add(patience); replicas[0].(queues).Limits()["turns"].Waiting != n; time.Sleep(time.Millisecond) {
			if time.Now().After(end) {
				t.Fatalf("%d calls wait, want %d", replicas[0].(queues).Limits()["turns"].Waiting, n)
			}
		}
	}
	for range 100 {
		begin("flood")
	}
	queued(100)
	for range 5 {
		begin("modest")
	}
	queued(105)
	if _, err := replicas[0].Settle(t.Context(), first, ran); err != nil {
		t.Error(err)
	}
	wg.Wait()
	last := len(order) - 1 - slices.Index(reversed(order), "modest")
	if last > 80 {
		t.Errorf("the last call of the modest caller was number %d of %d", last+1, len(order))
	}
}

// queues counts the calls that wait for each limit.
type queues interface {
	Limits() map[string]admission.LimitStatus
}

func reversed(list []string) []string {
	list = slices.Clone(list)
	slices.Reverse(list)
	return list
}

// testAllOrNothing requests a permit and money when only the permit is available, and checks that
// the permit is still available afterwards.
func testAllOrNothing(t *testing.T, open Replicas) {
	replicas, l := open(t, 1)
	balance := session(t, l, "0.001", 0)
	limit := []admission.LimitRef{{Key: "both", Name: "both", Limit: toolyard.Limit{PerMinute: 1, Concurrency: 1}}}
	for _, key := range []string{"", "k"} {
		a := paid(balance, "0.002")
		a.Limits, a.Wait, a.Scope, a.Key = limit, time.Second, "acme/ann", key
		if _, err := run(t.Context(), replicas[0], a, nil); codeOf(err) != toolyard.BudgetExceeded {
			t.Error(err)
		}
	}
	a := keyed(balance, "k", "body")
	a.Limits = limit
	if _, err := run(t.Context(), replicas[0], a, nil); err != nil {
		t.Errorf("what was not used is gone: %v", err)
	}
}
