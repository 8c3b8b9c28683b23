package account

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/toolyard/toolyard/packs/trading/engine"
	"github.com/toolyard/toolyard/packs/trading/market"
	"github.com/toolyard/toolyard/yard"
)

// Ledger is an account's state at a given time: a fold over its journal.
type Ledger struct {
	Watermark market.Watermark // used if the broker has no watermark
	Manual    engine.Halt      // set by an operator with pause or reduce; zero if there is none
	Killed    engine.Halt      // set by an operator with kill
	Automatic []engine.Halt    // set by rules; cleared by clear-halt or by time

	seq       uint64
	asOf      time.Time // as-of time of the last row
	resetSeq  uint64
	nonce     int64
	intents   map[string]openIntent // keyed by client order ID
	proposals []time.Time
	orders    []engine.RecentOrder
}

type openIntent struct {
	Intent
	unknown bool
}

// ledgerCache ensures that every row is folded only once.
type ledgerCache struct {
	mu     sync.Mutex
	ledger Ledger
}

const pageSize = 1000

// Ledger returns the account's state at the given time.
func (a *Account) Ledger(ctx context.Context, asOf time.Time) (*Ledger, error) {
	a.ledger.mu.Lock()
	defer a.ledger.mu.Unlock()
	if err := a.ledger.ledger.read(ctx, a.Journal, a.stream(), time.Time{}); err != nil {
		return nil, err
	}
	if !asOf.Before(a.ledger.ledger.asOf) {
		return a.ledger.ledger.clone(), nil
	}
	var past Ledger
	return &past, past.read(ctx, a.Journal, a.stream(), asOf)
}

// read applies the rows that follow the last one read.
func (l *Ledger) read(ctx context.Context, j yard.Journal, stream string, until time.Time) error {
	for {
		rows, err := j.List(ctx, stream, yard.JournalQuery{After: l.seq, Until: until, Limit: pageSize})
		if err != nil {
			return err
		}
		for _, r := range rows {
			if err := l.apply(r); err != nil {
				return fmt.Errorf("journal row %d: %w", r.Seq, err)
			}
		}
		if len(rows) < pageSize {
			return nil
		}
	}
}

func (l *Ledger) clone() *Ledger {
	c := *l
	c.intents, c.Automatic = maps.Clone(l.intents), slices.Clone(l.Automatic)
	c.proposals, c.orders = slices.Clone(l.proposals), slices.Clone(l.orders)
	return &c
}

func (l *Ledger) apply(r yard.JournalEntry) error {
	var err error
	switch r.Kind {
	case kindDecision:
		err = decode(r, l.addDecision)
	case kindIntent:
		err = decode(r, l.addIntent)
	case kindOutcome:
		err = decode(r, l.addOutcome)
	case kindHalt:
		err = decode(r, func(_ yard.JournalEntry, h *engine.Halt) { l.Automatic = append(l.Automatic, *h) })
	case kindCommand:
		err = decode(r, l.addCommand)
	case kindReset:
		*l = Ledger{resetSeq: r.Seq}
	}
	l.seq, l.asOf = r.Seq, r.AsOf
	return err
}

func decode[T any](r yard.JournalEntry, apply func(yard.JournalEntry, *T)) error {
	var body T
	if err := json.Unmarshal(r.Body, &body); err != nil {
		return err
	}
	apply(r, &body)
	return nil
}

// memory is how long the ledger remembers orders to detect duplicates.
const memory = time.Hour

func (l *Ledger) addDecision(r yard.JournalEntry, d *Decision) {
	l.Watermark = d.Watermark
	if d.Kind == Noop {
		return
	}
	l.proposals = append(trim(l.proposals, func(t time.Time) bool { return r.AsOf.Sub(t) >= time.Minute }), r.AsOf)
	if d.Kind != Rejected && d.Order != nil {
		l.orders = append(trim(l.orders, func(o engine.RecentOrder) bool { return r.AsOf.Sub(o.At) > memory }),
			engine.RecentOrder{At: r.AsOf, Symbol: d.Order.Symbol, Side: d.Order.Side, Size: d.Order.Size})
	}
}

// trim removes elements from the start of the list while they are too old.
func trim[T any](list []T, old func(T) bool) []T {
	for len(list) > 0 && old(list[0]) {
		list = list[1:]
	}
	return slices.Clone(list)
}

func (l *Ledger) addIntent(r yard.JournalEntry, i *Intent) {
	if l.intents == nil {
		l.intents = make(map[string]openIntent)
	}
	l.nonce = max(l.nonce, i.Stamp.Nonce)
	if i.Order != nil {
		l.intents[r.Key] = openIntent{Intent: *i}
	}
}

func (l *Ledger) addOutcome(r yard.JournalEntry, o *Outcome) {
	if i, ok := l.intents[r.Key]; ok && o.Unknown {
		i.unknown = true
		l.intents[r.Key] = i
		return
	}
	delete(l.intents, r.Key)
}

func (l *Ledger) addCommand(_ yard.JournalEntry, c *Command) {
	switch c.Name {
	case "pause":
		l.Manual = engine.Halt{Trading: engine.Halted, Reason: "paused by an operator: " + c.Reason}
	case "reduce":
		l.Manual = engine.Halt{Trading: engine.Reducing, Reason: "restricted by an operator: " + c.Reason}
	case "resume":
		l.Manual = engine.Halt{}
	case "kill":
		l.Killed = engine.Halt{Trading: engine.Halted, Reason: "killed by an operator: " + c.Reason}
	case "clear-halt":
		l.Killed, l.Automatic = engine.Halt{}, nil
	}
}

// Halts returns the restrictions that apply at the given time.
func (l *Ledger) Halts(now time.Time) []engine.Halt {
	var halts []engine.Halt
	for _, h := range append([]engine.Halt{l.Killed, l.Manual}, l.Automatic...) {
		if h.Trading != "" && (h.Until.IsZero() || now.Before(h.Until)) {
			halts = append(halts, h)
		}
	}
	for _, id := range slices.Sorted(maps.Keys(l.intents)) {
		if l.intents[id].unknown {
			halts = append(halts, engine.Halt{Trading: engine.Reducing, Reason: "the outcome of order " + id + " is unknown"})
		}
	}
	return halts
}

// Trading returns the strictest restriction that applies at the given time.
func (l *Ledger) Trading(now time.Time) (engine.Trading, string) {
	state, reason := engine.Active, ""
	for _, h := range l.Halts(now) {
		if state == engine.Active || state == engine.Reducing && h.Trading == engine.Halted {
			state, reason = h.Trading, h.Reason
		}
	}
	return state, reason
}

func (l *Ledger) history(now time.Time, explicitKey bool) engine.History {
	h := engine.History{Proposals: l.proposals, Orders: l.orders, ExplicitKey: explicitKey}
	h.Trading, h.Reason = l.Trading(now)
	return h
}

// mark returns the watermark, updated with a portfolio's equity. It comes from the broker or else
// from the ledger.
func (l *Ledger) mark(s *market.Snapshot) market.Watermark {
	w := s.Watermark
	if w.Day.IsZero() {
		w = l.Watermark
		w.Observe(s.AsOf, s.EquityUSD)
	}
	return w
}

// addIntents adds orders that were sent, but are not in the portfolio yet, as open orders.
func (l *Ledger) addIntents(s *market.Snapshot) {
	for _, id := range slices.Sorted(maps.Keys(l.intents)) {
		i := l.intents[id]
		if !slices.ContainsFunc(s.Orders, func(o market.OpenOrder) bool { return o.ClientID == id }) {
			s.Orders = append(s.Orders, market.OpenOrder{Order: *i.Order, At: i.Stamp.At, Remaining: i.Order.Size})
		}
	}
}
