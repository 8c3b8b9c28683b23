package paper

import (
	"maps"
	"slices"
	"strconv"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard/packs/trading/market"
)

// State is an account's state: a fold over its events.
type State struct {
	CashUSD   decimal.Decimal
	Positions map[string]Holding
	Orders    []Order // open orders, oldest first
	Mark
	FundedHours int // number of funding payments
	LastID      int // last order and fill ID
}

// Holding is a position with no market price.
type Holding struct {
	Size, Entry decimal.Decimal
	Since       time.Time
}

func newState(deposit decimal.Decimal) State {
	return State{
		CashUSD: deposit, Positions: map[string]Holding{},
		Mark: Mark{Prices: map[string]decimal.Decimal{}, Settled: map[string]time.Time{}, Funded: map[string]time.Time{}},
	}
}

func (s *State) clone() State {
	c := *s
	c.Positions, c.Orders = maps.Clone(s.Positions), slices.Clone(s.Orders)
	c.Mark = s.Mark.clone()
	return c
}

func (m *Mark) clone() Mark {
	c := *m
	c.Prices, c.Settled, c.Funded = maps.Clone(m.Prices), maps.Clone(m.Settled), maps.Clone(m.Funded)
	return c
}

// apply applies an event to the state. It is the only function that changes cash, positions and
// orders.
func (s *State) apply(e *Event) {
	switch {
	case e.Open != nil:
		*s = newState(e.Open.DepositUSD)
		s.Watermark.Observe(e.AsOf, s.CashUSD)
	case e.Order != nil:
		s.addOrder(e.Order)
	case e.Fill != nil:
		s.addFill(e.Fill)
	case e.Cancel != nil:
		s.removeOrder(e.Cancel.ClientID)
	case e.Funding != nil:
		s.CashUSD = s.CashUSD.Add(e.Funding.AmountUSD)
		s.Funded[e.Funding.Symbol] = e.Funding.At
		s.FundedHours++
	case e.Mark != nil:
		maps.Copy(s.Prices, e.Mark.Prices)
		maps.Copy(s.Settled, e.Mark.Settled)
		maps.Copy(s.Funded, e.Mark.Funded)
		s.Watermark, s.HeldHours = e.Mark.Watermark, e.Mark.HeldHours
	}
}

func (s *State) addOrder(o *Order) {
	s.LastID++
	if o.Refuse != "" {
		return
	}
	if !slices.Contains(s.symbols(), o.Symbol) { // bars and rates before the order do not matter
		s.Settled[o.Symbol], s.Funded[o.Symbol] = o.At, o.At
	}
	s.Orders = append(s.Orders, *o)
}

func (s *State) addFill(f *market.Fill) {
	s.LastID++
	held := s.Positions[f.Symbol]
	signed := f.Side.Signed(f.Size)
	after := held.Size.Add(signed)
	switch {
	case held.Size.Sign()*signed.Sign() >= 0: // opens or adds to the position
		if held.Size.IsZero() {
			held.Since = f.At
		}
		value := held.Entry.Mul(held.Size.Abs()).Add(f.Price.Mul(f.Size))
		held.Entry = value.DivRound(after.Abs(), 12)
	case after.Sign()*held.Size.Sign() < 0: // reverses the position
		held.Entry, held.Since = f.Price, f.At
	}
	held.Size = after
	s.CashUSD = s.CashUSD.Add(f.RealizedUSD).Sub(f.FeeUSD)
	if s.Positions[f.Symbol] = held; after.IsZero() {
		delete(s.Positions, f.Symbol)
	}
	for i := range s.Orders {
		if o := &s.Orders[i]; o.ClientID == f.ClientID {
			if o.Remaining = o.Remaining.Sub(f.Size); !o.Remaining.IsPositive() {
				s.removeOrder(f.ClientID)
			}
			break
		}
	}
}

func (s *State) removeOrder(clientID string) {
	s.Orders = slices.DeleteFunc(s.Orders, func(o Order) bool { return o.ClientID == clientID })
}

func (s *State) order(clientID string) (Order, bool) {
	i := slices.IndexFunc(s.Orders, func(o Order) bool { return o.ClientID == clientID })
	if i < 0 {
		return Order{}, false
	}
	return s.Orders[i], true
}

func (s *State) nextID() string { return strconv.Itoa(s.LastID + 1) }

// symbols returns the symbols that have positions or orders, sorted.
func (s *State) symbols() []string {
	names := slices.Collect(maps.Keys(s.Positions))
	for _, o := range s.Orders {
		names = append(names, o.Symbol)
	}
	slices.Sort(names)
	return slices.Compact(names)
}

// price returns a symbol's last known price.
func (s *State) price(symbol string) decimal.Decimal {
	if p, ok := s.Prices[symbol]; ok {
		return p
	}
	return s.Positions[symbol].Entry
}

// Equity returns cash plus unrealized profit.
func (s *State) Equity() decimal.Decimal {
	sum := s.CashUSD
	for symbol, h := range s.Positions {
		sum = sum.Add(s.price(symbol).Sub(h.Entry).Mul(h.Size))
	}
	return sum
}

// maintenance returns the maintenance margin of all positions except the one in the given symbol.
func (s *State) maintenance(specs map[string]market.Market, except string) decimal.Decimal {
	sum := decimal.Zero
	for symbol, h := range s.Positions {
		if symbol != except {
			value := h.Size.Mul(s.price(symbol)).Abs()
			sum = sum.Add(value.Mul(specs[symbol].MaintenanceRate(value)))
		}
	}
	return sum
}

// snapshot returns the state as a portfolio.
func (s *State) snapshot(specs map[string]market.Market, asOf time.Time) market.Snapshot {
	equity := s.Equity()
	snap := market.Snapshot{AsOf: asOf, EquityUSD: equity, Watermark: s.Watermark}
	for _, symbol := range slices.Sorted(maps.Keys(s.Positions)) {
		h, price, spec := s.Positions[symbol], s.price(symbol), specs[symbol]
		value := h.Size.Mul(price).Abs()
		leverage := decimal.NewFromInt(int64(spec.LeverageAt(value)))
		p := market.Position{
			Symbol: symbol, Size: h.Size, EntryPrice: h.Entry, MarkPrice: price, Since: h.Since,
			UnrealizedUSD: price.Sub(h.Entry).Mul(h.Size), MarginUSD: value.DivRound(leverage, 8), Leverage: leverage,
			LiquidationPrice: spec.LiquidationPrice(h.Size, price, equity, s.maintenance(specs, symbol)),
		}
		snap.MarginUsedUSD = snap.MarginUsedUSD.Add(p.MarginUSD)
		snap.Positions = append(snap.Positions, p)
	}
	snap.AvailableUSD = decimal.Max(decimal.Zero, equity.Sub(snap.MarginUsedUSD))
	for _, o := range s.Orders {
		snap.Orders = append(snap.Orders, o.OpenOrder)
	}
	return snap
}
