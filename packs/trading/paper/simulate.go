package paper

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"time"

	"github.com/shopspring/decimal"

	"github.com/toolyard/toolyard"
	"github.com/toolyard/toolyard/packs/trading/market"
)

// simulation advances a state in time and collects the events.
type simulation struct {
	*Settings
	state  *State
	specs  map[string]market.Market
	events []Event
	now    time.Time // as-of time of new events
}

func (sim *simulation) emit(e Event) {
	e.AsOf = sim.now
	sim.state.apply(&e)
	sim.events = append(sim.events, e)
}

// mark records how far the simulation has come, so that a fold up to this point can be continued.
func (sim *simulation) mark() {
	m := sim.state.Mark.clone()
	sim.emit(Event{Mark: &m})
}

// step is a bar or a funding rate for a symbol.
type step struct {
	at     time.Time
	symbol string
	bar    *market.Bar
	rate   *market.Rate
}

// advance applies all bars and funding rates that are known at the given time and have not been
// applied yet.
func (sim *simulation) advance(ctx context.Context, bars market.Bars, funding market.Funding, to time.Time) error {
	steps, err := sim.steps(ctx, bars, funding, to)
	if err != nil {
		return err
	}
	marked := len(sim.events)
	for i, s := range steps {
		if s.at.After(sim.now) {
			sim.now = s.at
		}
		if s.bar != nil {
			sim.applyBar(s.symbol, s.bar)
		} else {
			sim.applyRate(s.symbol, s.rate)
		}
		if i == len(steps)-1 || steps[i+1].at.After(s.at) {
			sim.state.Watermark.Observe(s.at, sim.state.Equity())
			if len(sim.events) > marked { // a reader may request a time between two events
				sim.mark()
				marked = len(sim.events)
			}
		}
	}
	sim.now = to
	sim.state.Watermark.Observe(to, sim.state.Equity())
	return nil
}

// steps returns bars and rates in the order in which they become known. A rate follows the bar
// that ends at the same time.
func (sim *simulation) steps(ctx context.Context, bars market.Bars, funding market.Funding, to time.Time) ([]step, error) {
	var steps []step
	for _, symbol := range sim.state.symbols() {
		settled, funded := sim.state.Settled[symbol], sim.state.Funded[symbol]
		if to.Sub(settled) < sim.Interval.Duration() && funded.Truncate(time.Hour).Equal(to.Truncate(time.Hour)) {
			continue // neither a bar nor an hour has ended since
		}
		list, err := bars.Between(ctx, symbol, sim.Interval, settled, to)
		if err != nil && !isNoData(err) {
			return nil, err
		}
		for i := range list {
			if b := &list[i]; b.ClosedAt(to) && !b.Start.Before(settled) {
				steps = append(steps, step{at: b.End, symbol: symbol, bar: b})
			}
		}
		rates, err := funding.Rates(ctx, symbol, funded, to)
		if err != nil && !isNoData(err) {
			return nil, err
		}
		for i := range rates {
			if r := &rates[i]; r.At.After(funded) && !r.At.After(to) {
				steps = append(steps, step{at: r.At, symbol: symbol, rate: r})
			}
		}
	}
	slices.SortStableFunc(steps, func(a, b step) int {
		return cmp.Or(a.at.Compare(b.at), cmp.Compare(kindOrderOf(a), kindOrderOf(b)), cmp.Compare(a.symbol, b.symbol))
	})
	return steps, nil
}

func kindOrderOf(s step) int {
	if s.bar != nil {
		return 0
	}
	return 1
}

func isNoData(err error) bool {
	e, ok := errors.AsType[*toolyard.Error](err)
	return ok && e.Code == toolyard.NoData
}

// applyBar fills orders in a symbol with a bar. Adverse events come first.
func (sim *simulation) applyBar(symbol string, b *market.Bar) {
	first := sim.state.Settled[symbol]
	sim.state.Settled[symbol] = b.End
	sim.fillAtOpen(symbol, b, first)
	sim.fillTriggers(symbol, b, market.StopOrder, nil)
	sim.liquidate(symbol, b)
	targets := sim.eligible(symbol, b, market.TakeProfit)
	sim.fillLimits(symbol, b)
	sim.fillTriggers(symbol, b, market.StopOrder, nil) // stops of limit orders that were just filled
	sim.liquidate(symbol, b)
	sim.fillTriggers(symbol, b, market.TakeProfit, targets)
	sim.state.Prices[symbol] = b.Close
	if _, held := sim.state.Positions[symbol]; held {
		sim.state.HeldHours += hoursEnding(b)
	}
}

// hoursEnding returns the number of full hours that end in a bar.
func hoursEnding(b *market.Bar) int {
	return int(b.End.Truncate(time.Hour).Sub(b.Start.Truncate(time.Hour)) / time.Hour)
}

// eligible returns the client IDs of orders of the given types that were placed before a bar.
func (sim *simulation) eligible(symbol string, b *market.Bar, types ...market.OrderType) (ids []string) {
	for _, o := range sim.state.Orders {
		if o.Symbol == symbol && !b.Start.Before(o.At) && slices.Contains(types, o.Type) {
			ids = append(ids, o.ClientID)
		}
	}
	return ids
}

// fillAtOpen fills orders that do not rest: market orders, orders with time in force Ioc, and
// limit orders that cross the open of their first bar.
func (sim *simulation) fillAtOpen(symbol string, b *market.Bar, settled time.Time) {
	for _, id := range sim.eligible(symbol, b, market.MarketOrder, market.LimitOrder) {
		o, ok := sim.state.order(id)
		if !ok {
			continue // an earlier fill canceled the order
		}
		immediate := o.TIF == market.IOC
		isFirst := settled.Before(o.At.Add(sim.Interval.Duration()))
		if !immediate && !isFirst {
			continue
		}
		if immediate && b.Volume.IsZero() {
			continue // wait for a bar with trades
		}
		price := sim.slip(o.Side, b.Open)
		if o.Type == market.LimitOrder { // an aggressive limit order does not fill beyond its limit
			if crossed := o.Side.Signed(o.Price.Sub(b.Open)); crossed.IsPositive() && o.Side.Signed(price.Sub(o.Price)).IsPositive() {
				price = o.Price
			}
		}
		switch size := o.Remaining; {
		case o.Side.Signed(price.Sub(o.Price)).IsPositive():
			if immediate {
				sim.cancel(id, "the price moved beyond "+o.Price.String())
			}
		case immediate:
			size = decimal.Min(size, sim.specs[symbol].RoundSize(b.Volume.Mul(volumeShare)))
			sim.fill(&o, size, price, sim.Fees.Taker, b.Start, "")
			if rest, open := sim.state.order(id); open {
				sim.cancel(id, rest.Remaining.String()+" could not be filled: the bar has too little volume")
			}
		default:
			sim.fill(&o, size, price, sim.Fees.Taker, b.Start, "")
		}
	}
}

// fillLimits fills resting limit orders that a bar trades through.
func (sim *simulation) fillLimits(symbol string, b *market.Bar) {
	for _, id := range sim.eligible(symbol, b, market.LimitOrder) {
		o, ok := sim.state.order(id)
		if !ok {
			continue
		}
		through := b.Low.LessThan(o.Price)
		if o.Side == market.Sell {
			through = b.High.GreaterThan(o.Price)
		}
		if through {
			sim.fill(&o, o.Remaining, o.Price, sim.Fees.Maker, b.End, "")
		}
	}
}

// fillTriggers fills stops or targets that a bar touches: those in ids, or all of them.
func (sim *simulation) fillTriggers(symbol string, b *market.Bar, t market.OrderType, ids []string) {
	if t == market.StopOrder {
		ids = sim.eligible(symbol, b, t)
	}
	for _, id := range ids {
		o, ok := sim.state.order(id)
		if !ok {
			continue
		}
		trigger := o.Trigger.Decimal
		// A stop triggers at a price that is worse for its side, and a target at a better one.
		reached := b.High.GreaterThanOrEqual(trigger)
		gapped := b.Open.GreaterThan(trigger)
		if (o.Side == market.Sell) == (t == market.StopOrder) {
			reached, gapped = b.Low.LessThanOrEqual(trigger), b.Open.LessThan(trigger)
		}
		if !reached {
			continue
		}
		price, reason := trigger, market.TookProfit
		if t == market.StopOrder {
			if reason = market.StoppedOut; gapped {
				price = b.Open
			}
		}
		if !o.ReduceOnly {
			reason = "" // this stop opens a position
		}
		sim.fill(&o, o.Remaining, sim.slip(o.Side, price), sim.Fees.Taker, b.End, reason)
	}
}

// liquidate closes a position if the account has too little equity at the bar's adverse extreme. It
// is closed at the price where the equity became too low.
func (sim *simulation) liquidate(symbol string, b *market.Bar) {
	h, held := sim.state.Positions[symbol]
	if !held {
		return
	}
	extreme := b.Low
	if h.Size.IsNegative() {
		extreme = b.High
	}
	spec, value := sim.specs[symbol], h.Size.Mul(extreme).Abs()
	others := sim.state.maintenance(sim.specs, symbol)
	equity := sim.state.Equity().Add(extreme.Sub(sim.state.price(symbol)).Mul(h.Size))
	if equity.GreaterThanOrEqual(others.Add(value.Mul(spec.MaintenanceRate(value)))) {
		return
	}
	price := b.Open // if the price gapped past the liquidation price
	if at := spec.LiquidationPrice(h.Size, extreme, equity, others); at.Valid && h.Size.Mul(b.Open.Sub(at.Decimal)).IsPositive() {
		price = at.Decimal
	}
	side := market.Buy
	if h.Size.IsPositive() {
		side = market.Sell
	}
	forced := Order{OpenOrder: market.OpenOrder{Order: market.Order{
		ClientID: market.ChildID(symbol+sim.state.nextID(), "liquidation"), Symbol: symbol, Side: side, ReduceOnly: true,
	}, Remaining: h.Size.Abs()}}
	sim.fill(&forced, h.Size.Abs(), sim.slip(side, price), sim.Fees.Taker, b.End, market.Liquidated)
}

// fill executes an order, places its stop and target, and cancels orders that have nothing left to
// reduce.
func (sim *simulation) fill(o *Order, size, price, feeRate decimal.Decimal, at time.Time, reason market.FillReason) {
	held := sim.state.Positions[o.Symbol]
	signed := o.Side.Signed(size)
	if o.ReduceOnly {
		if held.Size.Sign()*signed.Sign() >= 0 {
			sim.cancel(o.ClientID, "no position to reduce")
			return
		}
		size = decimal.Min(size, held.Size.Abs())
		signed = o.Side.Signed(size)
	}
	if !size.IsPositive() {
		sim.cancel(o.ClientID, "nothing could be filled")
		return
	}
	price = price.Round(8)
	if !o.ReduceOnly && !sim.hasMargin(o.Symbol, held.Size.Add(signed), price) {
		sim.cancel(o.ClientID, "Insufficient margin to place order.")
		return
	}
	realized := decimal.Zero
	if held.Size.Sign()*signed.Sign() < 0 {
		closed := decimal.Min(size, held.Size.Abs())
		realized = price.Sub(held.Entry).Mul(o.Side.Opposite().Signed(closed))
	}
	after := held.Size.Add(signed)
	sim.emit(Event{Fill: &market.Fill{
		ID: sim.state.nextID(), ClientID: o.ClientID, OrderID: o.OrderID, Symbol: o.Symbol, Side: o.Side, Size: size, Price: price,
		FeeUSD: size.Mul(price).Mul(feeRate).Round(8), RealizedUSD: realized.Round(8), After: after, At: at, Reason: reason,
	}})
	sim.protect(o, size)
	if after.IsZero() || after.Sign() != held.Size.Sign() {
		for _, other := range slices.Clone(sim.state.Orders) {
			if other.Symbol == o.Symbol && other.ReduceOnly && other.Side.Signed(after).Sign() >= 0 && other.Parent != o.ClientID {
				sim.cancel(other.ClientID, "the position is closed")
			}
		}
	}
}

// hasMargin reports whether the equity covers a position's initial margin.
func (sim *simulation) hasMargin(symbol string, size, price decimal.Decimal) bool {
	value := size.Mul(price).Abs()
	needed := value.DivRound(decimal.NewFromInt(int64(sim.specs[symbol].LeverageAt(value))), 8)
	for other, h := range sim.state.Positions {
		if other != symbol {
			v := h.Size.Mul(sim.state.price(other)).Abs()
			needed = needed.Add(v.DivRound(decimal.NewFromInt(int64(sim.specs[other].LeverageAt(v))), 8))
		}
	}
	return sim.state.Equity().GreaterThanOrEqual(needed)
}

// protect places a filled order's stop and target. They can trigger in the same bar as the fill.
func (sim *simulation) protect(parent *Order, size decimal.Decimal) {
	for _, child := range []struct {
		kind    market.OrderType
		trigger decimal.NullDecimal
	}{{market.StopOrder, parent.StopLoss}, {market.TakeProfit, parent.TakeProfit}} {
		if !child.trigger.Valid {
			continue
		}
		sim.emit(Event{Order: &Order{Parent: parent.ClientID, OpenOrder: market.OpenOrder{
			OrderID: sim.state.nextID(), At: parent.At, Remaining: size,
			Order: market.Order{
				ClientID: market.ChildID(parent.ClientID, child.kind), Symbol: parent.Symbol, Side: parent.Side.Opposite(), Type: child.kind,
				Size: size, Price: child.trigger.Decimal, Trigger: child.trigger, TIF: market.GTC, ReduceOnly: true,
			},
		}}})
	}
}

func (sim *simulation) cancel(clientID, reason string) {
	if _, open := sim.state.order(clientID); open {
		sim.emit(Event{Cancel: &Cancellation{clientID, reason}})
	}
}

// applyRate pays funding. At a positive rate, a long position pays.
func (sim *simulation) applyRate(symbol string, r *market.Rate) {
	sim.state.Funded[symbol] = r.At
	h, held := sim.state.Positions[symbol]
	if !held || !h.Since.Before(r.At) {
		return
	}
	amount := h.Size.Neg().Mul(sim.state.price(symbol)).Mul(r.Rate).Round(8)
	sim.emit(Event{Funding: &market.Payment{At: r.At, Symbol: symbol, Rate: r.Rate, AmountUSD: amount}})
}
