package admission

import (
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

const (
	// holdTime is how long money is leased, in addition to the call's timeout.
	holdTime = 20 * time.Second
	// budgetIdle is the time after which unused money is returned.
	budgetIdle = 150 * time.Millisecond
	// shortTime is how long to wait for money that is held elsewhere. Unused money returns within
	// budgetIdle.
	shortTime = 500 * time.Millisecond
	// checkTime is how long a balance is assumed to be open after the last response from the store.
	checkTime = time.Second
)

// budgetKey is a balance and the account that must own it.
type budgetKey struct{ balance, account string }

// budgetLease is money that this replica has leased from a balance.
type budgetLease struct {
	budgetKey
	hold        string // ID of the hold; empty if there is none
	serial      int64
	available   funds // not used by any call
	taken       funds // used by calls that are not settled yet
	countsCalls bool
	until       time.Time // end of the lease
	pledged     bool      // the available funds are returned if the pending request is refused
	longest     time.Duration
	price       toolyard.Money // price of the last call
	queues      []*queue
	retry       retryState
	rate        rateMeter
	spent       toolyard.Money // the balance's spending, as last seen by this replica
	rest        toolyard.Money // the balance's remaining money, as last seen by this replica
}

// funds is an amount of money and a number of calls.
type funds struct {
	money toolyard.Money
	calls int
}

// retryState controls when a budgetLease sends requests.
type retryState struct {
	at         time.Time // time of the next request
	checked    time.Time // last time the store confirmed that the balance is usable
	shortSince time.Time // start of the current shortage of money; zero if there is none
}

func (c *Controller) budgetLeaseFor(r *Request) *budgetLease {
	key := budgetKey{r.Balance, r.Account}
	b := c.leases.budgets[key]
	if b == nil {
		b = &budgetLease{budgetKey: key}
		c.leases.budgets[key] = b
	}
	return b
}

// ready reports whether the price of a call is available.
func (b *budgetLease) ready(r *Request, now time.Time) bool {
	b.price, b.longest = r.Price, max(b.longest, r.Timeout)
	return b.hold != "" && !b.pledged && b.available.money >= r.Price && (!b.countsCalls || b.available.calls > 0) && b.until.After(now.Add(r.Timeout+ledger.Grace))
}

func (b *budgetLease) take(r *Request, now time.Time) {
	b.rate.count(now)
	b.available.money -= r.Price
	b.taken.money, b.taken.calls = b.taken.money+r.Price, b.taken.calls+1
	if b.countsCalls {
		b.available.calls--
	}
}

// giveBack makes a call's price available again if the call is neither charged nor counted.
func (b *budgetLease) giveBack(c *Controller, price toolyard.Money) {
	b.available.money += price
	b.taken.money, b.taken.calls = b.taken.money-price, b.taken.calls-1
	if b.countsCalls {
		b.available.calls++
	}
	c.serve(b.queues...)
}

// settled updates the lease after the store has settled a call.
func (b *budgetLease) settled(price, charged toolyard.Money) {
	b.taken.money, b.taken.calls = b.taken.money-price, b.taken.calls-1
	b.available.money += price - charged
	b.spent, b.rest = b.spent+charged, b.rest-charged
}

// reset clears the lease after it has ended.
func (b *budgetLease) reset() {
	b.hold, b.available, b.until, b.pledged = "", funds{}, time.Time{}, false
}

func (b *budgetLease) waiting() int { return waitingIn(b.queues) }

// request returns the next request to the store, if there is one.
func (b *budgetLease) request(c *Controller, now time.Time) (ledger.HoldRequest, bool) {
	waiting, ahead := b.waiting(), b.rate.expected(now)
	// A lease in use is checked regularly, because the session may have been closed.
	fresh := b.hold == "" || now.Sub(b.retry.checked) < checkTime || now.Sub(b.rate.last) > checkTime
	if (waiting == 0 && ahead == 0 && fresh) || b.retry.at.After(now) {
		return ledger.HoldRequest{}, false
	}
	if waiting == 0 && fresh && b.enough(ahead, now) {
		return ledger.HoldRequest{}, false
	}
	if b.hold == "" {
		c.seq++
		b.hold = fmt.Sprintf("%s.%d", c.opts.Replica, c.seq)
	}
	least, cost := toolyard.Money(-1), toolyard.Money(waiting+ahead)*b.price
	for _, q := range b.queues { // prices may differ
		if w := q.next(); w != nil && (least < 0 || w.request.Price < least) {
			least = w.request.Price
		}
	}
	b.serial++
	r := ledger.HoldRequest{
		Hold: b.hold, Serial: b.serial, Balance: b.balance, Account: b.account, TTL: b.longest + ledger.Grace + holdTime,
		Calls: max(0, waiting+ahead-b.available.calls),
		Want:  max(0, cost-b.available.money), Min: max(0, least-b.available.money),
	}
	if r.Min > 0 || (b.countsCalls && b.available.calls <= 0) {
		r.Idle, b.pledged = b.available.money, true
	}
	return r, true
}

// enough reports whether the lease covers half of the expected calls and does not end soon.
func (b *budgetLease) enough(ahead int, now time.Time) bool {
	return b.available.money >= b.price*toolyard.Money(ahead)/2 && (!b.countsCalls || b.available.calls >= ahead/2) &&
		b.until.After(now.Add(b.longest+holdTime/2))
}

// granted applies the hold's new state. sent is the time just before the request was sent.
func (b *budgetLease) granted(c *Controller, r ledger.HoldRequest, g ledger.HoldGrant, sent time.Time) {
	b.retry.checked = sent
	b.available, b.countsCalls, b.pledged = funds{g.Unspent - b.taken.money, g.Calls - b.taken.calls}, g.CountCalls, false
	b.spent, b.rest = g.Spent, g.Remaining
	if g.Unspent == 0 && g.Calls == 0 && g.Refused != nil && b.taken.calls == 0 {
		b.reset() // the hold does not exist
	}
	if g.Refused == nil {
		b.until = sent.Add(r.TTL)
	}
	if g.Refused == nil && b.countsCalls && b.available.calls <= 0 && b.waiting() > 0 { // all remaining calls are running
		g.Refused = &ledger.Refusal{Code: toolyard.BudgetExceeded, Message: "All remaining calls in session " + b.balance + " are already running.", RetryAfter: pollTime / 10}
	}
	if g.Refused != nil && g.Refused.RetryAfter == 0 && b.taken.calls > 0 { // keep only the money that running calls need
		b.returnUnused(c)
	}
	c.serve(b.queues...)
	if g.Refused == nil {
		b.retry.shortSince = time.Time{}
		return
	}
	b.refuse(g.Refused)
}

// refuse records the reason for the waiters, and refuses them if waiting would not help.
func (b *budgetLease) refuse(r *ledger.Refusal) {
	now := time.Now()
	b.retry.at = now.Add(max(r.RetryAfter, pollTime/10))
	if b.retry.shortSince.IsZero() {
		b.retry.shortSince = now
	}
	after := time.Duration(0)
	if r.RetryAfter == 0 || now.Sub(b.retry.shortSince) > shortTime {
		after, b.retry.shortSince = forever, time.Time{}
	}
	for _, q := range b.queues {
		q.refuse(now, after, &toolyard.Error{Code: r.Code, Message: r.Message})
	}
}

// returnIdle returns money that is not currently needed, and reports whether nothing is left.
func (b *budgetLease) returnIdle(c *Controller, now time.Time) (empty bool) {
	if b.waiting() > 0 || now.Sub(b.rate.last) < budgetIdle {
		return false
	}
	if b.taken.calls == 0 {
		if b.hold != "" {
			c.outbox.releases = append(c.outbox.releases, ledger.HoldRelease{Hold: b.hold, Balance: b.balance})
			b.reset()
		}
		return true
	}
	b.returnUnused(c)
	return false
}

// returnUnused returns all money that is not used by a call.
func (b *budgetLease) returnUnused(c *Controller) {
	if b.hold == "" || (b.available.money <= 0 && (!b.countsCalls || b.available.calls <= 0)) {
		return
	}
	b.serial++
	c.outbox.releases = append(c.outbox.releases, ledger.HoldRelease{
		Hold: b.hold, Balance: b.balance, Serial: b.serial, Keep: b.taken.money, KeepCalls: b.taken.calls,
	})
	b.available = funds{}
}
