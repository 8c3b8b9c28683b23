package store

import (
	"context"
	"fmt"
	"math"
	"time"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/internal/admission/ledger"
)

const (
	// Grace is how much longer than its call may take what was reserved for it is held.
	Grace = 5 * time.Second
	// keepRuns is how long the outcome of a call with an idempotency key is remembered.
	keepRuns = 24 * time.Hour
)

// Exchange does what a batch asks for, in one transaction. Sending a batch again whose
// answer was lost does nothing twice.
func (s *Store) Exchange(ctx context.Context, b *Batch) (*Answers, error) {
	var a *Answers
	err := s.engine.exchange(ctx, b.refs(), func(r *rows) (err error) {
		a, err = (&books{rows: r, paces: make(map[string]*pace), replica: b.Replica}).do(b)
		return err
	})
	return a, err
}

// refs are the rows that a batch is about.
func (b *Batch) refs() (r refs) {
	for _, p := range b.Returns {
		r.paces = append(r.paces, p.Key)
	}
	for _, p := range b.Paces {
		r.paces = append(r.paces, p.Key)
	}
	for _, s := range b.Settles {
		r.calls = append(r.calls, callRef{s.Call, s.row().At})
		if s.Hold != "" {
			r.holds = append(r.holds, s.Hold)
		}
		if s.Last && s.Purse != "" {
			r.purses = append(r.purses, s.Purse)
		}
		if s.Run != nil {
			r.runs = append(r.runs, *s.Run)
		}
	}
	for _, d := range b.Drops {
		r.holds, r.purses = append(r.holds, d.Hold), append(r.purses, d.Purse)
	}
	for _, f := range b.Funds {
		r.holds, r.purses = append(r.holds, f.Hold), append(r.purses, f.Purse)
	}
	for _, a := range b.Admits {
		for _, p := range a.Paces {
			r.paces = append(r.paces, p.Key)
		}
		if a.Purse != "" {
			r.purses = append(r.purses, a.Purse)
		}
		r.runs = append(r.runs, a.Run)
	}
	return r
}

// books are the rows of a transaction, and what is decided on them.
type books struct {
	*rows
	replica string
	paces   map[string]*pace // those that were read
}

// do does a batch in the order of its fields: what comes back is there for who asks.
func (b *books) do(batch *Batch) (*Answers, error) {
	a := &Answers{}
	for _, r := range batch.Returns {
		p, err := b.pace(r.Key, r.Limit)
		if err != nil {
			return nil, err
		}
		p.giveBack(b.replica, r)
	}
	for _, s := range batch.Settles {
		a.Settles = append(a.Settles, b.settle(s))
	}
	b.expire()
	for _, d := range batch.Drops {
		b.drop(d)
	}
	for _, ask := range batch.Paces {
		p, err := b.pace(ask.Key, ask.Limit)
		if err != nil {
			return nil, err
		}
		a.Paces = append(a.Paces, p.lease(b.replica, ask))
	}
	for _, f := range batch.Funds {
		a.Funds = append(a.Funds, b.fund(f))
	}
	for _, ask := range batch.Admits {
		admitted, err := b.admit(ask)
		if err != nil {
			return nil, err
		}
		a.Admits = append(a.Admits, admitted)
	}
	b.writePaces()
	return a, nil
}

func (b *books) pace(key string, l toolyard.Limit) (*pace, error) {
	if p := b.paces[key]; p != nil {
		return p, nil
	}
	p, err := readPace(b.rows.paces[key].state, l, b.now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	b.paces[key] = p
	return p, nil
}

func (b *books) writePaces() {
	for key, p := range b.paces {
		b.rows.paces[key].state, b.rows.paces[key].change = p.encode(), changed
	}
}

// mark notes that a row was changed; one that is new stays so.
func (c *change) mark() {
	if *c != created {
		*c = changed
	}
}

// anew is what becomes of a row that is made: one that is there is overwritten.
func anew(there bool) change {
	if there {
		return changed
	}
	return created
}

// settle charges a call that ended, and keeps its outcome.
func (b *books) settle(s Settle) Settled {
	if b.charged[s.Call] {
		return Settled{}
	}
	h := b.holds[s.Hold]
	gone := h == nil || h.change == deleted || h.left < s.Amount
	if gone && (s.Amount > 0 || (s.Hold != "" && s.Run == nil)) { // a run that costs nothing can be settled without its hold
		return Settled{&Refusal{Code: toolyard.OutcomeUnknown, Message: "The money that was held for the call has been given back meanwhile."}}
	}
	if !gone {
		b.charge(h, s)
	}
	if r := b.run(s.Run); r != nil && r.call == s.Call {
		r.state, r.outcome, r.until = done, s.Outcome, b.now.Add(keepRuns)
		if s.Unknown {
			r.state = unknown
		}
		r.mark()
		if s.Never {
			r.change = deleted
		}
	}
	if s.Amount > 0 {
		b.calls = append(b.calls, s.charged(h.purse))
	}
	b.charged[s.Call] = true
	return Settled{}
}

// row is the call on the record. One that nobody described is of the time zero.
func (s *Settle) row() *CallRow {
	if s.Row != nil {
		return s.Row
	}
	return &CallRow{ID: s.Call, At: time.Unix(0, 0).UTC(), Code: toolyard.OK}
}

// charged is the call on the record with what it cost, and who paid.
func (s *Settle) charged(purse string) *CallRow {
	row := *s.row()
	row.ID, row.Price = s.Call, s.Amount
	if row.purse() != purse {
		row.Session = purse
	}
	return &row
}

func (b *books) run(id *RunID) *runRow {
	if id == nil {
		return nil
	}
	return b.runs[*id]
}

// charge moves money from a hold to the seller.
func (b *books) charge(h *holdRow, s Settle) {
	calls := min(s.Calls, h.callsLeft)
	t := transfer{id: s.Call, from: "hold/" + h.id, to: "sales/" + s.Seller, amount: s.Amount, kind: "charge", purse: h.purse}
	if s.Amount == 0 {
		t.kind = "count" // moves nothing: it is there so that the call is settled once
	}
	if s.Amount > 0 || (s.Calls > 0 && !s.Last) {
		b.move(t)
	}
	h.left, h.spent = h.left-s.Amount, h.spent+s.Amount
	h.callsLeft, h.callsSpent = h.callsLeft-calls, h.callsSpent+calls
	h.mark()
	if s.Last {
		b.release(h)
	}
}

func (b *books) move(t transfer) {
	t.at = b.now
	b.transfers = append(b.transfers, t)
}

// expire ends what has run out: holds, sessions, and runs that nobody ended.
func (b *books) expire() {
	for _, h := range b.holds {
		if h.change != deleted && !h.expires.After(b.now) && b.purses[h.purse] != nil {
			b.release(h)
		}
	}
	for _, p := range b.purses {
		if p.state == ledger.StateOpen && !p.expires.IsZero() && !p.expires.After(b.now) {
			p.state = ledger.StateExpired
			p.mark()
		}
		b.refund(p)
	}
	for _, r := range b.runs {
		if r.state == running && !r.until.After(b.now) {
			r.state, r.until = unknown, b.now.Add(keepRuns)
			r.mark()
		}
	}
}

// refund gives what a session that ended has left back to its account.
func (b *books) refund(p *purseRow) {
	account := b.purses[p.account]
	if p.state == ledger.StateOpen || p.balance == 0 || account == nil || account == p {
		return
	}
	amount := min(p.balance, math.MaxInt64-account.balance) // what does not fit stays until the account has room
	if amount <= 0 {
		return
	}
	b.move(transfer{id: fmt.Sprintf("close/%s/%d", p.id, p.spent+p.balance+p.held), from: "purse/" + p.id, to: "purse/" + account.id, amount: amount, kind: "close"})
	account.balance, p.balance = account.balance+amount, p.balance-amount
	account.mark()
	p.mark()
}

// release ends a hold: what it has left goes back to its purse, and what it has spent is
// spent by the purse.
func (b *books) release(h *holdRow) {
	p := b.purses[h.purse]
	b.fold(h, p)
	b.hold(p, h, -h.left, -h.callsLeft, fmt.Sprintf("end/%s/%d", h.id, h.serial))
	h.change = deleted
}

// drop gives back what a replica does not need of a hold.
func (b *books) drop(d Drop) {
	h, p := b.holds[d.Hold], b.purses[d.Purse]
	switch {
	case h == nil || h.change == deleted || p == nil:
	case d.Keep == 0 && d.KeepCalls == 0:
		b.release(h)
	case h.serial < d.Serial:
		b.fold(h, p)
		h.serial = d.Serial
		b.hold(p, h, min(h.left, d.Keep)-h.left, min(h.callsLeft, d.KeepCalls)-h.callsLeft, fmt.Sprintf("release/%s/%d", h.id, d.Serial))
	}
}

// fold adds what a hold has spent to what its purse has spent.
func (b *books) fold(h *holdRow, p *purseRow) {
	p.spent, p.held = p.spent+h.spent, p.held-h.spent
	p.calls, p.heldCalls = p.calls+h.callsSpent, p.heldCalls-h.callsSpent
	h.spent, h.callsSpent = 0, 0
	p.mark()
	h.mark()
}

// fund leases money of a purse to a replica.
func (b *books) fund(f FundAsk) FundGrant {
	p, h := b.purses[f.Purse], b.holds[f.Hold]
	if h != nil && h.change == deleted {
		h = nil
	}
	g := FundGrant{Refused: b.usable(p, f.Purse, f.Account)}
	if h != nil && p != nil && h.serial < f.Serial {
		b.fold(h, p)
	}
	if g.Refused == nil && (h == nil || h.serial < f.Serial) {
		if g.Refused = b.lease(p, h, f); g.Refused != nil && h != nil {
			b.drop(Drop{Hold: f.Hold, Purse: f.Purse, Serial: f.Serial, Keep: h.left - min(h.left, f.Idle), KeepCalls: h.callsLeft})
		}
		if h = b.holds[f.Hold]; h != nil && h.change == deleted {
			h = nil
		}
	}
	if h != nil {
		g.Left, g.Calls = h.left, h.callsLeft
	}
	if p != nil {
		g.Counts, g.Spent, g.Purse = p.maxCalls > 0, p.spent, p.balance+p.held
	}
	return g
}

// usable says why a purse cannot be used.
func (b *books) usable(p *purseRow, id, account string) *Refusal {
	switch {
	case id != account && p == nil, p != nil && p.account != account:
		return &Refusal{Code: toolyard.NotFound, Message: fmt.Sprintf("There is no session %s.", id)}
	case p == nil:
		return &Refusal{Code: toolyard.BudgetExceeded, Message: fmt.Sprintf("The account %s has no money.", id)}
	case p.state != ledger.StateOpen:
		return &Refusal{Code: toolyard.BudgetExceeded, Message: fmt.Sprintf("The session %s is %s.", id, p.state)}
	}
	return nil
}

// lease moves money and calls of a purse into a hold, which may be a new one.
func (b *books) lease(p *purseRow, h *holdRow, f FundAsk) *Refusal {
	amount := max(f.Least, min(f.Want, p.balance/2))
	calls := 0
	if p.maxCalls > 0 {
		free := p.maxCalls - p.calls - p.heldCalls
		calls = min(f.Calls, (free+1)/2)
		if calls <= 0 && f.Calls > 0 && (h == nil || h.callsLeft == 0) {
			return noCalls(p)
		}
	}
	if p.balance < f.Least {
		return exhausted(p, p.held > 0, fmt.Sprintf("%s has %s USD left, and the call costs more.", p.id, p.balance+p.held))
	}
	if h == nil {
		h = &holdRow{change: anew(b.holds[f.Hold] != nil), id: f.Hold, purse: p.id, replica: b.replica}
		b.holds[h.id] = h
	}
	b.hold(p, h, amount, calls, fmt.Sprintf("lease/%s/%d", h.id, f.Serial))
	h.serial, h.expires = f.Serial, b.now.Add(f.TTL)
	return nil
}

// hold moves money and calls from a purse into a hold, or back if they are negative. The id is
// that of the transfer.
func (b *books) hold(p *purseRow, h *holdRow, amount toolyard.Money, calls int, id string) {
	t := transfer{id: id, from: "purse/" + p.id, to: "hold/" + h.id, amount: amount, kind: "lease"}
	if amount < 0 {
		t.from, t.to, t.amount, t.kind = t.to, t.from, -amount, "release"
	}
	if amount != 0 {
		b.move(t)
	}
	p.balance, p.held, p.heldCalls = p.balance-amount, p.held+amount, p.heldCalls+calls
	h.left, h.callsLeft = h.left+amount, h.callsLeft+calls
	p.mark()
	h.mark()
}

// noCalls refuses because the calls of a purse were made.
func noCalls(p *purseRow) *Refusal {
	return exhausted(p, p.heldCalls > 0, fmt.Sprintf("%s may make %d calls, and has made them.", p.id, p.maxCalls))
}

// exhausted refuses for lack of money or calls. If some is held, it may come back.
func exhausted(p *purseRow, held bool, message string) *Refusal {
	r := &Refusal{Code: toolyard.BudgetExceeded, Message: "The session " + message}
	if p.account == p.id {
		r.Message = "The account " + message
	}
	if held {
		r.After = soon
	}
	return r
}

// admit takes all that one call needs, or nothing.
func (b *books) admit(a Admit) (Admitted, error) {
	if done, answered := b.before(a); answered {
		return done, nil
	}
	if a.Full {
		return Admitted{Refused: &Refusal{Code: toolyard.RateLimited, After: time.Hour, Message: "You have used as many idempotency keys as are kept for one caller in 24 hours. Try again later."}}, nil
	}
	var paces []*pace
	seat := b.replica + " admits" // beside that of the replica's leases
	for i, ask := range a.Paces {
		p, err := b.pace(ask.Key, ask.Limit)
		if err != nil {
			return Admitted{}, err
		}
		p.see(b.replica)
		permits, slots, free := p.available(ask, p.sit(seat))
		if permits <= 0 || slots <= 0 || !free {
			leaveAll(paces, seat)
			return Admitted{Refused: &Refusal{Code: toolyard.RateLimited, Pace: i, After: p.after(ask)}}, nil
		}
		paces = append(paces, p)
	}
	out := Admitted{Refused: b.reserve(a)}
	leaveAll(paces, seat)
	if out.Refused != nil {
		return out, nil
	}
	for i, p := range paces {
		g := PaceGrant{Permits: 1, Slots: 1, Turn: true, Slot: p.slot(), Replicas: len(p.Seen)}
		p.take(b.replica, a.Paces[i], g)
		out.Paces = append(out.Paces, g)
	}
	if p := b.purses[a.Purse]; p != nil {
		out.Spent, out.Purse = p.spent, p.balance+p.held
	}
	b.runs[a.Run] = &runRow{change: anew(b.runs[a.Run] != nil), id: a.Run, digest: a.Digest, call: a.Call, state: running, until: b.now.Add(a.Timeout + Grace)}
	return out, nil
}

// leaveAll leaves the lines of limits that a call need not wait for.
func leaveAll(paces []*pace, seat string) {
	for _, p := range paces {
		p.leave(seat)
	}
}

// before answers a call that was made before with the same key.
func (b *books) before(a Admit) (out Admitted, answered bool) {
	r := b.runs[a.Run]
	switch {
	case r == nil || r.change == deleted:
		return out, false
	case r.state != running && !r.until.After(b.now): // forgotten
		return out, false
	case r.call == a.Call && r.state == running: // the answer to the same ask was lost
		for range a.Paces {
			out.Paces = append(out.Paces, PaceGrant{Permits: 1, Slots: 1, Turn: true})
		}
	case r.digest != a.Digest:
		out.Refused = &Refusal{Code: toolyard.IdempotencyConflict, Message: "The idempotency key was used for another call. Take a new key for other arguments."}
	case r.state == running:
		out.Refused = &Refusal{Code: toolyard.InProgress, Message: "The call with this idempotency key is running. Ask again with the same key to get its result.", After: min(time.Second, r.until.Sub(b.now))}
	case r.state == unknown:
		out.Refused = &Refusal{Code: toolyard.OutcomeUnknown, Message: "The call with this idempotency key was begun, and nobody can say how it ended. It is not made again: find out what it did, then take a new key."}
	default:
		out.Replay = r.outcome
	}
	return out, true
}

// reserve holds the price of a call for this call alone.
func (b *books) reserve(a Admit) *Refusal {
	if a.Purse == "" {
		return nil
	}
	p := b.purses[a.Purse]
	if refused := b.usable(p, a.Purse, a.Account); refused != nil {
		return refused
	}
	if p.maxCalls > 0 && p.maxCalls-p.calls-p.heldCalls <= 0 {
		return noCalls(p)
	}
	if p.balance < a.Price {
		return exhausted(p, p.held > 0, fmt.Sprintf("%s has %s USD left, and the call costs %s.", p.id, p.balance+p.held, a.Price))
	}
	h := &holdRow{change: created, id: a.Call, purse: p.id, replica: b.replica, expires: b.now.Add(a.Timeout + Grace)}
	b.holds[h.id] = h
	b.hold(p, h, a.Price, 1, "lease/"+h.id)
	return nil
}
