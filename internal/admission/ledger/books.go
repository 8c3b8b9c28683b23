package ledger

import (
	"fmt"
	"math"
	"time"

	"github.com/toolyard/toolyard"
)

const (
	// Grace is added to a call's timeout to get the lifetime of its reservations.
	Grace = 5 * time.Second
	// runRetention is how long the result of a call with an idempotency key is stored.
	runRetention = 24 * time.Hour
)

// Apply applies a batch to its rows.
func Apply(rows *Rows, b *Batch) (*Results, error) {
	return newBooks(rows, b.Replica).apply(b)
}

// Expire ends holds, sessions and runs that have expired.
func Expire(rows *Rows) { newBooks(rows, "").expire() }

// books applies requests to the rows of a transaction.
type books struct {
	*Rows
	replica string
	limits  map[string]*limitState // decoded so far
	spends  map[string]*spendState // decoded so far
}

func newBooks(rows *Rows, replica string) *books {
	return &books{Rows: rows, replica: replica, limits: make(map[string]*limitState), spends: make(map[string]*spendState)}
}

// apply processes returns before requests, so that requests can use the returned amounts.
func (b *books) apply(batch *Batch) (*Results, error) {
	results := &Results{}
	for _, r := range batch.Returns {
		l, err := b.limit(r.Key, r.Limit)
		if err != nil {
			return nil, err
		}
		l.giveBack(b.replica, r)
	}
	for _, s := range batch.Settlements {
		result, err := b.settle(s)
		if err != nil {
			return nil, err
		}
		results.Settlements = append(results.Settlements, result)
	}
	b.expire()
	for _, r := range batch.Releases {
		b.releaseExcess(r)
	}
	for _, r := range batch.Limits {
		l, err := b.limit(r.Key, r.Limit)
		if err != nil {
			return nil, err
		}
		results.Limits = append(results.Limits, l.lease(b.replica, r))
	}
	for _, r := range batch.Holds {
		results.Holds = append(results.Holds, b.topUp(r))
	}
	for _, r := range batch.Admits {
		result, err := b.admit(r)
		if err != nil {
			return nil, err
		}
		results.Admits = append(results.Admits, result)
	}
	b.encodeLimits()
	return results, nil
}

func (b *books) limit(key string, limit toolyard.Limit) (*limitState, error) {
	if l := b.limits[key]; l != nil {
		return l, nil
	}
	l, err := decodeLimit(b.Limits[key].State, limit, b.Now)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", key, err)
	}
	b.limits[key] = l
	return l, nil
}

func (b *books) encodeLimits() {
	for key, l := range b.limits {
		b.Limits[key].State, b.Limits[key].Change = l.encode(), Changed
	}
	for key, s := range b.spends {
		b.Limits[key].State, b.Limits[key].Change = s.encode(), Changed
	}
}

// settle charges a call and stores its result.
func (b *books) settle(s Settlement) (SettlementResult, error) {
	if b.Charged[s.Call] {
		return SettlementResult{}, nil
	}
	h := b.Holds[s.Hold]
	reserved, err := b.holdsSpend(s.Call, s.Spend)
	if err != nil {
		return SettlementResult{}, err
	}
	gone := h == nil || h.Change == Deleted || h.Unspent < s.Amount || (s.Amount > 0 && !reserved)
	if gone && (s.Amount > 0 || (s.Hold != "" && s.Run == nil)) { // a free run can be settled after its hold is gone
		refused := &Refusal{Code: toolyard.OutcomeUnknown, Message: "The reservation for this call expired, and its funds were returned."}
		return SettlementResult{refused}, b.settleSpend(s.Call, s.Spend, 0)
	}
	if !gone {
		b.charge(h, s)
	}
	if r := b.run(s.Run); r != nil && r.Call == s.Call {
		r.State, r.Outcome, r.Until = RunDone, s.Outcome, b.Now.Add(runRetention)
		if s.Unknown {
			r.State = RunUnknown
		}
		r.Mark()
		if s.NotRun {
			r.Change = Deleted
		}
	}
	b.returnApproval(&s)
	if s.Amount > 0 {
		b.Calls = append(b.Calls, s.charged(h.Balance))
	}
	b.Charged[s.Call] = true
	return SettlementResult{}, b.settleSpend(s.Call, s.Spend, s.Amount)
}

// row returns the row to record. If the call has no description, the row's time is zero.
func (s *Settlement) row() *CallRow {
	if s.Row != nil {
		return s.Row
	}
	return &CallRow{ID: s.Call, At: time.Unix(0, 0).UTC(), Code: toolyard.OK}
}

// charged returns the row to record, including the price and the balance that paid.
func (s *Settlement) charged(balance string) *CallRow {
	row := *s.row()
	row.ID, row.Price = s.Call, s.Amount
	if row.Payer() != balance {
		row.Session = balance
	}
	return &row
}

func (b *books) run(key *RunKey) *RunRow {
	if key == nil {
		return nil
	}
	return b.Runs[*key]
}

// charge moves money from a hold to the seller.
func (b *books) charge(h *HoldRow, s Settlement) {
	calls := min(s.Calls, h.CallsUnspent)
	t := Transfer{ID: s.Call, From: "hold/" + h.ID, To: "sales/" + s.Seller, Amount: s.Amount, Kind: "charge", Balance: h.Balance}
	if s.Amount == 0 {
		t.Kind = "count" // records that a free call is settled
	}
	if s.Amount > 0 || (s.Calls > 0 && !s.EndHold) {
		b.transfer(t)
	}
	h.Unspent, h.Spent = h.Unspent-s.Amount, h.Spent+s.Amount
	h.CallsUnspent, h.CallsSpent = h.CallsUnspent-calls, h.CallsSpent+calls
	h.Mark()
	if s.EndHold {
		b.release(h)
	}
}

func (b *books) transfer(t Transfer) {
	t.At = b.Now
	b.Transfers = append(b.Transfers, t)
}

func (b *books) expire() {
	for _, h := range b.Holds {
		if h.Change != Deleted && !h.Expires.After(b.Now) && b.Balances[h.Balance] != nil {
			b.release(h)
		}
	}
	for _, p := range b.Balances {
		if p.State == StateOpen && !p.Expires.IsZero() && !p.Expires.After(b.Now) {
			p.State = StateExpired
			p.Mark()
		}
		b.refund(p)
	}
	for _, r := range b.Runs {
		if r.State == RunRunning && !r.Until.After(b.Now) {
			r.State, r.Until = RunUnknown, b.Now.Add(runRetention)
			r.Mark()
		}
	}
}

// refund returns an ended session's available money to its account.
func (b *books) refund(p *BalanceRow) {
	account := b.Balances[p.Account]
	if p.State == StateOpen || p.Available == 0 || account == nil || account == p {
		return
	}
	amount := min(p.Available, math.MaxInt64-account.Available) // the rest is returned once the account has room
	if amount <= 0 {
		return
	}
	b.transfer(Transfer{
		ID:   fmt.Sprintf("close/%s/%d", p.ID, p.Spent+p.Available+p.Held),
		From: "balance/" + p.ID, To: "balance/" + account.ID, Amount: amount, Kind: "close",
	})
	account.Available, p.Available = account.Available+amount, p.Available-amount
	account.Mark()
	p.Mark()
}

// release ends a hold. Unspent money returns to the balance, and spent money is added to the
// balance's spending.
func (b *books) release(h *HoldRow) {
	p := b.Balances[h.Balance]
	b.fold(h, p)
	b.hold(p, h, -h.Unspent, -h.CallsUnspent, fmt.Sprintf("end/%s/%d", h.ID, h.Serial))
	h.Change = Deleted
}

// releaseExcess returns the part of a hold that the replica does not need.
func (b *books) releaseExcess(r HoldRelease) {
	h, p := b.Holds[r.Hold], b.Balances[r.Balance]
	switch {
	case h == nil || h.Change == Deleted || p == nil:
	case r.Keep == 0 && r.KeepCalls == 0:
		b.release(h)
	case h.Serial < r.Serial:
		b.fold(h, p)
		h.Serial = r.Serial
		b.hold(p, h, min(h.Unspent, r.Keep)-h.Unspent, min(h.CallsUnspent, r.KeepCalls)-h.CallsUnspent, fmt.Sprintf("release/%s/%d", h.ID, r.Serial))
	}
}

// fold moves a hold's spending to its balance.
func (b *books) fold(h *HoldRow, p *BalanceRow) {
	p.Spent, p.Held = p.Spent+h.Spent, p.Held-h.Spent
	p.Calls, p.HeldCalls = p.Calls+h.CallsSpent, p.HeldCalls-h.CallsSpent
	h.Spent, h.CallsSpent = 0, 0
	p.Mark()
	h.Mark()
}

// topUp leases money from a balance to a replica.
func (b *books) topUp(r HoldRequest) HoldGrant {
	p, h := b.Balances[r.Balance], b.Holds[r.Hold]
	if h != nil && h.Change == Deleted {
		h = nil
	}
	g := HoldGrant{Refused: b.usable(p, r.Balance, r.Account)}
	if h != nil && p != nil && h.Serial < r.Serial {
		b.fold(h, p)
	}
	if g.Refused == nil && (h == nil || h.Serial < r.Serial) {
		if g.Refused = b.lease(p, h, r); g.Refused != nil && h != nil {
			b.releaseExcess(HoldRelease{Hold: r.Hold, Balance: r.Balance, Serial: r.Serial, Keep: h.Unspent - min(h.Unspent, r.Idle), KeepCalls: h.CallsUnspent})
		}
		if h = b.Holds[r.Hold]; h != nil && h.Change == Deleted {
			h = nil
		}
	}
	if h != nil {
		g.Unspent, g.Calls = h.Unspent, h.CallsUnspent
	}
	if p != nil {
		g.CountCalls, g.Spent, g.Remaining = p.MaxCalls > 0, p.Spent, p.Available+p.Held
	}
	return g
}

// usable returns the reason if a balance cannot be used, or nil.
func (b *books) usable(p *BalanceRow, id, account string) *Refusal {
	switch {
	case id != account && p == nil, p != nil && p.Account != account:
		return &Refusal{Code: toolyard.NotFound, Message: fmt.Sprintf("Session %s not found.", id)}
	case p == nil:
		return &Refusal{Code: toolyard.BudgetExceeded, Message: fmt.Sprintf("Account %s has no funds.", id)}
	case p.State != StateOpen:
		return &Refusal{Code: toolyard.BudgetExceeded, Message: fmt.Sprintf("Session %s is %s.", id, p.State)}
	}
	return nil
}

// lease moves money and calls from a balance into a hold, and creates the hold if h is nil.
func (b *books) lease(p *BalanceRow, h *HoldRow, r HoldRequest) *Refusal {
	amount := max(r.Min, min(r.Want, p.Available/2))
	calls := 0
	if p.MaxCalls > 0 {
		free := p.MaxCalls - p.Calls - p.HeldCalls
		calls = min(r.Calls, (free+1)/2)
		if calls <= 0 && r.Calls > 0 && (h == nil || h.CallsUnspent == 0) {
			return noCallsLeft(p)
		}
	}
	if p.Available < r.Min {
		return exhausted(p, p.Held > 0, fmt.Sprintf("%s has %s USD left, which is less than the price of this call.", p.ID, p.Available+p.Held))
	}
	if h == nil {
		h = &HoldRow{Change: replaces(b.Holds[r.Hold] != nil), ID: r.Hold, Balance: p.ID, Replica: b.replica}
		b.Holds[h.ID] = h
	}
	b.hold(p, h, amount, calls, fmt.Sprintf("lease/%s/%d", h.ID, r.Serial))
	h.Serial, h.Expires = r.Serial, b.Now.Add(r.TTL)
	return nil
}

// hold moves money and calls from a balance into a hold, or back if the values are negative.
func (b *books) hold(p *BalanceRow, h *HoldRow, amount toolyard.Money, calls int, transferID string) {
	t := Transfer{ID: transferID, From: "balance/" + p.ID, To: "hold/" + h.ID, Amount: amount, Kind: "lease"}
	if amount < 0 {
		t.From, t.To, t.Amount, t.Kind = t.To, t.From, -amount, "release"
	}
	if amount != 0 {
		b.transfer(t)
	}
	p.Available, p.Held, p.HeldCalls = p.Available-amount, p.Held+amount, p.HeldCalls+calls
	h.Unspent, h.CallsUnspent = h.Unspent+amount, h.CallsUnspent+calls
	p.Mark()
	h.Mark()
}

func noCallsLeft(p *BalanceRow) *Refusal {
	return exhausted(p, p.HeldCalls > 0, fmt.Sprintf("%s has used all of its %d calls.", p.ID, p.MaxCalls))
}

// exhausted returns a refusal for lack of money or calls. If some are held, they may be returned
// soon.
func exhausted(p *BalanceRow, held bool, message string) *Refusal {
	r := &Refusal{Code: toolyard.BudgetExceeded, Message: "Session " + message}
	if p.Account == p.ID {
		r.Message = "Account " + message
	}
	if held {
		r.RetryAfter = soon
	}
	return r
}

// admit reserves everything that a call needs, or nothing.
func (b *books) admit(a AdmitRequest) (AdmitResult, error) {
	if result, ok := b.repeated(a); ok {
		return result, nil
	}
	if a.KeysFull {
		return AdmitResult{Refused: &Refusal{Code: toolyard.RateLimited, RetryAfter: time.Hour, Message: "You have used the maximum number of idempotency keys in 24 hours. Try again later."}}, nil
	}
	if refused := b.refuseApproval(&a); refused != nil {
		return AdmitResult{Refused: refused}, nil
	}
	var limits []*limitState
	member := b.replica + " admits" // queues separately from the replica's leases
	for i, request := range a.Limits {
		l, err := b.limit(request.Key, request.Limit)
		if err != nil {
			return AdmitResult{}, err
		}
		l.see(b.replica)
		permits, concurrency, free := l.available(request, l.enqueue(member))
		if permits <= 0 || concurrency <= 0 || !free {
			dequeueAll(limits, member)
			return AdmitResult{Refused: &Refusal{Code: toolyard.RateLimited, Limit: i, RetryAfter: l.retryAfter(request)}}, nil
		}
		limits = append(limits, l)
	}
	refused, err := b.refuseSpend(&a)
	if err == nil && refused == nil {
		refused = b.reserve(a)
	}
	dequeueAll(limits, member)
	if err != nil || refused != nil {
		return AdmitResult{Refused: refused}, err
	}
	b.reserveSpend(&a)
	result := AdmitResult{}
	for i, l := range limits {
		g := LimitGrant{Permits: 1, Concurrency: 1, StartRight: true, Epoch: l.epoch(), Replicas: len(l.Seen)}
		l.take(b.replica, a.Limits[i], g)
		result.Limits = append(result.Limits, g)
	}
	if p := b.Balances[a.Balance]; p != nil {
		result.Spent, result.Remaining = p.Spent, p.Available+p.Held
	}
	b.useApproval(&a)
	b.Runs[a.Run] = &RunRow{Change: replaces(b.Runs[a.Run] != nil), Key: a.Run, Digest: a.Digest, Call: a.Call, State: RunRunning, Until: b.Now.Add(a.Timeout + Grace)}
	return result, nil
}

func dequeueAll(limits []*limitState, member string) {
	for _, l := range limits {
		l.dequeue(member)
	}
}

// repeated returns the result for a call whose idempotency key is already in use.
func (b *books) repeated(a AdmitRequest) (result AdmitResult, ok bool) {
	r := b.Runs[a.Run]
	switch {
	case r == nil || r.Change == Deleted:
		return result, false
	case r.State != RunRunning && !r.Until.After(b.Now): // retention is over
		return result, false
	case r.Call == a.Call && r.State == RunRunning: // the reply to the same request was lost
		for range a.Limits {
			result.Limits = append(result.Limits, LimitGrant{Permits: 1, Concurrency: 1, StartRight: true})
		}
	case r.Digest != a.Digest:
		result.Refused = &Refusal{Code: toolyard.IdempotencyConflict, Message: "The idempotency key was used for a different call. Use a new key for other arguments."}
	case r.State == RunRunning:
		result.Refused = &Refusal{Code: toolyard.InProgress, Message: "The call with this idempotency key is still running. Retry with the same key to get its result.", RetryAfter: min(time.Second, r.Until.Sub(b.Now))}
	case r.State == RunUnknown:
		result.Refused = &Refusal{Code: toolyard.OutcomeUnknown, Message: "The call with this idempotency key was started, but its outcome is unknown. It will not run again. Check its effects, then use a new key."}
	default:
		result.Replay = r.Outcome
	}
	return result, true
}

// reserve creates a hold for the price of one call.
func (b *books) reserve(a AdmitRequest) *Refusal {
	if a.Balance == "" {
		return nil
	}
	p := b.Balances[a.Balance]
	if refused := b.usable(p, a.Balance, a.Account); refused != nil {
		return refused
	}
	if p.MaxCalls > 0 && p.MaxCalls-p.Calls-p.HeldCalls <= 0 {
		return noCallsLeft(p)
	}
	if p.Available < a.Price {
		return exhausted(p, p.Held > 0, fmt.Sprintf("%s has %s USD left; the call costs %s USD.", p.ID, p.Available+p.Held, a.Price))
	}
	h := &HoldRow{Change: Created, ID: a.Call, Balance: p.ID, Replica: b.replica, Expires: b.Now.Add(a.Timeout + Grace)}
	b.Holds[h.ID] = h
	b.hold(p, h, a.Price, 1, "lease/"+h.ID)
	return nil
}
