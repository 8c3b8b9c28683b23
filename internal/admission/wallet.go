package admission

import (
	"fmt"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

const (
	// holdTime is how long money is leased, beside the time that a call may take.
	holdTime = 20 * time.Second
	// walletIdle is after which time money that nobody spends is given back.
	walletIdle = 150 * time.Millisecond
	// shortTime is how long to wait for money that others hold. What they do not need comes
	// back within walletIdle.
	shortTime = 500 * time.Millisecond
	// checkTime is how long a purse counts as open that nobody has asked about.
	checkTime = time.Second
)

// wallet is money of a purse that a replica has leased.
type wallet struct {
	purse   string
	account string
	hold    string // the id of the lease; empty for none
	serial  int64
	left    toolyard.Money // that can be taken
	taken   toolyard.Money // taken for calls, and not settled
	calls   int            // that can be made, if the purse counts them
	begun   int            // calls that were taken, and not settled
	counts  bool
	until   time.Time // when the lease ends
	pledged bool      // what is left goes back if the store refuses what it is being asked for
	longest time.Duration
	price   toolyard.Money // of the last call
	lines   []*line
	again   time.Time
	checked time.Time // when the store said last that the purse can be used
	short   time.Time // since when the purse has not what is needed; zero if it has
	pulse   pulse
	spent   toolyard.Money // by the purse, as far as it is known here
	rest    toolyard.Money // that the purse could still spend, as far as it is known here
}

func (d *Controller) walletOf(ask *Request) *wallet {
	key := walletKey{ask.Balance, ask.Account}
	w := d.wallets[key]
	if w == nil {
		w = &wallet{purse: ask.Balance, account: ask.Account}
		d.wallets[key] = w
	}
	return w
}

// walletKey is a purse, and the account that says it is its own.
type walletKey struct{ purse, account string }

// ready reports whether the price of a call is here.
func (w *wallet) ready(ask *Request, now time.Time) bool {
	w.price, w.longest = ask.Price, max(w.longest, ask.Timeout)
	return w.hold != "" && !w.pledged && w.left >= ask.Price && (!w.counts || w.calls > 0) && w.until.After(now.Add(ask.Timeout+ledger.Grace))
}

func (w *wallet) take(ask *Request, now time.Time) {
	w.pulse.beat(now)
	w.left, w.taken, w.begun = w.left-ask.Price, w.taken+ask.Price, w.begun+1
	if w.counts {
		w.calls--
	}
}

// giveBack puts the price of a call that neither costs nor counts back into the wallet.
func (w *wallet) giveBack(d *Controller, price toolyard.Money) {
	w.left, w.taken, w.begun = w.left+price, w.taken-price, w.begun-1
	if w.counts {
		w.calls++
	}
	d.serve(w.lines...)
}

// settled notes that the store has settled a call.
func (w *wallet) settled(price, charged toolyard.Money) {
	w.taken, w.begun = w.taken-price, w.begun-1
	w.left += price - charged
	w.spent, w.rest = w.spent+charged, w.rest-charged
}

// over notes that there is no lease any more.
func (w *wallet) over() {
	w.hold, w.left, w.calls, w.until, w.pledged = "", 0, 0, time.Time{}, false
}

func (w *wallet) waiting() int { return waitingIn(w.lines) }

// ask is what the wallet wants of the store now, and whether it wants anything.
func (w *wallet) ask(d *Controller, now time.Time) (ledger.HoldRequest, bool) {
	waiting, ahead := w.waiting(), w.pulse.expect(now)
	fresh := w.hold == "" || now.Sub(w.checked) < checkTime || now.Sub(w.pulse.last) > checkTime // one that is closed is noticed while it is used
	if (waiting == 0 && ahead == 0 && fresh) || w.again.After(now) {
		return ledger.HoldRequest{}, false
	}
	if waiting == 0 && fresh && w.left >= w.price*toolyard.Money(ahead)/2 && (!w.counts || w.calls >= ahead/2) && w.until.After(now.Add(w.longest+holdTime/2)) {
		return ledger.HoldRequest{}, false
	}
	if w.hold == "" {
		d.seq++
		w.hold = fmt.Sprintf("%s.%d", d.opts.Replica, d.seq)
	}
	least, cost := toolyard.Money(-1), toolyard.Money(waiting+ahead)*w.price
	for _, l := range w.lines { // their prices may differ
		if v := l.next(); v != nil && (least < 0 || v.ask.Price < least) {
			least = v.ask.Price
		}
	}
	w.serial++
	f := ledger.HoldRequest{Hold: w.hold, Serial: w.serial, Balance: w.purse, Account: w.account, TTL: w.longest + ledger.Grace + holdTime, Calls: max(0, waiting+ahead-w.calls)}
	f.Want, f.Min = max(0, cost-w.left), max(0, least-w.left)
	if f.Min > 0 || (w.counts && w.calls <= 0) {
		f.Idle, w.pledged = w.left, true
	}
	return f, true
}

// granted takes over what the lease has now. Sent is when it was asked for.
func (w *wallet) granted(d *Controller, f ledger.HoldRequest, g ledger.HoldGrant, sent time.Time) {
	w.checked = sent
	w.left, w.counts, w.calls, w.pledged = g.Unspent-w.taken, g.CountCalls, g.Calls-w.begun, false
	w.spent, w.rest = g.Spent, g.Remaining
	if g.Unspent == 0 && g.Calls == 0 && g.Refused != nil && w.begun == 0 {
		w.over() // there is no such lease
	}
	if g.Refused == nil {
		w.until = sent.Add(f.TTL)
	}
	if g.Refused == nil && w.counts && w.calls <= 0 && w.waiting() > 0 { // all its calls are running
		g.Refused = &ledger.Refusal{Code: toolyard.BudgetExceeded, Message: "The session " + w.purse + " may make no more calls at once.", RetryAfter: pollTime / 10}
	}
	if g.Refused != nil && g.Refused.RetryAfter == 0 && w.begun > 0 { // what is left is for those who have begun
		w.drop(d)
	}
	d.serve(w.lines...)
	if g.Refused == nil {
		w.short = time.Time{}
		return
	}
	w.refuse(g.Refused)
}

// refuse tells those who wait that the purse has not what they need, and sends them away if
// that will not change.
func (w *wallet) refuse(r *ledger.Refusal) {
	now := time.Now()
	w.again = now.Add(max(r.RetryAfter, pollTime/10))
	if w.short.IsZero() {
		w.short = now
	}
	patience := time.Duration(0)
	if r.RetryAfter == 0 || now.Sub(w.short) > shortTime {
		patience, w.short = forever, time.Time{}
	}
	for _, l := range w.lines {
		l.refuse(now, patience, &toolyard.Error{Code: r.Code, Message: r.Message})
	}
}

// sleep gives back what nobody needs just now, and reports whether there is nothing left.
func (w *wallet) sleep(d *Controller, now time.Time) (empty bool) {
	if w.waiting() > 0 || now.Sub(w.pulse.last) < walletIdle {
		return false
	}
	if w.begun == 0 {
		if w.hold != "" {
			d.out.drops = append(d.out.drops, ledger.HoldRelease{Hold: w.hold, Balance: w.purse})
			w.over()
		}
		return true
	}
	w.drop(d)
	return false
}

// drop gives back what was not taken for calls.
func (w *wallet) drop(d *Controller) {
	if w.hold == "" || (w.left <= 0 && (!w.counts || w.calls <= 0)) {
		return
	}
	w.serial++
	d.out.drops = append(d.out.drops, ledger.HoldRelease{Hold: w.hold, Balance: w.purse, Serial: w.serial, Keep: w.taken, KeepCalls: w.begun})
	w.left, w.calls = 0, 0
}

// pulse is how often something is used.
type pulse struct {
	rate float64 // per second
	last time.Time
	n    int
	from time.Time
}

const pulseTime = 50 * time.Millisecond

func (p *pulse) beat(now time.Time) {
	p.last = now
	if p.from.IsZero() {
		p.from = now
	}
	p.n++
	if d := now.Sub(p.from); d >= pulseTime {
		p.rate += (float64(p.n)/d.Seconds() - p.rate) / 2
		p.n, p.from = 0, now
	}
}

// leaseAhead is for how long ahead of need is leased.
const leaseAhead = 250 * time.Millisecond

// expect is how many uses are to be expected soon. A few are not worth leasing ahead.
func (p *pulse) expect(now time.Time) int {
	if now.Sub(p.last) >= pulseTime {
		return 0
	}
	if n := int(p.rate * leaseAhead.Seconds()); n >= 4 {
		return n
	}
	return 0
}
