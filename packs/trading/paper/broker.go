package paper

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Data provides the prices that fill orders.
type Data interface {
	market.Bars
	market.Markets
	market.Funding
}

// Account is a paper account. It implements [market.Portfolio] and its optional interfaces. Its
// brokers are [Account.Broker] and [Account.Simulator].
type Account struct {
	settings Settings
	stream   string
	journal  yard.Journal
	data     Data

	mu     sync.Mutex
	folded folded // state after all rows read so far
	ahead  ahead
}

// folded is the state after a row of the journal.
type folded struct {
	state State
	seq   uint64
	asOf  time.Time // as-of time of the last row
}

// ahead is the newest row's state, advanced to a later time. Its events are not stored yet.
type ahead struct {
	state  State
	events []Event
	seq    uint64
	to     time.Time
}

// Open returns the account with the given name. The same journal and name always refer to the same
// account.
func Open(name string, s Settings, j yard.Journal, d Data) *Account {
	a := &Account{settings: s, stream: "paper/" + name, journal: j, data: d}
	a.folded.state = newState(s.DepositUSD)
	return a
}

// Restart gives the account a new, empty state with another journal. The account must not be in
// use.
func (a *Account) Restart(j yard.Journal, i market.Interval) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.journal, a.settings.Interval = j, i
	a.folded, a.ahead = folded{state: newState(a.settings.DepositUSD)}, ahead{}
}

// Stream returns the journal stream with the account's events.
func (a *Account) Stream() string { return a.stream }

// Settings returns the account's rules.
func (a *Account) Settings() Settings { return a.settings }

// pageSize is the number of rows to read at once.
const pageSize = 1000

// load returns the state at the given time, including events that have occurred since the last row,
// and the last row's sequence number.
func (a *Account) load(ctx context.Context, asOf time.Time) (*simulation, uint64, error) {
	specs, err := a.data.Specs(ctx)
	if err != nil {
		return nil, 0, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refresh(ctx); err != nil {
		return nil, 0, err
	}
	f := a.folded
	if asOf.Before(f.asOf) {
		if f, err = a.foldUntil(ctx, asOf); err != nil {
			return nil, 0, err
		}
	}
	sim := &simulation{Settings: &a.settings, specs: specs, now: f.asOf}
	if a.ahead.seq == f.seq && f.seq == a.folded.seq && !asOf.Before(a.ahead.to) && !a.ahead.to.IsZero() {
		state := a.ahead.state.clone()
		sim.state, sim.events, sim.now = &state, slices.Clone(a.ahead.events), a.ahead.to
	} else {
		state := f.state.clone()
		sim.state = &state
	}
	if f.seq == 0 {
		sim.now = asOf
		sim.state.Watermark.Observe(asOf, sim.state.CashUSD)
		return sim, 0, nil
	}
	if err := sim.advance(ctx, a.data, a.data, asOf); err != nil {
		return nil, 0, err
	}
	if f.seq == a.folded.seq {
		a.ahead = ahead{state: sim.state.clone(), events: slices.Clone(sim.events), seq: f.seq, to: asOf}
	}
	return sim, f.seq, nil
}

// refresh applies rows appended since the last call.
func (a *Account) refresh(ctx context.Context) error {
	for {
		rows, err := a.journal.List(ctx, a.stream, yard.JournalQuery{After: a.folded.seq, Limit: pageSize})
		if err != nil {
			return err
		}
		for _, row := range rows {
			if err := a.folded.apply(row); err != nil {
				return err
			}
		}
		if len(rows) < pageSize {
			return nil
		}
	}
}

// foldUntil returns the state at a time before the last row.
func (a *Account) foldUntil(ctx context.Context, until time.Time) (folded, error) {
	f := folded{state: newState(a.settings.DepositUSD)}
	for after := uint64(0); ; {
		rows, err := a.journal.List(ctx, a.stream, yard.JournalQuery{After: after, Until: until, Limit: pageSize})
		if err != nil {
			return f, err
		}
		for _, row := range rows {
			if err := f.apply(row); err != nil {
				return f, err
			}
			after = row.Seq
		}
		if len(rows) < pageSize {
			return f, nil
		}
	}
}

func (f *folded) apply(row yard.JournalEntry) error {
	e := Event{AsOf: row.AsOf}
	if err := json.Unmarshal(row.Body, &e); err != nil {
		return fmt.Errorf("paper account row %d: %w", row.Seq, err)
	}
	f.state.apply(&e)
	f.seq, f.asOf = row.Seq, row.AsOf
	return nil
}

// maxAttempts limits how often a change is repeated because another replica was faster.
const maxAttempts = 100

var errTooBusy = toolyard.Errorf(toolyard.Unavailable, "The account is changing too quickly. Try again.")

// change loads the account, calls edit to add events, and stores them.
func (a *Account) change(ctx context.Context, at time.Time, edit func(*simulation) error) error {
	at = at.UTC().Truncate(time.Microsecond)
	for range maxAttempts {
		sim, seq, err := a.load(ctx, at)
		if err != nil {
			return err
		}
		if last := a.lastTime(); at.Before(last) {
			return toolyard.Errorf(toolyard.Invalid, "The account has already advanced to %s and cannot go back in time. Reset the account to start over.", last.Format(time.RFC3339))
		}
		if seq == 0 {
			sim.emit(Event{Open: &Opening{DepositUSD: a.settings.DepositUSD}})
		}
		if err := edit(sim); err != nil {
			return err
		}
		sim.mark()
		err = a.append(ctx, seq, sim.events)
		if !isConflict(err) {
			return err
		}
	}
	return errTooBusy
}

func (a *Account) lastTime() time.Time {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.folded.asOf
}

func (a *Account) append(ctx context.Context, after uint64, events []Event) error {
	rows := make([]yard.JournalEntry, len(events))
	for i := range events {
		body, err := json.Marshal(&events[i])
		if err != nil {
			return err
		}
		kind, key := events[i].kind()
		rows[i] = yard.JournalEntry{AsOf: events[i].AsOf, Kind: kind, Key: key, Body: body}
	}
	for len(rows) > 0 {
		n := min(len(rows), pageSize)
		last, err := a.journal.Append(ctx, a.stream, after, rows[:n]...)
		if err != nil {
			return err
		}
		after, rows = last, rows[n:]
	}
	return nil
}

func isConflict(err error) bool {
	e, ok := errors.AsType[*toolyard.Error](err)
	return ok && e.Code == toolyard.VersionConflict
}

// At implements [market.Portfolio].
func (a *Account) At(ctx context.Context, asOf time.Time) (market.Snapshot, error) {
	sim, _, err := a.load(ctx, asOf)
	if err != nil {
		return market.Snapshot{}, err
	}
	return sim.state.snapshot(sim.specs, asOf), nil
}

// Fees implements [market.FeeSchedule].
func (a *Account) Fees(context.Context) (market.Fees, error) { return a.settings.Fees, nil }

// Fills implements [market.FillHistory].
func (a *Account) Fills(ctx context.Context, from, to time.Time) ([]market.Fill, error) {
	var fills []market.Fill
	err := a.events(ctx, kindFill, to, func(e *Event) {
		if f := e.Fill; e.AsOf.After(from) {
			fills = append(fills, *f)
		}
	})
	return fills, err
}

// Payments implements [market.FundingHistory].
func (a *Account) Payments(ctx context.Context, from, to time.Time) ([]market.Payment, error) {
	var payments []market.Payment
	err := a.events(ctx, kindFunding, to, func(e *Event) {
		if e.AsOf.After(from) {
			payments = append(payments, *e.Funding)
		}
	})
	return payments, err
}

// FundingHours returns how many hours of funding were paid, and how many were due. They differ if
// rates are missing.
func (a *Account) FundingHours(ctx context.Context, asOf time.Time) (paid, due int, err error) {
	sim, _, err := a.load(ctx, asOf)
	if err != nil {
		return 0, 0, err
	}
	return sim.state.FundedHours, max(sim.state.FundedHours, sim.state.HeldHours), nil
}

// events calls visit for events of a kind up to the given time, since the account was opened.
func (a *Account) events(ctx context.Context, kind string, to time.Time, visit func(*Event)) error {
	sim, seq, err := a.load(ctx, to)
	if err != nil || seq == 0 {
		return err
	}
	opened, err := a.journal.List(ctx, a.stream, yard.JournalQuery{Kinds: []string{kindOpen}, Until: to, Newest: true, Limit: 1})
	if err != nil || len(opened) == 0 {
		return err
	}
	for after := opened[0].Seq; ; {
		rows, err := a.journal.List(ctx, a.stream, yard.JournalQuery{After: after, Before: seq + 1, Kinds: []string{kind}, Until: to, Limit: pageSize})
		if err != nil {
			return err
		}
		for _, row := range rows {
			e := Event{AsOf: row.AsOf}
			if err := json.Unmarshal(row.Body, &e); err != nil {
				return err
			}
			visit(&e)
			after = row.Seq
		}
		if len(rows) < pageSize {
			break
		}
	}
	for i := range sim.events { // events that are not stored yet
		if k, _ := sim.events[i].kind(); k == kind {
			visit(&sim.events[i])
		}
	}
	return nil
}

// Settle stores the events that have occurred up to now.
func (a *Account) Settle(ctx context.Context, now time.Time) error {
	return a.change(ctx, now, func(*simulation) error { return nil })
}

// Reset reopens the account, starting at the given time.
func (a *Account) Reset(ctx context.Context, from time.Time) error {
	last, err := a.journal.Last(ctx, a.stream)
	if err != nil {
		return err
	}
	return a.append(ctx, last, []Event{{AsOf: from, Open: &Opening{DepositUSD: a.settings.DepositUSD}}})
}

// Broker returns the broker for calls about the present: market orders walk the order book.
func (a *Account) Broker() market.Broker { return broker{a, true} }

// Simulator returns the broker for calls about the past: market orders fill at the next bar.
func (a *Account) Simulator() market.Broker { return broker{a, false} }

type broker struct {
	*Account
	live bool
}

// Place implements [market.Broker]. Placing an order twice has no effect.
func (b broker) Place(ctx context.Context, o market.Order, s market.Stamp) (market.Placed, error) {
	book, err := b.book(ctx, o.Symbol, s.At)
	if err != nil {
		return market.Placed{}, err
	}
	err = b.change(ctx, s.At, func(sim *simulation) error {
		if _, known, err := b.Find(ctx, o.ClientID); err != nil || known {
			return err
		}
		sim.place(o, book)
		return nil
	})
	if err != nil {
		return market.Placed{}, err
	}
	placed, found, err := b.Find(ctx, o.ClientID)
	if err == nil && !found {
		err = toolyard.Errorf(toolyard.Internal, "Order %s was not stored.", o.ClientID)
	}
	return placed, err
}

// book returns the order book at the given time. In a simulation it is empty, so that orders fill
// at the next bar.
func (b broker) book(ctx context.Context, symbol string, at time.Time) (market.Book, error) {
	if !b.live {
		return market.Book{}, nil
	}
	return b.data.Book(ctx, symbol, at)
}

// Cancel implements [market.Broker].
func (b broker) Cancel(ctx context.Context, r market.Ref, s market.Stamp) error {
	return b.change(ctx, s.At, func(sim *simulation) error {
		for _, o := range slices.Clone(sim.state.Orders) {
			if o.Symbol == r.Symbol && (o.ClientID == r.ClientID || r.OrderID != "" && o.OrderID == r.OrderID) {
				sim.cancel(o.ClientID, "canceled")
			}
		}
		return nil
	})
}

// CancelAll implements [market.LocalBroker]. It needs no market data, because bars that have not
// been settled yet do not fill these orders.
func (b broker) CancelAll(ctx context.Context, at time.Time) (int, error) {
	for range maxAttempts {
		f, err := b.latest(ctx)
		if err != nil || len(f.state.Orders) == 0 {
			return 0, err
		}
		if at = at.UTC().Truncate(time.Microsecond); at.Before(f.asOf) {
			at = f.asOf
		}
		var events []Event
		for _, o := range f.state.Orders {
			events = append(events, Event{AsOf: at, Cancel: &Cancellation{o.ClientID, "canceled"}})
		}
		if err = b.append(ctx, f.seq, events); !isConflict(err) {
			return len(events), err
		}
	}
	return 0, errTooBusy
}

// latest returns the state after the journal's newest row.
func (a *Account) latest(ctx context.Context) (folded, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if err := a.refresh(ctx); err != nil {
		return folded{}, err
	}
	f := a.folded
	f.state = f.state.clone()
	return f, nil
}

// Find implements [market.Broker].
func (b broker) Find(ctx context.Context, clientID string) (market.Placed, bool, error) {
	rows, err := b.journal.List(ctx, b.stream, yard.JournalQuery{Key: clientID, Limit: pageSize})
	if err != nil || len(rows) == 0 {
		return market.Placed{}, false, err
	}
	p := market.Placed{ClientID: clientID}
	value, ordered := decimal.Zero, decimal.Zero
	for _, row := range rows {
		var e Event
		if err := json.Unmarshal(row.Body, &e); err != nil {
			return p, false, err
		}
		switch {
		case e.Order != nil:
			p.OrderID, p.At, p.Status, p.Detail, ordered = e.Order.OrderID, e.Order.At, statusOf(e.Order), e.Order.Refuse, e.Order.Size
		case e.Fill != nil:
			p.Filled, p.FeeUSD, p.At = p.Filled.Add(e.Fill.Size), p.FeeUSD.Add(e.Fill.FeeUSD), e.Fill.At
			value = value.Add(e.Fill.Size.Mul(e.Fill.Price))
			p.AvgPrice = value.DivRound(p.Filled, 10)
			if p.Filled.GreaterThanOrEqual(ordered) {
				p.Status = market.Filled
			}
		case e.Cancel != nil:
			p.Status, p.Detail = market.Canceled, e.Cancel.Reason
		}
	}
	return p, true, nil
}

func statusOf(o *Order) market.Status {
	switch {
	case o.Refuse != "":
		return market.Rejected
	case o.TIF == market.IOC:
		return market.Pending
	}
	return market.Resting
}

// place adds an order. If there is a book, the order is matched immediately.
func (sim *simulation) place(o market.Order, book market.Book) {
	open := Order{OpenOrder: market.OpenOrder{Order: o, OrderID: sim.state.nextID(), At: sim.now, Remaining: o.Size}}
	best := sim.state.Prices[o.Symbol]
	levels := book.Asks
	if o.Side == market.Sell {
		levels = book.Bids
	}
	if len(levels) > 0 {
		best = levels[0].Price
	}
	held := sim.state.Positions[o.Symbol].Size
	switch {
	case o.ReduceOnly && held.Sign()*o.Side.Signed(o.Size).Sign() >= 0:
		open.Refuse = "Reduce only order would increase position."
	case o.TIF == market.ALO && best.IsPositive() && !o.Side.Signed(best.Sub(o.Price)).IsPositive():
		open.Refuse = fmt.Sprintf("Post only order would have immediately matched, bbo was %s.", best)
	}
	sim.emit(Event{Order: &open})
	if open.Refuse != "" || o.Type.Triggered() || len(book.Asks)+len(book.Bids) == 0 {
		return
	}
	size, average := walk(levels, o.Side, o.Price, o.Size)
	if size.IsPositive() {
		sim.fill(&open, size, average, sim.Fees.Taker, sim.now, "")
	}
	if o.TIF == market.IOC {
		sim.cancel(o.ClientID, "Order could not immediately match against any resting orders.")
	}
}

// walk returns how much of an order the book fills up to a limit price, and the average price.
func walk(levels []market.Level, side market.Side, limit, size decimal.Decimal) (filled, average decimal.Decimal) {
	value := decimal.Zero
	for _, l := range levels {
		if side.Signed(l.Price.Sub(limit)).IsPositive() || filled.Equal(size) {
			break
		}
		n := decimal.Min(l.Size, size.Sub(filled))
		filled, value = filled.Add(n), value.Add(n.Mul(l.Price))
	}
	if filled.IsZero() {
		return filled, average
	}
	return filled, value.DivRound(filled, 10)
}
